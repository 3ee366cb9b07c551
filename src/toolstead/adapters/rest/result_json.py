"""A tool's result as REST shows it: the shape that MCP shares, and how long the call took.

Tools and models say what they like, so what they said is encoded here, whatever is in it.
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
    """A JSON value on one line, with a question mark for what UTF-8 cannot carry."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, TypeError):
        # Half characters, which UTF-8 cannot carry, and subclasses of JSON's own types.
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
