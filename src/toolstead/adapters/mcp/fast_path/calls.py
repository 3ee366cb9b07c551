"""The fast path itself: which tools it may call, and how, and its answers as bytes. One for each server.

Lists and `initialize` results are built once, call results from parts. A test compares each answer with the SDK's
answer to the same request.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from toolstead.adapters.mcp.approval_ways import ApprovalWays
from toolstead.adapters.mcp.fast_path.change_notices import Kind
from toolstead.adapters.mcp.fast_path.listed_parts import PAGE, ListedParts
from toolstead.adapters.mcp.fast_path.messages import (
    CALL_ID_KEY,
    HANDSHAKE_VERSIONS,
    MODERN_VERSION,
    CallToolMessage,
    MessageId,
    PartsList,
)
from toolstead.adapters.mcp.listed_tools import ListedTools, adapted_client
from toolstead.adapters.mcp.parts_port import OfferedParts
from toolstead.errors import UnknownToolError
from toolstead.plugins.tool_meta import Progress
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import ToolView
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller
from toolstead.types.client_parts import ServerIdentity
from toolstead.types.content import Text, whole_json, whole_text
from toolstead.types.result import ToolResult
from toolstead.types.tool import NO_HINTS, ToolInfo

logger = logging.getLogger(__name__)

_CAPABILITIES: Final = (
    b'{"completions":{},"logging":{},"prompts":{"listChanged":true},'
    b'"resources":{"subscribe":false,"listChanged":true},"tools":{"listChanged":true}}'
)
INTERNAL_ERROR = -32603
INVALID_REQUEST = -32600
_LONGEST_CALL_ID = 128
_MOST_CLIENTS = 100
_HEADER_RULE = b'"x-mcp-header"'
"""A schema with this keyword requires headers, which the SDK compares with the arguments."""
_Plainness = Literal["yes", "with progress", "no"]
_encode = msgspec.json.Encoder().encode


class FastPath:
    """Lists what is offered and calls plain tools, which neither ask the client nor delegate."""

    def __init__(
        self,
        *,
        registry: Registry,
        dispatcher: Dispatcher,
        version: str,
        parts: OfferedParts,
        client_thread: str | None = None,
        ways: ApprovalWays | None = None,
        profile: str | None = None,
    ) -> None:
        self._ways = ways
        self._registry = registry
        self._dispatcher = dispatcher
        self._profile = profile
        self._callers: dict[str | None, Caller] = {}
        self._caller = Caller(client_thread=client_thread, profile=profile, transport="mcp")
        self._version = version
        self._parts = parts
        self._listed_parts = ListedParts(parts)
        self._identity: ServerIdentity | None = None
        self._instructions = self._info = self._stamp = b""
        self._view: ToolView | None = None
        self._plain: dict[str, _Plainness] = {}
        self._listed = ListedTools(_render_tool)
        self._pages: dict[tuple[str | None, bool], dict[str | None, bytes]] = {}
        self._follow_identity()

    @property
    def discovered(self) -> bytes:
        """The result of `server/discover`."""
        self._follow_identity()
        parts = (b'{"capabilities":', _CAPABILITIES, b',"supportedVersions":["', MODERN_VERSION.encode(), b'"],')
        return b"".join((*parts, self._instructions, b'"ttlMs":0,"cacheScope":"private",', _render_stamp(self._info)))

    def render_initialize(self, asked: str) -> tuple[bytes, str]:
        """The result of `initialize`, and the negotiated revision."""
        self._follow_identity()
        spoken = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        parts = (b'{"protocolVersion":"', spoken.encode(), b'","capabilities":', _CAPABILITIES, b",")
        return b"".join((*parts, self._instructions, b'"serverInfo":', self._info, b"}")), spoken

    @property
    def is_ready_to_list(self) -> bool:
        """Whether prompts and resources can be listed at once; otherwise `list_parts` reads files first."""
        return self._parts.is_ready

    def render_parts(self, message: PartsList, *, modern: bool) -> bytes | None:
        """The message that answers a request for prompts or resources; None for a cursor that the SDK must check."""
        self._follow_identity()
        page = self._listed_parts.render_page(message, modern=modern)
        return None if page is None else render_answer(message.id, page)

    async def list_parts(self, message: PartsList, *, modern: bool) -> bytes | None:
        """As `render_parts`, after the files were read that it needs."""
        try:
            await self._parts.prepare()
        except Exception:
            logger.exception("the prompts and resources could not be read")
            return render_refusal(message.id, INTERNAL_ERROR, "Internal server error")
        return self.render_parts(message, modern=modern)

    def render_page(self, cursor: str | None, client: str | None, *, modern: bool) -> bytes | None:
        """The current result of `tools/list`; None for a cursor that begins no page, which the SDK must check.

        Args:
            cursor: Where the page begins.
            client: The name that the client gives itself.
            modern: Whether it speaks the modern protocol version.
        """
        view = self._take_view()
        key = adapted_client(client), modern
        pages = self._pages.get(key)
        if pages is None:
            pages = self._pages[key] = self._render_pages(view, *key)
        return pages.get(cursor)

    def subscribe_changes(self, changed: Callable[[Kind], None]) -> Callable[[], None]:
        """Subscribe to changes of the lists; the returned function unsubscribes."""
        end_tools = self._registry.subscribe(lambda swap: changed("tools") if swap.changes_lists else None)
        end_parts = self._parts.subscribe(changed)

        def end_subscriptions() -> None:
            end_tools()
            end_parts()

        return end_subscriptions

    def is_plain(self, name: str, *, takes_progress: bool = False) -> bool:
        """Whether the fast path may call this tool. Decided once for each tool of a generation.

        Args:
            name: The tool's name.
            takes_progress: Whether the transport can pass on what a tool reports while it runs.
        """
        view = self._take_view()
        known = self._plain.get(name)
        if known is None:
            registered = view.tools.get(name)
            if registered is None:
                return False  # not cached: unknown names are unbounded
            tool = registered.tool
            asks_headers = _HEADER_RULE in _encode_json(registered.info.input_schema)
            # The SDK knows the session, and each has a thread of its own to delegate in.
            delegates = tool.spawns or tool.audience == "delegators"
            is_plain = not (tool.interactive or asks_headers or delegates)
            known = self._plain[name] = "no" if not is_plain else "with progress" if tool.progress else "yes"
        return known == "yes" or (takes_progress and known == "with progress")

    def asks_client(self, elicitation: Mapping[str, Any] | None) -> bool:
        """Whether a gate may have to ask the person at a client that declares this; then its calls need the SDK."""
        return (
            elicitation is not None
            and self._ways is not None
            and self._dispatcher.has_gates
            and self._ways.find_way(elicitation) is not None
        )

    async def call(
        self,
        message: CallToolMessage,
        *,
        modern: bool,
        client: str | None = None,
        progress: Progress | None = None,
    ) -> bytes | None:
        """Call a tool: the message that answers it, or None when the tool was removed since it was found plain.

        Args:
            message: The call.
            modern: Whether the client speaks the modern protocol version, and names itself in every message.
            client: The name that it gave itself in the handshake.
            progress: Receives progress, where the client wants it.
        """
        params, caller = message.params, self._caller
        if self._dispatcher.names_clients:
            caller = self._find_caller(params.meta.client_name if modern else client)
        if params.meta.call_id is not None and (call_id := _check_call_id(params.meta.call_id)) is not None:
            caller = structs.replace(caller, call_id=call_id)
        try:
            result = await self._dispatcher.call(params.name, params.arguments, caller, progress=progress)
            return render_answer(message.id, self._render_result(result, modern=modern))
        except UnknownToolError:
            return None
        except Exception:
            logger.exception("the result of %r could not be encoded", params.name)
            return render_refusal(message.id, INTERNAL_ERROR, "Internal server error")

    def _find_caller(self, client: str | None) -> Caller:
        """The caller with the name of its client; a bounded number of them is kept."""
        caller = self._callers.get(client)
        if caller is None:
            caller = structs.replace(self._caller, client=client)
            if len(self._callers) < _MOST_CLIENTS:
                self._callers[client] = caller
        return caller

    def _follow_identity(self) -> None:
        """Prepare what follows from what the server says of itself, when that has changed."""
        identity = self._parts.identity
        if identity is self._identity:
            return
        self._identity = identity
        info: dict[str, Any] = {"name": identity.name, "version": self._version}
        if identity.title is not None:
            info["title"] = identity.title
        self._stamp = _render_stamp(_encode(info))
        if (icon := identity.icon) is not None:
            info["icons"] = [{"src": icon.src, **({} if icon.mime_type is None else {"mimeType": icon.mime_type})}]
        self._info = _encode(info)
        text = identity.instructions
        self._instructions = b"" if text is None else b'"instructions":' + _encode(text) + b","
        self._pages = {}
        self._listed_parts.set_ends(b"}", b',"ttlMs":0,"cacheScope":"private",' + self._stamp)

    def _take_view(self) -> ToolView:
        """What the clients see now; another view drops what was prepared for the one before."""
        self._follow_identity()
        registry, profile = self._registry, self._profile
        view = registry.current if profile is None else registry.find_view(None, profile=profile)
        if view is not self._view:
            self._view, self._plain, self._pages = view, {}, {}
        return view

    def _render_result(self, result: ToolResult, *, modern: bool) -> bytes:
        """The result of `tools/call`."""
        end = b'],"isError":true' if result.is_error else b'],"isError":false'
        head = b'{"content":[' + b",".join([_render_part(part) for part in result.content]) + end
        structured = result.structured
        if structured is not None and (modern or isinstance(structured, Mapping)):
            head += b',"structuredContent":' + _encode_json(whole_json(structured))
        return head + b"," + self._stamp if modern else head + b"}"

    def _render_pages(self, view: ToolView, client: str | None, modern: bool) -> dict[str | None, bytes]:
        """Every page by its cursor: the last name of the page before."""
        tools = self._listed.tools_for(view.for_clients.infos, client, modern=modern)
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


def _render_stamp(info: bytes) -> bytes:
    """The end of a modern result, with what the server says of itself."""
    return b'"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":' + info + b"}}"


def render_answer(id: MessageId, result: bytes) -> bytes:
    """The message that answers a request."""
    return b'{"jsonrpc":"2.0","id":' + _render_id(id) + b',"result":' + result + b"}"


def render_refusal(id: MessageId | None, code: int, message: str, data: str | None = None) -> bytes:
    """The error response to a request, identical to the SDK's."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b'{"jsonrpc":"2.0","id":' + _render_id(id) + b',"error":' + _encode(error) + b"}"


def render_progress(token: MessageId, progress: float, total: float | None, message: str | None) -> bytes:
    """The notification that a running call reports progress."""
    params: dict[str, Any] = {"progressToken": token, "progress": progress}
    if total is not None:
        params["total"] = total
    if message is not None:
        params["message"] = whole_text(message)
    return b'{"jsonrpc":"2.0","method":"notifications/progress","params":' + _encode(params) + b"}"


def _render_tool(info: ToolInfo, modern: bool) -> dict[str, Any]:
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
