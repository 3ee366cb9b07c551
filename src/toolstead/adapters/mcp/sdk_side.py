"""The SDK's side of a stdio connection: passes lines to its server and writes its messages as lines.

Imported only when a message needs the SDK.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable

import anyio
import mcp_types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

from toolstead.adapters.mcp.descriptors import TooLongError
from toolstead.adapters.mcp.fast_path.sdk_queue import SdkQueue
from toolstead.adapters.mcp.fast_path.stdio import StdioFastPath
from toolstead.adapters.mcp.server import ToolsteadServer

logger = logging.getLogger(__name__)


class SdkSide:
    """Runs the SDK's server on the messages of the queue."""

    def __init__(
        self,
        server: ToolsteadServer,
        queue: SdkQueue,
        write: Callable[..., Awaitable[None]],
        fast_path: StdioFastPath | None,
    ) -> None:
        """Prepare to serve.

        Args:
            server: Answers.
            queue: Its messages.
            write: Writes a line; its argument `is_answer` is whether it answers a request.
            fast_path: Answered the messages before, and still answers its own.
        """
        self._server = server
        self._queue = queue
        self._write_line = write
        self._fast_path = fast_path
        self._incoming, self._read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._write_stream, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def run(self) -> None:
        """Run until cancelled or the client disconnects."""
        async with anyio.create_task_group() as tasks:

            async def until_gone(work: Callable[[], Awaitable[None]]) -> None:
                try:
                    await work()
                except OSError as error:
                    logger.warning("stdio: the client disconnected: %s", error)
                    tasks.cancel_scope.cancel()

            async def serve() -> None:
                await self._server.run(
                    self._read_stream, self._write_stream, self._server.create_initialization_options()
                )
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_gone, self._read)
            tasks.start_soon(until_gone, self._write)
            # Not in this task: a cancellation from outside would reach the SDK's tasks one after the other, and
            # the first to end would break the streams of the others.
            tasks.start_soon(serve)

    async def _read(self) -> None:
        async with self._incoming:
            for line in self._fast_path.replay_opening() if self._fast_path is not None else ():
                await self._give_line(line)
            async for line in self._queue.read_messages():
                await self._give_line(line)

    async def _give_line(self, line: bytes | TooLongError) -> None:
        try:
            message = message_in(line)
        except NoMessageError as refusal:
            logger.warning("stdio: %s", refusal)
            self._queue.unanswered.discard(str(refusal.answer.id))
            await self._write_line(encode_message(refusal.answer), is_answer=True)
        else:
            if message is not None:
                await self._incoming.send(SessionMessage(message))

    async def _write(self) -> None:
        async with self._outgoing:
            async for message in self._outgoing:
                await self._pass_on(message.message)

    async def _pass_on(self, message: mcp_types.JSONRPCMessage) -> None:
        is_answer = isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError)
        if isinstance(message, mcp_types.JSONRPCError) and message.error.code == mcp_types.CONNECTION_CLOSED:
            # Requests that were still open at the end of input. Nobody awaits that answer, and some clients crash.
            logger.debug("stdio: request %r was not answered before the end of input", message.id)
            return
        if is_answer:
            key = str(message.id)
            if self._fast_path is not None:
                if self._fast_path.is_private(key):
                    return
                if isinstance(message, mcp_types.JSONRPCResponse):
                    self._fast_path.learn_answer(key, message.result)
            self._queue.unanswered.discard(key)
        await self._write_line(encode_message(message), is_answer=is_answer)


class NoMessageError(Exception):
    """The input is not a JSON-RPC message; `answer` is the error response."""

    def __init__(self, code: int, text: str, id: str | int | None = None) -> None:
        super().__init__(text)
        error = mcp_types.ErrorData(code=code, message=text)
        self.answer = mcp_types.JSONRPCError(jsonrpc="2.0", id=id, error=error)


def message_in(line: bytes | TooLongError) -> mcp_types.JSONRPCMessage | None:
    """The message in a line; None in an empty one.

    Raises:
        NoMessageError: It is not a JSON-RPC message.
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
    # The SDK takes a request whose id is malformed for a notification, which gets no answer.
    if isinstance(message, mcp_types.JSONRPCNotification) and b'"id"' in line and "id" in from_json(line):
        raise NoMessageError(mcp_types.INVALID_REQUEST, "Invalid request: the id must be a string or an integer")
    return message


def _id_in(line: bytes) -> str | int | None:
    """The id in an invalid message; None if it has none."""
    match from_json(line):
        case {"id": str() | int() as id} if not isinstance(id, bool):
            return id
        case _:
            return None


def encode_message(message: mcp_types.JSONRPCMessage) -> bytes:
    """A message as a line."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError as error:  # one bad message must not end the connection
        logger.warning("stdio: sending a message with escaped characters: %s", error)
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True), separators=(",", ":")).encode()
