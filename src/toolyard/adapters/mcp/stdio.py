"""MCP over stdio: stdout is the wire, and nothing else can write to it.

While it serves, descriptor 0 is the null device and descriptor 1 is stderr, so what tools print
goes to stderr and children have no stdin. Lines are bounded. The SDK's own stdio transport reads
in a worker thread that a signal cannot end and holds lines of any length; hence this one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import anyio
import mcp_types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

from toolyard.adapters.mcp.descriptors import Lines, TooLongError, Wire, claimed
from toolyard.adapters.mcp.server import ToolyardServer

logger = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds without an answer after which a client that closed its side is not waited for."""

_ENDLESS = "subscriptions/listen"
"""The one request that ends only when its client does."""


async def serve_stdio(
    server: ToolyardServer, *, max_message: int, on_answer: Callable[[], object] = lambda: None
) -> None:
    """Serve one client on this process's stdin and stdout until it closes stdin.

    Args:
        server: Answers.
        max_message: Bytes a message may have.
        on_answer: Called once, when the first answer was written.

    Raises:
        ServeError: stdin or stdout is closed already.
    """
    async with claimed() as (wire_in, wire_out), Lines(wire_in, max_message) as lines, Wire(wire_out) as wire:
        await Conversation(server, lines, wire, on_answer).run()


class Conversation:
    """One client's messages, on their way to the SDK's server and back."""

    def __init__(
        self, server: ToolyardServer, lines: Lines, wire: Wire, on_answer: Callable[[], object] = lambda: None
    ) -> None:
        self._server = server
        self._lines = lines
        self._wire = wire
        self._on_answer: Callable[[], object] | None = on_answer
        self._incoming, self._read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._write_stream, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._unanswered: set[str] = set()
        self._answered = asyncio.Event()

    async def run(self) -> None:
        """Until the client closes its side, or is gone."""
        async with anyio.create_task_group() as tasks:

            async def until_gone(work: Callable[[], Awaitable[None]]) -> None:
                try:
                    await work()
                except OSError as error:
                    logger.warning("stdio: the client is gone: %s", error)
                    tasks.cancel_scope.cancel()

            async def serve() -> None:
                await self._server.run(
                    self._read_stream, self._write_stream, self._server.create_initialization_options()
                )
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_gone, self._read)
            tasks.start_soon(until_gone, self._write)
            # Not in this task: a cancellation from outside would reach the SDK's tasks one after the other, and
            # the first to go breaks the streams of those that do not know yet.
            tasks.start_soon(serve)

    async def _read(self) -> None:
        async with self._incoming:
            async for line in self._lines:
                try:
                    message = _message(line)
                except NoMessageError as refusal:
                    logger.warning("stdio: %s", refusal)
                    await self._wire.send(_encoded(refusal.answer))
                else:
                    if message is not None:
                        self._note_question(message)
                        await self._incoming.send(SessionMessage(message))
            # The SDK drops what has not begun when its stream ends, and a script closes stdin right behind its
            # last request.
            while self._unanswered:
                self._answered.clear()
                with anyio.move_on_after(GRACE) as patience:
                    await self._answered.wait()
                if patience.cancelled_caught:
                    return

    async def _write(self) -> None:
        async with self._outgoing:
            async for message in self._outgoing:
                await self._wire.send(_encoded(message.message))
                if isinstance(message.message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
                    self._note_answered(message.message.id)
                    if self._on_answer is not None:
                        on_answer, self._on_answer = self._on_answer, None
                        on_answer()

    def _note_question(self, message: mcp_types.JSONRPCMessage) -> None:
        match message:
            case mcp_types.JSONRPCRequest(id=id, method=method) if method != _ENDLESS:
                self._unanswered.add(str(id))
            case mcp_types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as id}
            ):
                self._note_answered(id)  # which is to say: it will not be
            case _:
                pass

    def _note_answered(self, id: str | int | None) -> None:
        self._unanswered.discard(str(id))
        self._answered.set()


class NoMessageError(Exception):
    """What came is no message: the code, the text and the id of the answer to it."""

    def __init__(self, code: int, text: str, id: str | int | None = None) -> None:
        super().__init__(text)
        error = mcp_types.ErrorData(code=code, message=text)
        self.answer = mcp_types.JSONRPCError(jsonrpc="2.0", id=id, error=error)


def _message(line: bytes | TooLongError) -> mcp_types.JSONRPCMessage | None:
    """The message in a line; None in an empty one.

    Raises:
        NoMessageError: There is something else in it.
    """
    if isinstance(line, TooLongError):
        raise NoMessageError(mcp_types.INVALID_REQUEST, str(line))
    if not line.strip():
        return None
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        kinds = {problem["type"] for problem in error.errors(include_url=False, include_input=False)}
        if kinds & {"json_invalid", "recursion_loop"}:
            raise NoMessageError(mcp_types.PARSE_ERROR, "Parse error: the line is not valid JSON") from None
        what = "Invalid request: not a JSON-RPC 2.0 message"
        raise NoMessageError(mcp_types.INVALID_REQUEST, what, _id_in(line)) from None
    # The SDK takes a request whose id is malformed for a notification, which nobody answers.
    if isinstance(message, mcp_types.JSONRPCNotification) and b'"id"' in line and "id" in from_json(line):
        raise NoMessageError(mcp_types.INVALID_REQUEST, "Invalid request: an id is a string or an integer")
    return message


def _id_in(line: bytes) -> str | int | None:
    """The id of something that is no message otherwise; null where there is none."""
    match from_json(line):
        case {"id": str() | int() as id} if not isinstance(id, bool):
            return id
        case _:
            return None


def _encoded(message: mcp_types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError as error:  # one bad message must not end the wire for all
        logger.warning("stdio: a message is sent with escapes: %s", error)
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True), separators=(",", ":")).encode()
