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
                notifying = asyncio.create_task(
                    _notify_connection(connection, changed), name="toolstead-mcp-notices-to-client"
                )
                connection.exit_stack.push_async_callback(self._forget_connection, connection, notifying)
        return result

    @asynccontextmanager
    async def run_notices(self) -> AsyncGenerator[None]:
        """Notify the clients of every registry change while open; a burst becomes one or two notices."""
        changed = asyncio.Event()
        end = self._registry.subscribe(lambda swap: changed.set() if swap.changes else None)

        async def notify_clients() -> None:
            while True:
                await changed.wait()
                changed.clear()
                await self._bus.publish(ToolsListChanged())
                for known in tuple(self._connections.values()):
                    known.set()
                await asyncio.sleep(PAUSE)

        notifying = asyncio.create_task(notify_clients(), name="toolstead-mcp-notices")
        try:
            yield
        finally:
            end()
            self.listen.close()
            notifying.cancel()
            await asyncio.gather(notifying, return_exceptions=True)

    async def _forget_connection(self, connection: Connection, notifying: asyncio.Task[None]) -> None:
        del self._connections[connection]
        notifying.cancel()
        await asyncio.gather(notifying, return_exceptions=True)


async def _notify_connection(connection: Connection, changed: asyncio.Event) -> None:
    while True:
        await changed.wait()
        changed.clear()
        await connection.send_tool_list_changed()
