"""The owner of child processes that live and end together, and of the pipes to them.

Every process leads its own session and process group. Its end is seen before it is reaped:

| state   | how it gets there               | its number | its group          | `returncode` |
|---------|---------------------------------|------------|--------------------|--------------|
| running | `spawn`                         | ours       | may be signalled   | None         |
| ended   | it exited, or `signal_group`    | ours       | may be signalled   | its status   |
| reaped  | `close`                         | free again | is never signalled | its status   |

Until a process is reaped the system does not reuse its pid: so what it leaves behind in its group can be
ended safely. Where waiting always reaps (macOS before Python 3.13), the watching thread ends the group itself.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from toolstead.concurrency.owned_tasks import finish_despite_cancellation
from toolstead.processes.mark import MARK, SECONDS_TO_DIE, kill_marked, make_mark
from toolstead.processes.pipes import InputPipe, OutputPipe

logger = logging.getLogger(__name__)


class ProcessOwner:
    """`async with ProcessOwner(...)`: whatever leads out of the block ends every process that was started in it.

    After an error or a cancellation that includes what left its process group. The children's ends of the pipes are
    closed by the `ExitStack` that the caller gives, once all processes that need them are started.
    """

    def __init__(self, *, cwd: Path, env: Mapping[str, str] | None, mark: str = "") -> None:
        """Own nothing yet.

        Args:
            cwd: The folder the processes run in.
            env: Their whole environment, to which the mark is added; None means our own, without a mark.
            mark: Finds them even outside their group; a new one unless given.
        """
        self._mark = mark or make_mark()
        self._cwd = cwd
        self._env = None if env is None else {**env, MARK: self._mark}
        self._children: list[ChildProcess] = []
        self._pipes: list[InputPipe | OutputPipe] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self.kill()
        else:
            self.close()

    def open_output(
        self, theirs: ExitStack, take: Callable[[bytes], None], at_end: Callable[[], None] | None = None
    ) -> tuple[OutputPipe, int]:
        """Our end of a pipe, which hands on what comes, and the end that a child writes to."""
        reading, writing = os.pipe()
        theirs.callback(os.close, writing)
        self._pipes.append(pipe := OutputPipe(reading, take, at_end))
        return pipe, writing

    def open_input(self, theirs: ExitStack) -> tuple[InputPipe, int]:
        """Our end of a pipe, and the end that a child reads from."""
        reading, writing = os.pipe()
        theirs.callback(os.close, reading)
        self._pipes.append(pipe := InputPipe(writing))
        return pipe, reading

    def spawn(
        self,
        argv: Sequence[str | bytes],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        on_exit: Callable[[], None] | None = None,
    ) -> ChildProcess:
        """Start a program. Nothing is awaited, so no cancellation finds this half-way.

        Args:
            argv: The program and its arguments.
            stdin: A descriptor, as for `subprocess`; like the next two, nothing when it is left out.
            stdout: Takes what it writes.
            stderr: Takes what it writes there.
            pass_fds: Further descriptors that it inherits.
            on_exit: Called by the event loop when it has ended, unless `kill` or `close` came first.

        Raises:
            OSError: It cannot be started.
        """
        process = subprocess.Popen(  # noqa: S603 - callers name the program, and no shell is involved
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self._cwd,
            env=self._env,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        try:
            self._children.append(child := ChildProcess(process, on_exit))
        except RuntimeError:  # no descriptor and no thread left: an unwatched process must not run
            process.kill()
            process.wait()
            raise OSError(errno.EAGAIN, "the system has no thread left to watch it with") from None
        return child

    async def wait_for_exits(self, seconds: float | None = None) -> bool:
        """Wait until every process has ended; False when that takes longer than it may."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for child in self._children:
                    await child.exited.wait()
                return True
        return False

    def signal_groups(self, number: signal.Signals) -> None:
        """Send a signal to every process and to what is in its group."""
        for child in self._children:
            if not child.is_reaped:
                child.signal_group(number)

    async def kill(self) -> None:
        """Kill every process, its group and what left it, wait until they are gone, but not for ever, and close.

        It finishes however often its caller is cancelled meanwhile; the cancellation is raised afterwards.
        """
        try:
            await finish_despite_cancellation(self._kill(), however_often=True)
        finally:
            self.close()

    async def _kill(self) -> None:
        try:
            if self._children:
                for child in self._children:
                    child.on_exit = None
                numbers = [child.pid for child in self._children if not child.is_reaped]
                # What left its group comes first, while its parents can be found.
                await asyncio.to_thread(kill_marked, self._mark, numbers)
        finally:
            self.signal_groups(signal.SIGKILL)
            await self.wait_for_exits(SECONDS_TO_DIE)

    def close_pipes(self) -> None:
        """Take what is in the pipes, and close them."""
        for pipe in self._pipes:
            pipe.close()

    def close(self) -> None:
        """After the processes have ended: kill what they left in their groups, close the pipes, reap them."""
        self.signal_groups(signal.SIGKILL)
        self.close_pipes()
        for child in self._children:
            child.close()


class ChildProcess:
    """A program that was started; `exited` is set once it has ended."""

    def __init__(self, process: subprocess.Popen[bytes], on_exit: Callable[[], None] | None = None) -> None:
        self.exited = asyncio.Event()
        self.on_exit = on_exit
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # not Linux, an old one, or no descriptor left
            threading.Thread(target=self._wait, daemon=True, name=f"exit-of-{process.pid}").start()
        else:
            self._loop.add_reader(self._pidfd, self._report_exit)

    @property
    def pid(self) -> int:
        """Its number, which is also its group's."""
        return self._process.pid

    @property
    def is_reaped(self) -> bool:
        """Whether the system may have given its number to another process."""
        return self._process.returncode is not None

    @property
    def returncode(self) -> int | None:
        """Its exit status, or minus the signal that ended it; None while it runs.

        The system is asked, because the event loop is notified a moment later.
        """
        if self.is_reaped or not hasattr(os, "waitid"):
            return self._process.returncode
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # the system reaps children itself (SIGCHLD is ignored)
            return self._process.poll()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to its process group; not to be used once it is reaped."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Reap it. One that does not end is left to a thread that waits for it."""
        self._stop_watching()
        if self._process.poll() is None:
            logger.error("process %s did not exit after SIGKILL; it is abandoned", self.pid)
            threading.Thread(target=self._process.wait, daemon=True, name=f"wait-for-{self.pid}").start()

    def _stop_watching(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self.exited.set()

    def _report_exit(self) -> None:
        is_news = not self.exited.is_set()
        self._stop_watching()
        if is_news and self.on_exit is not None:
            self.on_exit()

    def _wait(self) -> None:
        """Wait in a thread, where there is no descriptor to watch."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # it is reaped already
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:  # waiting reaps, so the group is ended while its number is surely its own
            self._process.wait()
            self.signal_group(signal.SIGKILL)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._report_exit)
