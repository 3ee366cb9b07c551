"""Programs under measurement: started in a process group of their own, bounded, and always ended.

CPU time is read from the process's own CPU clock, which counts every thread in nanoseconds; where the system has no
such clock (macOS), `ps` answers in hundredths of a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parent.parent
GRACE = 0.5
IDLE_SECONDS = 1.5
"""How long a program must be idle to be settled: longer than `toolstead mcp` waits before it opens its database."""
SETTLE_SECONDS = 60.0
BUSY = 0.02
"""The part of a CPU that an idle program may use."""
_CHUNK = 1 << 20
_SCHED_CLOCK = 2


class ContestantError(Exception):
    """A contestant did not start, did not answer in time, or answered wrongly.

    Attributes:
        log: The end of what it wrote to stderr.
    """

    def __init__(self, what: str, log: str = "") -> None:
        last = log.strip().rpartition("\n")[2].strip()
        super().__init__(f"{what}; it said: {last}" if last else what)
        self.log = log


class Child:
    """A running program with pipes to its stdin and stdout; what it says on stderr is kept for the error message."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        assert process.stdin is not None
        self._process = process
        self._log = log
        self._stdin = process.stdin.fileno()
        self._stdout = -1
        self._poll = select.poll()
        if process.stdout is not None:
            self._stdout = process.stdout.fileno()
            self._poll.register(self._stdout, select.POLLIN | select.POLLHUP)
        self._pending = bytearray()

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """CPU seconds so far."""
        if sys.platform == "linux":
            return time.clock_gettime((~self.pid << 3) | _SCHED_CLOCK)
        shown = subprocess.run(
            ["ps", "-o", "time=", "-p", str(self.pid)], capture_output=True, text=True, check=True
        ).stdout
        seconds = 0.0
        for part in shown.strip().split(":"):
            seconds = seconds * 60 + float(part)
        return seconds

    def settle(self) -> None:
        """Wait until it does nothing more on its own: what it put off at its start is no part of a call."""
        deadline = time.monotonic() + SETTLE_SECONDS
        looked, spent = time.monotonic(), self.cpu()
        while (now := time.monotonic()) < deadline:
            if self.cpu() - spent > BUSY * IDLE_SECONDS:
                looked, spent = now, self.cpu()
            elif now - looked >= IDLE_SECONDS:
                return
            time.sleep(0.05)
        raise ContestantError(f"it was not idle within {SETTLE_SECONDS:g} s", self.said())

    def write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._stdin, data) :]
        except BrokenPipeError:
            raise ContestantError("it closed its stdin", self.said()) from None

    def read_line(self, seconds: float) -> bytes:
        """The next line of stdout."""
        deadline = time.monotonic() + seconds
        searched = 0
        while (end := self._pending.find(b"\n", searched)) < 0:
            searched = len(self._pending)
            left = deadline - time.monotonic()
            if left <= 0 or not self._poll.poll(left * 1000):
                raise ContestantError(f"no answer within {seconds:g} s", self.said())
            data = os.read(self._stdout, _CHUNK)
            if not data:
                raise ContestantError("it ended", self.said())
            self._pending += data
        line = bytes(self._pending[: end + 1])
        del self._pending[: end + 1]
        return line

    def log_line(self, beginning: str, seconds: float) -> str:
        """The rest of the first line of stderr that begins like this."""
        (first, *_) = self._log_lines(lambda line: line.startswith(beginning), 1, repr(beginning), seconds)
        return first.removeprefix(beginning)

    def count_log_lines(self, part: str) -> int:
        """How many lines of stderr have this in them so far."""
        return len(self._lines_where(lambda line: part in line))

    def log_line_after(self, count: int, part: str, seconds: float) -> str:
        """The line of stderr that has this in it and comes after so many others that have."""
        return self._log_lines(lambda line: part in line, count + 1, f"with {part!r}", seconds)[count]

    def _log_lines(self, is_it: Callable[[str], bool], at_least: int, which: str, seconds: float) -> list[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if len(found := self._lines_where(is_it)) >= at_least:
                return found
            if self._process.poll() is not None:
                raise ContestantError("it ended", self.said())
            time.sleep(0.01)
        raise ContestantError(f"no line {which} within {seconds:g} s", self.said())

    def _lines_where(self, is_it: Callable[[str], bool]) -> list[str]:
        lines = self._logged().splitlines(keepends=True)
        return [line.rstrip() for line in lines if is_it(line) and line.endswith("\n")]

    def ended(self) -> bool:
        return self._process.poll() is not None

    def said(self) -> str:
        """The end of what it wrote to stderr."""
        return self._logged()[-3000:]

    def _logged(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def end(self) -> None:
        """End the whole process group: politely, then not."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def running(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    speaks: bool = True,
    cpu: int | None = None,
) -> Generator[Child]:
    """Run a program for the length of a `with`.

    Args:
        speaks: Whether its stdout is read; otherwise it goes to the log, because a full pipe stops a program.
        cpu: The one CPU it and its children may use; None leaves that to the system.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if speaks else log,
            stderr=log,
            bufsize=0,
            start_new_session=True,
        )
        child = Child(process, log)
        if cpu is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended already; whoever talks to it will say so
                os.sched_setaffinity(process.pid, {cpu})
        try:
            yield child
        finally:
            child.end()


def run(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Run a program to its one line of JSON."""
    with running(command, cwd=cwd, environment=environment) as child:
        line = child.read_line(seconds)
    return json.loads(line)


def two_cpus() -> tuple[int, int] | tuple[None, None]:
    """One CPU for the program under measurement and another for its load, where the system lets us choose."""
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    ours = sorted(os.sched_getaffinity(0))
    return (ours[0], ours[-1]) if len(ours) > 1 else (None, None)


def environment(home: Path) -> dict[str, str]:
    """What programs see: nothing of the user's own settings, and no reason to call home."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "PYTHONPATH": str(REPOSITORY),
        "FASTMCP_CHECK_FOR_UPDATES": "off",
        "LANGSMITH_TRACING": "false",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
