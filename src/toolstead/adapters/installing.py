"""The command that installs an extra of ours: the one place that writes `pip install`.

It names the packages that the extra requires, as the installed metadata lists them, and never our own name: that
works from a checkout and from a wheel, and asks no index for a package that somebody else may have put there under
our name.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

_DISTRIBUTION = "toolstead"
_NOT_BARE = re.compile(r"[^\w.=-]")


def install_command(extra: str) -> str:
    """What to type so that an extra can be used."""
    return pip_command(*required_by(extra))


def reinstall_command(package: str) -> str:
    """What to type so that a package is whole again; whatever else there is stays as it is."""
    return pip_command("--force-reinstall", "--no-deps", package)


def required_by(extra: str) -> list[str]:
    """The requirements of an extra."""
    from importlib.metadata import PackageNotFoundError, requires  # only a complaint pays for it

    try:
        listed = [requirement.partition(";") for requirement in requires(_DISTRIBUTION) or ()]
    except PackageNotFoundError:  # it runs from a checkout that is not installed
        return [f"{Path(__file__).parents[3]}[{extra}]"]
    return [what.strip() for what, _, marker in listed if re.search(rf"extra == ['\"]{extra}['\"]", marker)]


def pip_command(*words: str) -> str:
    """`pip install …` for the environment that this process runs in, wherever a bare `pip` would put it."""
    packages = " ".join(f'"{word}"' if _NOT_BARE.search(word) else word for word in words)
    python = Path(sys.executable)
    pip = which("pip")
    if pip is not None and Path(pip).parent == python.parent:
        return f"pip install {packages}"
    if find_spec("pip") is None:
        return (
            f"uv pip install --python {shlex.quote(str(python))} {packages.replace('--force-reinstall', '--reinstall')}"
        )
    return f"{shlex.quote(str(python))} -m pip install {packages}"
