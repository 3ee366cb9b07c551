"""How the process ends, whatever is still at work in it: soon, and with a word about what it did not wait for.

A task that ignores being cancelled and a thread in a call that never returns would hold up Python's own way out for
ever, and whoever started a server and went away would leave it behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from toolstead.plugins.held import keep_for_ever

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that tasks have to end after they were cancelled, and threads after everything else has ended."""

_A_MOMENT = 0.5

_T = TypeVar("_T")


def run_to_the_end(
    main: Coroutine[Any, Any, _T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> _T:
    """Run a coroutine, and after it end what it left; `asyncio.run`, but for waiting without end."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    loop = runner.get_loop()
    try:
        return runner.run(main)
    finally:
        try:
            loop.run_until_complete(_end_tasks(asyncio.all_tasks(loop)))
            loop.run_until_complete(_end_generators())
        finally:  # also when somebody does not even wait for that
            for task in asyncio.all_tasks(loop):
                keep_for_ever(task)
            loop.close()
            asyncio.set_event_loop(None)


def leave(status: int) -> None:
    """End the process with this status: as Python does, and if a thread is in the way, without waiting for it."""
    soon = time.monotonic() + _A_MOMENT
    for thread in _threads():
        thread.join(max(0.0, soon - time.monotonic()))
    if _threads():  # perhaps only idle workers, which Python ends now
        threading.Thread(target=_end_for_sure, args=(status,), daemon=True).start()
    sys.exit(status)


def _threads() -> list[threading.Thread]:
    """Those that Python waits for."""
    main = threading.main_thread()
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]


async def _end_tasks(tasks: set[asyncio.Task[Any]]) -> None:
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    ended, left = await asyncio.wait(tasks, timeout=PATIENCE)
    for task in ended:
        if not task.cancelled() and (error := task.exception()) is not None:
            told = {"message": "a task failed while everything ended", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(told)
    _give_up(left)


async def _end_generators() -> None:
    ending = asyncio.ensure_future(asyncio.get_running_loop().shutdown_asyncgens())
    _, left = await asyncio.wait((ending,), timeout=PATIENCE)
    _give_up(left)


def _give_up(left: set[asyncio.Future[Any]] | set[asyncio.Task[Any]]) -> None:
    for one in left:
        logger.warning("%r was cancelled, and is not done after %g seconds; the process ends without it", one, PATIENCE)


def _end_for_sure(status: int) -> None:
    time.sleep(PATIENCE)
    names = ", ".join(thread.name for thread in _threads())
    logger.warning("a thread does not end (%s); the process ends without it", names)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
