"""The clients' environments: each in a folder of its own under `.cache/clients/environments`, made on first use.

An environment whose list of packages changed is made anew. Packages are named, never addressed: where they come from
is the machine's own configuration of pip, uv and npm.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import machine

CACHE = machine.ROOT / ".cache" / "clients"
ENVIRONMENTS = CACHE / "environments"
UV = "uv==0.13.7"
_SECONDS = 900


class InstallError(Exception):
    """An environment cannot be made; the text is the reason."""


def python_with(name: str, packages: Sequence[str]) -> Path:
    """The Python of an environment that has these packages.

    Raises:
        InstallError: They cannot be installed.
    """
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not _is_ready(folder, packages):
        uv = str(_uv())
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], ENVIRONMENTS)
        _run([uv, "pip", "install", "--quiet", "--python", str(python), *packages], ENVIRONMENTS)
        _mark_ready(folder, packages)
    return python


def node_modules_with(name: str, packages: Sequence[str]) -> Path:
    """The folder `node_modules` of an environment that has these npm packages. Their own install scripts run.

    Raises:
        InstallError: They cannot be installed.
    """
    folder = ENVIRONMENTS / name
    if not _is_ready(folder, packages):
        try:
            npm = machine.npm()
        except machine.LackError as lack:
            raise InstallError(str(lack)) from None
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(json.dumps({"name": name, "private": True, "type": "module"}))
        path = f"{Path(npm[0]).parent}{os.pathsep}{machine.ENVIRONMENT.get('PATH', '')}"
        _run([*npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages], folder, PATH=path)
        _mark_ready(folder, packages)
    return folder / "node_modules"


def _uv() -> Path:
    folder = ENVIRONMENTS / "uv"
    if not _is_ready(folder, [UV]):
        _run([sys.executable, "-m", "venv", str(folder)], ENVIRONMENTS)
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input", UV], ENVIRONMENTS)
        _mark_ready(folder, [UV])
    return folder / "bin" / "uv"


def _is_ready(folder: Path, packages: Sequence[str]) -> bool:
    """Whether an environment has what is wanted; one that has something else is removed."""
    try:
        if (folder / "ready").read_text() == "\n".join(packages):
            return True
    except FileNotFoundError:
        pass
    shutil.rmtree(folder, ignore_errors=True)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    return False


def _mark_ready(folder: Path, packages: Sequence[str]) -> None:
    (folder / "ready").write_text("\n".join(packages))


def _run(command: Sequence[str], folder: Path, **environ: str) -> None:
    environment = {**machine.ENVIRONMENT, "UV_CACHE_DIR": str(CACHE / "downloads"), **environ}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        raise InstallError(f"{Path(command[0]).name}: {' '.join(said[-6:])[:600]}")
