"""Cancel a call only once. The SDK (anyio) cancels again at every `await`, so no cleanup code could run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

from toolstead.concurrency.owned_tasks import cancel_tasks

_T = TypeVar("_T")


async def run_cancelled_once(work: Coroutine[Any, Any, _T], *, name: str) -> _T:
    """Await work in a separate task; when the caller is cancelled, cancel the task once and wait for it.

    Args:
        work: What to await.
        name: Its name in the log.
    """
    task = asyncio.create_task(work, name=name)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await cancel_tasks((task,))
        raise
