"""Our process is killed while a real program works for it: the program goes too, and whatever that has started."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.programs.running import PROGRAMS, running
from tests.waiting import until
from toolstead.testing import scripted_models

SILENT = "- {say: never, delay: 500}"
BASH = "- {call: [{tool: Bash, input: {command: COMMAND}}]}"
SHELL = "- {call: [{tool: exec_command, input: {cmd: COMMAND, yield_time_ms: 30000}}]}"


claude, codex = pytest.mark.requires("claude"), pytest.mark.requires("codex")


@pytest.mark.parametrize(
    ("runtime", "own", "script"),
    [
        pytest.param("claude", [], SILENT, marks=claude, id="claude-silent"),
        pytest.param("claude", ["Bash"], BASH, marks=claude, id="claude-at-work"),
        pytest.param("codex", [], SILENT, marks=codex, id="codex-silent"),
        pytest.param("codex", ["shell"], SHELL, marks=codex, id="codex-at-work"),
    ],
)
async def test_a_process_that_is_killed_leaves_no_program_behind(
    tmp_path: Path, runtime: str, own: Sequence[str], script: str
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    # Found among all processes by its words, so nobody else may run it: a command may be given another environment.
    slept = ["sleep", f"80000.{secrets.randbelow(10**9)}"]

    def left() -> set[int]:
        return _started_for(home) | _running(slept)

    async with scripted_models(script.replace("COMMAND", " ".join(slept))) as api:
        environ = {"TOOLSTEAD_HOME": str(home), "HOME": str(tmp_path), **api.environ()}
        command = [sys.executable, str(PROGRAMS / "one_run.py"), str(project), runtime, *own]
        try:
            async with running(command, errors=tmp_path / "stderr.txt", env=environ) as program:
                await until(lambda: _running(slept) if own else api.active)
                assert _started_for(home) - {program.pid}, program.stderr
                program.process.kill()
                await until(lambda: not left())
            await until(lambda: not api.active)
        finally:
            for pid in left():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _started_for(home: Path) -> set[int]:
    """The processes that were told of this folder, which nobody else has."""
    return {pid for pid in _living() if str(home).encode() in _read(pid, "environ")}


def _running(command: Sequence[str]) -> set[int]:
    words = "".join(f"{word}\0" for word in command).encode()
    return {pid for pid in _living() if _read(pid, "cmdline") == words}


def _living() -> set[int]:
    pids = {int(place.name) for place in Path("/proc").glob("[0-9]*")}
    return {pid for pid in pids if _read(pid, "stat").rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"], [])}


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
