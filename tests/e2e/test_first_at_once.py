"""The first sessions of all runtimes, opened at once in a fresh process: their SDKs are imported in turn."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.programs.running import PROGRAMS, running
from toolyard.testing import scripted_models


@pytest.mark.requires("claude")
@pytest.mark.requires("codex")
@pytest.mark.promise("P3")
async def test_the_first_sessions_of_all_runtimes_open_at_once(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with scripted_models("- {say: here}") as api:
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), **api.environ()}
        command = [sys.executable, str(PROGRAMS / "first_at_once.py"), str(project)]
        async with running(command, errors=tmp_path / "stderr.txt", cwd=tmp_path, env=environ) as program:
            ended = json.loads(await program.line())
    assert ended == {name: ["completed", "None"] for name in ("claude", "codex", "kernel")}, ended
