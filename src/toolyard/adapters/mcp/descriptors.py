"""Lines on a pair of descriptors: bounded on the way in, whole on the way out, and nobody else's.

Above: `stdio`. Below: asyncio, whose event loop polls pipes, sockets and terminals; what it cannot
poll is pumped by a thread that never outlives the process.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from toolyard.errors import ServeError


@asynccontextmanager
async def claimed() -> AsyncGenerator[tuple[int, int]]:
    """Take the wire away from descriptors 0 and 1, and give it back in the end.

    Meanwhile 0 is the null device and 1 is stderr, for this process and its children.

    Raises:
        ServeError: One of the two is closed.
    """
    # Python knows what was closed when it started; by now something else may have the number.
    for stream, name in ((sys.__stdin__, "stdin"), (sys.__stdout__, "stdout")):
        if stream is None:
            raise ServeError(f"{name} is closed; an MCP client connects to both stdin and stdout")
    wire_in, wire_out = os.dup(0), os.dup(1)
    was_blocking = os.get_blocking(wire_in), os.get_blocking(wire_out)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.__stderr__ is None else 2, 1)
    os.close(nothing)
    try:
        yield wire_in, wire_out
    finally:
        os.set_blocking(wire_in, was_blocking[0])
        os.set_blocking(wire_out, was_blocking[1])
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        os.close(wire_in)
        os.close(wire_out)


class TooLongError(Exception):
    """A line longer than the limit; it was skipped to its end."""


class Lines:
    """Lines of a descriptor, each at most `limit` bytes."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._reader = asyncio.StreamReader(limit=limit)
        self._transport: asyncio.ReadTransport | None = None

    async def __aenter__(self) -> Self:
        # A descriptor of the transport's own: uvloop closes it, whatever it is told.
        descriptor = os.dup(self._descriptor) if _can_be_polled(self._descriptor) else _pumped(self._descriptor)
        pipe = os.fdopen(descriptor, "rb", buffering=0)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
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


class Wire:
    """The outgoing descriptor: one line for each message, whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writer: asyncio.StreamWriter | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if _can_be_polled(self._descriptor):
            loop = asyncio.get_running_loop()
            pipe = os.fdopen(os.dup(self._descriptor), "wb", buffering=0)
            transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
            transport.set_write_buffer_limits(high=0)  # a line is sent when the pipe has taken all of it
            self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writer is not None and not self._writer.transport.is_closing():
            self._writer.transport.abort()  # closing would wait for a reader, for ever

    async def send(self, line: bytes) -> None:
        """Write a line, at the pace of whoever reads.

        Raises:
            OSError: Nobody reads any more.
        """
        async with self._turn:
            if self._writer is None:
                await asyncio.to_thread(_write_all, self._descriptor, line + b"\n")
                return
            self._writer.write(line + b"\n")
            await self._writer.drain()


def _can_be_polled(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(descriptor))


def _pumped(descriptor: int) -> int:
    """A pipe with what a plain file holds, which no event loop can poll; the pipe keeps the pace."""
    source, sink = os.pipe()
    own = os.dup(descriptor)

    def pump() -> None:
        try:
            while chunk := os.read(own, 65_536):
                _write_all(sink, chunk)
        except OSError:  # nobody reads any more
            pass
        finally:
            os.close(own)
            os.close(sink)

    threading.Thread(target=pump, name="toolyard-stdin", daemon=True).start()
    return source


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
