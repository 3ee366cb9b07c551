"""Other people's coroutines in tasks of their own, so that whoever waits for one can always leave.

A runtime is foreign code: it may answer late to being cancelled, or never.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolstead.errors import InvocationError

logger = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that something which was cancelled is waited for."""

_T = TypeVar("_T")


class OwnedTasks:
    """Runs coroutines, each in a task that is waited for, ended or at least named in the log."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(
        self,
        work: Coroutine[Any, Any, _T],
        *,
        what: str,
        unwanted: Callable[[_T], object] | None = None,
        stuck: Callable[[], object] | None = None,
    ) -> _T:
        """Wait for it. Cancelling the caller cancels the work, and waits for it as long as `GRACE`.

        Args:
            work: What to run.
            what: Its name, for the log.
            unwanted: Takes a result that came though nobody wants it any more.
            stuck: Called when it was cancelled and goes on all the same.

        Raises:
            InvocationError: `end` was called meanwhile.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.add_done_callback(lambda ended: _take_leftovers(ended, unwanted))
            task.cancel()
            try:
                await asyncio.wait((task,), timeout=GRACE)
            finally:
                if not task.done():
                    _name_what_stays(what)
                    if stuck is not None:
                        stuck()
            raise
        if task.cancelled():
            raise InvocationError(f"{what} was ended, because everything is being closed")
        return task.result()

    async def end(self) -> None:
        """Cancel all that runs, and wait for it as long as `GRACE`."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)


def _name_what_stays(what: str) -> None:
    logger.error("%s was cancelled and goes on all the same; it is left alone", what)


def _take_leftovers(task: asyncio.Task[_T], unwanted: Callable[[_T], object] | None) -> None:
    """See to it that neither a result nor an error of an abandoned task is dropped by accident."""
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        logger.debug("a cancelled task ended with an error", exc_info=error)
    elif unwanted is not None:
        unwanted(task.result())
