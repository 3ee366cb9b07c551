"""The calls of one plugin's tools that are under way, so that nothing is stopped under them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Any

from toolstead.errors import ToolError
from toolstead.plugins.contract import Handler, PluginContext
from toolstead.plugins.tool_meta import ToolMeta


class CallsUnderWay:
    """Counts the calls of the handlers it was given."""

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._count = 0
        self._closed = False
        self._none = asyncio.Event()

    def count_calls(self, handler: Handler) -> Handler:
        """A handler that is counted while it runs, and everything else like it was."""

        @functools.wraps(handler)
        async def call(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
            if self._closed:  # a gate kept it so long that the plugin is gone
                raise ToolError(f"plugin {self._plugin!r}, whose tool this is, was stopped meanwhile")
            self._count += 1
            try:
                return await handler(ctx, input, meta)
            finally:
                self._count -= 1
                if not self._count:
                    self._none.set()

        return call

    def close(self) -> None:
        """Let no further call begin."""
        self._closed = True

    async def wait_until_done(self, seconds: float) -> int:
        """Wait until none is under way, so long at most; how many are left."""
        if self._count:
            self._none.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._none.wait()
        return self._count
