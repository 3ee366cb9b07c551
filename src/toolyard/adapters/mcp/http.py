"""MCP over HTTP: the SDK's session manager as one ASGI application.

Host, Origin, token and body checks are the REST door's guard, which stands before this.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from toolyard.adapters.mcp.server import ToolyardServer


class McpEndpoint:
    """`/mcp` for both eras. Serve it between entering and leaving `running()`."""

    def __init__(self, server: ToolyardServer, *, max_body: int) -> None:
        self._sessions = StreamableHTTPSessionManager(app=server, max_request_body_size=max_body)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Open the sessions' task group; leaving ends every session."""
        return self._sessions.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # Blanks around a header's value are no part of it (RFC 9110 §5.5), and httptools keeps those behind it.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self._sessions.asgi_app({**scope, "headers": headers}, receive, send)
