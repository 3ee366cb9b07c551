"""Messages of every kind in every order: what well-behaved clients say, what odd ones say, and what is no message.

A seed makes a conversation. Two servers that are told the same must answer the same.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tests.programs.clients import Era
from tests.programs.running import HANDSHAKE, MODERN
from tests.surfaces.message_parts import (
    ABLE,
    CALL_ID_KEY,
    CAPABILITIES_KEY,
    CLAUDE_CODE,
    CLIENT_KEY,
    LEVEL_KEY,
    ME,
    NO_MESSAGES,
    ODD_IDS,
    ODD_VALUES,
    STRUCTURED,
    VERSION_KEY,
    Raw,
    Said,
    capabilities_with,
    clients_with,
    written,
)


class Mixer:
    """Makes messages of one conversation."""

    def __init__(self, seed: int, era: Era, *, duplex: bool = True) -> None:
        """Begin a conversation.

        Args:
            seed: Which.
            protocol version: Whose well-behaved clients most messages are of.
            duplex: Whether a server can ask back, and calls be cancelled by a message.
        """
        self.random = Random(f"{era} {seed}")
        self.duplex = duplex
        self.modern = era == "modern"
        self._name = f"{era}-{seed}"
        self.calm = 0
        """How many more times only what every client says is said."""
        self._number = 0
        self._ids: list[bytes] = []

    def conversation(self, length: int) -> list[Said]:
        """An opening, and what follows: for a while only what every client says, then everything."""
        said = self._opening()
        self.calm = self.random.choice([0, 0, 5, 20, length])
        while len(said) < length:
            self.calm -= 1
            said += self.some()
        return said

    def some(self) -> list[Said]:
        """One message, or a few that belong together."""
        one_of: list[tuple[int, Callable[[], Said | list[Said]]]] = [
            (12, self._plain_call),
            (4, self._list),
            (3, self._ping),
            (3, self._list_parts),
            (4, self._odd_call),
            (3, self._talking_call),
            (4, self._ask_part),
            (2, self._level),
            (2 if self.duplex else 0, self._subscription),
            (3, self._unknown),
            (4, self._odd_parameters),
            (4, self._odd_message),
            (3, self._unasked),
            (2, self._no_message),
            (1, self._initialize),
            (1, self._discover),
            (2 if self.duplex else 0, self._cancelled_call),
        ]
        if self.calm > 0:
            one_of = [(12, self._plain_call), (3, self._list), (3, self._list_parts)]
            one_of.append((2, self._discover if self.modern else self._ping))
            one_of.append((2 if self.duplex else 0, self._cancelled_call))
        (make,) = self.random.choices([make for _, make in one_of], [weight for weight, _ in one_of])
        made = make()
        return made if isinstance(made, list) else [made]

    def headers(self, said: Said, session: str | None, *, odd: bool) -> list[tuple[str, str]]:
        """Headers that go with a message over HTTP, mostly the right ones.

        Args:
            said: The message.
            session: The id of the session, in the handshake versions.
            odd: Whether some may be wrong.
        """
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self.modern:
            headers |= {"Mcp-Protocol-Version": MODERN, "Mcp-Method": said.method}
            if said.tool.isascii() and said.tool.isprintable():
                headers["Mcp-Name"] = said.tool
        elif session is not None:
            headers |= {"Mcp-Session-Id": session, "Mcp-Protocol-Version": HANDSHAKE}
        given = [*headers.items()]
        if odd and self.random.random() < (0.05 if self.calm > 0 else 0.2):
            given = self._odd_headers(given)
        return given

    def _odd_headers(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        number = self.random.randrange(len(headers))
        name, value = headers[number]
        values = {
            "Accept": ["*/*", "application/json", "text/event-stream", "text/event-stream;q=0.5,application/json; q=1"],
            "Content-Type": [
                "text/plain",
                "application/json; charset=utf-8",
                "application/json;charset=utf-16",
                "APPLICATION/JSON",
            ],
            "Mcp-Protocol-Version": [HANDSHAKE, MODERN, "2025-06-18", "2099-01-01", "", "2024-11-05", f"\t{value} "],
            "Mcp-Method": ["tools/list", "", value.upper(), f" {value}\t"],
            "Mcp-Name": ["echo", "", f"=?base64?{b64encode(value.encode()).decode()}?=", "=?base64?!?=", "=?base64??="],
            "Mcp-Session-Id": ["0" * 32, "", f"{value} ", value[:-1], value.upper()],
        }[name]
        odd = [(name, self.random.choice(values)), (name.lower(), value), (name.upper(), value)]
        more = [
            ("Mcp-Session-Id", "none"),
            ("Mcp-Param-Region", "eu"),
            ("Last-Event-Id", "1"),
            ("X-Other", "\xff"),
            (name, value),
        ]
        without = headers[:number] + headers[number + 1 :]
        return self.random.choice([without, [*without, self.random.choice(odd)], [*headers, self.random.choice(more)]])

    # Parts

    def id(self) -> Raw:
        if self._ids and self.random.random() < 0.05:
            return Raw(self.random.choice(self._ids))
        if self.calm <= 0 and self.random.random() < 0.1:
            return Raw(self.random.choice(ODD_IDS))
        self._number += 1
        known = written(self.random.choice([self._number, f"id-{self._number}", str(self._number)]))
        self._ids.append(known)
        return Raw(known)

    def odd(self) -> Raw:
        return Raw(self.random.choice(ODD_VALUES))

    def meta(self) -> dict[str, Any]:
        """What the protocol version wants to be said, often with more that is allowed."""
        meta: dict[str, Any] = {}
        if self.modern:
            meta = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}
            if self.random.random() < 0.7:
                meta[CLIENT_KEY] = self.random.choice([ME, CLAUDE_CODE])
            if self.random.random() < 0.2:
                meta[LEVEL_KEY] = self.random.choice(["debug", "error", None])
        if self.random.random() < 0.2:
            meta["progressToken"] = self.random.choice([7, "token", "", -1])
        if self.random.random() < 0.2:
            meta[CALL_ID_KEY] = self.random.choice(["toolu_1", "", 5, None, "x" * 128, "y" * 129, ["z"]])
        if self.random.random() < 0.1:
            meta["com.example/more"] = {"a": [1, None]}
        return meta

    def odd_meta(self) -> Any:
        """What is wrong in at least one of the protocol versions, or at the edge."""
        meta = self.meta()
        changes: list[Callable[[], Any]] = [
            lambda: None,
            list,
            lambda: "meta",
            dict,
            lambda: meta | {"progressToken": self.random.choice([1.5, 1.0, True, None, [], {}])},
            lambda: meta | {"com.example/odd": self.odd()},
            lambda: (
                meta | {VERSION_KEY: self.random.choice([MODERN, HANDSHAKE, "2099-01-01", "", None, 5, self.odd()])}
            ),
            lambda: meta | {CAPABILITIES_KEY: self.capabilities()},
            lambda: meta | {CLIENT_KEY: self.client()},
            lambda: meta | {LEVEL_KEY: self.random.choice(["loud", 5, None, "alert", self.odd()])},
            lambda: {key: value for key, value in meta.items() if key != CAPABILITIES_KEY},
            lambda: {key: value for key, value in meta.items() if key != VERSION_KEY},
            lambda: meta | {CALL_ID_KEY: self.odd()},
            lambda: Raw(written(meta)[:-1] + (b"," if meta else b"") + b'"com.example/more":1,"com.example/more":2}'),
        ]
        return self.random.choice(changes)()

    def capabilities(self) -> Any:
        return self.random.choice(capabilities_with(self.odd()))

    def client(self) -> Any:
        return self.random.choice(clients_with(self.odd()))

    def params(self, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Parameters as a well-behaved client of the protocol version sends them."""
        meta = self.meta()
        if not meta or (not self.modern and self.random.random() < 0.6):
            return dict(params or {})
        return {**(params or {}), "_meta": meta}

    def request(self, method: str, params: Any = None, *, tool: str = "", settle: bool = False) -> Said:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self.id(), "method": method}
        if params or (params is not None and self.random.random() < 0.7):
            message["params"] = params
        if self.random.random() < 0.2:
            keys = [*message]
            self.random.shuffle(keys)
            message = {key: message[key] for key in keys}
        return Said(line=written(message), method=method, tool=tool, settle=settle)

    def call(self, tool: str, arguments: Any = None, *, settle: bool = False) -> Said:
        given = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
        return self.request("tools/call", self.params(given), tool=tool, settle=settle)

    def notice(self, method: str, params: Any = None) -> Said:
        message = {"jsonrpc": "2.0", "method": method}
        line = written(message if params is None else {**message, "params": params})
        return Said(line=line, answers=0, method=method)

    # What is said

    def _opening(self) -> list[Said]:
        before: list[Said] = []
        while self.random.random() < 0.3:
            first = self.random.choice([self._ping, self._unasked, self._no_message, self._list, self._unknown])
            before.append(first())
        if self.modern:
            openings = [self._discover, self._list, self._plain_call, self._list_parts, self._talking_call, self._ping]
            first = self.random.choice([*openings, self._initialize, self._odd_parameters])()
            return [*before, *([first] if isinstance(first, Said) else first)]
        if self.random.random() < 0.1:
            return before
        if self.random.random() < 0.3:
            before.append(self._initialize())
        after = [self.notice("notifications/initialized")] if self.random.random() < 0.9 else []
        return [*before, self._hello(), *after]

    def _hello(self) -> Said:
        version = self.random.choice(
            [HANDSHAKE, HANDSHAKE, "2024-11-05", "2025-03-26", "2025-06-18", "1999-01-01", MODERN]
        )
        me = self.random.choice([ME, ME, CLAUDE_CODE])
        params = {"protocolVersion": version, "capabilities": ABLE, "clientInfo": me}
        return self.request("initialize", params, settle=self.random.random() < 0.5)

    def _initialize(self) -> Said:
        version = self.random.choice([HANDSHAKE, "2024-11-05", MODERN, "1999-01-01", "", 5, None, self.odd()])
        params = {"protocolVersion": version, "capabilities": self.capabilities(), "clientInfo": self.client()}
        if self.random.random() < 0.3:
            params["_meta"] = self.odd_meta()
        if self.random.random() < 0.2:
            del params[self.random.choice(["protocolVersion", "capabilities", "clientInfo"])]
        return self.request("initialize", params, settle=True)

    def _discover(self) -> Said:
        return self.request("server/discover", self.params())

    def _ping(self) -> Said:
        return self.request("ping", self.params())

    def _list(self) -> Said:
        cursor = self.random.choice([{}, {}, {}, {"cursor": None}, {"cursor": "never-there"}, {"cursor": "echo"}])
        return self.request("tools/list", self.params(cursor))

    def _list_parts(self) -> Said:
        method = self.random.choice(["prompts/list", "resources/list", "resources/templates/list"])
        cursors = ["x", "parts__greet", "test://note", "test://notes/{year}/{name}"]
        cursor = self.random.choice([{}, {}, {}, {"cursor": None}, {"cursor": self.random.choice(cursors)}])
        return self.request(method, self.params(cursor))

    def _ask_part(self) -> Said:
        """A prompt, a resource or a completion, mostly as it should be asked for."""
        prompt = self.random.choice(["parts__greet", "parts__greet", "parts__crash", "parts__gret", "", self.odd()])
        given = self.random.choice([{"who": "ann"}, {"who": "nobody"}, {}, None, {"whom": "x"}, {"who": 5}, self.odd()])
        uris = ["test://note", "test://dots", "test://crash", "test://notes/2026/a%20b", "test://notes/a/b/c", "nope:x"]
        uris += ["toolstead://results/res_none", "toolstead://files/README.md", "", "toolstead://results/x?offset=-1"]
        uri = self.random.choice([*uris, self.odd()])
        refs: list[Any] = [
            {"type": "ref/prompt", "name": prompt},
            {"type": "ref/resource", "uri": self.random.choice([uri, "test://notes/{year}/{name}"])},
            {"type": "ref/other"},
        ]
        argument = {"name": self.random.choice(["who", "how", "year", "none"]), "value": self.random.choice(["a", ""])}
        method, params, name = self.random.choice(
            [
                ("prompts/get", {"name": prompt, "arguments": given}, prompt),
                ("prompts/get", {"name": prompt}, prompt),
                ("resources/read", {"uri": uri}, uri),
                ("completion/complete", {"ref": self.random.choice(refs), "argument": argument}, ""),
            ]
        )
        return self.request(method, self.params(params), tool=name if isinstance(name, str) else "")

    def _plain_call(self) -> Said:
        tool, arguments = self.random.choice(
            [
                ("echo", {"text": f'text {self._number} \u2028 \U0001f600 \0 \u007f "'}),
                ("echo", {"text": "x" * self.random.choice([0, 1, 100, 70_000])}),
                ("echo", {"text": 5}),
                ("echo", {"text": "a", "more": True}),
                ("echo", {}),
                ("fail", {"text": "failed"}),
                ("fail", {"text": ""}),
                ("crash", {}),
                ("who", {}),
                ("three", {}),
                ("weigh", {"grams": self.random.choice([1, 1.0, 0.1, -0.0, 11, "1", True, None])}),
                ("every_part", {"is_error": self.random.random() < 0.5, "structured": self.random.choice(STRUCTURED)}),
                ("no_parts", {}),
                ("odd_values", {}),
                ("nested", {"depth": self.random.choice([1, 100, 180, 300, 600, 1_200])}),
                ("brief", {}),
                ("repeat", {"text": "0123456789", "times": self.random.choice([1, 1_000, 20_000])}),
                ("say_back", {"value": self.random.choice(STRUCTURED)}),
                ("headed", {"value": "eu"}),
                ("headed", {}),
            ]
        )
        return self.call(tool, arguments)

    def _odd_call(self) -> Said:
        params: dict[str, Any] = self.random.choice(
            [
                {"name": "say_back", "arguments": {"value": self.odd()}},
                {"name": "say_back", "arguments": self.odd()},
                {"name": "who", "arguments": self.random.choice([None, [], [1], "x", 5, False])},
                {"name": self.random.choice([None, 5, "", "no-such-tool", "x" * 1_000, "\u2028", self.odd()])},
                {"name": "three", "task": {"ttl": 5}},
                {"name": "three", "unknown": self.odd()},
                {"arguments": {}},
                {"name": "echo", "arguments": Raw(b'{"text":"one","text":"two"}')},
                {"name": "echo", "arguments": Raw(b'{"\\u0074ext":"escaped"}')},
            ]
        )
        name = params.get("name")
        return self.request("tools/call", self.params(params), tool=name if isinstance(name, str) else "")

    def _talking_call(self) -> Said:
        talks: list[tuple[str, Any]] = [("count", {"to": 3}), ("log", {}), ("half_a_character", {})]
        if self.duplex or self.modern:
            talks += [("ask", {}), ("think", {"prompt": "?"})]
        return self.call(*self.random.choice(talks))

    def _level(self) -> list[Said]:
        """Levels hold from the answer on: nothing else may be under way."""
        level = self.random.choice(["debug", "info", "error", "loud", None])
        return [self._quiet(), self.request("logging/setLevel", self.params({"level": level}), settle=True)]

    def _subscription(self) -> list[Said]:
        """A subscription, sometimes ended at once; no tool changes meanwhile."""
        wanted: list[Any] = [{}, {"toolsListChanged": True}, {"toolsListChanged": False, "promptsListChanged": True}]
        wanted += [{"resourceSubscriptions": []}, {"resourceSubscriptions": ["file:///a"]}, {"taskIds": ["x"]}]
        wanted += [{"toolsListChanged": "yes"}, {"toolsListChanged": None}, None, []]
        self._number += 1
        asked = f"listen-{self._number}"
        params = self.params({"notifications": self.random.choice([{"toolsListChanged": True}, *wanted])})
        message = {"jsonrpc": "2.0", "id": asked, "method": "subscriptions/listen", "params": params}
        said = [Said(line=written(message), method="subscriptions/listen", settle=True)]
        if self.random.random() < 0.3:
            said.append(self.notice("notifications/cancelled", {"requestId": asked}))
        return said

    def _quiet(self) -> Said:
        return Said(line=b"", answers=0, settle=True)

    def _unknown(self) -> Said:
        methods = ["no/such/method", "", "tools/Call", "prompts/get", "resources/read", "completion/complete"]
        more = [
            "resources/subscribe",
            "tasks/list",
            "notifications/initialized",
            "tools/list ",
            "sampling/createMessage",
        ]
        return self.request(self.random.choice(methods + more), self.params({}))

    def _odd_parameters(self) -> Said:
        method, params, tool = self.random.choice(
            [
                *(("tools/list", {}, ""), ("ping", {}, ""), ("prompts/list", {}, ""), ("server/discover", {}, "")),
                ("tools/call", {"name": "echo", "arguments": {"text": "a"}}, "echo"),
                ("tools/call", {"name": "count", "arguments": {"to": 1}}, "count"),
                ("logging/setLevel", {"level": "info"}, ""),
            ]
        )
        odd: list[Any] = [
            *(
                None,
                [],
                [1],
                "params",
                5,
                self.odd(),
                {**params, "unknown": self.odd()},
                {**params, "cursor": self.odd()},
            ),
            *[{**params, "_meta": self.odd_meta()} for _ in range(10)],
        ]
        chosen = self.random.choice(odd)
        message = {"jsonrpc": "2.0", "id": self.id(), "method": method, "params": chosen}
        return Said(line=written(message), method=method, tool=tool, settle=method == "logging/setLevel")

    def _odd_message(self) -> Said:
        """A valid request in an odd dress, or nearly one."""
        said = self.random.choice([self._ping, self._list, self._plain_call, self._list_parts, self._discover])()
        line = said.line
        inside = line[1:-1]
        other = written(self.id())
        dressed = self.random.choice(
            [
                b" \t" + line + b" \r",
                line.replace(b'":', b'" :\t').replace(b",", b" , ") if b"text" not in line else line,
                line.replace(b'"2.0"', self.random.choice([b"2.0", b'"1.0"', b'"2.0 "', b"null", b'"\\u0032.0"'])),
                b'{"jsonrpc":"2.0",' + inside + b"}",
                b'{"id":' + other + b"," + inside + b"}",
                b"{" + inside + b',"id":' + other + b"}",
                b'{"method":"ping",' + inside + b"}",
                b"{" + inside + b',"method":"ping"}',
                b'{"params":{},' + inside + b"}",
                b"{" + inside + b',"params":{}}',
                b"{" + inside + b',"extra":' + self.odd().data + b"}",
                b"{" + inside + b',"":null}',
                line.replace(b'"method":"', b'"method":"\\u0070\\u0069', 1),
                line.replace(b'"method"', b'"\\u006dethod"'),
                line.replace(b'"id"', b'"\\u0069d"'),
                line[:-1],
                line + b"}",
                line + b",",
            ]
        )
        return Said(line=dressed, method=said.method, tool=said.tool)

    def _unasked(self) -> Said:
        """What nobody answers: notifications, answers to nothing, empty lines."""
        notices: list[tuple[str, Any]] = [
            ("notifications/initialized", None),
            ("notifications/initialized", {}),
            ("notifications/initialized", {"_meta": {"x": 1}}),
            ("notifications/initialized", {"unknown": 1}),
            ("notifications/roots/list_changed", None),
            ("notifications/nothing", {"x": 1}),
            ("notifications/progress", {"progressToken": 1, "progress": 1}),
            ("notifications/cancelled", {"requestId": "nobody"}),
            ("notifications/cancelled", {"requestId": []}),
            ("notifications/cancelled", {}),
            ("notifications/cancelled", None),
            ("ping", None),
            ("tools/call", {"name": "echo", "arguments": {"text": "nobody hears"}}),
        ]
        answers: list[Any] = [
            {"jsonrpc": "2.0", "id": "unasked", "result": {}},
            {"jsonrpc": "2.0", "id": 999, "error": {"code": -1, "message": "no"}},
        ]
        made = [self.notice(*self.random.choice(notices)), Said(line=written(self.random.choice(answers)), answers=0)]
        return self.random.choice([*made, *made, Said(line=self.random.choice([b"", b"  ", b"\t\r"]), answers=0)])

    def _no_message(self) -> Said:
        return Said(line=self.random.choice(NO_MESSAGES))

    def _cancelled_call(self) -> list[Said]:
        """A call that is cancelled while it runs, in one of the ways to say so."""
        self._number += 1
        tag, asked = f"{self._name}-{self._number}", self.random.choice([self._number, f"id-{self._number}"])
        params = self.params({"name": "forever", "arguments": {"tag": tag}})
        message = {"jsonrpc": "2.0", "id": asked, "method": "tools/call", "params": params}
        calling = Said(line=written(message), answers=0, method="tools/call", tool="forever")
        cancelled: dict[str, Any] = {"requestId": self.random.choice([asked, asked, str(asked)])}
        more: list[dict[str, Any]] = [{}, {}, {"reason": "enough"}, {"reason": None}, {"reason": 5}, {"unknown": 1}]
        more += [{"_meta": {}}, {"_meta": {"x": 1}}, {"_meta": None}]
        cancelling = self.notice("notifications/cancelled", cancelled | self.random.choice(more))
        if self.random.random() < 0.2:
            cancelling = Said(line=cancelling.line[:-1] + b',"extra":1}', answers=0)
        if self.random.random() < 0.3:  # at once; whether it ran at all is nobody's business
            return [calling, cancelling]
        between = self.some() if self.random.random() < 0.5 else []
        return [
            calling,
            self.call("forever_began", {"tag": tag}, settle=True),
            *between,
            cancelling,
            self.call("forever_ended", {"tag": tag}),
        ]
