"""A little of every area of the attack, on every change; `make attack` tries much more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.attack.__main__ import AREAS
from tests.machine import ROOT

COUNTS = {
    "shell": 200,
    "url": 400,
    "traversal": 200,
    "http": 200,
    "mcp": 400,
    "files": 600,
    "agents": 600,
    "settings": 300,
    "storage": 12,
    "slow": 1,
}


@pytest.mark.parametrize("area", AREAS)
def test_what_the_attack_tries_holds(area: str) -> None:
    command = [sys.executable, "-m", "tests.attack", area, "--count", str(COUNTS[area]), "--seconds", "60", "--sample"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3_000:]}"
    assert f"{area}: " in done.stdout.splitlines()[-1]
    assert done.stdout.splitlines()[-1].endswith(", 0 did not hold")


def test_an_unknown_area_is_refused_with_those_that_there_are() -> None:
    command = [sys.executable, "-m", "tests.attack", "shel"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"no area 'shel'; there are {', '.join(AREAS)}" in done.stderr
