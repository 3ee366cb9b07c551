"""Cancelling a call once. The SDK cancels again at every `await` (anyio's way), so that nothing could clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

from toolstead.concurrency.owned_tasks import cancel_tasks

_T = TypeVar("_T")


async def run_cancelled_once(work: Coroutine[Any, Any, _T], *, name: str) -> _T:
    """Await work in a task of its own, which is cancelled once when the caller is, and then waited for.

    Args:
        work: What to await.
        name: What the log calls it.
    """
    task = asyncio.create_task(work, name=name)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await cancel_tasks((task,))
        raise
