"""MCP over stdio: stdout is the wire, and nothing else can write to it.

While it serves, descriptor 0 is the null device and descriptor 1 is stderr, so what tools print
goes to stderr and children have no stdin. Lines are bounded. The SDK's own stdio transport reads
in a worker thread that a signal cannot end and holds lines of any length; hence this one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from toolyard.adapters.mcp.server import ToolyardServer

logger = logging.getLogger(__name__)

_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


async def serve_stdio(server: ToolyardServer, *, max_message: int) -> None:
    """Serve one client on this process's stdin and stdout until it closes stdin."""
    async with _claimed() as (wire_in, wire_out):
        await serve_descriptors(server, wire_in, wire_out, max_message=max_message)


async def serve_descriptors(server: ToolyardServer, wire_in: int, wire_out: int, *, max_message: int) -> None:
    """Serve one client on a pair of descriptors until the incoming one ends."""
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    lines = _Lines(wire_in, max_message)
    wire = _Wire(wire_out)
    async with lines, wire, anyio.create_task_group() as tasks:
        tasks.start_soon(_read, lines, incoming, wire)
        tasks.start_soon(_write, outgoing, wire)
        await server.run(read_stream, write_stream, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _read(lines: _Lines, incoming: _Incoming, wire: _Wire) -> None:
    async with incoming:
        async for line in lines:
            if isinstance(line, TooLongError):
                await wire.refuse(mcp_types.INVALID_REQUEST, str(line))
                continue
            if not line.strip():
                continue
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError as error:
                kinds = {problem["type"] for problem in error.errors(include_url=False, include_input=False)}
                if kinds & {"json_invalid", "recursion_loop"}:
                    await wire.refuse(mcp_types.PARSE_ERROR, "Parse error: the line is not valid JSON")
                else:
                    await wire.refuse(mcp_types.INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message")
                continue
            await incoming.send(SessionMessage(message))


async def _write(outgoing: _Outgoing, wire: _Wire) -> None:
    async with outgoing:
        async for message in outgoing:
            await wire.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())


class TooLongError(Exception):
    """A line longer than the limit; it was skipped to its end."""


class _Lines:
    """Lines of a descriptor, each at most `limit` bytes."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._reader = asyncio.StreamReader(limit=limit)
        self._transport: asyncio.ReadTransport | None = None

    async def __aenter__(self) -> _Lines:
        loop = asyncio.get_running_loop()
        if _can_be_polled(self._descriptor):
            pipe = os.fdopen(self._descriptor, "rb", buffering=0, closefd=False)
            protocol = asyncio.StreamReaderProtocol(self._reader)
            self._transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
        else:
            _feed_from_thread(self._descriptor, self._reader, loop)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._transport is not None:
            self._transport.close()

    async def __aiter__(self) -> AsyncIterator[bytes | TooLongError]:
        while True:
            try:
                yield await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if end.partial:
                    yield end.partial
                return
            except asyncio.LimitOverrunError as overrun:
                size = await self._skip_line(overrun.consumed)
                yield TooLongError(f"a message of {size:,} bytes; at most {self._limit:,} are accepted")

    async def _skip_line(self, consumed: int) -> int:
        """Throw a long line away without ever holding it."""
        size = 0
        while True:
            size += len(await self._reader.read(consumed or 1))
            try:
                return size + len(await self._reader.readuntil(b"\n"))
            except asyncio.LimitOverrunError as overrun:
                consumed = overrun.consumed
            except asyncio.IncompleteReadError as end:
                return size + len(end.partial)


class _Wire:
    """The outgoing descriptor: one line for each message, whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writer: asyncio.StreamWriter | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> _Wire:
        if _can_be_polled(self._descriptor):
            loop = asyncio.get_running_loop()
            pipe = os.fdopen(self._descriptor, "wb", buffering=0, closefd=False)
            transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
            self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    async def send(self, line: bytes) -> None:
        async with self._turn:
            if self._writer is None:
                await asyncio.to_thread(_write_all, self._descriptor, line + b"\n")
                return
            self._writer.write(line + b"\n")
            await self._writer.drain()

    async def refuse(self, code: int, message: str) -> None:
        """Answer something that is no message: nobody's id, so the id is null."""
        logger.warning("stdio: %s", message)
        error = mcp_types.ErrorData(code=code, message=message)
        reply = mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
        await self.send(reply.model_dump_json(by_alias=True, exclude_unset=True).encode())


@asynccontextmanager
async def _claimed() -> AsyncIterator[tuple[int, int]]:
    """Take the wire away from descriptors 0 and 1, and give it back in the end."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    was_blocking = os.get_blocking(wire_in), os.get_blocking(wire_out)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield wire_in, wire_out
    finally:
        os.set_blocking(wire_in, was_blocking[0])
        os.set_blocking(wire_out, was_blocking[1])
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        os.close(wire_in)
        os.close(wire_out)


def _can_be_polled(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(descriptor))


def _feed_from_thread(descriptor: int, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    """Read a plain file, which no event loop can poll, from a thread that never outlives the process."""

    def tell(callback: Callable[..., Any], *arguments: Any) -> bool:
        try:
            loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop is closed: nobody reads any more
            return False
        return True

    def feed() -> None:
        while chunk := os.read(descriptor, 65_536):
            if not tell(reader.feed_data, chunk):
                return
        tell(reader.feed_eof)

    threading.Thread(target=feed, name="toolyard-stdin", daemon=True).start()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
