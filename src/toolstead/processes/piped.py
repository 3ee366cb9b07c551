"""A long-running program with pipes: lines in, lines out, and the last lines of its stderr."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from toolstead.processes.capture import Capture
from toolstead.processes.owner import ProcessOwner

logger = logging.getLogger(__name__)

_LAST_LINES, _LONGEST_KEPT = 20, 500


class PipedProcess(ProcessOwner):
    """One running program. Its output ends when it does, even if something that it started still holds the pipe.

    Attributes:
        child: The process.
        stdin: What it reads.
        stdout: What it writes; reading a line that is too long raises `ValueError`.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None,
        longest_line: int,
        mark: str = "",
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start it. Nothing is awaited, so no cancellation finds this half-way.

        Args:
            argv: The program and its arguments.
            cwd: The folder it runs in.
            env: Its whole environment, to which the mark is added; None means our own, without a mark.
            longest_line: Bytes of a line that can be read; about twice as many are buffered.
            mark: A new one unless given.
            pass_fds: Further descriptors that it inherits.

        Raises:
            OSError: It cannot be started.
        """
        super().__init__(cwd=cwd, env=env, mark=mark)
        self._name = Path(argv[0]).name
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.stdout = asyncio.StreamReader(limit=longest_line)
        errors = Capture(0, self._keep_errors)
        try:
            with ExitStack() as theirs:
                self.stdin, stdin = self.open_input(theirs)
                output, stdout = self.open_output(theirs, self.stdout.feed_data, self.stdout.feed_eof)
                _, stderr = self.open_output(theirs, errors.take_part, errors.end_stream)
                self.stdout.set_transport(output)
                self.child = self.spawn(
                    argv, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds, on_exit=self.close
                )
        except BaseException:
            self.close()
            raise

    def read_last_lines(self) -> list[str]:
        """The end of what it wrote to stderr; all of that once it has ended."""
        if self.child.returncode is not None:  # the event loop may not have been notified yet
            self.close_pipes()
        return list(self._last_lines)

    async def end_process(self, seconds: float, *, terminate: bool = False) -> None:
        """End it, and whatever it started.

        Args:
            seconds: How long it may take to exit after its input has ended.
            terminate: Send it SIGTERM then, and wait as long again, before it is killed.
        """
        self.stdin.end_input()
        try:
            has_ended = await self.wait_for_exits(seconds)
            if terminate and not has_ended:
                self.signal_groups(signal.SIGTERM)
                has_ended = await self.wait_for_exits(seconds)
            if not has_ended:
                logger.warning("%s %s did not exit; killing it", self._name, self.child.pid)
        finally:
            await self.kill()

    def _keep_errors(self, lines: list[bytes]) -> None:
        for line in lines:
            if text := line.decode("utf-8", "replace").strip():
                self._last_lines.append(text[:_LONGEST_KEPT])
                logger.debug("%s %s: %s", self._name, self.child.pid, text)
