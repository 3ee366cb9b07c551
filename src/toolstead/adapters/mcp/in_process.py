"""A real MCP client connected to a server of this process, for tests."""

from __future__ import annotations

from typing import Any, Literal, get_args

from mcp.client.client import Client

from toolstead.adapters.mcp.server import ToolsteadServer

McpProtocol = Literal["handshake", "modern"]
McpClient = Client


def in_process_client(server: ToolsteadServer, protocol: McpProtocol, **callbacks: Any) -> McpClient:
    """The SDK's client; open it with `async with`.

    Args:
        server: A new server.
        protocol: The protocol version: `handshake` uses JSON-RPC over memory streams; `modern` is stateless.
        callbacks: What the client answers to the server's own requests, by the SDK's names.

    Raises:
        ValueError: There is no such protocol.
    """
    if protocol not in get_args(McpProtocol):
        raise ValueError(f"protocol={protocol!r} is unknown; choose {' or '.join(map(repr, get_args(McpProtocol)))}")
    return Client(server, mode="legacy" if protocol == "handshake" else "auto", **callbacks)
