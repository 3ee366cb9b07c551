"""What tests of child processes share: both event loops, every way to notice an end, and that nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, Any]], Any]
LOOPS = {"asyncio": None, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine on one event loop, then on the other."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run


@pytest.fixture(params=["pidfd", "thread", "reaping"])
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How ends of processes are noticed: the way of Linux, that of an old one, and that of macOS."""
    if request.param != "pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    if request.param == "reaping":
        monkeypatch.delattr(os, "waitid", raising=False)


@pytest.fixture
def nothing_left(run: Run, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The test leaves as many descriptors, children and tasks as it found, and nothing failed unseen in the loop."""
    before = run(_count_tasks()), count_descriptors(), _children()
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"] == []
    assert (run(_count_tasks()), count_descriptors(), _children()) == before


@pytest.fixture
def open_descriptors() -> Callable[[], int]:
    """Counts the descriptors that are open now."""
    return count_descriptors


def count_descriptors() -> int:
    """Devices are not counted, because uvloop keeps one in reserve."""
    count = 0
    for entry in list(Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):
            count += not stat.S_ISCHR(os.fstat(int(entry.name)).st_mode)
    return count


def _children() -> set[str]:
    """The processes that this one started and has not seen the end of."""
    found: set[str] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a worker that has ended
            found.update(task.read_text("ascii").split())
    return found


async def _count_tasks() -> int:
    return len(asyncio.all_tasks())
