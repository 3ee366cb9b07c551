"""A program that is run to its end: what comes back, and what its bounds and its caller's end do to it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import PROGRAMS, is_alive
from tests.waiting import PATIENCE, until
from toolstead.processes.capture import Capture
from toolstead.processes.program_run import ProgramResult, run_captured, run_program

pytestmark = [pytest.mark.promise("R2"), pytest.mark.usefixtures("nothing_left")]

Run = Callable[[Coroutine[Any, Any, Any]], Any]
ENV = {"PATH": os.environ["PATH"]}
STUBBORN = [sys.executable, "-S", "-E", str(PROGRAMS / "stubborn.py")]
WAYS = ["child", "silent", *(["session", "naked"] if Path("/proc/self/environ").exists() else [])]


async def ran(script: str, limit: int = 100_000) -> ProgramResult:
    async with asyncio.timeout(PATIENCE):
        return await run_program(["sh", "-c", script], cwd=Path("/"), env=ENV, limit=limit)


@pytest.mark.usefixtures("watched")
def test_status_output_and_errors_come_back(run: Run) -> None:
    assert run(ran("echo out; echo err >&2; exit 3")) == ProgramResult(
        status=3, stdout=b"out\n", stderr=b"err\n", cut=False
    )
    assert run(ran("kill -9 $$")).status == -9
    assert run(ran("cat")).stdout == b""  # it has no input


def test_output_up_to_the_limit_is_all_there(run: Run) -> None:
    result = run(ran("head -c 300000 /dev/zero", limit=300_000))
    assert (len(result.stdout), result.cut, result.status) == (300_000, False, 0)


@pytest.mark.parametrize("script", ["yes", "head -c 300001 /dev/zero", "yes & sleep 1000"])
def test_who_writes_more_than_is_allowed_is_ended(script: str, run: Run) -> None:
    result = run(ran(script, limit=300_000))
    assert (len(result.stdout), result.cut) == (300_000, True)


def test_only_the_beginning_of_many_complaints_is_kept(run: Run) -> None:
    result = run(ran("head -c 300000 /dev/zero >&2; echo well"))
    assert (len(result.stderr), result.stdout, result.cut) == (16_384, b"well\n", False)


def test_what_it_leaves_in_its_group_and_cannot_write_holds_up_nobody_and_ends(run: Run) -> None:
    result = run(ran("sleep 1000 >/dev/null 2>&1 & echo $!"))
    run(until(lambda: not is_alive(int(result.stdout))))


def test_what_it_started_is_heard_out(run: Run) -> None:
    assert run(ran("(sleep 0.2; echo late; echo later >&2) & echo early")).stdout == b"early\nlate\n"


def test_a_program_that_cannot_be_started_leaves_nothing(run: Run) -> None:
    with pytest.raises(FileNotFoundError):
        run(run_program(["/no/such/program"], cwd=Path("/"), env=ENV, limit=100))


@pytest.mark.promise("R8")
def test_a_cancelled_run_leaves_no_process_alive_wherever_it_went(run: Run, tmp_path: Path) -> None:
    async def main() -> dict[str, int]:
        task = asyncio.create_task(
            run_program([*STUBBORN, str(tmp_path), *WAYS], cwd=Path("/"), env=ENV, limit=100_000)
        )
        names = ["itself", *WAYS]
        await until(lambda: all((tmp_path / name).exists() for name in names))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        return {name: int((tmp_path / name).read_text()) for name in names}

    for number in run(main()).values():
        # It was killed, and on a busy machine that takes a moment.
        run(until(lambda number=number: not is_alive(number)))


async def captured(*argv: str, limit: int = 10_000, cwd: Path = Path("/")) -> tuple[int, str]:
    output = Capture(limit)
    async with asyncio.timeout(PATIENCE):
        return await run_captured(argv, cwd=cwd, env=ENV, output=output), output.text


@pytest.mark.usefixtures("watched")
def test_both_outputs_are_captured_in_order_with_the_status(run: Run) -> None:
    assert run(captured("sh", "-c", "echo one; echo two >&2; echo three; exit 3")) == (3, "one\ntwo\nthree\n")
    assert run(captured("sh", "-c", "kill -9 $$"))[0] == -9
    assert run(captured("cat")) == (0, "")  # it has no input


def test_a_captured_program_that_writes_much_is_not_ended_and_keeps_little(run: Run) -> None:
    status, text = run(captured("sh", "-c", "yes | head -c 50000000; echo end; exit 5"))
    assert status == 5
    assert len(text) < 10_100
    assert text.startswith("y\ny\n")
    assert text.endswith("y\nend\n")


@pytest.mark.parametrize("way", WAYS)
def test_what_a_captured_program_leaves_behind_ends_with_it(way: str, run: Run, tmp_path: Path) -> None:
    started = f"[ -s {tmp_path}/itself ] && [ -s {tmp_path}/{way} ]"
    script = f"{shlex.join([*STUBBORN, str(tmp_path), way])} & until {started}; do :; done"
    assert run(captured("sh", "-c", script))[0] == 0
    for name in ("itself", way):
        number = int((tmp_path / name).read_text())
        run(until(lambda number=number: not is_alive(number)))


def test_a_captured_program_that_cannot_be_started_leaves_nothing(run: Run) -> None:
    with pytest.raises(FileNotFoundError):
        run(captured("no-such-program"))
