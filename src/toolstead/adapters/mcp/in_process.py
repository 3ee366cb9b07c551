"""A real MCP client connected to a server of this process, for tests."""

from __future__ import annotations

from typing import Literal

from mcp.client.client import Client

from toolstead.adapters.mcp.server import ToolsteadServer

McpProtocol = Literal["handshake", "modern"]
McpClient = Client


def in_process_client(server: ToolsteadServer, protocol: McpProtocol) -> McpClient:
    """The SDK's client; open it with `async with`.

    Args:
        server: A new server.
        protocol: The protocol version: `handshake` uses JSON-RPC over memory streams; `modern` is stateless.
    """
    return Client(server, mode="legacy" if protocol == "handshake" else "auto")
