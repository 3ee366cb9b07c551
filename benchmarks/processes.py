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
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parent.parent
GRACE = 0.5
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
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in self._logged().splitlines(keepends=True):
                if line.startswith(beginning) and line.endswith("\n"):
                    return line[len(beginning) :].strip()
            if self._process.poll() is not None:
                raise ContestantError("it ended", self.said())
            time.sleep(0.01)
        raise ContestantError(f"no line {beginning!r} within {seconds:g} s", self.said())

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
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], speaks: bool = True
) -> Generator[Child]:
    """Run a program for the length of a `with`.

    Args:
        speaks: Whether its stdout is read; otherwise it goes to the log, because a full pipe stops a program.
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
        try:
            yield child
        finally:
            child.end()


def run(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Run a program to its one line of JSON."""
    with running(command, cwd=cwd, environment=environment) as child:
        line = child.read_line(seconds)
    return json.loads(line)


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
