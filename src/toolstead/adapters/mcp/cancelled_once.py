"""Cancelling a call once. The SDK's own way is to cancel again at every `await`, so that nothing can tidy up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

logger = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that a call which was cancelled may take to tidy up."""

_T = TypeVar("_T")


async def cancelled_once(work: Coroutine[Any, Any, _T], *, what: str) -> _T:
    """Await work in a task of its own, which is cancelled once when the caller is, and then waited for.

    Args:
        work: What to await.
        what: Its name, for the log.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await _end(task, what)
        raise


async def _end(task: asyncio.Task[Any], what: str) -> None:
    await asyncio.wait([task], timeout=GRACE)
    if not task.done():
        logger.error("%s was cancelled, and is not done after %s seconds; it is left alone", what, GRACE)
    task.add_done_callback(_take_leftovers)


def _take_leftovers(task: asyncio.Task[Any]) -> None:
    """What it raised instead of ending is told, not lost."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a cancelled call ended with an error", exc_info=error)
