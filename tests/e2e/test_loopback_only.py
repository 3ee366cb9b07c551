"""No request leaves loopback: every runtime works in a network that has nothing else, and looks up no name."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.programs.loopback_only import RUNS

ROOT = Path(__file__).parents[2]


@pytest.mark.requires("netns")
@pytest.mark.requires("claude")
@pytest.mark.requires("codex")
async def test_every_runtime_answers_where_there_is_only_loopback_and_looks_up_no_name(tmp_path: Path) -> None:
    program = await asyncio.create_subprocess_exec(
        "unshare",
        "--net",
        "--mount",
        sys.executable,
        "-m",
        "tests.programs.loopback_only",
        str(tmp_path),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(program.communicate(), 280)
    assert program.returncode == 0, errors.decode()
    found = json.loads(out.splitlines()[-1])
    assert found["interfaces"] == ["lo"]
    assert "a-name-that-is-looked-up.example" in found["told"]  # the name server does write down what is looked up
    assert found["asked"] == []
    assert found["ended"].keys() == RUNS.keys()
    for name, (status, result, error) in found["ended"].items():
        assert status == "completed", (name, error, errors.decode()[-2_000:])
        assert str(tmp_path / "project") in result, name
