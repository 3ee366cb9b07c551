"""MCP over HTTP: the SDK's session manager as one ASGI application, and the fast path in front of it.

The guard of `adapters.http` has already checked Host, Origin, token and body.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from toolstead.adapters.http.asgi import ASGIApp, Receive, Scope, Send
from toolstead.adapters.mcp.caller_side import connection_of
from toolstead.adapters.mcp.fast_path.calls import FastPath
from toolstead.adapters.mcp.fast_path.http import HandshakeSessions, HttpFastPath
from toolstead.adapters.mcp.server import ToolsteadServer


class McpEndpoint:
    """`/mcp` for every protocol version. Serve `app` between entering and leaving `running()`.

    Attributes:
        app: Answers a request.
    """

    def __init__(self, server: ToolsteadServer, *, max_body: int, fast_path: FastPath | None = None) -> None:
        """Put the parts together.

        Args:
            server: The SDK's server.
            max_body: Bytes a request may have.
            fast_path: Answers what it can; without one the SDK answers everything.
        """
        self._manager = StreamableHTTPSessionManager(app=server, max_request_body_size=max_body)
        self._sessions = HandshakeSessions()
        self.app: ASGIApp = self._ask_sdk
        if fast_path is not None:
            server.middleware.append(self._learn_session)
            self.app = HttpFastPath(fast_path, self._sessions, self._ask_sdk)

    def run_sessions(self) -> AbstractAsyncContextManager[None]:
        """Open the sessions' task group; leaving ends every session."""
        return self._manager.run()

    async def _ask_sdk(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Whitespace around a header value is not part of it (RFC 9110 §5.5), and httptools keeps it at the end.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self._manager.asgi_app({**scope, "headers": headers}, receive, send)

    async def _learn_session(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware: register a session with the fast path once its client is initialized."""
        result = await call_next(ctx)
        connection = connection_of(ctx)
        if (
            ctx.method == "notifications/initialized"
            and connection.session_id is not None
            and connection.initialize_accepted
            and (forget := self._sessions.learn_session(connection.session_id)) is not None
        ):
            connection.exit_stack.callback(forget)
        return result
