"""Our tools for Codex: an MCP server on a free loopback port, with a token for each thread.

A call belongs to the thread of its token; the session of that thread makes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from toolstead.adapters.codex.app_server import ThreadOwner
from toolstead.adapters.codex.own_tools import GATE, SERVER
from toolstead.adapters.http.asgi import HttpResponse, Receive, Scope, Send
from toolstead.adapters.http.server import serve_on_loopback
from toolstead.adapters.mcp.wire import result_for

_BODY = 32 * 1024 * 1024
_LONG = 365 * 24 * 3600
"""Seconds that Codex waits for a tool: long, because the dispatcher sets the deadlines."""

McpRequest = ServerRequestContext[Any, Any]


class CodexToolEndpoint:
    """The server; `open` before it is used, `close` after."""

    def __init__(self, *, version: str) -> None:
        self._threads: dict[bytes, ThreadOwner] = {}
        self._used: set[bytes] = set()
        server = Server[Any](SERVER, version=version, on_list_tools=self._list_tools, on_call_tool=self._call_tool)
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
        self._serving = asyncio.create_task(self._serve_until_closed(ready), name="toolstead-codex-endpoint")
        await asyncio.wait((ready, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            self._serving.result()

    async def close(self) -> None:
        """Stop accepting calls, and abort the running ones."""
        self._closing.set()
        if self._serving is not None:
            await asyncio.wait((self._serving,))

    def issue_token(self, owner: ThreadOwner) -> str:
        """Issue a token for the calls of a thread."""
        token = secrets.token_urlsafe(32)
        self._threads[_digest_token(token)] = owner
        return token

    def revoke_token(self, token: str) -> None:
        """Refuse this token from now on."""
        self._threads.pop(_digest_token(token), None)
        self._used.discard(_digest_token(token))

    def was_used(self, token: str) -> bool:
        """Whether a request used this token: Codex sends one before it reports the thread as attached."""
        return _digest_token(token) in self._used

    def server_settings(self, token: str) -> Mapping[str, Any]:
        """The MCP server settings of a thread."""
        return {
            "url": f"http://127.0.0.1:{self._port}/mcp",
            "http_headers": {"Authorization": f"Bearer {token}"},
            "default_tools_approval_mode": "approve",  # only the dispatcher's gates decide
            "required": True,
            "startup_timeout_sec": 30,
            "tool_timeout_sec": _LONG,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a thread that has a token; this is an ASGI application."""
        digest = _read_token_digest(scope.get("headers", ()))
        owner = self._threads.get(digest)
        if owner is None:
            await HttpResponse(401, b"", ()).send(send)
            return
        self._used.add(digest)
        await self._sessions.asgi_app({**scope, "thread_owner": owner}, receive, send)

    async def _list_tools(self, request: McpRequest, params: Any) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=list(_owner_of(request).list_tools()))

    async def _call_tool(
        self, request: McpRequest, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        given = (request.meta or {}).get("callId")
        if params.name == GATE and given is None:  # a hook; what a model calls has an id
            answer = await _owner_of(request).answer_hook(params.arguments or {})
            return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=json.dumps(answer))])
        call_id = given if isinstance(given, str) and 0 < len(given) <= 128 else None
        result = await _owner_of(request).call(params.name, params.arguments or {}, call_id=call_id)
        shown = result_for(result, modern=True)
        # Codex shows the model one or the other, and the text is what was written for it.
        return shown.model_copy(update={"structured_content": None}) if shown.content else shown

    async def _serve_until_closed(self, ready: asyncio.Future[None]) -> None:
        async with self._sessions.run(), serve_on_loopback(self) as port:
            self._port = port
            ready.set_result(None)
            await self._closing.wait()


def _owner_of(request: McpRequest) -> ThreadOwner:
    http: Any = request.request
    return http.scope["thread_owner"]


def _digest_token(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _read_token_digest(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Look a token up by digest, so that the timing reveals nothing about the tokens."""
    given = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, token = given.partition(b" ")
    return hashlib.sha256(token.strip() if scheme.lower() == b"bearer" else b"").digest()
