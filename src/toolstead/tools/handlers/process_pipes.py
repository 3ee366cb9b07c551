"""What connects us to a process: the pipes into and out of it, and the news of its end.

Everything works on the running loop's readers and writers, whichever loop that is.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import termios
import threading
from collections.abc import Callable

_CHUNK = 262_144


class OutputPipe:
    """Takes what comes out of a pipe, as it comes."""

    def __init__(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._take = take
        self._open = True
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Take what is there by now, and no more: who still writes has escaped from the call."""
        if not self._open:
            return
        waiting = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting)
        while waiting[0] > 0 and (data := os.read(self._descriptor, min(waiting[0], _CHUNK))):
            waiting[0] -= len(data)
            self._take(data)
        self._close()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._take(data)
        else:
            self._close()

    def _close(self) -> None:
        self._open = False
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)


class InputPipe:
    """Gives a process its input; what it does not read is dropped when it ends."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self._descriptor = descriptor
        self._rest = memoryview(data)
        self._open = True
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_writer(descriptor, self._write)

    def close(self) -> None:
        """Stop writing."""
        if self._open:
            self._open = False
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # nobody reads any more
            self.close()
            return
        if not self._rest:
            self.close()


class Exit:
    """Tells when a process has ended; it stays unreaped, so that its number is not given away."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.seen = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._watched: int | None = None
        try:
            self._watched = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # not Linux, an old one, or no descriptor left
            threading.Thread(target=self._wait, args=[process], daemon=True, name=f"exit-of-{process.pid}").start()
        else:
            self._loop.add_reader(self._watched, self.close)

    def close(self) -> None:
        """Stop watching; a process that has ended was seen."""
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._watched = None
        self.seen.set()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):  # reaped: nobody waits any more
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS: waiting reaps, so the group is ended while its number is surely its own
            process.wait()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.seen.set)
