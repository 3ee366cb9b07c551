"""Our tools, as Codex sees them: an MCP server on a free port of loopback, with a token for each thread.

A call is made for the thread whose token it brings, by whoever attends to that thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import socket
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Protocol

import mcp_types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from toolstead.adapters.codex.own_tools import GATE
from toolstead.adapters.mcp.wire import result_for
from toolstead.types.result import ToolResult

logger = logging.getLogger(__name__)

NAME = "toolstead"
_UNWIND = 3.0
"""Seconds that requests get to notice that the door is closed."""
_BODY = 32 * 1024 * 1024
_LONG = 365 * 24 * 3600
"""Seconds that Codex waits for a tool: how long one may take is the dispatcher's to say."""

Request = ServerRequestContext[Any, Any]


class Attendant(Protocol):
    """Whoever answers for one thread."""

    def tools(self) -> Sequence[mcp_types.Tool]:
        """The tools of this thread."""
        ...

    async def call(self, name: str, input: Mapping[str, Any], *, call_id: str | None) -> ToolResult:
        """Call one of them."""
        ...

    async def hooked(self, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a hook asks or tells about a tool of Codex's own; gives what Codex is to read."""
        ...


class ToolDoor:
    """The server; `open` before it is used, `close` after."""

    def __init__(self, *, version: str) -> None:
        self._attendants: dict[bytes, Attendant] = {}
        self._entered: set[bytes] = set()
        server = Server[Any](NAME, version=version, on_list_tools=self._list, on_call_tool=self._call)
        self._sessions = StreamableHTTPSessionManager(
            app=server,
            json_response=True,
            stateless=True,
            max_request_body_size=_BODY,
            security_settings=TransportSecuritySettings(allowed_hosts=["127.0.0.1:*"]),
        )
        self._port = 0
        self._closing = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen."""
        ready = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(ready), name="toolstead-codex-door")
        await asyncio.wait((ready, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            self._serving.result()

    async def close(self) -> None:
        """Take no more calls, and break off those under way."""
        self._closing.set()
        if self._serving is not None:
            await asyncio.wait((self._serving,))

    def admit(self, attendant: Attendant) -> str:
        """A token with which a thread's calls reach whoever attends to it."""
        token = secrets.token_urlsafe(32)
        self._attendants[_digest(token)] = attendant
        return token

    def dismiss(self, token: str) -> None:
        """Let nobody in with this token any more."""
        self._attendants.pop(_digest(token), None)
        self._entered.discard(_digest(token))

    def entered(self, token: str) -> bool:
        """Whether anybody came in with this token: Codex does before it says that a thread is attached with it."""
        return _digest(token) in self._entered

    def settings(self, token: str) -> Mapping[str, Any]:
        """What a thread is to be configured with."""
        return {
            "url": f"http://127.0.0.1:{self._port}/mcp",
            "http_headers": {"Authorization": f"Bearer {token}"},
            "default_tools_approval_mode": "approve",  # the dispatcher's gates decide, and they alone
            "required": True,
            "startup_timeout_sec": 30,
            "tool_timeout_sec": _LONG,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a thread that has a token; this is an ASGI application."""
        brought = _digest_of(scope.get("headers", ()))
        attendant = self._attendants.get(brought)
        if attendant is None:
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
            return
        self._entered.add(brought)
        await self._sessions.asgi_app({**scope, "attendant": attendant}, receive, send)

    async def _list(self, request: Request, params: Any) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=list(_attendant(request).tools()))

    async def _call(self, request: Request, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        given = (request.meta or {}).get("callId")
        if params.name == GATE and given is None:  # a hook; what a model calls has an id
            answer = await _attendant(request).hooked(params.arguments or {})
            return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=json.dumps(answer))])
        call_id = given if isinstance(given, str) and 0 < len(given) <= 128 else None
        result = await _attendant(request).call(params.name, params.arguments or {}, call_id=call_id)
        shown = result_for(result, modern=True)
        # Codex shows the model one or the other, and the text is what was written for it.
        return shown.model_copy(update={"structured_content": None}) if shown.content else shown

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        config = uvicorn.Config(
            self,
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        async with AsyncExitStack() as stack:
            bound = stack.enter_context(socket.socket())
            bound.bind(("127.0.0.1", 0))
            bound.setblocking(False)
            await stack.enter_async_context(self._sessions.run())
            await server.startup(sockets=[bound])
            stack.push_async_callback(_end, server)
            self._port = bound.getsockname()[1]
            ready.set_result(None)
            await self._closing.wait()


async def _end(server: uvicorn.Server) -> None:
    """Take no more requests, break off those under way, and wait until none is left."""
    for listener in server.servers:
        listener.close()
    tasks = set(server.server_state.tasks)
    for connection in list(server.server_state.connections):
        transport = getattr(connection, "transport", None)
        if transport is not None:
            transport.abort()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=_UNWIND)
        for task in left:
            task.cancel()
    for listener in server.servers:
        with suppress(TimeoutError):
            await asyncio.wait_for(listener.wait_closed(), _UNWIND)


def _attendant(request: Request) -> Attendant:
    http: Any = request.request
    attendant: Attendant = http.scope["attendant"]
    return attendant


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _digest_of(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Looked up by digest: how long that takes tells nothing of the tokens there are."""
    given = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, token = given.partition(b" ")
    return hashlib.sha256(token.strip() if scheme.lower() == b"bearer" else b"").digest()
