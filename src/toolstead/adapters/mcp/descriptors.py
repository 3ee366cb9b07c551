"""Lines on an exclusive pair of descriptors: bounded when read, written whole."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Self

from toolstead.errors import ServeError


@asynccontextmanager
async def claim_descriptors() -> AsyncGenerator[tuple[int, int]]:
    """Move the client's streams away from descriptors 0 and 1: from now on only what is given here is the wire.

    0 is the null device until the end. 1 is stderr, for this process and its children, and stays so afterwards: what a
    tool prints may come late, from a thread that goes on or as Python ends, and must never reach the client.

    Raises:
        ServeError: One of the two is closed.
    """
    # Check what was closed when Python started: by now another file may have the number.
    for stream, name in ((sys.__stdin__, "stdin"), (sys.__stdout__, "stdout")):
        if stream is None:
            raise ServeError(f"{name} is closed; an MCP client connects to both stdin and stdout")
    wires = os.dup(0), os.dup(1)
    was_blocking = [os.get_blocking(wire) for wire in wires]
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.__stderr__ is None else 2, 1)
    os.close(nothing)
    for stream in (sys.stdout, sys.__stdout__):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # a print is seen at once, as on stderr
    try:
        yield wires
    finally:
        for wire, is_blocking in zip(wires, was_blocking, strict=True):
            os.set_blocking(wire, is_blocking)
        os.dup2(wires[0], 0)
        for wire in wires:
            os.close(wire)


class TooLongError(Exception):
    """A line exceeds the limit; it was skipped to its end."""


class Lines(asyncio.Protocol):
    """Reads lines of at most `limit` bytes from a descriptor and passes them on as they arrive."""

    def __init__(
        self, descriptor: int, limit: int, take: Callable[[bytes | TooLongError], None], end: Callable[[], None]
    ) -> None:
        """Prepare to read.

        Args:
            descriptor: Where from.
            limit: Bytes a line may have.
            take: Called with every line, without its end.
            end: Called once, after the last line.
        """
        self._descriptor = descriptor
        self._limit = limit
        self._take = take
        self._end: Callable[[], None] | None = end
        self._parts: list[bytes] = []
        self._size = 0
        self._held = b""
        self._transport: asyncio.ReadTransport | None = None
        self._reasons: set[str] = set()

    async def __aenter__(self) -> Self:
        # A duplicate for the transport: uvloop always closes its descriptor.
        descriptor = os.dup(self._descriptor) if _can_be_polled(self._descriptor) else _pump_file(self._descriptor)
        pipe = os.fdopen(descriptor, "rb", buffering=0)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end = None
        if self._transport is not None:
            self._transport.close()

    def pause_reading(self, reason: str) -> None:
        """Pause until every reason is removed. Lines already read wait too: short requests have long answers."""
        if not self._reasons and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._reasons.add(reason)

    def go_on(self, reason: str) -> None:
        """Remove a reason to pause."""
        if reason not in self._reasons:
            return
        self._reasons.discard(reason)
        if not self._reasons and self._held:
            held, self._held = self._held, b""
            self.data_received(held)
        if not self._reasons and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Split the input into lines."""
        start = 0
        while not self._reasons and (end := data.find(b"\n", start)) >= 0:
            line = data[start:end]
            start = end + 1
            self._take(self._end_line(line))
        if self._reasons:
            self._held += data[start:]
        elif start < len(data):
            self._keep_part(data[start:] if start else data)

    def eof_received(self) -> None:
        """Handle the end of input; an unterminated line counts as a line."""
        if self._size:
            self._take(self._end_line(b""))

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of input."""
        if self._end is not None:
            self._end()

    def _keep_part(self, part: bytes) -> None:
        """Buffer the beginning of a line; if it is already too long, only count it."""
        self._size += len(part)
        if self._size > self._limit:
            self._parts.clear()
        else:
            self._parts.append(part)

    def _end_line(self, last: bytes) -> bytes | TooLongError:
        line, size = last, len(last)
        if self._size:
            self._keep_part(last)
            line, size = b"".join(self._parts), self._size
            self._parts.clear()
            self._size = 0
        if size <= self._limit:
            return line
        return TooLongError(f"message of {size:,} bytes is too long; at most {self._limit:,} are accepted")


class Wire(asyncio.BaseProtocol):
    """Writes each message to a descriptor as one whole line."""

    def __init__(
        self,
        descriptor: int,
        *,
        full: Callable[[], None],
        free: Callable[[], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        """Prepare to write.

        Args:
            descriptor: Where to.
            full: Called when lines wait because the client does not read.
            free: Called when all of them were written.
            lost: Called when the client closed its end.
        """
        self._descriptor = descriptor
        self._full = full
        self._free = free
        self._lost: Callable[[Exception | None], None] | None = lost
        self._transport: asyncio.WriteTransport | None = None
        self._taken = asyncio.Event()
        self._taken.set()
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        if _can_be_polled(self._descriptor):
            pipe = os.fdopen(os.dup(self._descriptor), "wb", buffering=0)
            self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: self, pipe)
            self._transport.set_write_buffer_limits(high=0)  # a line counts as sent when the pipe has all of it
        return self

    async def __aexit__(self, *_: object) -> None:
        self._lost = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()  # closing would wait for the reader without limit

    def write(self, line: bytes) -> None:
        """Write a line now, or as soon as the pipe accepts it."""
        if self._transport is not None:
            if self._error is None:
                self._transport.write(line + b"\n")
            return
        try:
            _write_all(self._descriptor, line + b"\n")  # a file: it accepts everything
        except OSError as error:
            self.connection_lost(error)

    async def wait_until_taken(self) -> None:
        """Wait while the write buffer is full.

        Raises:
            OSError: The client closed its end.
        """
        await self._taken.wait()
        if self._error is not None:
            raise BrokenPipeError(f"the client closed its end: {self._error}")

    async def wait_until_empty(self, patience: float) -> None:
        """Wait until the write buffer is empty, while each `patience` seconds bring some progress."""
        left = -1
        while self._transport is not None and self._error is None:
            now = self._transport.get_write_buffer_size()
            if now in (0, left):
                return
            left = now
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._taken.wait()

    def pause_writing(self) -> None:
        """The pipe is full."""
        self._taken.clear()
        self._full()

    def resume_writing(self) -> None:
        """The pipe is free again."""
        self._taken.set()
        self._free()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the client closed its end."""
        self._error = exc or BrokenPipeError("connection closed")
        self._taken.set()
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(self._error)


def _can_be_polled(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(descriptor))


def _pump_file(descriptor: int) -> int:
    """A pipe with the content of a plain file, which an event loop cannot poll; the pipe limits the pace."""
    source, sink = os.pipe()
    own = os.dup(descriptor)

    def copy_bytes() -> None:
        try:
            while chunk := os.read(own, 65_536):
                _write_all(sink, chunk)
        except OSError:  # the reading end is closed
            pass
        finally:
            os.close(own)
            os.close(sink)

    threading.Thread(target=copy_bytes, name="toolstead-stdin", daemon=True).start()
    return source


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
