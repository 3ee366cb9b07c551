"""The command that installs an extra of ours: the one place that writes `pip install`.

It names the packages that the extra requires, as the installed metadata lists them, and never asks an index for our
own name: that works from a checkout and from a wheel, and another package may be there under our name.
What `make install` made is given extras by `make install`, and an environment of pipx by pipx, so that they know of it.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import unquote, urlsplit

_DISTRIBUTION = "toolstead"
_NOT_BARE = re.compile(r"[^\w.=-]")


def install_command(extra: str) -> str:
    """What to type so that an extra can be used by this installation."""
    environment = Path(sys.prefix)
    if (environment / "extras").is_file() and (checkout := _find_checkout()) is not None:
        return f"make -C {shlex.quote(str(checkout))} install EXTRAS={extra}"
    if (environment / "pipx_metadata.json").is_file():
        return f"pipx inject {shlex.quote(environment.name)} {_quote_words(required_by(extra))}"
    return pip_command(*required_by(extra))


def _find_checkout() -> Path | None:
    """The folder that `make install` installed, while it is still there."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        known: Any = json.loads(distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}")
        address = urlsplit(str(known["url"]))
    except (PackageNotFoundError, ValueError, LookupError, TypeError):
        return None
    folder = Path(unquote(address.path))
    return folder if address.scheme == "file" and (folder / "install.sh").is_file() else None


def project_install_command() -> str:
    """What to type in the environment of a project so that it has this Toolstead."""
    return f"pip install {shlex.quote(str(_find_checkout() or '/path/to/clone'))}"


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
    packages = _quote_words(words)
    python = Path(sys.executable)
    pip = which("pip")
    if pip is not None and Path(pip).parent == python.parent:
        return f"pip install {packages}"
    if find_spec("pip") is None:
        return (
            f"uv pip install --python {shlex.quote(str(python))} {packages.replace('--force-reinstall', '--reinstall')}"
        )
    return f"{shlex.quote(str(python))} -m pip install {packages}"


def _quote_words(words: Iterable[str]) -> str:
    return " ".join(f'"{word}"' if _NOT_BARE.search(word) else word for word in words)
