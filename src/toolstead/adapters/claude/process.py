"""The program itself: started with exactly the environment it is given, spoken to in lines of JSON, ended for sure.

It implements the SDK's transport. The SDK's own one passes the whole environment on, and its program shares our
process group; this one does neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Generator, Mapping
from typing import Any

import msgspec
from claude_agent_sdk import CLIConnectionError, ProcessError, Transport

from toolstead.adapters.claude.launch import Launch
from toolstead.adapters.claude.watcher import Watcher
from toolstead.tools.handlers.escaped import kill_escaped
from toolstead.types.content import whole_json

logger = logging.getLogger(__name__)

LONGEST_LINE = 33_554_432
"""Bytes of one message; an image that a tool gave back comes in one."""
LEAVING = 3.0
"""Seconds that the program may take to write its conversation down and leave, once its input has ended."""
_LAST_WORDS = 20
_HEARING = 1.0


class ClaudeProcess(Transport):
    """One running program."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._watcher = Watcher(launch.mark)
        self._process: asyncio.subprocess.Process | None = None
        self._pipes: asyncio.SubprocessTransport | None = None
        self._complaints: deque[str] = deque(maxlen=_LAST_WORDS)
        self._listening: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._ended = False

    @property
    def pid(self) -> int | None:
        """Its number; None before it is started."""
        return self._process.pid if self._process is not None else None

    @property
    def alive(self) -> bool:
        """Whether it runs; the system is asked, because the event loop hears of an end a moment later."""
        return self._process is not None and self._process.returncode is None and not _has_ended(self._process.pid)

    @property
    def last_words(self) -> str:
        """What it wrote to stderr at last."""
        return " / ".join(self._complaints)[-1_000:]

    async def connect(self) -> None:
        """Start it.

        Raises:
            CLIConnectionError: It cannot be started.
        """
        launch = self._launch
        with _handed_over(launch.key) as (descriptors, names):
            starting = asyncio.create_task(self._start_watched(descriptors, names))
            try:
                self._pipes, process = await asyncio.shield(starting)
            except asyncio.CancelledError:  # a start that is cancelled half-way is finished and then ended
                with contextlib.suppress(OSError):
                    self._pipes, self._process = await starting
                    await self.close()
                raise
            except OSError as error:
                raise CLIConnectionError(f"{launch.argv[0]} cannot be started in {launch.cwd}: {error}") from error
        self._process = process
        self._listening = asyncio.create_task(self._listen(process))

    def is_ready(self) -> bool:
        """Whether it can be spoken to."""
        return self.alive and not self._ended

    async def write(self, data: str) -> None:
        """Say something to it.

        Raises:
            CLIConnectionError: It does not listen any more.
        """
        async with self._writing:
            process = self._process
            if process is None or process.stdin is None or not self.is_ready():
                raise CLIConnectionError(await self._why_gone())
            try:
                process.stdin.write(data.encode())
                await process.stdin.drain()
            except OSError as error:
                raise CLIConnectionError(await self._why_gone()) from error

    async def end_input(self) -> None:
        """Say nothing more to it: it writes its conversation down and leaves."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, message by message.

        Raises:
            CLIConnectionError: What it says is no JSON, or too long.
            ProcessError: It ended, and not because it was asked to.
        """
        process = self._process
        if process is None or process.stdout is None:
            raise CLIConnectionError(await self._why_gone())
        try:
            while line := await process.stdout.readline():
                if line.startswith(b"{"):
                    yield _message(line)
                elif line.strip():
                    logger.debug("claude %s: %.500r", process.pid, line)
        except ValueError as error:  # the reader says so of a line that is too long
            raise CLIConnectionError(f"a message of Claude Code cannot be read: {error}") from error
        status = await process.wait()
        if status != 0:
            await self._hear_out()
            raise ProcessError("Claude Code ended", exit_code=status, stderr=self.last_words or None)

    def kill(self) -> None:
        """End it at once, with its process group."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End it, and whatever it started: kindly, then not. Safe to call twice."""
        process = self._process
        if process is None or self._ended:
            return
        self._ended = True
        await self.end_input()
        try:
            async with asyncio.timeout(LEAVING):
                await process.wait()
        except TimeoutError:
            logger.warning("claude %s does not leave; it is killed", process.pid)
        finally:
            started = [process.pid] if process.returncode is None else []
            self.kill()
            escapes = asyncio.create_task(asyncio.to_thread(kill_escaped, self._launch.mark, started))
            await asyncio.wait((escapes,))
            self._listen_no_more()
            await process.wait()
            await self._watcher.close()
            if self._listening is not None:
                self._listening.cancel()
                await asyncio.wait((self._listening,))
            if self._pipes is not None:
                self._pipes.close()  # one that nobody read to its end stays open otherwise

    def _listen_no_more(self) -> None:
        """Close what it says: Python 3.11 does not tell its end while there is something that nobody reads."""
        if self._pipes is None:
            return
        for number in (1, 2):
            if (pipe := self._pipes.get_pipe_transport(number)) is not None:
                pipe.close()

    async def _start_watched(
        self, descriptors: tuple[int, ...], names: Mapping[str, str]
    ) -> tuple[asyncio.SubprocessTransport, asyncio.subprocess.Process]:
        """Start it with somebody watching over it already."""
        await self._watcher.start()
        try:
            return await _start(self._launch, descriptors, names)
        except BaseException:
            await self._watcher.close()
            raise

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Log what it writes to stderr, and keep the end of it."""
        assert process.stderr is not None  # noqa: S101 - it was asked for
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # a line that is too long was thrown away
                continue
            if not line:
                return
            if text := line.decode("utf-8", "replace").strip():
                self._complaints.append(text[:500])
                logger.debug("claude %s: %s", process.pid, text[:2_000])

    async def _hear_out(self) -> None:
        """Wait for what a program that has ended wrote to stderr at last."""
        if self._listening is not None and not self.alive:
            await asyncio.wait((self._listening,), timeout=_HEARING)

    async def _why_gone(self) -> str:
        await self._hear_out()
        status = self._process.returncode if self._process is not None else None
        words = f": {self.last_words}" if self.last_words else ""
        return f"Claude Code is not running{'' if status is None else f' (it ended with status {status})'}{words}"


def _message(line: bytes) -> dict[str, Any]:
    """One message; half a character in what a model wrote is passed on as it came, and only a lenient reader takes it.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return whole_json(json.loads(line))


async def _start(
    launch: Launch, descriptors: tuple[int, ...], names: Mapping[str, str]
) -> tuple[asyncio.SubprocessTransport, asyncio.subprocess.Process]:
    """Start a program. This is `create_subprocess_exec`, which keeps to itself what closes the pipes."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=LONGEST_LINE, loop=loop),
        *launch.argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=launch.cwd,
        env={**launch.environment, **names},
        pass_fds=descriptors,
        start_new_session=True,
    )
    return transport, asyncio.subprocess.Process(transport, protocol, loop)


@contextlib.contextmanager
def _handed_over(key: str) -> Generator[tuple[tuple[int, ...], dict[str, str]]]:
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


def _has_ended(pid: int) -> bool:
    """Whether a child has ended, without taking its end away from whoever waits for it."""
    if not hasattr(os, "waitid"):  # macOS: the event loop tells
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it was waited for already
        return True
