"""A program that is spoken to for a while: lines both ways, its complaints, and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import is_alive
from tests.waiting import PATIENCE, until
from toolstead.processes.piped import PipedProcess

pytestmark = [pytest.mark.promise("R2"), pytest.mark.usefixtures("nothing_left")]

Run = Callable[[Coroutine[Any, Any, Any]], Any]
ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"
STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('on', flush=True)\n"
STUBBORN += "while True: time.sleep(100)\n"


def started(program: str, *, longest_line: int = 100_000) -> PipedProcess:
    command = [sys.executable, "-S", "-E", "-c", program]
    environ = {"PATH": os.environ["PATH"]}
    return PipedProcess(command, cwd=Path("/"), env=environ, longest_line=longest_line)


def stand_still_until_exit(number: int) -> None:
    """Wait without the event loop, so that it does not hear of it."""
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)


async def line_of(process: PipedProcess) -> bytes:
    return await asyncio.wait_for(process.stdout.readline(), PATIENCE)


@pytest.mark.usefixtures("watched")
def test_lines_go_in_and_come_out_until_the_input_ends(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        process = started(ECHO)
        for text in (b"one\n", b"x" * 90_000 + b"\n"):
            process.stdin.write(text)
            assert await line_of(process) == text
        assert process.child.returncode is None
        await process.end_process(PATIENCE)
        assert process.child.returncode == 0
        assert await line_of(process) == b""
        await process.end_process(PATIENCE)
        await process.kill()

    run(main())
    assert caplog.text == ""


def test_a_line_that_is_too_long_is_an_error_of_the_reader(run: Run) -> None:
    async def main() -> None:
        process = started("print('x' * 300_000, flush=True)\ninput()", longest_line=1_000)
        with pytest.raises(ValueError, match="limit"):
            await line_of(process)
        await process.kill()

    run(main())


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("terminate", [False, True])
def test_one_that_does_not_end_is_killed_and_that_is_logged(
    terminate: bool, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> int:
        process = started(STUBBORN)
        await line_of(process)
        await process.end_process(0.05, terminate=terminate)
        assert process.child.returncode == -signal.SIGKILL
        return process.child.pid

    with caplog.at_level(logging.WARNING):
        number = run(main())
    assert not is_alive(number)
    assert f"{Path(sys.executable).name} {number} did not exit; killing it" in caplog.text


def test_one_that_ends_when_it_is_asked_to_is_not_killed(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        process = started("import time\nprint('on', flush=True)\ntime.sleep(1000)")
        await line_of(process)
        await process.end_process(0.3, terminate=True)
        assert process.child.returncode == -signal.SIGTERM

    run(main())
    assert caplog.text == ""


def test_an_end_that_is_cancelled_leaves_nothing(run: Run) -> None:
    async def main() -> int:
        process = started(STUBBORN)
        await line_of(process)
        ending = asyncio.create_task(process.end_process(PATIENCE))
        await asyncio.sleep(0.01)
        while not ending.done():
            ending.cancel()
            await asyncio.sleep(0)
        assert ending.cancelled()
        return process.child.pid

    assert not is_alive(run(main()))


def test_its_output_ends_with_it_whoever_still_holds_the_pipe(run: Run) -> None:
    program = "import subprocess, sys\nprint(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)\n"

    async def main() -> int:
        process = started(program)
        number = int(await line_of(process))
        assert await line_of(process) == b""
        assert process.child.returncode == 0
        await process.kill()
        return number

    assert not is_alive(run(main()))


def test_the_last_complaints_are_kept_and_all_of_them_are_there_once_it_has_ended(run: Run) -> None:
    program = "import sys\nfor n in range(40): print(n, 'x' * 1000, file=sys.stderr)\n"
    program += "print(file=sys.stderr)\nsys.stderr.write('at last')"

    async def main() -> list[str]:
        process = started(program)
        stand_still_until_exit(process.child.pid)
        lines = process.read_last_lines()
        await process.kill()
        assert process.read_last_lines() == lines
        return lines

    lines = run(main())
    assert [line.split()[0] for line in lines] == [*(str(number) for number in range(21, 40)), "at"]
    assert {len(line) for line in lines[:-1]} == {500}


def test_one_that_cannot_be_started_leaves_nothing(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            PipedProcess(["/no/such/program"], cwd=Path("/"), env={}, longest_line=100)

    run(main())


def test_one_that_ends_by_itself_is_reaped_at_once_and_takes_its_group_along(run: Run) -> None:
    program = "import subprocess\nprint(subprocess.Popen(['sleep', '1000']).pid, flush=True)\ninput()"

    async def main() -> None:
        process = started(program)
        number = int(await line_of(process))
        os.kill(process.child.pid, signal.SIGKILL)
        await until(lambda: not Path(f"/proc/{process.child.pid}").exists())
        await until(lambda: not is_alive(number))
        await process.kill()

    run(main())


def test_a_signal_reaches_its_whole_group(run: Run) -> None:
    async def main() -> None:
        process = started("import subprocess\nprint(subprocess.Popen(['sleep', '1000']).pid, flush=True)\ninput()")
        number = int(await line_of(process))
        process.signal_groups(signal.SIGKILL)
        await until(lambda: not is_alive(number))
        await process.kill()

    run(main())
