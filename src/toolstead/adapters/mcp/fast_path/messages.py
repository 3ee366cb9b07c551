"""Decoding of the MCP messages that the fast path accepts.

Each shape is narrower than the protocol's: a message that does not fit goes to the SDK, which decides whether it is
valid. The protocol versions have the same messages; they differ in what `_meta` must contain.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that begin with `initialize`, oldest first."""
MODERN_VERSION: Final = "2026-07-28"
"""The stateless revision: every request identifies its client."""

MessageId: TypeAlias = int | str
_Object: TypeAlias = dict[str, Any]
LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

CALL_ID_KEY: Final = "claudecode/toolUseId"
"""Where Claude Code sends the model's own id of a call."""


class _Implementation(Struct):
    """Name and version of a client; the SDK checks icons."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    websiteUrl: str | None = None  # noqa: N815 - as on the wire
    icons: None = None


class _Capabilities(Struct):
    """Capabilities of a client. The SDK checks tasks and every other shape."""

    elicitation: dict[str, _Object] | None = None
    experimental: dict[str, _Object] | None = None
    extensions: dict[str, _Object] | None = None
    roots: dict[str, bool] | None = None
    sampling: dict[str, _Object] | None = None
    tasks: None = None


class Meta(Struct):
    """`_meta` of a request. `version` and `capabilities` are there in the modern protocol version only."""

    version: Any = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")
    capabilities: _Capabilities | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/clientCapabilities")
    client: _Implementation | None = field(default=None, name="io.modelcontextprotocol/clientInfo")
    level: LogLevel | None = field(default=None, name="io.modelcontextprotocol/logLevel")
    progressToken: MessageId | UnsetType = UNSET  # noqa: N815 - as on the wire
    call_id: Any = field(default=None, name=CALL_ID_KEY)

    @property
    def elicitation(self) -> dict[str, _Object] | None:
        """What the client declares as `elicitation`, in the modern protocol version."""
        return None if self.capabilities is UNSET else self.capabilities.elicitation

    @property
    def client_name(self) -> str | None:
        """The name that the client gives itself, in the modern protocol version."""
        return None if self.client is None else self.client.name


class Nothing(Struct, forbid_unknown_fields=True):
    """Parameters of a message that needs none."""

    meta: Meta = field(default_factory=Meta, name="_meta")


class Cursor(Nothing, forbid_unknown_fields=True):
    """Parameters of a list."""

    cursor: str | None = None


class Arguments(Nothing, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a call."""

    name: str
    arguments: _Object | None = None


class Introduction(Nothing, forbid_unknown_fields=True, kw_only=True):
    """Parameters of `initialize`."""

    protocolVersion: str  # noqa: N815 - as on the wire
    capabilities: _Capabilities
    clientInfo: _Implementation  # noqa: N815 - as on the wire


class ListenFilter(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a subscription asks for; the names are the protocol's."""

    toolsListChanged: bool | None = None  # noqa: N815 - as on the wire
    promptsListChanged: bool | None = None  # noqa: N815 - as on the wire
    resourcesListChanged: bool | None = None  # noqa: N815 - as on the wire
    resourceSubscriptions: list[str] | None = None  # noqa: N815 - as on the wire

    def only_honored(self) -> ListenFilter:
        """The same without what asks for nothing."""
        return ListenFilter(
            toolsListChanged=self.toolsListChanged or None,
            promptsListChanged=self.promptsListChanged or None,
            resourcesListChanged=self.resourcesListChanged or None,
            resourceSubscriptions=self.resourceSubscriptions or None,
        )


class _Listening(Nothing, forbid_unknown_fields=True, kw_only=True):
    notifications: ListenFilter


class _Level(Nothing, forbid_unknown_fields=True, kw_only=True):
    level: LogLevel


class _Cancelling(Nothing, forbid_unknown_fields=True, kw_only=True):
    requestId: MessageId  # noqa: N815 - as on the wire
    reason: str | None = None


class _Message(Struct, tag_field="method", forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]


class _Request(_Message):
    id: MessageId


class Initialize(_Request, tag="initialize"):
    """`initialize`."""

    params: Introduction


class Ping(_Request, tag="ping"):
    """`ping`."""

    params: Nothing = field(default_factory=Nothing)


class Discover(_Request, tag="server/discover"):
    """`server/discover`."""

    params: Nothing


class CallToolMessage(_Request, tag="tools/call"):
    """`tools/call`."""

    params: Arguments


class _ListRequest(_Request):
    params: Cursor = field(default_factory=Cursor)


class ListTools(_ListRequest, tag="tools/list"):
    """`tools/list`."""


class ListPrompts(_ListRequest, tag="prompts/list"):
    """`prompts/list`."""


class ListResources(_ListRequest, tag="resources/list"):
    """`resources/list`."""


class ListTemplates(_ListRequest, tag="resources/templates/list"):
    """`resources/templates/list`."""


class Listen(_Request, tag="subscriptions/listen"):
    """`subscriptions/listen`: stays open until the client cancels it or disconnects."""

    params: _Listening


class SetLevel(_Request, tag="logging/setLevel"):
    """`logging/setLevel`."""

    params: _Level


class Initialized(_Message, tag="notifications/initialized"):
    """`notifications/initialized`."""

    params: Nothing = field(default_factory=Nothing)


class Cancelled(_Message, tag="notifications/cancelled"):
    """`notifications/cancelled`."""

    params: _Cancelling


class AnyMessage(Struct):
    """The part of a JSON-RPC message that identifies its answer, and decides the protocol version."""

    jsonrpc: Any = None
    id: MessageId | UnsetType | None = UNSET
    method: str | None = None
    params: Any = None


PartsList = ListPrompts | ListResources | ListTemplates
"""Requests for the lists of what is offered besides tools."""
SharedMessage = CallToolMessage | ListTools | PartsList | Cancelled
HandshakeMessage = SharedMessage | Initialize | Ping | SetLevel | Initialized
ModernMessage = SharedMessage | Discover | Listen
NoMessage = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the decoders raise for messages that the fast path does not accept."""

_DEEPEST = 180
"""Nesting depth that every parser accepts: the SDK's limit is 200."""
_LONGEST_NUMBER = 4_000
"""Digits that every parser accepts: Python's limit is 4,300."""
_LARGE = 1 << 18
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
# Neither backtracks, whatever the input; the first is for messages without escapes.
_NO_BRACKETS = re.compile(rb'"[^"]*"?|[^\[\]{}"]+')
_LONG_NUMBER = re.compile(rb"(?<!\d)\d{%d}" % _LONGEST_NUMBER)
_decode_handshake = msgspec.json.Decoder(HandshakeMessage).decode
_decode_modern = msgspec.json.Decoder(ModernMessage).decode
_decode_any = msgspec.json.Decoder(AnyMessage).decode


def read_handshake(data: bytes) -> HandshakeMessage:
    """The message, if it is surely valid; raises one of `NoMessage` otherwise."""
    return _decode_handshake(check_skipped(data))


def read_modern(data: bytes) -> ModernMessage:
    """The message, if it is surely valid; raises one of `NoMessage` otherwise."""
    message = _decode_modern(check_skipped(data))
    meta = message.params.meta
    if type(message) is not Cancelled and (meta.version != MODERN_VERSION or meta.capabilities is UNSET):
        raise msgspec.ValidationError("not a request of the modern protocol version")
    return message


def read_any(data: bytes) -> AnyMessage:
    """The parts of any message; raises one of `NoMessage` if it is none."""
    return _decode_any(check_skipped(data))


def cancelled_id(data: bytes) -> MessageId | None:
    """The request that a message cancels in any form that the SDK accepts, which is wider than the protocol's."""
    with suppress(*NoMessage):
        match read_any(data):
            case AnyMessage(
                jsonrpc="2.0",
                id=msgspec.UNSET,
                method="notifications/cancelled",
                params={"requestId": int() | str() as asked},
            ) if not isinstance(asked, bool):
                return asked
            case _:
                pass
    return None


def client_name_in(params: Any) -> str | None:
    """The name in the parameters of an `initialize`; None if there is none."""
    match params:
        case {"clientInfo": {"name": str() as name}}:
            return name
        case _:
            return None


def elicitation_in(params: Any) -> _Object | None:
    """What the parameters of an `initialize` declare as `elicitation`; None if nothing."""
    match params:
        case {"capabilities": {"elicitation": dict()}}:
            return cast("_Object", params["capabilities"]["elicitation"])
        case _:
            return None


def check_skipped(data: bytes) -> bytes:
    """The data, if every parser accepts the parts that msgspec only skips.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
        DecodeError: It is nested too deeply, or has a number of thousands of digits.
    """
    if not data.isascii():
        data.decode()
    if data.count(b"[") + data.count(b"{") > _DEEPEST and not _is_shallow(data):
        raise msgspec.DecodeError("nested too deeply")
    if len(data) > _LONGEST_NUMBER and _may_have_long_number(data) and _LONG_NUMBER.search(data) is not None:
        raise msgspec.DecodeError("a number too long")
    return data


def _may_have_long_number(data: bytes) -> bool:
    """Whether half of a number too long fills one of the blocks; that takes 0.3 ms for 4 MB, the search 120."""
    block = _LONGEST_NUMBER // 2
    return any(data[at : at + block].isdigit() for at in range(0, len(data), block))


def _is_shallow(data: bytes) -> bool:
    """Whether the nesting is within the limit; large messages are not checked, because that would take long."""
    brackets = b""
    if len(data) <= _LARGE:
        brackets = _NO_BRACKETS.sub(b"", data.replace(b"\\\\", b"").replace(b'\\"', b""))
    return bool(brackets) and max(accumulate(map(_STEPS.__getitem__, brackets))) <= _DEEPEST
