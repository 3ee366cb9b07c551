"""The version that doors tell."""

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("toolyard")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"


VERSION = _installed()
