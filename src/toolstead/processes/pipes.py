"""Our ends of the pipes to a child process.

They work on the running loop's readers and writers, whichever loop that is: uvloop's own child processes would inherit
every inheritable descriptor, and have sockets in the place of pipes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

logger = logging.getLogger(__name__)

MOST_WAITING = 67_108_864
"""Bytes that wait for a process to read them; one write may go beyond that."""
_PIPE, _LARGEST_PIPE = 65_536, 1_048_576
"""Bytes that a pipe usually holds, and at most: one read of that many takes all that is there."""


class OutputPipe(asyncio.ReadTransport):
    """Passes on what comes out of a pipe, as it comes; a `StreamReader` that it feeds may pause it."""

    def __init__(
        self, descriptor: int, take: Callable[[bytes], None], at_end: Callable[[], None] | None = None
    ) -> None:
        """Begin to read.

        Args:
            descriptor: The pipe, which is closed in the end.
            take: Called with each part.
            at_end: Called once, when nothing more will come.
        """
        super().__init__()
        self._descriptor = descriptor
        self._take = take
        self._at_end = at_end
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def pause_reading(self) -> None:
        """Leave what comes in the pipe for now."""
        if self._is_open:
            self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        """Read on."""
        if self._is_open:
            self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Take what is there by now, and no more: a process that still writes has left its group."""
        if self._is_open:
            self._read()
        if self._is_open:
            self._close()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _LARGEST_PIPE)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self._close()

    def _close(self) -> None:
        self._is_open = False
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        if self._at_end is not None:
            self._at_end()


class InputPipe:
    """Gives a process its input; what it does not read is dropped when it ends.

    A process that does not read while more than `MOST_WAITING` bytes wait for it gets no more: the pipe is closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = bytearray()
        self._is_open = True
        self._is_ending = False
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)

    @property
    def is_open(self) -> bool:
        """Whether the pipe is open for writing; that its reader is gone shows only in a write."""
        return self._is_open and not self._is_ending

    def write(self, data: bytes) -> None:
        """Give it more, in the order of the calls. Never blocks; it is dropped when the pipe is closed by then."""
        if not self.is_open or not data:
            return
        if len(self._rest) > MOST_WAITING:
            logger.error(
                "a program does not read its input, and %s bytes wait for it: it gets no more", len(self._rest)
            )
            self.close()
            return
        is_idle = not self._rest
        self._rest += data
        if is_idle:
            self._loop.add_writer(self._descriptor, self._write)
            self._write()

    def end_input(self) -> None:
        """Close it once everything is written: the process reads the end of its input."""
        self._is_ending = True
        if not self._rest:
            self.close()

    def close(self) -> None:
        """Close it now."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._rest.clear()

    def _write(self) -> None:
        try:
            del self._rest[: os.write(self._descriptor, self._rest[:_PIPE])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # no reader any more
            self.close()
            return
        if not self._rest:
            self._loop.remove_writer(self._descriptor)
            if self._is_ending:
                self.close()
