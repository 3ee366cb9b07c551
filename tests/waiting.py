"""Waiting in tests: bounded, and for what is waited for, never for a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")

PATIENCE = 60
"""Seconds after which what a test waits for will not come any more; much longer than it ever takes."""


async def until(ready: Callable[[], _T | Awaitable[_T]]) -> _T:
    """What a look at the world says, once it says something; the look must be cheap."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = ready()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)
