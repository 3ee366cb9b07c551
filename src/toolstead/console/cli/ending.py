"""Ends the process soon, whatever still runs in it, and logs what it did not wait for.

A task that ignores being cancelled and a thread in a call that never returns would hold up Python's own way out for
ever, and a client that started a server and exited would leave it behind.
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

from toolstead.concurrency.owned_tasks import cancel_tasks
from toolstead.concurrency.suspended_coroutine import keep_forever

logger = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that tasks have to end after they were cancelled, and threads after everything else has ended."""

_A_MOMENT = 0.5

_T = TypeVar("_T")


def run_to_the_end(
    main: Coroutine[Any, Any, _T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> _T:
    """Run a coroutine, then end the tasks it left: `asyncio.run` with a bounded wait."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    loop = runner.get_loop()
    try:
        return runner.run(main)
    finally:
        try:
            loop.run_until_complete(_end_rest(asyncio.all_tasks(loop)))
        finally:  # also when the wait itself is interrupted
            for task in asyncio.all_tasks(loop):
                keep_forever(task)
            loop.close()
            asyncio.set_event_loop(None)


def leave_process(status: int) -> None:
    """Exit with this status as Python does, but without waiting for a thread that does not end."""
    soon = time.monotonic() + _A_MOMENT
    for thread in _waiting_threads():
        thread.join(max(0.0, soon - time.monotonic()))
    if _waiting_threads():  # perhaps only idle workers, which Python ends now
        threading.Thread(target=_end_for_sure, args=(status,), daemon=True).start()
    sys.exit(status)


def _waiting_threads() -> list[threading.Thread]:
    """Those that Python waits for."""
    main = threading.main_thread()
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not main]


async def _end_rest(tasks: set[asyncio.Task[Any]]) -> None:
    loop = asyncio.get_running_loop()
    await cancel_tasks(tasks, grace=PATIENCE, describe=repr)
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            report = {"message": "a task failed during shutdown", "exception": error, "task": task}
            loop.call_exception_handler(report)
    closing = loop.create_task(loop.shutdown_asyncgens())
    await asyncio.wait((closing,), timeout=PATIENCE)
    if not closing.done():
        logger.warning("an asynchronous generator does not end; the process ends without it")


def _end_for_sure(status: int) -> None:
    time.sleep(PATIENCE)
    names = ", ".join(thread.name for thread in _waiting_threads())
    logger.warning("a thread does not end (%s); the process ends without it", names)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
