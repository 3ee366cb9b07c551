"""Answers of the fast path as bytes: lists and `initialize` results are built once, call results from parts.

A test compares each of them with the SDK's answer to the same request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from toolstead.adapters.mcp.fast_path.messages import HANDSHAKE_VERSIONS, MODERN_VERSION, MessageId
from toolstead.tools.generation import Generation
from toolstead.types.content import Text, whole_json, whole_text
from toolstead.types.result import ToolResult
from toolstead.types.tool import NO_HINTS, ToolInfo

PAGE: Final = 1_000
"""Tools a page: large, because some clients never request a second page."""

LIST_CHANGED: Final = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'

_CAPABILITIES: Final = b'{"logging":{},"tools":{"listChanged":true}}'
_encode = msgspec.json.Encoder().encode


class Answers:
    """The prepared answers of one server."""

    def __init__(self, *, name: str, version: str) -> None:
        self._info = _encode({"name": name, "version": version})
        self._stamp = b'"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":' + self._info + b"}}"
        self._generation: Generation | None = None
        self._pages: dict[bool, dict[str | None, bytes]] = {}
        self.discovered: Final = (
            b'{"capabilities":' + _CAPABILITIES + b',"supportedVersions":["' + MODERN_VERSION.encode() + b'"],'
            b'"ttlMs":0,"cacheScope":"private",' + self._stamp
        )

    def render_initialize(self, asked: str) -> tuple[bytes, str]:
        """The result of `initialize`, and the negotiated revision."""
        spoken = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        parts = (b'{"protocolVersion":"', spoken.encode(), b'","capabilities":', _CAPABILITIES)
        return b"".join((*parts, b',"serverInfo":', self._info, b"}")), spoken

    def render_page(self, generation: Generation, cursor: str | None, *, modern: bool) -> bytes | None:
        """The result of `tools/list`; None for a cursor that begins no page of this generation."""
        if generation is not self._generation:
            self._generation, self._pages = generation, {}
        pages = self._pages.get(modern)
        if pages is None:
            pages = self._pages[modern] = self._render_pages(generation, modern=modern)
        return pages.get(cursor)

    def render_result(self, result: ToolResult, *, modern: bool) -> bytes:
        """The result of `tools/call`."""
        end = b'],"isError":true' if result.is_error else b'],"isError":false'
        head = b'{"content":[' + b",".join([_render_part(part) for part in result.content]) + end
        structured = result.structured
        if structured is not None and (modern or isinstance(structured, Mapping)):
            head += b',"structuredContent":' + json_bytes(whole_json(structured))
        return head + b"," + self._stamp if modern else head + b"}"

    def _render_pages(self, generation: Generation, *, modern: bool) -> dict[str | None, bytes]:
        """Every page by its cursor: the last name of the page before."""
        shown = [_render_tool(tool.info, modern=modern) for tool in generation.tools.values()]
        pages: dict[str | None, bytes] = {}
        cursor: str | None = None
        for start in range(0, len(shown) or 1, PAGE):
            body = b'{"tools":' + json_bytes(shown[start : start + PAGE])
            last = start + PAGE >= len(shown)
            following = None if last else shown[start + PAGE - 1]["name"]
            if following is not None:
                body += b',"nextCursor":' + _encode(following)
            end = b',"ttlMs":0,"cacheScope":"private",' + self._stamp if modern else b"}"
            pages[cursor] = body + end
            cursor = following
        return pages


def render_answer(id: MessageId, result: bytes) -> bytes:
    """The message that answers a request."""
    return b'{"jsonrpc":"2.0","id":' + _render_id(id) + b',"result":' + result + b"}"


def render_refusal(id: MessageId, code: int, message: str, data: str | None = None) -> bytes:
    """The error response to a request, identical to the SDK's."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b'{"jsonrpc":"2.0","id":' + _render_id(id) + b',"error":' + _encode(error) + b"}"


def _render_tool(info: ToolInfo, *, modern: bool) -> dict[str, Any]:
    """A tool as in `tools/list`. Handshake revisions allow only objects as structured content."""
    shown: dict[str, Any] = {"name": info.name}
    if info.title is not None:
        shown["title"] = whole_text(info.title)
    shown["description"] = whole_text(info.description)
    shown["inputSchema"] = info.input_schema
    if info.output_schema is not None and (modern or info.output_schema.get("type") == "object"):
        shown["outputSchema"] = info.output_schema
    if info.annotations != NO_HINTS:
        given = info.annotations
        hints = {
            "readOnlyHint": given.read_only,
            "destructiveHint": given.destructive,
            "idempotentHint": given.idempotent,
            "openWorldHint": given.open_world,
        }
        shown["annotations"] = {name: hint for name, hint in hints.items() if hint is not None}
    return shown


def _render_id(id: MessageId) -> bytes:
    return b"%d" % id if type(id) is int else _encode(id)


def _render_part(part: Any) -> bytes:
    if type(part) is Text:
        return b'{"type":"text","text":' + json_bytes(whole_text(part.text)) + b"}"
    return json_bytes(whole_json(part.to_json()))


def json_bytes(value: Any) -> bytes:
    """Encode a JSON value of any Python types."""
    try:
        return _encode(value)
    except TypeError:  # subclasses of JSON's types, which Python's encoder accepts
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
