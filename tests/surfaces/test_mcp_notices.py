"""Notices of change, with the ASGI application in hand: who is told, who is forgotten, who may be slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.programs.running import HANDSHAKE, modern_meta
from tests.waiting import PATIENCE, until
from toolstead import PluginContext, Tool, ToolMeta, Toolstead
from toolstead.adapters.mcp.http import McpEndpoint
from toolstead.adapters.mcp.notices import Notices
from toolstead.adapters.mcp.server import ToolsteadServer
from toolstead.testing import connect, memory_stead

pytestmark = pytest.mark.promise("R5")


def server_of(stead: Toolstead) -> tuple[ToolsteadServer, Notices]:
    server = stead.registry.to_mcp_server_config()["instance"]
    notices = server.middleware[-1].__self__
    assert isinstance(notices, Notices)
    return server, notices


async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return "done"


def change(stead: Toolstead, name: str) -> None:
    stead.registry.register(Tool(name=name, description="Late.", handler=handler))


class Exchange:
    """One request to the application, and what it answers; a deaf one takes nothing after the head."""

    def __init__(
        self, endpoint: McpEndpoint, method: str, message: Any, headers: dict[str, str], *, deaf: bool = False
    ) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self._deaf = deaf
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._sent.put_nowait({"type": "http.request", "body": json.dumps(message).encode() if message else b""})
        both = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        scope = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "query_string": b"",
            "headers": [(key.encode(), value.encode()) for key, value in {**both, **headers}.items()],
        }
        self.task = asyncio.create_task(endpoint.app(scope, self._sent.get, self._send))

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
            return
        self.body += message.get("body", b"")
        if self._deaf:
            await asyncio.Event().wait()

    async def done(self) -> Exchange:
        await asyncio.wait_for(self.task, PATIENCE)
        return self

    async def hang_up(self) -> None:
        self._sent.put_nowait({"type": "http.disconnect"})
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Session:
    """A handshake session with its stream open."""

    def __init__(self, endpoint: McpEndpoint, headers: dict[str, str], stream: Exchange) -> None:
        self.endpoint = endpoint
        self.headers = headers
        self.stream = stream

    @property
    def notices(self) -> int:
        return self.stream.body.count(b"notifications/tools/list_changed")

    async def leave(self) -> None:
        await self.stream.hang_up()
        assert (await Exchange(self.endpoint, "DELETE", None, self.headers).done()).status == 200


@asynccontextmanager
async def session(endpoint: McpEndpoint, *, deaf: bool = False) -> AsyncIterator[Session]:
    me = {"name": "test", "version": "1"}
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": me}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await Exchange(endpoint, "POST", hello, {}).done()
    headers = {"mcp-session-id": answer.headers[b"mcp-session-id"].decode(), "mcp-protocol-version": HANDSHAKE}
    shaken = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await Exchange(endpoint, "POST", shaken, headers).done()).status == 202
    stream = Exchange(endpoint, "GET", None, headers, deaf=deaf)
    await until(lambda: stream.status == 200)
    try:
        yield Session(endpoint, headers, stream)
    finally:
        await stream.hang_up()


@asynccontextmanager
async def listening(endpoint: McpEndpoint) -> AsyncIterator[Exchange]:
    params = {"notifications": {"toolsListChanged": True}, "_meta": modern_meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    stream = Exchange(endpoint, "POST", message, headers)
    await until(lambda: b"acknowledged" in stream.body)
    try:
        yield stream
    finally:
        await stream.hang_up()


@asynccontextmanager
async def endpoint_of(stead: Toolstead) -> AsyncIterator[tuple[McpEndpoint, Notices]]:
    server, notices = server_of(stead)
    endpoint = McpEndpoint(server, max_body=1 << 20)
    async with endpoint.run_sessions():
        yield endpoint, notices


async def test_one_that_stopped_reading_holds_up_nobody() -> None:
    async with (
        memory_stead() as stead,
        endpoint_of(stead) as (endpoint, _),
        session(endpoint, deaf=True) as deaf,
        session(endpoint) as attentive,
        listening(endpoint) as modern,
    ):
        for number in range(40):  # more than the SDK buffers for the one that is deaf
            before = attentive.notices
            change(stead, f"late-{number}")
            await until(lambda before=before: attentive.notices > before)
        assert deaf.notices == 1
        await until(lambda: modern.body.count(b"notifications/tools/list_changed") >= 40)


async def test_a_client_that_left_is_forgotten() -> None:
    async with memory_stead() as stead, endpoint_of(stead) as (endpoint, notices):
        async with session(endpoint) as one, session(endpoint) as other, session(endpoint, deaf=True) as deaf:
            assert len(notices._connections) == 3
            await one.leave()
            await until(lambda: len(notices._connections) == 2)
            change(stead, "late")
            await until(lambda: other.notices == 1)
            await deaf.leave()
            await other.leave()
        await until(lambda: not notices._connections)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "toolstead-mcp-notices-to-client"]


async def test_the_end_of_the_server_forgets_everybody() -> None:
    async with memory_stead() as stead:
        async with endpoint_of(stead) as (endpoint, notices), session(endpoint), session(endpoint, deaf=True):
            assert len(notices._connections) == 2
        assert not notices._connections
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("toolstead-mcp")]
        change(stead, "late")


async def test_a_burst_is_one_notice_and_the_rest_of_it_one_more() -> None:
    async with memory_stead() as stead, endpoint_of(stead) as (endpoint, _), session(endpoint) as client:
        for number in range(50):
            change(stead, f"at-once-{number}")
        await until(lambda: client.notices == 1)
        for number in range(50):
            change(stead, f"in-a-row-{number}")
            await asyncio.sleep(0)
        await until(lambda: client.notices >= 2)
        change(stead, "last")
        so_far = client.notices
        await until(lambda: client.notices > so_far)
        assert client.notices < 20


async def test_what_changes_nothing_is_no_notice() -> None:
    async with memory_stead() as stead, endpoint_of(stead) as (endpoint, _), session(endpoint) as client:
        await stead.registry.reload_plugins()
        change(stead, "late")
        await until(lambda: client.notices)
        assert client.notices == 1


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_an_in_process_client_leaves_nothing_behind(era: Any) -> None:
    async with memory_stead() as stead:
        before = len(stead._parts.registry._listeners)
        for _ in range(5):
            async with connect(stead, protocol=era) as client:
                await client.list_tools()
        assert len(stead._parts.registry._listeners) == before
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("toolstead-mcp")]
