"""The connection behind a request: it lasts as long as the client, a session only as long as the request."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext


def connection_of(request: ServerRequestContext[Any, Any]) -> Connection:
    """The connection of a message. Reads a private attribute of the SDK, the only one that is needed."""
    return request.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way
