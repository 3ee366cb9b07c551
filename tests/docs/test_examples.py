"""Every command of ours that the documentation shows is a real one."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolstead.console.cli.group import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[Any]:
    found: list[Any] = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text("utf-8")):
            whole = block.replace("\\\n> ", "")
            found += [
                pytest.param(line[2:].split("#")[0].strip(), id=f"{page.name}: {line[2:50]}")
                for line in whole.splitlines()
                if line.startswith("$ toolstead")
            ]
    return found


@functools.cache
def help_text(*group: str) -> str:
    """What `--help` prints; many lines of the pages show the same command."""
    done = subprocess.run(
        [sys.executable, "-m", "toolstead", *group, "--help"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("command", commands())
def test_every_toolstead_command_shown_exists(command: str) -> None:
    words = shlex.split(command)
    assert words[1] in COMMANDS
    group = (
        words[1:3] if words[1] in ("agents", "tools", "config", "tasks", "threads", "plugins", "vfs") else words[1:2]
    )
    text = help_text(*group)
    for option in (word for word in words[3:] if word.startswith("--")):
        assert option in text
