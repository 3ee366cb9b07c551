"""The connection behind a request: it lives as long as its client, where a session lives for a request only."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext


def connection_of(request: ServerRequestContext[Any, Any]) -> Connection:
    """The connection that a message came on. Reads the one private name of the SDK that is needed."""
    return request.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no public way
