"""MCP over HTTP: the SDK's session manager as one ASGI application, and the fast path in front of it.

The guard of `adapters.http` has already checked Host, Origin, token and body.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from toolstead.adapters.http.access import find_access, find_holder
from toolstead.adapters.http.asgi import (
    JSON_TYPE,
    ASGIApp,
    HttpResponse,
    Message,
    Receive,
    Scope,
    Send,
    TrackedResponse,
)
from toolstead.adapters.http.problem import RETRY_AFTER
from toolstead.adapters.mcp.caller_side import client_name, connection_of, elicitation_of
from toolstead.adapters.mcp.fast_path.calls import INTERNAL_ERROR, INVALID_REQUEST, FastPath, render_refusal
from toolstead.adapters.mcp.fast_path.http import HttpFastPath, find_session_id, is_handshake
from toolstead.adapters.mcp.fast_path.messages import client_name_in, elicitation_in
from toolstead.adapters.mcp.handshake_sessions import IDLE, MOST, HandshakeSession, HandshakeSessions
from toolstead.adapters.mcp.server import ToolsteadServer

logger = logging.getLogger(__name__)

_REFUSED = 400
"""From this status on, the SDK has refused the request."""
_NOT_FOUND = 404


_NO_MESSAGE = render_refusal(None, INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message")
_NO_SESSION = render_refusal(None, INVALID_REQUEST, "Session not found")
"""As the SDK answers where there is no such session."""
_VALIDATION = b'"message":"Validation error: '


def _hide_validation(send: Send) -> Send:
    """Replace the SDK's refusal of what is no message: it has pages of its validator's text about its own classes."""
    held: Message | None = None

    async def pass_on(message: Message) -> None:
        nonlocal held
        if message["type"] == "http.response.start" and message["status"] == _REFUSED:
            held = message
            return
        if held is not None:
            start, held = held, None
            if _VALIDATION in message.get("body", b""):
                message = {**message, "body": _NO_MESSAGE}
                length = (b"content-length", b"%d" % len(_NO_MESSAGE))
                start = {**start, "headers": [*(pair for pair in start["headers"] if pair[0] != length[0]), length]}
            await send(start)
        await send(message)

    return pass_on


class McpEndpoint:
    """`/mcp` for every protocol version. Serve `app` between entering and leaving `run_sessions()`.

    Attributes:
        app: Answers a request.
        begin_stop: Call this when the server stops: idle sessions then end while calls get their time to finish.
        count_sessions: How many sessions are open.
    """

    def __init__(
        self,
        server: ToolsteadServer,
        *,
        max_body: int,
        session_idle: float = IDLE,
        max_sessions: int = MOST,
        fast_path: FastPath | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            server: The SDK's server.
            max_body: Bytes a request may have.
            session_idle: Seconds after which an idle session of a handshake version ends.
            max_sessions: How many of them may be open.
            fast_path: Answers what it can; without one the SDK answers everything.
        """
        # Not with the SDK's own limits: it does not see the calls on the fast path, and refuses new sessions
        # instead of ending idle ones.
        self._manager = StreamableHTTPSessionManager(
            app=server, max_request_body_size=max_body, session_idle_timeout=None, max_sessions=None
        )
        self._max_sessions = max_sessions
        self._sessions = HandshakeSessions(self._end_session, idle=session_idle, most=max_sessions)
        self.begin_stop = self._sessions.begin_stop
        self.count_sessions = self._sessions.count_sessions
        self.app: ASGIApp = self._ask_sdk
        if fast_path is not None:
            server.middleware.append(self._learn_session)
            self.app = HttpFastPath(fast_path, self._sessions, self._ask_sdk)

    @asynccontextmanager
    async def run_sessions(self) -> AsyncGenerator[None]:
        """Open the sessions' task group, and end idle sessions; leaving ends every session."""
        async with self._manager.run():
            ending = asyncio.create_task(self._sessions.end_idle_sessions(), name="toolstead-mcp-idle-sessions")
            try:
                yield
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)

    async def _ask_sdk(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Whitespace around a header value is not part of it (RFC 9110 §5.5), and httptools keeps it at the end.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}
        send = _hide_validation(send)
        key = find_session_id(headers)
        if key is None and scope["method"] == "POST" and is_handshake(headers):
            await self._open_session(scope, receive, send)
        elif (session := self._sessions.find_session(key)) is None:
            await self._manager.asgi_app(scope, receive, send)
        elif session.holder != find_holder(scope):
            logger.warning("refused a request for an MCP session that was opened with another token")
            await HttpResponse(_NOT_FOUND, _NO_SESSION).send(send)
        else:
            await self._ask_session(session, scope, receive, send)

    async def _open_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request without a session: if the SDK accepts it, it opens one."""
        if self._sessions.is_full:
            text = f"All {self._max_sessions:,} sessions are in use; try again later, or end one with DELETE"
            body = render_refusal(None, INTERNAL_ERROR, text)
            await HttpResponse(503, body, (JSON_TYPE, RETRY_AFTER)).send(send)
            return
        address = (scope.get("client") or ("",))[0]
        opened: HandshakeSession | None = None

        async def watch_head(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < _REFUSED:
                key = next((value for name, value in message["headers"] if name == b"mcp-session-id"), None)
                opened = None if key is None else self._sessions.add_session(key, address, find_holder(scope))
                if opened is not None:
                    using.enter_context(opened)
            await send(message)

        with ExitStack() as using:
            try:
                await self._manager.asgi_app(scope, receive, watch_head)
            except BaseException:
                if opened is not None:  # the SDK has discarded it
                    self._sessions.forget_session(opened.key)
                raise
        await self._sessions.end_surplus()

    async def _ask_session(self, session: HandshakeSession, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request of a session, which is in use meanwhile."""
        response = TrackedResponse(send)
        if scope["method"] == "DELETE":  # from here on its id is invalid, also while the SDK ends it
            self._sessions.forget_session(session.key)
        with session:
            await self._manager.asgi_app(scope, receive, response)
        if response.status == _NOT_FOUND:
            self._sessions.forget_session(session.key)

    async def _end_session(self, key: bytes) -> None:
        """End a session in the SDK, as a client would."""

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            del message

        headers = [(b"mcp-session-id", key)]
        scope = {"type": "http", "method": "DELETE", "path": "/mcp", "query_string": b"", "headers": headers}
        await self._manager.asgi_app(scope, receive, send)

    async def _learn_session(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware: register a session with the fast path once its client is initialized."""
        result = await call_next(ctx)
        connection = connection_of(ctx)
        if connection.session_id is None or not connection.initialize_accepted:
            return result
        if ctx.method == "initialize" and ctx.request_id is not None:  # again; the SDK notes it when this returns
            self._sessions.rename_client(connection.session_id, client_name_in(ctx.params))
            self._sessions.note_elicitation(connection.session_id, elicitation_in(ctx.params))
        elif (
            ctx.method == "notifications/initialized"
            and (forget := self._sessions.learn_session(connection.session_id, client_name(ctx))) is not None
        ):
            connection.exit_stack.callback(forget)
            self._sessions.note_elicitation(connection.session_id, elicitation_of(ctx))
        return result


class McpEndpoints:
    """`/mcp` and `/mcp/NAME`: an endpoint for every profile, and one for whoever may use everything.

    Each has sessions of its own, so that a session never sees the tools of another profile.
    """

    def __init__(self, endpoints: Mapping[str | None, McpEndpoint]) -> None:
        """Put them together, by the names of their profiles; that of None is for requests under no profile."""
        self._endpoints = endpoints
        self._answer_whole = endpoints[None].app

    def app(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer a request that the guard has admitted; this is an ASGI application."""
        if (access := find_access(scope)) is None:
            return self._answer_whole(scope, receive, send)
        return self._endpoints[access.profile].app(scope, receive, send)

    def count_sessions(self) -> int:
        """How many sessions are open."""
        return sum(endpoint.count_sessions() for endpoint in self._endpoints.values())

    def begin_stop(self) -> None:
        """Call this when the server stops."""
        for endpoint in self._endpoints.values():
            endpoint.begin_stop()

    @asynccontextmanager
    async def run_sessions(self) -> AsyncGenerator[None]:
        """Open the task groups of all sessions; leaving ends every session."""
        async with AsyncExitStack() as opened:
            for endpoint in self._endpoints.values():
                await opened.enter_async_context(endpoint.run_sessions())
            yield
