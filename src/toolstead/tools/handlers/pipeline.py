"""Processes joined by real pipes, without a shell; all of them end when the call does.

Every process has a session of its own, so a kill reaches its children too. What escapes into
another session is found by its parents and by the mark in its environment, where the system lets
one look. Processes are started with `subprocess` and read with the loop's readers, because uvloop's
own would hand on every inheritable descriptor, and sockets in the place of pipes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolstead.errors import ToolError
from toolstead.tools.handlers.capture import Capture
from toolstead.tools.handlers.escaped import MARK, kill_escaped
from toolstead.tools.handlers.process_pipes import Exit, InputPipe, OutputPipe

logger = logging.getLogger(__name__)

NOT_FOUND, NOT_EXECUTABLE = 127, 126
_SECONDS_TO_DIE = 5.0
"""After SIGKILL. Longer takes only what may not be killed (another user's) or hangs in the kernel."""


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

    Raises:
        ToolError: A program cannot be started for a reason that no shell has a status for.
    """
    running = _Running(setting)
    try:
        running.start(commands, stdin)
        await running.ended()
    except BaseException:
        await _finished(running.kill())
        raise
    finally:
        running.release()
    return running.status


async def _finished(cleaning: Coroutine[Any, Any, None]) -> None:
    """Let a clean-up finish, however often its caller is cancelled meanwhile."""
    task = asyncio.create_task(cleaning)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class _Running:
    """The processes of one pipeline."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._started: list[tuple[subprocess.Popen[bytes], Exit]] = []
        self._pipes: list[InputPipe | OutputPipe] = []
        self._failed = 0

    @property
    def status(self) -> int:
        """The last command's: how it ended, or the number that stands for a failed start."""
        return self._failed or (self._started[-1][0].returncode or 0)

    def start(self, commands: Sequence[Sequence[str]], stdin: bytes | None) -> None:
        """Start every command. Nothing is awaited, so no cancellation finds this half-way."""
        try:
            with contextlib.ExitStack() as theirs:  # the children's ends, closed here once they have them
                errors, output = self._captured(self._setting.stderr, theirs), None
                upstream = subprocess.DEVNULL if stdin is None else self._fed(stdin, theirs)
                for argv in commands[:-1]:
                    following, output = _pipe(theirs)
                    self._failed = self._start_one(argv, upstream, output, errors)
                    upstream = following
                output = self._captured(self._setting.stdout, theirs)
                self._failed = self._start_one(commands[-1], upstream, output, errors)
        except OSError as error:  # such as no descriptor left
            raise ToolError(f"{commands[0][0]} cannot be started: {error.strerror}") from None

    def _captured(self, capture: Capture, theirs: contextlib.ExitStack) -> int:
        reading, writing = os.pipe()
        theirs.callback(os.close, writing)
        self._pipes.append(OutputPipe(reading, capture.feed))
        return writing

    def _fed(self, data: bytes, theirs: contextlib.ExitStack) -> int:
        reading, writing = os.pipe()
        theirs.callback(os.close, reading)
        self._pipes.append(InputPipe(writing, data))
        return reading

    def _start_one(self, argv: Sequence[str], stdin: int, stdout: int, stderr: int) -> int:
        """Start one process; the answer is 0, or the status that stands for a failed start."""
        setting = self._setting
        try:
            process = subprocess.Popen(  # noqa: S603 - the template is the author's, and no shell is involved
                [word.encode() for word in argv],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=setting.cwd,
                env={**setting.env, MARK: setting.mark},
                start_new_session=True,
            )
        except (FileNotFoundError, NotADirectoryError):
            if not setting.cwd.is_dir():
                raise ToolError(f"the folder {str(setting.cwd)!r} that this tool runs in does not exist") from None
            setting.stderr.feed(f"{argv[0]}: program not found; install it, or give its path\n".encode())
            return NOT_FOUND
        except PermissionError as error:
            setting.stderr.feed(f"{argv[0]}: cannot be run: {error.strerror}\n".encode())
            return NOT_EXECUTABLE
        except OSError as error:  # such as more arguments than the system takes
            raise ToolError(f"{argv[0]} cannot be started: {error.strerror}") from None
        try:
            self._started.append((process, Exit(process)))
        except RuntimeError:  # no descriptor and no thread left: what nobody watches must not run
            process.kill()
            process.wait()
            raise ToolError(f"{argv[0]} cannot be started: the system has no thread left to watch it with") from None
        return 0

    async def ended(self) -> None:
        """Wait until every process has ended, then end what they left behind in their groups."""
        for _, exit_ in self._started:
            await exit_.seen.wait()
        self._kill_groups()

    async def kill(self) -> None:
        """End every process, its group, and what escaped from it: that first, while its parents can be told."""
        if not self._started:
            return
        try:
            await asyncio.to_thread(kill_escaped, self._setting.mark, [process.pid for process, _ in self._started])
        finally:
            self._kill_groups()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_DIE):
                for _, exit_ in self._started:
                    await exit_.seen.wait()

    def _kill_groups(self) -> None:
        for process, _ in self._started:
            if process.returncode is None:  # until it is reaped in the end, its number is nobody else's
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)

    def release(self) -> None:
        """Take what is in the pipes, and let go of everything."""
        for pipe in self._pipes:
            pipe.close()
        for process, exit_ in self._started:
            exit_.close()
            if process.poll() is None:
                logger.error("process %s does not end although it was killed; it is left alone", process.pid)
                threading.Thread(target=process.wait, daemon=True, name=f"wait-for-{process.pid}").start()


def _pipe(theirs: contextlib.ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    theirs.callback(os.close, reading)
    theirs.callback(os.close, writing)
    return reading, writing
