"""A child process that is bounded: its output is, and it ends when its caller does.

It has no input, a process group of its own, and exactly the environment it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_STDOUT, _STDERR = 1, 2
_LONGEST_STDERR = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a child ended.

    Attributes:
        status: Its exit status; negative when a signal ended it.
        stdout: What it wrote, at most as much as was allowed.
        stderr: The beginning of what it wrote there.
        cut: True when it wrote more than was allowed and was ended for that.
    """

    status: int
    stdout: bytes
    stderr: bytes
    cut: bool


async def run_bounded(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit: int) -> Finished:
    """Run a program to its end.

    Whatever ends this call (a deadline, a cancellation, an error) ends the program and the
    processes it started.

    Args:
        argv: The program, by its absolute path, and its arguments.
        cwd: The folder it runs in.
        env: Its whole environment.
        limit: Bytes of output after which it is ended.

    Raises:
        OSError: It cannot be started.
    """
    loop = asyncio.get_running_loop()
    starting = loop.create_task(
        loop.subprocess_exec(
            lambda: _Child(limit),
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    )
    try:
        transport, child = await asyncio.shield(starting)
    except asyncio.CancelledError:  # a start that is cancelled half-way loses a pipe, so it is finished and then ended
        transport, child = await starting
        await _end(transport, child)
        raise
    try:
        await child.done.wait()
    finally:
        await _end(transport, child)
    return Finished(
        status=transport.get_returncode() or 0,
        stdout=bytes(child.stdout),
        stderr=bytes(child.stderr),
        cut=child.cut,
    )


async def _end(transport: asyncio.SubprocessTransport, child: _Child) -> None:
    """End a child with its whole group, unless all of it has ended by itself, and see it gone."""
    if not child.closed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
    transport.close()
    await child.exited.wait()


class _Child(asyncio.SubprocessProtocol):
    """Collects what a child writes, as far as it may."""

    def __init__(self, limit: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.cut = False
        self.closed = False
        self.done = asyncio.Event()
        self.exited = asyncio.Event()
        self._limit = limit

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self.stderr += data[: _LONGEST_STDERR - len(self.stderr)]
            return
        room = self._limit - len(self.stdout)
        self.stdout += data[:room]
        if len(data) > room:
            self.cut = True
            self.done.set()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.done.set()
