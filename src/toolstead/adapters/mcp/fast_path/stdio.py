"""The fast path on stdio: answers one client's frequent messages on the event loop.

The client's first request fixes the protocol version, here as in the SDK. When a message needs the SDK, the handshake
that the fast path answered is replayed to the SDK under a private id.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET

from toolstead.adapters.mcp.fast_path.answers import LIST_CHANGED, render_answer, render_refusal
from toolstead.adapters.mcp.fast_path.calls import FastPath
from toolstead.adapters.mcp.fast_path.messages import (
    CallToolMessage,
    Cancelled,
    Discover,
    HandshakeMessage,
    Initialize,
    Initialized,
    ListPrompts,
    ListResources,
    ListTemplates,
    ListTools,
    MessageId,
    ModernCallTool,
    ModernListTools,
    ModernMessage,
    NoMessage,
    Ping,
    Unserved,
    cancelled_id,
    check_skipped,
    read_handshake,
    read_modern,
)
from toolstead.concurrency.owned_tasks import cancel_tasks

PAUSE = 0.05
"""Seconds between two notices: the first of a burst is sent at once, the rest are merged into one."""

_CONNECTION_CLOSED = -32000
_METHOD_NOT_FOUND = -32601


class Elsewhere(Protocol):
    """The SDK's side of the connection."""

    def put_line(self, line: bytes) -> None:
        """Give it a message."""
        ...

    def is_asked(self, id: str) -> bool:
        """Whether it has a request with this id that is not answered."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether it was given anything yet."""
        ...


class _Request(msgspec.Struct):
    """The part of a request that decides the protocol version."""

    jsonrpc: Literal["2.0"]
    id: MessageId
    method: str
    params: dict[str, Any] | None = None


class StdioFastPath:
    """Answers the messages of one client that the fast path accepts.

    Attributes:
        private_id: The id under which the handshake is replayed to the SDK; the answer to it is dropped.
    """

    def __init__(self, fast_path: FastPath, say: Callable[[bytes], None], elsewhere: Elsewhere) -> None:
        """Start before the client's first message.

        Args:
            fast_path: Lists and calls.
            say: Writes an answer.
            elsewhere: Takes every other message.
        """
        self.private_id = f"toolstead-{secrets.token_hex(8)}"
        self._fast_path = fast_path
        self._say = say
        self._elsewhere = elsewhere
        self._modern: bool | None = None
        self._opening: bytes | None = None
        self._version: str | None = None
        self._introducing: str | None = None
        self._initialized: bytes | None = None
        self._calls: dict[str, tuple[MessageId, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._notice: asyncio.TimerHandle | None = None
        self._more_news = False

    @property
    def is_busy(self) -> bool:
        """Whether calls are running."""
        return bool(self._calls)

    def take_line(self, line: bytes) -> bool:
        """Process a message; False if it must go to the SDK."""
        try:
            if self._modern:
                return self._take_modern(read_modern(line), line)
            if self._modern is None and b'"initialize"' not in line:
                taken = self._take_modern(read_modern(line), line)
                self._modern = taken or None
                return taken or self._hand_over(line)
            return self._take_handshake(read_handshake(line), line)
        except NoMessage:
            if self._calls and (asked := cancelled_id(line)) is not None and str(asked) in self._calls:
                return self._cancel(asked)
            return self._modern is None and self._hand_over(line)

    def _hand_over(self, line: bytes) -> Literal[False]:
        """Note a message that goes to the SDK; the first request decides the protocol version here too."""
        try:
            request = msgspec.json.decode(check_skipped(line), type=_Request)
        except NoMessage:
            return False
        meta: Any = (request.params or {}).get("_meta")
        self._modern = (
            request.method != "initialize"
            and isinstance(meta, dict)
            and "io.modelcontextprotocol/protocolVersion" in meta
        )
        if request.method == "initialize":
            self._introducing = str(request.id)
        return False

    def learn_answer(self, id: str, result: Any) -> None:
        """Note the SDK's answer to a request, in case it was the handshake."""
        if id != self._introducing:
            return
        self._introducing = None
        match result:
            case {"protocolVersion": str() as version}:
                self._version = version
            case _:
                pass

    def replay_opening(self) -> list[bytes]:
        """The handshake that the fast path answered, to be replayed to the SDK first."""
        said: list[bytes] = []
        if self._opening is not None:
            # The parts stay bytes: the SDK accepts numbers that msgspec cannot represent.
            opening: dict[str, Any] = _parts_of(self._opening)
            if self._modern:  # any request would do, but one that was a call must not run again
                meta = _parts_of(_parts_of(opening["params"])["_meta"])
                meta.pop("progressToken", None)
                opening = {"jsonrpc": "2.0", "method": "server/discover", "params": {"_meta": meta}}
            said.append(msgspec.json.encode({**opening, "id": self.private_id}))
        if self._initialized is not None:
            said.append(self._initialized)
        return said

    def tools_changed(self) -> None:
        """Notify a handshake client, on its only path; a burst becomes one or two notices."""
        if self._modern is not False or self._initialized is None:
            return
        if self._notice is not None:
            self._more_news = True
            return
        self._say(LIST_CHANGED)
        self._notice = asyncio.get_running_loop().call_later(PAUSE, self._pause_is_over)

    def give_up(self) -> None:
        """Refuse and cancel the running calls, after the wait that follows the end of input."""
        for asked, _ in list(self._calls.values()):
            self._say(render_refusal(asked, _CONNECTION_CLOSED, "Connection closed"))
            self._cancel(asked)

    async def close(self) -> None:
        """Cancel the running calls and wait for them."""
        if self._notice is not None:
            self._notice.cancel()
        calls = {task for _, task in self._calls.values()} | self._ending
        self._calls.clear()
        await cancel_tasks(calls, describe=repr)

    def _pause_is_over(self) -> None:
        self._notice = None
        if self._more_news:
            self._more_news = False
            self.tools_changed()

    def _take_handshake(self, message: HandshakeMessage, line: bytes) -> bool:
        if message.params.meta.version is not UNSET:
            return self._modern is None and self._hand_over(line)
        match message:
            case CallToolMessage(id=id, params=params):
                ours = self._version is not None and self._is_free(id) and self._fast_path.is_plain(params.name)
                if ours:
                    self._call(id, params.name, params.arguments, params.meta.call_id, line)
                return ours
            case ListTools(id=id, params=params):
                page = None if self._version is None else self._fast_path.tools_page(params.cursor, modern=False)
                return self._send_answer(id, page)
            case Initialize(id=id, params=params):
                if self._modern is not None or self._elsewhere.has_begun:
                    return self._modern is None and self._hand_over(line)
                self._modern, self._opening = False, line
                result, self._version = self._fast_path.answers.render_initialize(params.protocolVersion)
                return self._send_answer(id, result)
            case Ping(id=id):
                return self._modern is False and self._send_answer(id, b"{}")
            case Initialized():
                if self._version is None and self._introducing is None:
                    return False
                self._initialized = line
                return not self._elsewhere.has_begun
            case Cancelled(params=params):
                return self._cancel(params.requestId)
            case ListPrompts(id=id) | ListResources(id=id) | ListTemplates(id=id):
                return self._modern is False and self._refuse_unserved(id, message)

    def _take_modern(self, message: ModernMessage, line: bytes) -> bool:
        if self._modern is None:
            if self._elsewhere.has_begun or isinstance(message, Cancelled):
                return False
            self._opening = line
        match message:
            case ModernCallTool(id=id, params=params):
                ours = self._is_free(id) and self._fast_path.is_plain(params.name)
                if ours:
                    self._call(id, params.name, params.arguments, params.meta.call_id, line)
            case ModernListTools(id=id, params=params):
                ours = self._send_answer(id, self._fast_path.tools_page(params.cursor, modern=True))
            case Discover(id=id):
                ours = self._send_answer(id, self._fast_path.answers.discovered)
            case Cancelled(params=params):
                return self._cancel(params.requestId)
            case _:
                ours = self._refuse_unserved(message.id, message)
        if not ours and self._modern is None:
            self._opening = None  # the SDK receives it directly
        return ours

    def _is_free(self, id: MessageId) -> bool:
        """Whether no request with this id is running; the SDK handles duplicate ids."""
        key = str(id)
        return key not in self._calls and not self._elsewhere.is_asked(key)

    def _send_answer(self, id: MessageId, result: bytes | None) -> bool:
        if result is None or not self._is_free(id):
            return False
        self._say(render_answer(id, result))
        return True

    def _refuse_unserved(self, id: MessageId, message: Unserved) -> bool:
        if not self._is_free(id):
            return False
        self._say(render_refusal(id, _METHOD_NOT_FOUND, "Method not found", str(message.__struct_config__.tag)))
        return True

    def _cancel(self, id: MessageId) -> bool:
        running = self._calls.pop(str(id), None)
        if running is None:
            return not self._elsewhere.has_begun  # no such request exists, so there is nothing to forward
        _, call = running
        call.cancel()
        self._ending.add(call)
        call.add_done_callback(self._ending.discard)
        return True

    def _call(self, id: MessageId, name: str, arguments: dict[str, Any] | None, call_id: Any, line: bytes) -> None:
        work = self._run(id, name, arguments, call_id, line)
        self._calls[str(id)] = id, asyncio.get_running_loop().create_task(work)

    async def _run(self, id: MessageId, name: str, arguments: dict[str, Any] | None, call_id: Any, line: bytes) -> None:
        """Run one call. A client that cancelled it gets no answer."""
        said = await self._fast_path.call(id, name, arguments, call_id, modern=self._modern is True)
        key = str(id)
        running = self._calls.get(key)
        if running is None or running[1] is not asyncio.current_task():
            return
        del self._calls[key]
        if said is None:
            self._elsewhere.put_line(line)
        else:
            self._say(said)


def _parts_of(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, each as its original bytes."""
    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
