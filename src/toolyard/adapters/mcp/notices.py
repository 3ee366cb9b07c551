"""`tools/list_changed`, by exactly one path to each client.

Modern clients listen on a subscription; handshake clients hear it on their own connection, which
is learned when they say that they are initialized and forgotten when they leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from toolyard.tools.registry import Registry


class Notices:
    """Tells every connected client that the tools changed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._bus = InMemorySubscriptionBus()
        self._connections: dict[Connection, None] = {}
        self.listen = ListenHandler(self._bus)

    async def learn(self, request: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware: remember a handshake connection once it is initialized."""
        result = await call_next(request)
        if request.method == "notifications/initialized":
            # The one private name of the SDK that is needed: a session lives for a request only.
            connection: Connection = request.session._connection  # pyright: ignore[reportPrivateUsage] - no public way
            if connection not in self._connections:
                self._connections[connection] = None
                connection.exit_stack.callback(self._connections.pop, connection, None)
        return result

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While open, every change of the registry reaches the clients; bursts become one notice."""
        changed = asyncio.Event()
        end = self._registry.subscribe(lambda swap: changed.set() if swap.changes else None)

        async def tell() -> None:
            while True:
                await changed.wait()
                changed.clear()
                await self._bus.publish(ToolsListChanged())
                for connection in tuple(self._connections):
                    await connection.send_tool_list_changed()

        telling = asyncio.create_task(tell(), name="toolyard-mcp-notices")
        try:
            yield
        finally:
            end()
            self.listen.close()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
