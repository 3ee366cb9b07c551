"""`notifications/…/list_changed` of tools, prompts and resources: each client receives it over exactly one path.

Modern clients receive it on a subscription. Handshake clients receive it on their own connection, which is registered
on `notifications/initialized` and removed when it closes. Each connection has a task of its own, so a client that does
not read blocks no other client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)

from toolstead.adapters.mcp.caller_side import connection_of
from toolstead.adapters.mcp.fast_path.change_notices import PAUSE, Kind
from toolstead.adapters.mcp.parts_port import OfferedParts
from toolstead.tools.registry import Registry

_EVENTS: Final[Mapping[Kind, ServerEvent]] = MappingProxyType(
    {"tools": ToolsListChanged(), "prompts": PromptsListChanged(), "resources": ResourcesListChanged()}
)


class PendingNotices:
    """What changed and was not announced yet."""

    def __init__(self) -> None:
        self._kinds: set[Kind] = set()
        self._changed = asyncio.Event()

    def add(self, *kinds: Kind) -> None:
        """Note changes."""
        self._kinds.update(kinds)
        self._changed.set()

    async def take(self) -> list[Kind]:
        """Wait until something changed, and take it all."""
        await self._changed.wait()
        self._changed.clear()
        kinds, self._kinds = sorted(self._kinds), set()
        return kinds


class Notices:
    """Notifies every connected client that the tools, prompts or resources changed."""

    def __init__(self, registry: Registry, parts: OfferedParts | None = None) -> None:
        self._registry = registry
        self._parts = parts
        self._bus = InMemorySubscriptionBus()
        self._connections: dict[Connection, PendingNotices] = {}
        self.listen = ListenHandler(self._bus)

    async def learn_connection(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware: register a handshake connection once it is initialized."""
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized":
            connection = connection_of(ctx)
            if connection not in self._connections:
                pending = self._connections[connection] = PendingNotices()
                notifying = asyncio.create_task(
                    _notify_connection(connection, pending), name="toolstead-mcp-notices-to-client"
                )
                connection.exit_stack.push_async_callback(self._forget_connection, connection, notifying)
        return result

    @asynccontextmanager
    async def run_notices(self) -> AsyncGenerator[None]:
        """Notify the clients of every change while open; a burst becomes one or two notices."""
        pending = PendingNotices()
        ends = [self._registry.subscribe(lambda swap: pending.add("tools") if swap.changes_lists else None)]
        if self._parts is not None:
            ends.append(self._parts.subscribe(pending.add))

        async def notify_clients() -> None:
            while True:
                kinds = await pending.take()
                for kind in kinds:
                    await self._bus.publish(_EVENTS[kind])
                for known in tuple(self._connections.values()):
                    known.add(*kinds)
                await asyncio.sleep(PAUSE)

        notifying = asyncio.create_task(notify_clients(), name="toolstead-mcp-notices")
        try:
            yield
        finally:
            for end in ends:
                end()
            self.listen.close()
            notifying.cancel()
            await asyncio.gather(notifying, return_exceptions=True)

    async def _forget_connection(self, connection: Connection, notifying: asyncio.Task[None]) -> None:
        del self._connections[connection]
        notifying.cancel()
        await asyncio.gather(notifying, return_exceptions=True)


async def _notify_connection(connection: Connection, pending: PendingNotices) -> None:
    sends = {
        "tools": connection.send_tool_list_changed,
        "prompts": connection.send_prompt_list_changed,
        "resources": connection.send_resource_list_changed,
    }
    while True:
        for kind in await pending.take():
            await sends[kind]()
