"""A message that cannot be encoded is sent with escaped characters; it does not end the wire."""

from __future__ import annotations

import json

import mcp_types
import pytest

from toolstead.adapters.mcp.sdk_side import encode_message as _encoded


def test_text_that_no_utf8_holds_is_escaped_and_told(caplog: pytest.LogCaptureFixture) -> None:
    message = mcp_types.JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "\ud800"})
    line = _encoded(message)
    assert line.isascii()
    assert json.loads(line) == {"jsonrpc": "2.0", "method": "x", "params": {"text": "\ud800"}}
    assert "with escaped characters" in caplog.text
