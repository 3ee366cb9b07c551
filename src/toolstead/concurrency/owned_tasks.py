"""Coroutines in their own tasks, each of which is awaited, ended, or at least named in the log.

What runs in them is foreign code: it may answer late to being cancelled, or never.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from toolstead.errors import InvocationError

logger = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that a task has to end after it was cancelled."""

_T = TypeVar("_T")


class OwnedTasks:
    """Tasks that end when their owner does."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """How many are running."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Run it in the background.

        Args:
            work: What to run.
            name: What the log calls it.
        """
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(
        self,
        work: Coroutine[Any, Any, _T],
        *,
        name: str,
        take_unwanted: Callable[[_T], object] | None = None,
        on_abandoned: Callable[[], object] | None = None,
    ) -> _T:
        """Run it and wait for it. Cancelling the caller cancels the work, and waits for it as long as `GRACE`.

        Args:
            work: What to run.
            name: What the log calls it.
            take_unwanted: Takes a result that came after its caller had left.
            on_abandoned: Called when it ignored its cancellation.

        Raises:
            InvocationError: `end` was called meanwhile.
        """
        task = self.start(work, name=name)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.add_done_callback(lambda ended: _take_leftovers(ended, take_unwanted))
            try:
                await cancel_tasks((task,))
            finally:
                if not task.done() and on_abandoned is not None:
                    on_abandoned()
            raise
        if task.cancelled():
            raise InvocationError(f"{name} was ended, because Toolstead is shutting down")
        return task.result()

    async def wait_for_all(self) -> None:
        """Wait until all of them have ended, without cancelling them."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def end_all(self) -> None:
        """Cancel all of them, and wait for them as long as `GRACE`."""
        await cancel_tasks(set(self._tasks))


async def cancel_tasks(
    tasks: Collection[asyncio.Task[Any]],
    *,
    grace: float | None = None,
    describe: Callable[[asyncio.Task[Any]], str] = lambda task: task.get_name(),
) -> None:
    """Cancel tasks and wait for them; one that ignores it is named in the log and abandoned.

    Args:
        tasks: Which.
        grace: Seconds that they have; `GRACE` unless given. Cancelling the caller ends the wait at once.
        describe: What the log calls one.
    """
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, timeout=GRACE if grace is None else grace)
    finally:
        for task in tasks:
            if not task.done():
                logger.error("%s ignored its cancellation and was abandoned", describe(task))
                task.add_done_callback(_report_late_error)


async def finish_despite_cancellation(work: Coroutine[Any, Any, _T], *, however_often: bool = False) -> _T:
    """Wait for work that must not be left half done: the caller's first cancellation waits until it has ended.

    A second one is passed on to it, unless it is to end by itself `however_often` the caller is cancelled.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            if cancelled is not None and not however_often:
                task.cancel()
            cancelled = error
    if cancelled is not None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("work that was finished despite a cancellation failed", exc_info=failure)
        raise cancelled
    return task.result()


def _take_leftovers(task: asyncio.Task[_T], take_unwanted: Callable[[_T], object] | None) -> None:
    """Make sure that no result or error of a cancelled task is dropped by accident."""
    if task.cancelled():
        return
    if (error := task.exception()) is not None:
        logger.debug("%s was cancelled, and ended with an error", task.get_name(), exc_info=error)
    elif take_unwanted is not None:
        take_unwanted(task.result())


def _report_late_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("%s was abandoned, and ended with an error", task.get_name(), exc_info=error)
