"""A tool's result in REST: the shape that MCP shares, and the duration of the call.

Tools and models may return anything, so the encoding here accepts any content.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from toolstead.adapters.rest.answers import CallResult
from toolstead.types.result import ToolResult

_encode = msgspec.json.Encoder().encode


def encode_result(result: ToolResult, milliseconds: float) -> bytes:
    """The body of an answer to a call."""
    return encode_anything(CallResult(result=result, duration_ms=round(milliseconds, 3)).to_json())


def encode_anything(value: Any) -> bytes:
    """A JSON value on one line, with a question mark for what UTF-8 cannot encode."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, TypeError):
        # Lone surrogates, which UTF-8 cannot encode, and subclasses of JSON's types.
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
