"""The Claude Code process, driven by lines of JSON.

Implements the SDK's transport. The SDK's own transport passes on the whole environment and keeps the program in our
process group; this one does neither. When its input ends during a turn, Claude Code does not exit but waits for the
model or a command, so a watchdog kills it when our process was killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Generator
from typing import Any

import msgspec
from claude_agent_sdk import CLIConnectionError, ProcessError, Transport

from toolstead.adapters.claude.launch import Launch
from toolstead.processes.mark import make_mark
from toolstead.processes.owner import ProcessOwner
from toolstead.processes.piped import PipedProcess
from toolstead.processes.watchdog import start_watchdog
from toolstead.types.content import whole_json

logger = logging.getLogger(__name__)

LONGEST_LINE = 33_554_432
"""Bytes of one message; an image in a tool result is one message."""
LEAVING = 3.0
"""Seconds that the program may take to save its conversation and exit, once its input has ended."""
_LONGEST_ERRORS = 1_000


class ClaudeProcess(Transport):
    """One running program."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._process: PipedProcess | None = None
        self._watchdog: ProcessOwner | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Its process id; None before it is started."""
        return self._process.child.pid if self._process is not None else None

    @property
    def is_alive(self) -> bool:
        """Whether it runs, according to the system: the event loop notices an exit a moment later."""
        return self._process is not None and self._process.child.returncode is None

    @property
    def last_errors(self) -> str:
        """The end of its stderr."""
        return " / ".join(self._process.read_last_lines())[-_LONGEST_ERRORS:] if self._process is not None else ""

    async def connect(self) -> None:
        """Start it together with a watchdog. Awaits nothing, so a cancellation cannot interrupt it.

        Raises:
            CLIConnectionError: It cannot be started.
        """
        launch, mark = self._launch, make_mark()
        self._watchdog = start_watchdog(mark)
        try:
            with _hand_over_key(launch.key) as (descriptors, names):
                self._process = PipedProcess(
                    launch.argv,
                    cwd=launch.cwd,
                    env={**launch.environment, **names},
                    longest_line=LONGEST_LINE,
                    mark=mark,
                    pass_fds=descriptors,
                )
        except OSError as error:
            await self._watchdog.kill()
            raise CLIConnectionError(f"{launch.argv[0]} cannot be started in {launch.cwd}: {error}") from error

    def is_ready(self) -> bool:
        """Whether its stdin is open."""
        return self.is_alive and not self._is_closed

    async def write(self, data: str) -> None:
        """Write to its stdin.

        Raises:
            CLIConnectionError: Its stdin is closed.
        """
        if self._process is None or not self.is_ready():
            raise CLIConnectionError(self._explain_end())
        self._process.stdin.write(data.encode())
        if not self._process.stdin.is_open:  # its reading end is closed
            raise CLIConnectionError(self._explain_end())

    async def end_input(self) -> None:
        """Close its stdin: it saves its conversation and exits."""
        if self._process is not None:
            self._process.stdin.end_input()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield its messages.

        Raises:
            CLIConnectionError: A message is not JSON, or too long.
            ProcessError: It exited unexpectedly.
        """
        process = self._process
        if process is None:
            raise CLIConnectionError(self._explain_end())
        try:
            while line := await process.stdout.readline():
                if line.startswith(b"{"):
                    yield _parse_message(line)
                elif line.strip():
                    logger.debug("claude %s: %.500r", process.child.pid, line)
        except ValueError as error:  # the reader raises it for a line that is too long
            raise CLIConnectionError(f"a message of Claude Code cannot be read: {error}") from error
        await process.child.exited.wait()
        if status := process.child.returncode:
            raise ProcessError("Claude Code ended", exit_code=status, stderr=self.last_errors or None)

    def kill(self) -> None:
        """Kill it and its process group."""
        if self._process is not None:
            self._process.signal_groups(signal.SIGKILL)

    async def close(self) -> None:
        """End it and its child processes: gracefully, then by force. Safe to call twice."""
        if self._process is None or self._is_closed:
            return
        self._is_closed = True
        try:
            await self._process.end_process(LEAVING)
        finally:
            if self._watchdog is not None:
                await self._watchdog.kill()

    def _explain_end(self) -> str:
        status = self._process.child.returncode if self._process is not None else None
        errors = f": {self.last_errors}" if self.last_errors else ""
        return f"Claude Code is not running{'' if status is None else f' (it ended with status {status})'}{errors}"


def _parse_message(line: bytes) -> dict[str, Any]:
    """Decode one message, leniently: a model's text may have a lone surrogate, which is passed on.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return whole_json(json.loads(line))


@contextlib.contextmanager
def _hand_over_key(key: str) -> Generator[tuple[tuple[int, ...], dict[str, str]]]:
    """A descriptor with the key in it, and the variable that names it; both only where there is a key."""
    if not key:
        yield (), {}
        return
    source, sink = os.pipe()
    try:
        with os.fdopen(sink, "wb") as pipe:
            pipe.write(key.encode())  # a pipe holds far more than a key
        yield (source,), {"CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR": str(source)}
    finally:
        os.close(source)
