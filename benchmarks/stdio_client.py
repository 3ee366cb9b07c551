"""A raw client of MCP over stdio: the same for every contestant, and cheap enough not to be what is measured."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any

from benchmarks import messages
from benchmarks.processes import Child, ContestantError

ANSWER_SECONDS = 120.0
_CURSOR = re.compile(rb'"nextCursor":\s*("[^"]+")')


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of CPU in the server and of wall time, for one operation."""

    cpu: float
    wall: float


class StdioClient:
    """Sends one request at a time and waits for its answer."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._number = 0

    def start(self) -> None:
        """Shake hands and ask for the list of tools once."""
        self.ask(messages.initialize(self._next()))
        self._child.write(messages.INITIALIZED + b"\n")
        _expect_tools(self.ask(messages.request(self._next(), "tools/list", {})))

    def start_modern(self) -> bool:
        """Discover, subscribe and ask for the list of tools once; whether the server offers the subscription.

        As Claude Code and the TypeScript client do: who is offered news of the tools waits for its acknowledgement.
        """
        found = json.loads(self.ask(messages.modern_request(self._next(), "server/discover", {})))
        capabilities = found.get("result", {}).get("capabilities")
        if capabilities is None:
            raise ContestantError(f"it does not speak {messages.MODERN}: {json.dumps(found)[:300]}")
        is_offered = bool(capabilities.get("tools", {}).get("listChanged"))
        if is_offered:
            wanted = {"notifications": {"toolsListChanged": True}}
            self._child.write(messages.modern_request(self._next(), "subscriptions/listen", wanted) + b"\n")
            line = self._child.read_line(ANSWER_SECONDS)
            if b"notifications/subscriptions/acknowledged" not in line:
                raise ContestantError(f"the subscription was not acknowledged: {line[:300]!r}")
        _expect_tools(self.ask(messages.modern_request(self._next(), "tools/list", {})))
        return is_offered

    def list_tools(self) -> list[bytes]:
        """The whole list, page by page, as it came."""
        pages = [self.ask(messages.request(self._next(), "tools/list", {}))]
        while cursor := _CURSOR.match(pages[-1], max(pages[-1].rfind(b'"nextCursor"'), 0)):  # a regex is slow to look
            params = {"cursor": json.loads(cursor[1])}
            pages.append(self.ask(messages.request(self._next(), "tools/list", params)))
        return pages

    def ask(self, request: bytes) -> bytes:
        """The answer to a request, past any notification."""
        self._child.write(request + b"\n")
        while True:
            line = self._child.read_line(ANSWER_SECONDS)
            if b'"id":' in line:
                return line

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return json.loads(self.ask(messages.call(self._next(), tool, arguments)))

    def check(self, tool: str, arguments: dict[str, Any], answer: str, wrong: dict[str, Any]) -> bool:
        """That the answer is right; and whether wrong arguments are rejected."""
        reply = self.call(tool, arguments)
        if answer not in messages.text_of(reply):
            raise ContestantError(f"a wrong answer: {json.dumps(reply)[:300]}")
        return messages.is_refusal(self.call(tool, wrong))

    def time_calls(self, tool: str, arguments: dict[str, Any], seconds: float) -> Cost:
        """Round trips one after another for about so long."""
        self._loop(tool, arguments, seconds / 4)
        return self._loop(tool, arguments, seconds)

    def time_lists(self, seconds: float, at_least: int = 2) -> Cost:
        """Lists one after another for about so long."""
        began, cpu, count = time.perf_counter(), self._child.cpu(), 0
        while count < at_least or time.perf_counter() - began < seconds:
            self.list_tools()
            count += 1
        wall = time.perf_counter() - began
        return Cost(cpu=(self._child.cpu() - cpu) / count, wall=wall / count)

    def _loop(self, tool: str, arguments: dict[str, Any], seconds: float) -> Cost:
        pattern = messages.call(1_000_000_000, tool, arguments).split(b"1000000000")
        before, after = pattern[0], pattern[1]
        number, ask, clock = self._number, self.ask, time.perf_counter
        cpu, began, count = self._child.cpu(), clock(), 0
        while clock() - began < seconds:
            for _ in range(8):
                number += 1
                ask(b"%b%d%b" % (before, number, after))
            count += 8
        wall = clock() - began
        self._number = number
        return Cost(cpu=(self._child.cpu() - cpu) / count, wall=wall / count)

    def _next(self) -> int:
        self._number += 1
        return self._number


def _expect_tools(line: bytes) -> None:
    """Check that a list of tools has some.

    Raises:
        ContestantError: It has none.
    """
    reply = json.loads(line)
    if not reply.get("result", {}).get("tools"):
        raise ContestantError(f"no tools were listed: {json.dumps(reply)[:300]}")
