"""The calls of a plugin's handlers that run now; a plugin is stopped after them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from toolstead.errors import ToolError


class CallsUnderWay:
    """Counts the calls of the handlers it was given, so that nothing is stopped under them."""

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._count = 0
        self._closed = False
        self._ended = asyncio.Event()

    def count_calls(self, handler: Callable[..., Awaitable[Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """A handler that is counted while it runs, and everything else like it was."""

        @functools.wraps(handler)
        async def call(*arguments: Any) -> Any:
            if self._closed:  # a gate kept it so long that the plugin is gone
                raise ToolError(f"plugin {self._plugin!r}, whose tool this is, was stopped meanwhile")
            self._count += 1
            try:
                return await handler(*arguments)
            finally:
                self._count -= 1
                if self._closed and not self._count:
                    self._ended.set()

        return call

    async def close(self, seconds: float) -> int:
        """Let no further call begin, and wait for those under way, so long at most; how many are left."""
        self._closed = True
        if self._count:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ended.wait()
        return self._count
