"""What the tests run on Node: the MCP conformance suite, the MCP Inspector and recheck, installed once, by hash.

`node/package-lock.json` has every version and hash, and no address. It was made by
`npm install --package-lock-only --omit-lockfile-registry-resolved`; rolldown is held at a version
whose builds for every platform can be fetched, because `npm ci` wants to know them all.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests import machine

WANTED = Path(__file__).parent / "node"
CACHE = machine.ROOT / ".cache" / "npm"
CONFORMANCE = Path("@modelcontextprotocol", "conformance", "dist", "index.js")
INSPECTOR = Path("@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")

_FILES = ("package.json", "package-lock.json")
_SECONDS = 600


def folder() -> Path:
    """Where the packages of this very lock are, or will be."""
    content = b"".join((WANTED / name).read_bytes() for name in _FILES)
    return CACHE / hashlib.sha256(content).hexdigest()[:16]


def are_installed() -> bool:
    """Whether nothing has to be fetched."""
    return (folder() / "node_modules").is_dir()


@functools.cache
def install() -> Path:
    """The folder with the installed packages (`node_modules`); they are fetched when they are not there.

    No script of a package runs.
    """
    if are_installed():
        return folder() / "node_modules"
    new = CACHE / f"new-{os.getpid()}"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name in _FILES:
        shutil.copy(WANTED / name, new)
    command = [*machine.npm(), "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"]
    subprocess.run(
        command, cwd=new, env=machine.ENVIRONMENT, capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    try:
        new.rename(folder())
    except OSError:  # another run was faster
        shutil.rmtree(new)
    return folder() / "node_modules"


def run(script: Path, *arguments: str, cwd: Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a script of the installed packages to its end."""
    command = [str(machine.node()), str(install() / script), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)
