"""One child process: how its end is noticed, and that its number is not used once it may be somebody else's."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE
from toolstead.processes.owner import ChildProcess, ProcessOwner

pytestmark = [pytest.mark.promise("R2"), pytest.mark.usefixtures("nothing_left")]

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def owned() -> ProcessOwner:
    return ProcessOwner(cwd=Path("/"), env={"PATH": os.environ["PATH"]})


def stand_still_until_exit(number: int) -> None:
    """Wait without the event loop, so that it does not hear of it."""
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("way", ["pidfd", "thread"])
def test_a_process_that_is_gone_already_has_ended(way: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "thread":
        monkeypatch.delattr(os, "pidfd_open", raising=False)

    process = subprocess.Popen(["true"])
    process.wait()

    async def main() -> None:
        watch = ChildProcess(process)
        await asyncio.wait_for(watch.exited.wait(), PATIENCE)
        watch.close()

    run(main())


def test_news_of_an_end_that_come_after_the_loops_end_hurt_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    process = subprocess.Popen(["sleep", "1000"])

    async def main() -> None:
        ChildProcess(process)

    asyncio.run(main())
    (waiting,) = [thread for thread in threading.enumerate() if thread.name == f"exit-of-{process.pid}"]
    process.kill()
    waiting.join(PATIENCE)
    process.wait()
    assert not waiting.is_alive()


def test_a_number_that_may_be_somebody_elses_by_now_is_not_killed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []

    async def main() -> int | None:
        owner = owned()
        child = owner.spawn(["true"])
        await asyncio.wait_for(child.exited.wait(), PATIENCE)
        monkeypatch.setattr(os, "killpg", lambda number, _: killed.append(number))
        owner.close()
        owner.close()
        owner.signal_groups(signal.SIGKILL)
        return child.returncode

    assert run(main()) == 0
    assert len(killed) == 1


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", -9)])
def test_how_it_ended_is_known_before_it_is_reaped_and_stays_known(script: str, status: int, run: Run) -> None:
    exits: list[int | None] = []

    async def main() -> None:
        child = owned().spawn(
            ["sh", "-c", f"read x; {script}"], stdin=reading, on_exit=lambda: exits.append(child.returncode)
        )
        assert child.returncode is None
        os.write(writing, b"go\n")
        await asyncio.wait_for(child.exited.wait(), PATIENCE)
        assert child.returncode == status
        assert not hasattr(os, "waitid") or not child.is_reaped
        child.close()
        assert child.is_reaped
        assert child.returncode == status

    reading, writing = os.pipe()
    try:
        run(main())
    finally:
        os.close(reading)
        os.close(writing)
    assert exits == [status]


def test_an_end_shows_before_the_event_loop_hears_of_it(run: Run) -> None:
    async def main() -> None:
        child = owned().spawn(["true"])
        stand_still_until_exit(child.pid)
        assert child.returncode == 0
        child.close()

    run(main())


def test_one_that_the_system_has_reaped_by_itself_has_ended(run: Run) -> None:
    async def main() -> None:
        child = owned().spawn(["true"])
        os.waitpid(child.pid, 0)  # noqa: ASYNC222 - as where SIGCHLD is ignored
        assert child.returncode == 0
        child.close()

    run(main())


def test_news_of_an_end_after_it_was_closed_are_no_news(run: Run) -> None:
    exits: list[str] = []

    async def main() -> None:
        child = owned().spawn(["true"], on_exit=lambda: exits.append("told"))
        stand_still_until_exit(child.pid)
        child.close()
        child._report_exit()
        await asyncio.sleep(0.01)

    run(main())
    assert exits == []
