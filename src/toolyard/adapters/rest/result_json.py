"""A tool's result as REST shows it: the shape that MCP shares, and how long the call took."""

from __future__ import annotations

import json

import msgspec

from toolyard.types.result import ToolResult

_encode = msgspec.json.Encoder().encode


def encode_result(result: ToolResult, milliseconds: float) -> bytes:
    """The body of an answer to a call."""
    shown = result.to_json()
    shown["durationMs"] = round(milliseconds, 3)
    try:
        return _encode(shown)
    except (UnicodeEncodeError, TypeError):
        # Half characters, which UTF-8 cannot carry, and subclasses of JSON's own types.
        return json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace")
