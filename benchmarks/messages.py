"""MCP messages as bytes, the same for every contestant, in all protocol versions of the protocol."""

from __future__ import annotations

import json
from typing import Any, Literal

Era = Literal["handshake", "modern"]
HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
_CLIENT = {"name": "benchmarks", "version": "1"}

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def request(number: int, method: str, params: dict[str, Any]) -> bytes:
    """One request, compact."""
    return json.dumps(
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, separators=(",", ":")
    ).encode()


def initialize(number: int) -> bytes:
    """The opening of the handshake versions."""
    return request(number, "initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT})


def call(number: int, tool: str, arguments: dict[str, Any], era: Era = "handshake") -> bytes:
    """A tools/call."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    return modern_request(number, "tools/call", params) if era == "modern" else request(number, "tools/call", params)


def modern_request(number: int, method: str, params: dict[str, Any]) -> bytes:
    """One request of the modern protocol version, which says who asks."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": _CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return request(number, method, {**params, "_meta": meta})


def is_refusal(reply: dict[str, Any]) -> bool:
    """Whether a call was turned down: a JSON-RPC error, or a result that says so."""
    return "error" in reply or reply.get("result", {}).get("isError") is True


def text_of(reply: dict[str, Any]) -> str:
    """All the text of a call's result."""
    return "".join(part.get("text", "") for part in reply.get("result", {}).get("content", []))
