"""The fast path on stdio: answers one client's frequent messages on the event loop.

The client's first request fixes the protocol version, here as in the SDK. When a message needs the SDK, the handshake
that the fast path answered is replayed to the SDK under a private id.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET

from toolstead.adapters.mcp.fast_path.calls import LIST_CHANGED, FastPath, render_answer, render_refusal
from toolstead.adapters.mcp.fast_path.messages import (
    AnyMessage,
    CallToolMessage,
    Cancelled,
    Discover,
    HandshakeMessage,
    Initialize,
    Initialized,
    ListTools,
    MessageId,
    ModernMessage,
    NoMessage,
    Ping,
    SharedMessage,
    cancelled_id,
    read_any,
    read_handshake,
    read_modern,
)
from toolstead.adapters.mcp.fast_path.sdk_queue import SdkQueue
from toolstead.concurrency.owned_tasks import cancel_tasks

PAUSE = 0.05
"""Seconds between two notices: the first of a burst is sent at once, the rest are merged into one."""

_CONNECTION_CLOSED = -32000
_METHOD_NOT_FOUND = -32601


class StdioFastPath:
    """Answers the messages of one client that the fast path accepts.

    Attributes:
        private_id: The id under which the handshake is replayed to the SDK; the answer to it is dropped.
    """

    def __init__(self, fast_path: FastPath, write: Callable[[bytes], None], sdk: SdkQueue) -> None:
        """Start before the client's first message.

        Args:
            fast_path: Lists and calls.
            write: Writes an answer.
            sdk: Takes every other message.
        """
        self.private_id = f"toolstead-{secrets.token_hex(8)}"
        self._fast_path = fast_path
        self._write = write
        self._sdk = sdk
        self._unsubscribe = fast_path.subscribe_changes(self._tools_changed)
        self._modern: bool | None = None
        self._opening: bytes | None = None
        self._version: str | None = None
        self._introducing: str | None = None
        self._initialized: bytes | None = None
        self._calls: dict[str, tuple[MessageId, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._notice: asyncio.TimerHandle | None = None
        self._has_more_changes = False

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
                return self._cancel_call(asked)
            return self._modern is None and self._hand_over(line)

    def _hand_over(self, line: bytes) -> Literal[False]:
        """Note a message that goes to the SDK; the first request decides the protocol version here too."""
        try:
            message = read_any(line)
        except NoMessage:
            return False
        match message:
            case AnyMessage(jsonrpc="2.0", id=int() | str() as id, method="initialize", params=dict() | None):
                self._modern, self._introducing = False, str(id)
            case AnyMessage(jsonrpc="2.0", id=int() | str(), method=str(), params=dict() | None):
                meta: Any = cast("dict[str, Any]", message.params or {}).get("_meta")
                self._modern = isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta
            case _:
                pass
        return False

    def learn_answer(self, id: str, result: Mapping[str, Any]) -> None:
        """Note the SDK's answer to a request, in case it was the handshake."""
        if id == self._introducing:
            self._introducing = None
            self._version = result.get("protocolVersion")

    def replay_opening(self) -> list[bytes]:
        """The handshake that the fast path answered, to be replayed to the SDK first."""
        lines: list[bytes] = []
        if self._opening is not None:
            # The parts stay bytes: the SDK accepts numbers that msgspec cannot represent.
            opening: dict[str, Any] = _parts_of(self._opening)
            if self._modern:  # any request would do, but one that was a call must not run again
                meta = _parts_of(_parts_of(opening["params"])["_meta"])
                meta.pop("progressToken", None)
                opening = {"jsonrpc": "2.0", "method": "server/discover", "params": {"_meta": meta}}
            lines.append(msgspec.json.encode({**opening, "id": self.private_id}))
        if self._initialized is not None:
            lines.append(self._initialized)
        return lines

    def _tools_changed(self) -> None:
        """Notify a handshake client, on its only path; a burst becomes one or two notices."""
        if self._modern is not False or self._initialized is None:
            return
        if self._notice is not None:
            self._has_more_changes = True
            return
        self._write(LIST_CHANGED)
        self._notice = asyncio.get_running_loop().call_later(PAUSE, self._pause_is_over)

    def give_up(self) -> None:
        """Refuse and cancel the running calls, after the wait that follows the end of input."""
        for asked, _ in list(self._calls.values()):
            self._write(render_refusal(asked, _CONNECTION_CLOSED, "Connection closed"))
            self._cancel_call(asked)

    async def close(self) -> None:
        """Cancel the running calls and wait for them."""
        self._unsubscribe()
        if self._notice is not None:
            self._notice.cancel()
        calls = {task for _, task in self._calls.values()} | self._ending
        self._calls.clear()
        await cancel_tasks(calls, describe=repr)

    def _pause_is_over(self) -> None:
        self._notice = None
        if self._has_more_changes:
            self._has_more_changes = False
            self._tools_changed()

    def _take_handshake(self, message: HandshakeMessage, line: bytes) -> bool:
        if isinstance(message, Cancelled) and str(message.params.requestId) in self._calls:
            return self._cancel_call(message.params.requestId)
        if message.params.meta.version is not UNSET:
            return self._modern is None and self._hand_over(line)
        match message:
            case CallToolMessage() | ListTools():
                return self._version is not None and self._take_shared(message, line, modern=False)
            case Initialize(id=id, params=params):
                if self._modern is not None or self._sdk.has_begun:
                    return self._modern is None and self._hand_over(line)
                self._modern, self._opening = False, line
                result, self._version = self._fast_path.render_initialize(params.protocolVersion)
                return self._send_unless_taken(id, render_answer(id, result))
            case Ping(id=id):
                return self._modern is False and self._send_unless_taken(id, render_answer(id, b"{}"))
            case Initialized():
                if self._version is None and self._introducing is None:
                    return False
                self._initialized = line
                return not self._sdk.has_begun
            case Cancelled():
                return self._take_shared(message, line, modern=False)
            case _:
                return self._modern is False and self._take_shared(message, line, modern=False)

    def _take_modern(self, message: ModernMessage, line: bytes) -> bool:
        if self._modern is None:
            if self._sdk.has_begun or isinstance(message, Cancelled):
                return False
            self._opening = line
        if isinstance(message, Discover):
            ours = self._send_unless_taken(message.id, render_answer(message.id, self._fast_path.discovered))
        else:
            ours = self._take_shared(message, line, modern=True)
        if not ours and self._modern is None:
            self._opening = None  # the SDK receives it directly
        return ours

    def _take_shared(self, message: SharedMessage, line: bytes, *, modern: bool) -> bool:
        """Process a message that all protocol versions have."""
        match message:
            case CallToolMessage(id=id, params=params):
                ours = self._is_free(id) and self._fast_path.is_plain(params.name)
                if ours:
                    call = asyncio.get_running_loop().create_task(self._run_call(message, line))
                    self._calls[str(id)] = id, call
                return ours
            case ListTools(id=id, params=params):
                page = self._fast_path.render_page(params.cursor, modern=modern)
                return page is not None and self._send_unless_taken(id, render_answer(id, page))
            case Cancelled(params=params):
                return self._cancel_call(params.requestId)
            case _:
                method = str(message.__struct_config__.tag)
                refusal = render_refusal(message.id, _METHOD_NOT_FOUND, "Method not found", method)
                return self._send_unless_taken(message.id, refusal)

    def _is_free(self, id: MessageId) -> bool:
        """Whether no request with this id is running; the SDK handles duplicate ids."""
        key = str(id)
        return key not in self._calls and key not in self._sdk.unanswered

    def _send_unless_taken(self, id: MessageId, answer: bytes) -> bool:
        if not self._is_free(id):
            return False
        self._write(answer)
        return True

    def _cancel_call(self, id: MessageId) -> bool:
        running = self._calls.pop(str(id), None)
        if running is None:
            return not self._sdk.has_begun  # no such request exists, so there is nothing to forward
        _, call = running
        call.cancel()
        self._ending.add(call)
        call.add_done_callback(self._ending.discard)
        return True

    async def _run_call(self, message: CallToolMessage, line: bytes) -> None:
        """Run one call. A client that cancelled it gets no answer."""
        answer = await self._fast_path.call(message, modern=self._modern is True)
        key = str(message.id)
        running = self._calls.get(key)
        if running is None or running[1] is not asyncio.current_task():
            return
        del self._calls[key]
        if answer is None:
            self._sdk.put_line(line)
        else:
            self._write(answer)


def _parts_of(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, each as its original bytes."""
    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
