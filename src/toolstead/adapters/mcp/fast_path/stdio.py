"""The fast path on stdio: answers one client's frequent messages on the event loop.

The client's first request fixes the protocol version, here as in the SDK. When a message needs the SDK, the handshake
that the fast path answered is replayed to the SDK under a private id.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from toolstead.adapters.mcp.fast_path.calls import (
    INTERNAL_ERROR,
    FastPath,
    render_answer,
    render_progress,
    render_refusal,
)
from toolstead.adapters.mcp.fast_path.change_notices import ChangeNotices
from toolstead.adapters.mcp.fast_path.messages import (
    AnyMessage,
    CallToolMessage,
    Cancelled,
    Discover,
    HandshakeMessage,
    Initialize,
    Initialized,
    Listen,
    ListenFilter,
    ListPrompts,
    ListResources,
    ListTemplates,
    ListTools,
    MessageId,
    ModernMessage,
    NoMessage,
    Ping,
    SetLevel,
    SharedMessage,
    cancelled_id,
    client_name_in,
    elicitation_in,
    read_any,
    read_handshake,
    read_modern,
)
from toolstead.adapters.mcp.fast_path.sdk_queue import SdkQueue
from toolstead.concurrency.owned_tasks import cancel_tasks
from toolstead.plugins.tool_meta import Progress

Work = Callable[[], Awaitable[bytes | None]]
"""Makes an answer; None means that the SDK must answer."""


@dataclass(slots=True, eq=False)
class _Running:
    """A request that is being answered."""

    id: MessageId
    task: asyncio.Task[None] | None = None


class StdioFastPath:
    """Answers the messages of one client that the fast path accepts."""

    def __init__(
        self,
        fast_path: FastPath,
        write: Callable[[bytes], None],
        wait_until_taken: Callable[[], Awaitable[None]],
        sdk: SdkQueue,
    ) -> None:
        """Start before the client's first message.

        Args:
            fast_path: Lists and calls.
            write: Writes a line.
            wait_until_taken: Waits while the client does not read; raises OSError when it has disconnected.
            sdk: Takes every other message.
        """
        self._private_id = f"toolstead-{secrets.token_hex(8)}"
        self._fast_path = fast_path
        self._write = write
        self._wait_until_taken = wait_until_taken
        self._sdk = sdk
        self._notices = ChangeNotices(write, wait_until_taken)
        self._unsubscribe = fast_path.subscribe_changes(self._notices.add_change)
        self._input_has_ended = False
        self._modern: bool | None = None
        self._opening: bytes | None = None
        self._version: str | None = None
        self._client: str | None = None
        self._elicitation: Mapping[str, Any] | None = None
        self._introducing: tuple[str, Any] | None = None
        self._initialized: bytes | None = None
        self._level: bytes | None = None
        self._calls: dict[str, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()

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
            if (asked := cancelled_id(line)) is not None and self._is_ours(asked):
                return self._end_request(asked)
            return self._hand_over(line)

    def _hand_over(self, line: bytes) -> Literal[False]:
        """Note a message that goes to the SDK: the first request decides the protocol version here too.

        A later `initialize` that the SDK accepts counts as well.
        """
        if self._modern or (self._modern is False and b"initialize" not in line):
            return False
        try:
            message = read_any(line)
        except NoMessage:
            return False
        match message:
            case AnyMessage(jsonrpc="2.0", id=int() | str() as id, method="initialize", params=dict() | None):
                self._modern = False
                self._introducing = str(id), message.params
            case AnyMessage(jsonrpc="2.0", id=int() | str(), method=str(), params=dict() | None) if (
                self._modern is None
            ):
                meta: Any = cast("dict[str, Any]", message.params or {}).get("_meta")
                self._modern = isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta
            case _:
                pass
        return False

    def learn_answer(self, id: str, result: Mapping[str, Any]) -> None:
        """Note the SDK's answer to a request, in case it was the handshake."""
        if self._introducing is not None and id == self._introducing[0]:
            params, self._introducing = self._introducing[1], None
            self._client, self._elicitation = client_name_in(params), elicitation_in(params)
            self._version = result.get("protocolVersion")

    def is_private(self, id: str) -> bool:
        """Whether a request is not the client's but replayed: the answer to it is dropped."""
        return id.startswith(self._private_id)

    def replay_opening(self) -> list[bytes]:
        """The handshake and the log level that the fast path took, to be replayed to the SDK first."""
        lines: list[bytes] = []
        if self._opening is not None:
            # The parts stay bytes: the SDK accepts numbers that msgspec cannot represent.
            opening: dict[str, Any] = _parts_of(self._opening)
            if self._modern:  # any request would do, but one that was a call must not run again
                meta = _parts_of(_parts_of(opening["params"])["_meta"])
                meta.pop("progressToken", None)
                opening = {"jsonrpc": "2.0", "method": "server/discover", "params": {"_meta": meta}}
            lines.append(msgspec.json.encode({**opening, "id": self._private_id}))
        if self._initialized is not None:
            lines.append(self._initialized)
        if self._level is not None:
            lines.append(msgspec.json.encode({**_parts_of(self._level), "id": f"{self._private_id}-level"}))
        return lines

    def end_input(self) -> None:
        """Write only answers from now on: a client that has closed stdin may not survive anything else."""
        self._input_has_ended = True
        self._unsubscribe()

    def give_up(self) -> None:
        """Cancel the running calls, after the wait that follows the end of input."""
        for running in list(self._calls.values()):
            self._cancel_call(running.id)

    async def close(self) -> None:
        """Cancel the running calls and the notices, and wait for them."""
        self._unsubscribe()
        await self._notices.close()
        calls = {running.task for running in self._calls.values() if running.task is not None} | self._ending
        self._calls.clear()
        await cancel_tasks(calls, describe=repr)

    def _take_handshake(self, message: HandshakeMessage, line: bytes) -> bool:
        if isinstance(message, Cancelled) and str(message.params.requestId) in self._calls:
            return self._cancel_call(message.params.requestId)
        if message.params.meta.version is not UNSET:
            return self._modern is None and self._hand_over(line)
        match message:
            case CallToolMessage() | ListTools() | ListPrompts() | ListResources() | ListTemplates():
                return self._version is not None and self._take_shared(message, line, modern=False)
            case Initialize(id=id, params=params):
                if self._modern is not None or self._sdk.has_begun:
                    return self._hand_over(line)
                self._modern, self._opening, self._client = False, line, params.clientInfo.name
                self._elicitation = params.capabilities.elicitation
                result, self._version = self._fast_path.render_initialize(params.protocolVersion)
                return self._send_unless_taken(id, render_answer(id, result))
            case Ping(id=id):
                return self._modern is False and self._send_unless_taken(id, render_answer(id, b"{}"))
            case Initialized():
                if self._version is None and self._introducing is None:
                    return False
                self._notices.tells_connection = True
                if self._sdk.has_begun:
                    return False
                self._initialized = line
                return True
            case SetLevel(id=id):
                return self._take_level(id, line)
            case Cancelled():
                return self._take_shared(message, line, modern=False)

    def _take_level(self, id: MessageId, line: bytes) -> bool:
        """Keep the log level for the SDK, which alone uses it; once it has begun, it gets the message itself."""
        if self._version is None or self._sdk.has_begun or not self._send_unless_taken(id, render_answer(id, b"{}")):
            return False
        self._level = line
        return True

    def _take_modern(self, message: ModernMessage, line: bytes) -> bool:
        if self._modern is None:
            if self._sdk.has_begun or isinstance(message, Cancelled):
                return False
            self._opening = line
        match message:
            case Discover(id=id):
                ours = self._send_unless_taken(id, render_answer(id, self._fast_path.discovered))
            case Listen(id=id, params=params):
                ours = self._take_subscription(id, params.notifications)
            case _:
                ours = self._take_shared(message, line, modern=True)
        if not ours and self._modern is None:
            self._opening = None  # the SDK receives it directly
        return ours

    def _take_shared(self, message: SharedMessage, line: bytes, *, modern: bool) -> bool:
        """Process a message that all protocol versions have."""
        match message:
            case CallToolMessage(id=id, params=params):
                elicitation = params.meta.elicitation if modern else self._elicitation
                ours = (
                    self._is_free(id)
                    and self._fast_path.is_plain(params.name, takes_progress=True)
                    and not self._fast_path.asks_client(elicitation)
                )
                if ours:
                    running = _Running(id)
                    progress = self._make_reporter(running, params.meta.progressToken)
                    work = partial(self._fast_path.call, message, modern=modern, client=self._client, progress=progress)
                    self._begin(running, work, line)
                return ours
            case ListTools(id=id, params=params):
                client = params.meta.client_name if modern else self._client
                page = self._fast_path.render_page(params.cursor, client, modern=modern)
                return page is not None and self._send_unless_taken(id, render_answer(id, page))
            case Cancelled(params=params):
                return self._end_request(params.requestId)
            case _ if self._fast_path.is_ready_to_list:
                answer = self._fast_path.render_parts(message, modern=modern)
                return answer is not None and self._send_unless_taken(message.id, answer)
            case _:
                ours = self._is_free(message.id)
                if ours:
                    self._begin(_Running(message.id), partial(self._fast_path.list_parts, message, modern=modern), line)
                return ours

    def _begin(self, running: _Running, work: Work, line: bytes) -> None:
        """Answer a request in a task of its own."""
        running.task = asyncio.get_running_loop().create_task(self._run_call(running, work, line))
        self._calls[str(running.id)] = running

    def _make_reporter(self, running: _Running, token: MessageId | UnsetType) -> Progress | None:
        """What passes on the progress of a call; None where the client wants none."""
        if token is UNSET:
            return None

        async def report_progress(progress: float, total: float | None, text: str | None) -> None:
            if self._calls.get(str(running.id)) is running and not self._input_has_ended:
                self._write(render_progress(token, progress, total, text))
                await self._wait_until_taken()
                # A handler that reports without end would fill the pipe again before the input, which waits for it,
                # is looked at: nothing would be read any more, not even its cancellation.
                await asyncio.sleep(0)

        return report_progress

    def _take_subscription(self, id: MessageId, wanted: ListenFilter) -> bool:
        if not self._is_free(id):
            return False
        if self._notices.is_full:
            self._write(render_refusal(id, INTERNAL_ERROR, "Subscription limit reached"))
        else:
            self._notices.open_subscription(id, wanted)
        return True

    def _is_free(self, id: MessageId) -> bool:
        """Whether no request with this id is running; the SDK handles duplicate ids."""
        return not self._is_ours(id) and str(id) not in self._sdk.unanswered

    def _is_ours(self, id: MessageId) -> bool:
        """Whether a request with this id is open here."""
        return str(id) in self._calls or self._notices.has_subscription(id)

    def _end_request(self, id: MessageId) -> bool:
        """End what a client cancels; False if the SDK must hear of it."""
        return self._notices.end_subscription(id) or self._cancel_call(id)

    def _send_unless_taken(self, id: MessageId, answer: bytes) -> bool:
        if not self._is_free(id):
            return False
        self._write(answer)
        return True

    def _cancel_call(self, id: MessageId) -> bool:
        running = self._calls.pop(str(id), None)
        if running is None:
            return not self._sdk.has_begun  # no such request exists, so there is nothing to forward
        if (call := running.task) is not None:
            call.cancel()
            self._ending.add(call)
            call.add_done_callback(self._ending.discard)
        return True

    async def _run_call(self, running: _Running, work: Work, line: bytes) -> None:
        """Run one call. A client that cancelled it gets no answer."""
        answer = await work()
        if self._calls.get(str(running.id)) is not running:
            return
        del self._calls[str(running.id)]
        if answer is None:
            self._sdk.put_line(line)
        else:
            self._write(answer)


def _parts_of(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, each as its original bytes."""
    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
