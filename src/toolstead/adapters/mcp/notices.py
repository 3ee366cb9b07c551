"""`notifications/tools/list_changed`: each client receives it over exactly one path.

Modern clients receive it on a subscription. Handshake clients receive it on their own connection, which is registered
on `notifications/initialized` and removed when it closes. Each connection has a task of its own, so a client that does
not read blocks no other client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from toolstead.adapters.mcp.caller_side import connection_of
from toolstead.tools.registry import Registry

PAUSE = 0.05
"""Seconds between two notices: the first of a burst is sent at once, the rest are merged into one."""


class Notices:
    """Notifies every connected client that the tools changed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._bus = InMemorySubscriptionBus()
        self._connections: dict[Connection, asyncio.Event] = {}
        self.listen = ListenHandler(self._bus)

    async def learn_connection(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware: register a handshake connection once it is initialized."""
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized":
            connection = connection_of(ctx)
            if connection not in self._connections:
                changed = self._connections[connection] = asyncio.Event()
                telling = asyncio.create_task(
                    _notify_connection(connection, changed), name="toolstead-mcp-notices-to-client"
                )
                connection.exit_stack.push_async_callback(self._forget_connection, connection, telling)
        return result

    @asynccontextmanager
    async def run_notices(self) -> AsyncGenerator[None]:
        """Notify the clients of every registry change while open; a burst becomes one or two notices."""
        changed = asyncio.Event()
        end = self._registry.subscribe(lambda swap: changed.set() if swap.changes else None)

        async def tell_all() -> None:
            while True:
                await changed.wait()
                changed.clear()
                await self._bus.publish(ToolsListChanged())
                for heard in tuple(self._connections.values()):
                    heard.set()
                await asyncio.sleep(PAUSE)

        telling = asyncio.create_task(tell_all(), name="toolstead-mcp-notices")
        try:
            yield
        finally:
            end()
            self.listen.close()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _forget_connection(self, connection: Connection, telling: asyncio.Task[None]) -> None:
        del self._connections[connection]
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _notify_connection(connection: Connection, changed: asyncio.Event) -> None:
    while True:
        await changed.wait()
        changed.clear()
        await connection.send_tool_list_changed()
