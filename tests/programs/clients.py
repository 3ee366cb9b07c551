"""The official SDK's client, connected to the tool server: each protocol version over each transport."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import mcp_types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.programs.running import TOOL_SERVER, served
from tests.waiting import PATIENCE

Door = Literal["stdio", "http"]
Era = Literal["handshake", "modern"]
EVERY_WAY: list[tuple[Door, Era]] = [
    ("stdio", "handshake"),
    ("stdio", "modern"),
    ("http", "handshake"),
    ("http", "modern"),
]


@asynccontextmanager
async def target_of(door: Door, folder: Path, *overrides: str) -> AsyncIterator[Any]:
    """A tool server of its own: what a client connects to. Over stdio one client may, over HTTP any number."""
    if door == "http":
        async with served([*TOOL_SERVER, "http", *overrides], folder) as (_, address):
            yield f"{address}/mcp"
        return
    command, *arguments = [*TOOL_SERVER, "stdio", *overrides]
    with (folder / "stderr.txt").open("w") as errors:
        server = StdioServerParameters(command=command, args=arguments, cwd=folder, env=dict(os.environ))
        yield stdio_client(server, errlog=errors)


def connected(target: Any, era: Era, **options: Any) -> Client:
    """A client of something that is there already; open it with `async with`."""
    mode = "legacy" if era == "handshake" else "auto"
    return Client(target, mode=mode, read_timeout_seconds=PATIENCE, **options)


T = TypeVar("T")


@asynccontextmanager
async def in_a_task(context: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave in one task, as the SDK's task groups want it, whoever enters and leaves this."""
    entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def stay() -> None:
        try:
            async with context as value:
                entered.set_result(value)
                await leave.wait()
        except BaseException as error:
            if entered.done():
                raise
            entered.set_exception(error)

    staying = asyncio.create_task(stay())
    try:
        yield await entered
    finally:
        leave.set()
        await staying


class Ear:
    """What a client was told about changes of the tools, in either protocol version."""

    listens = "tools_list_changed"
    notification: type = mcp_types.ToolListChangedNotification

    def __init__(self) -> None:
        self.notices = 0
        self._heard = asyncio.Event()

    async def message(self, message: Any) -> None:
        """To be given to a client as its `message_handler`."""
        if isinstance(message, self.notification):
            self._hear()

    async def subscription(self, events: Any) -> None:
        async for _ in events:
            self._hear()

    async def next(self) -> None:
        """Wait for one more notice than were waited for so far."""
        async with asyncio.timeout(PATIENCE):
            await self._heard.wait()
        self._heard.clear()

    def _hear(self) -> None:
        self.notices += 1
        self._heard.set()

    @asynccontextmanager
    async def open(self, client: Client, era: Era) -> AsyncIterator[None]:
        """Listen the way this protocol version does."""
        if era == "handshake":
            yield
            return
        async with client.listen(**{self.listens: True}) as events:
            listening = asyncio.create_task(self.subscription(events))
            try:
                yield
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)


async def names_of(client: Client) -> list[str]:
    """The names of all listed tools, over every page."""
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        names += [tool.name for tool in page.tools]
        if page.next_cursor is None:
            return names
        cursor = page.next_cursor


async def names_with(client: Client, ear: Ear, complete: Callable[[Iterable[str]], bool]) -> list[str]:
    """The names, once a notice brought what is waited for."""
    while True:
        await ear.next()
        names = await names_of(client)
        if complete(names):
            return names


def text_of(result: mcp_types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, mcp_types.TextContent))
