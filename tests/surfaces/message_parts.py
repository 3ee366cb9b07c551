"""What messages are made of, with everything odd that was thought of, and two fixed tours through all of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.programs.clients import Era
from tests.programs.running import HANDSHAKE, MODERN, modern_meta

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
LEVEL_KEY = "io.modelcontextprotocol/logLevel"
CALL_ID_KEY = "claudecode/toolUseId"

ME = {"name": "test", "version": "1"}
CLAUDE_CODE = {"name": "claude-code", "version": "2.1.325"}
"""A client that is listed adapted copies of some tools."""
ABLE = {"elicitation": {}, "sampling": {}}

ODD_VALUES: tuple[bytes, ...] = (
    *(b"1.0", b"1e2", b"-0", b"-0.0", b"1e999", b"-1e999", b"1e-999", b"5e-324", b"0.1", b"1E+2", b"NaN", b"-Infinity"),
    *(b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809", b"9" * 40, b"9" * 5_000),
    *(b"01", b"1.", b".5", b"+1", b"0x1", b"nul", b"True", b"'a'", b"[1,]", b'{"a":1,}', b'{"a" 1}', b"[1 2]", b""),
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"\\/"', b'"\\x"', b'"\\u12"'),
    *(
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\xc0\x80"',
        b'"\xf4\x90\x80\x80"',
        b'"a\x01b"',
        b'"a\tb"',
        b'"\x7f"',
        b'{"\xff":1}',
    ),
    *('"\u2028\ufeff\U0010ffff"'.encode(), b'{"a":1,"a":2}', b'{"":null}', b'{"\\u0061":1,"a":2}', b"/* no */ 1"),
    *(b"[" * depth + b"]" * depth for depth in (50, 150, 190, 195, 200, 205, 250, 600)),
    *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (150, 250, 600)),
)
"""Values as they stand in a message: JSON at its edges, and what only looks like it."""

ODD_IDS: tuple[bytes, ...] = (
    *(b"0", b"-1", b"-0", b"1.0", b"1.5", b"1e2", b"true", b"false", b"null", b"[]", b"{}", b'""', b'"1"', b'" 1"'),
    *(b"9007199254740993", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"9" * 40),
    *(b'"\\u0000"', b'"\\ud83d\\ude00"', b'"\\ud800"', b'"' + b"x" * 300 + b'"', b'"\\u0031"', b'"null"', b"NaN"),
)

NO_MESSAGES: tuple[bytes, ...] = (
    *(b'{"jsonrpc": "2.0", "id": 1, "meth', b"hello?", b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}', b"[]"),
    *(b"\0" * 10, b'"ping"', b"7", b"null", b"{}", b"{", b"}", b"[1]", b"true", b'{"method":"ping"}', b'{"id":1}'),
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le").replace(b"\n", b""),
)
"""Each is answered, with an error that has no id of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message.

    Attributes:
        line: The message itself.
        answers: How many messages answer it where every message is a line.
        method: Its method, for headers.
        tool: Its tool, for headers.
        settle: Whether everything before and including it is answered before the next one is said.
    """

    line: bytes
    answers: int = 1
    method: str = ""
    tool: str = ""
    settle: bool = False


class Raw:
    """Bytes that stand in a message as they are."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def written(value: Any) -> bytes:
    """JSON, with raw parts where the value has them."""
    if isinstance(value, Raw):
        return value.data
    if isinstance(value, dict):
        return b"{" + b",".join(written(key) + b":" + written(held) for key, held in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(written(held) for held in value) + b"]"
    return json.dumps(value, ensure_ascii=False).encode()


STRUCTURED: tuple[Any, ...] = (
    *({"a": [1, 1.0, True, None, "x"]}, {}, [], [1, [2, {"b": -0.0}]], "text", 5, 1.5, True, 0, "", None),
    *(2**63, 2**64, -(2**70), 1e300, {"\u2028\0": "\U0001f600"}, {"a": {"b": {"c": [{}]}}}, False),
)


def capabilities_with(odd: Raw) -> list[Any]:
    """Capabilities of clients, and what is none."""
    return [
        *(ABLE, {}, {"roots": {}}, {"roots": {"listChanged": True}}, {"roots": {"listChanged": None}}),
        *({"roots": {"listChanged": "yes"}}, {"roots": {"listChanged": 1}}, {"roots": None}, {"roots": []}),
        *({"elicitation": {"form": {}, "url": {}}}, {"elicitation": {"form": None}}, {"elicitation": {"form": 5}}),
        *({"sampling": {"tools": {}, "context": {}}}, {"sampling": {"tools": []}}, {"sampling": True}),
        *({"experimental": {"x": {"y": 1}}}, {"experimental": {"x": 1}}, {"experimental": None}),
        *({"extensions": {"x": {}}}, {"extensions": {"x": None}}, {"extensions": []}),
        *({"tasks": {}}, {"tasks": {"list": {}}}, {"tasks": None}, {"tasks": 5}, None, [], "all", 5),
        *({"unknown": odd}, {"experimental": {"x": {"y": odd}}}, odd),
        *({"elicitation": {"form": {"x": odd}}}, {"elicitation": {"unknown": odd}}),
    ]


def clients_with(odd: Raw) -> list[Any]:
    """Clients as they introduce themselves, and what is none."""
    return [
        *(ME, ME | {"title": "Test"}, ME | {"title": None}, ME | {"title": 5}, ME | {"icons": []}),
        *(ME | {"icons": [{"src": "https://example.com/a.png"}]}, ME | {"icons": [{}]}, ME | {"icons": None}),
        *(ME | {"icons": 5}, ME | {"websiteUrl": "https://example.com"}, ME | {"websiteUrl": "no url"}),
        *(ME | {"websiteUrl": 5}, ME | {"description": "A test."}, ME | {"description": []}, {"name": "test"}),
        *({"version": "1"}, {}, {"name": 5, "version": "1"}, {"name": "", "version": ""}),
        *({"name": None, "version": None}, ME | {"unknown": odd}, None, [], "test"),
        *(ME | {"title": odd}, ME | {"name": odd}),
    ]


def introductions() -> list[Said]:
    """Every `initialize`, to be said to a server of whom nothing is known."""
    hello: dict[str, Any] = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": ME}
    half = Raw(b'"\xff"')
    versions = ["2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE, MODERN, "1999-01-01", "", 5, None]
    metas: list[Any] = [{}, None, [], modern_meta(), {"progressToken": 1}, {"progressToken": True}, {"x": half}]
    every = [
        *[hello | {"protocolVersion": version} for version in versions],
        *[hello | {"capabilities": capabilities} for capabilities in capabilities_with(half)],
        *[hello | {"clientInfo": client} for client in clients_with(half)],
        *[hello | {"_meta": meta} for meta in metas],
        *[{key: value for key, value in hello.items() if key != missing} for missing in hello],
        hello | {"unknown": 1},
    ]
    return [_said(1, "initialize", params) for params in every]


def tour(era: Era) -> list[Said]:
    """A well-behaved opening, and then every odd thing where the fast path might overlook it."""
    said: list[Said] = []
    meta = modern_meta() if era == "modern" else {}

    def request(method: str, params: dict[str, Any], tool: str = "") -> None:
        said.append(_said(len(said), method, params, tool))

    if era == "modern":
        request("server/discover", {"_meta": meta})
    else:
        request("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": ME})
        said.append(Said(line=b'{"jsonrpc":"2.0","method":"notifications/initialized"}', answers=0))
    for depth in (1, 300, 600, 1_200):
        request("tools/call", {"name": "nested", "arguments": {"depth": depth}, "_meta": meta}, "nested")
    for value in map(Raw, ODD_VALUES):
        request("tools/list", {"_meta": {**meta, "com.example/odd": value}})
        request("prompts/list", {"_meta": {**meta, CALL_ID_KEY: value}})
        request("tools/call", {"name": "say_back", "arguments": {"value": value}, "_meta": meta}, "say_back")
    for capabilities in capabilities_with(Raw(b'"\xff"')):
        request("tools/list", {"_meta": {**meta, CAPABILITIES_KEY: capabilities}})
    for client in clients_with(Raw(b'"\xff"')):
        request("tools/list", {"_meta": {**meta, CLIENT_KEY: client}})
    return said


def _said(id: Any, method: str, params: Any, tool: str = "") -> Said:
    line = written({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    return Said(line=line, method=method, tool=tool)
