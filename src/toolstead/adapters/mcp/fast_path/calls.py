"""The fast path itself: which tools it may call, and how, and its answers as bytes. One for each server.

Lists and `initialize` results are built once, call results from parts. A test compares each answer with the SDK's
answer to the same request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from toolstead.adapters.mcp.fast_path.messages import (
    CALL_ID_KEY,
    HANDSHAKE_VERSIONS,
    MODERN_VERSION,
    CallToolMessage,
    MessageId,
)
from toolstead.errors import UnknownToolError
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import Generation
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller
from toolstead.types.content import Text, whole_json, whole_text
from toolstead.types.result import ToolResult
from toolstead.types.tool import NO_HINTS, ToolInfo

logger = logging.getLogger(__name__)

NAME: Final = "toolstead"
"""The server's name."""
PAGE: Final = 1_000
"""Tools a page: large, because some clients never request a second page."""
LIST_CHANGED: Final = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'

_CAPABILITIES: Final = b'{"logging":{},"tools":{"listChanged":true}}'
INTERNAL_ERROR = -32603
INVALID_REQUEST = -32600
_LONGEST_CALL_ID = 128
_HEADER_RULE = b'"x-mcp-header"'
"""A schema with this keyword requires headers, which the SDK compares with the arguments."""
_encode = msgspec.json.Encoder().encode


class FastPath:
    """Lists tools and calls the plain ones, which neither report progress nor ask the client nor delegate.

    Attributes:
        discovered: The result of `server/discover`.
    """

    def __init__(
        self, *, registry: Registry, dispatcher: Dispatcher, version: str, client_thread: str | None = None
    ) -> None:
        self._registry = registry
        self._dispatcher = dispatcher
        self._caller = Caller(client_thread=client_thread)
        self._info = _encode({"name": NAME, "version": version})
        self._stamp = b'"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":' + self._info + b"}}"
        self.discovered: Final = (
            b'{"capabilities":' + _CAPABILITIES + b',"supportedVersions":["' + MODERN_VERSION.encode() + b'"],'
            b'"ttlMs":0,"cacheScope":"private",' + self._stamp
        )
        self._generation: Generation | None = None
        self._plain: dict[str, bool] = {}
        self._pages: dict[bool, dict[str | None, bytes]] = {}

    def render_initialize(self, asked: str) -> tuple[bytes, str]:
        """The result of `initialize`, and the negotiated revision."""
        spoken = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        parts = (b'{"protocolVersion":"', spoken.encode(), b'","capabilities":', _CAPABILITIES)
        return b"".join((*parts, b',"serverInfo":', self._info, b"}")), spoken

    def render_page(self, cursor: str | None, *, modern: bool) -> bytes | None:
        """The current result of `tools/list`; None for a cursor that begins no page, which the SDK must check."""
        generation = self._take_generation()
        pages = self._pages.get(modern)
        if pages is None:
            pages = self._pages[modern] = self._render_pages(generation, modern=modern)
        return pages.get(cursor)

    def subscribe_changes(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to changes of the tool list; the returned function unsubscribes."""
        return self._registry.subscribe(lambda swap: changed() if swap.changes else None)

    def is_plain(self, name: str) -> bool:
        """Whether the fast path may call this tool. Decided once for each tool of a generation."""
        generation = self._take_generation()
        known = self._plain.get(name)
        if known is None:
            registered = generation.tools.get(name)
            if registered is None:
                return False  # not cached: unknown names are unbounded
            tool = registered.tool
            asks_headers = _HEADER_RULE in _encode_json(registered.info.input_schema)
            # The SDK knows the session, and each has a thread of its own to delegate in.
            delegates = tool.spawns or tool.audience == "delegators"
            known = self._plain[name] = not (tool.progress or tool.interactive or asks_headers or delegates)
        return known

    async def call(self, message: CallToolMessage, *, modern: bool) -> bytes | None:
        """Call a tool: the message that answers it, or None when the tool was removed since it was found plain."""
        params, caller = message.params, self._caller
        if params.meta.call_id is not None and (call_id := _check_call_id(params.meta.call_id)) is not None:
            caller = structs.replace(caller, call_id=call_id)
        try:
            result = await self._dispatcher.call(params.name, params.arguments, caller)
            return render_answer(message.id, self._render_result(result, modern=modern))
        except UnknownToolError:
            return None
        except Exception:
            logger.exception("the result of %r could not be encoded", params.name)
            return render_refusal(message.id, INTERNAL_ERROR, "Internal server error")

    def _take_generation(self) -> Generation:
        """The current generation; a new one drops what was prepared for the one before."""
        generation = self._registry.current
        if generation is not self._generation:
            self._generation, self._plain, self._pages = generation, {}, {}
        return generation

    def _render_result(self, result: ToolResult, *, modern: bool) -> bytes:
        """The result of `tools/call`."""
        end = b'],"isError":true' if result.is_error else b'],"isError":false'
        head = b'{"content":[' + b",".join([_render_part(part) for part in result.content]) + end
        structured = result.structured
        if structured is not None and (modern or isinstance(structured, Mapping)):
            head += b',"structuredContent":' + _encode_json(whole_json(structured))
        return head + b"," + self._stamp if modern else head + b"}"

    def _render_pages(self, generation: Generation, *, modern: bool) -> dict[str | None, bytes]:
        """Every page by its cursor: the last name of the page before."""
        tools = [_render_tool(info, modern=modern) for info in generation.for_clients.infos]
        end = b',"ttlMs":0,"cacheScope":"private",' + self._stamp if modern else b"}"
        pages: dict[str | None, bytes] = {}
        cursor: str | None = None
        for start in range(0, len(tools) or 1, PAGE):
            page = tools[start : start + PAGE]
            following = page[-1]["name"] if start + PAGE < len(tools) else None
            more = b"" if following is None else b',"nextCursor":' + _encode(following)
            pages[cursor] = b'{"tools":' + _encode_json(page) + more + end
            cursor = following
        return pages


def render_answer(id: MessageId, result: bytes) -> bytes:
    """The message that answers a request."""
    return b'{"jsonrpc":"2.0","id":' + _render_id(id) + b',"result":' + result + b"}"


def render_refusal(id: MessageId | None, code: int, message: str, data: str | None = None) -> bytes:
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


def _render_id(id: MessageId | None) -> bytes:
    return b"%d" % id if type(id) is int else _encode(id)


def _render_part(part: Any) -> bytes:
    if type(part) is Text:
        return b'{"type":"text","text":' + _encode_json(whole_text(part.text)) + b"}"
    return _encode_json(whole_json(part.to_json()))


def _encode_json(value: Any) -> bytes:
    """Encode a JSON value of any Python types."""
    try:
        return _encode(value)
    except TypeError:  # subclasses of JSON's types, which Python's encoder accepts
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def call_id_in(meta: Mapping[str, Any] | None) -> str | None:
    """The model's own id of a call, from a request's `_meta`; None if there is none, or it is not valid."""
    return _check_call_id(meta.get(CALL_ID_KEY)) if meta else None


def _check_call_id(given: Any) -> str | None:
    return given if isinstance(given, str) and 0 < len(given) <= _LONGEST_CALL_ID else None
