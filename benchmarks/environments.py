"""The peers' environments: one virtual environment each, made on first use from a file of pinned versions."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.processes import ContestantError

FOLDER = Path(__file__).resolve().parent
ENVIRONMENTS = FOLDER / ".envs"
REQUIREMENTS = FOLDER / "peers" / "requirements"
INSTALL_SECONDS = 900


def versions(name: str) -> str:
    """What is pinned first: the peer itself, such as `mcp 2.3.0`."""
    return _requirements(name).read_text().split()[0].replace("==", " ")


def python_of(name: str) -> str:
    """The Python of a peer's environment, installed when it is not there yet."""
    pinned = _requirements(name).read_bytes()
    mark = hashlib.sha256(pinned + sys.version.encode()).hexdigest()[:12]
    folder = ENVIRONMENTS / f"{name}-{mark}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if ready.exists():
        return str(python)
    print(f"benchmarks: installing {versions(name)} into {folder.relative_to(FOLDER.parent)}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _run(name, [sys.executable, "-m", "venv", str(folder)])
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run(name, [*install, "--requirement", str(_requirements(name))])
    ready.touch()
    return str(python)


def _requirements(name: str) -> Path:
    return REQUIREMENTS / f"{name}.txt"


def _run(name: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ContestantError(f"{name} could not be installed within {INSTALL_SECONDS} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise ContestantError(f"{name} could not be installed: {(errors or ['no reason given'])[-1]}")
