"""Processes joined by real pipes, without a shell; all of them end when the call does.

Every process has a session of its own, so a kill reaches its children too. What escapes into
another session is found by the mark in its environment, where the system lets one look.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from toolyard.errors import ToolError
from toolyard.tools.handlers.capture import Capture

MARK = "TOOLYARD_CALL"
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_STDIN, _STDERR = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where and how processes run.

    Attributes:
        cwd: Their folder.
        env: Their whole environment.
        stdout: Takes what the last process writes.
        stderr: Takes what all of them write there.
        mark: In the environment of every process of one call.
    """

    cwd: Path
    env: Mapping[str, str]
    stdout: Capture
    stderr: Capture
    mark: str = field(default_factory=lambda: secrets.token_hex(16))


async def run_pipeline(commands: Sequence[Sequence[str]], setting: Setting, stdin: bytes | None = None) -> int:
    """Run commands joined by pipes; the answer is the last one's exit status.

    A program that cannot be started counts as status 127 or 126, and its neighbours see their
    pipe end, as in a shell. Whatever ends this call ends every process.

    Args:
        commands: The argument vectors.
        setting: Where and how.
        stdin: What the first one reads; without it, nothing.
    """
    running = _Running(setting)
    try:
        await running.start(commands, stdin)
        await running.ended()
        return running.status
    except BaseException:
        await running.kill(everywhere=True)
        raise
    finally:
        await running.kill()


class _Running:
    """The processes of one pipeline."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._started: list[tuple[asyncio.SubprocessTransport, _Process]] = []
        self.status = 0

    async def start(self, commands: Sequence[Sequence[str]], stdin: bytes | None) -> None:
        upstream: int = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
        try:
            for position, argv in enumerate(commands):
                last = position == len(commands) - 1
                reading, writing = (asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE) if last else os.pipe()
                try:
                    self.status = await self._start_one(argv, upstream, writing)
                finally:
                    _close(upstream)
                    _close(writing)
                    upstream = reading
                if position == 0 and stdin is not None and self.status == 0:
                    self._started[0][1].write(stdin)
        finally:
            _close(upstream)

    async def _start_one(self, argv: Sequence[str], stdin: int, stdout: int) -> int:
        """Start one process; the answer is 0, or the status that stands for a failed start."""
        setting = self._setting
        loop = asyncio.get_running_loop()
        starting = loop.create_task(
            loop.subprocess_exec(
                lambda: _Process(setting.stdout, setting.stderr),
                *argv,
                stdin=stdin,
                stdout=stdout,
                stderr=asyncio.subprocess.PIPE,
                cwd=setting.cwd,
                env={**setting.env, MARK: setting.mark},
                start_new_session=True,
            )
        )
        try:
            self._started.append(await asyncio.shield(starting))
        except asyncio.CancelledError:  # a start cancelled half-way loses its pipes: finish it, then end it
            with contextlib.suppress(OSError):
                self._started.append(await starting)
            raise
        except FileNotFoundError:
            setting.stderr.feed(f"{argv[0]}: program not found; install it, or give its path\n".encode())
            return NOT_FOUND
        except PermissionError as error:
            setting.stderr.feed(f"{argv[0]}: cannot be run: {error.strerror}\n".encode())
            return NOT_EXECUTABLE
        except OSError as error:  # such as more arguments than the system takes
            raise ToolError(f"{argv[0]} cannot be started: {error.strerror}") from None
        return 0

    async def ended(self) -> None:
        """Wait until every process has ended, then end what they left behind in their groups."""
        for _, process in self._started:
            await process.exited.wait()
        await self.kill()
        if self._started and self.status == 0:
            self.status = self._started[-1][0].get_returncode() or 0

    async def kill(self, *, everywhere: bool = False) -> None:
        """End every process and its group; see them gone and their pipes closed."""
        for transport, process in self._started:
            if not process.closed.is_set():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(transport.get_pid(), signal.SIGKILL)
        if everywhere:
            await asyncio.to_thread(_kill_marked, self._setting.mark)
        for transport, process in self._started:
            await process.exited.wait()
            if not process.closed.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await process.closed.wait()
            transport.close()


class _Process(asyncio.SubprocessProtocol):
    """One process: hands on what it writes, and tells when it is gone."""

    def __init__(self, stdout: Capture, stderr: Capture) -> None:
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._stdout = stdout
        self._stderr = stderr
        self._transport: asyncio.SubprocessTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def write(self, data: bytes) -> None:
        """Give it its input; what it does not read is dropped when it ends."""
        pipe = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(_STDIN))
        pipe.write(data)
        pipe.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self._stderr if fd == _STDERR else self._stdout).feed(data)

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


def _close(descriptor: int) -> None:
    """Close a descriptor of ours; the special values of `subprocess` are below zero."""
    if descriptor >= 0:
        os.close(descriptor)


def _kill_marked(mark: str) -> None:
    """End every process that carries the mark, also one that left its session; again until none is left."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(10):
        found = False
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
            except (OSError, ValueError):
                continue
        if not found:
            return
