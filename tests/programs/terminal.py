"""A command with a person at its terminal, who reads what it shows and types."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE


class Terminal:
    """A command with a person at its terminal; its stdout goes elsewhere, unless it is asked for."""

    def __init__(self, folder: Path, *arguments: str, stdout: bool = False, **environ: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "toolstead", *arguments],
            cwd=folder,
            stdin=slave,
            stderr=slave,
            stdout=slave if stdout else subprocess.PIPE,
            env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", **environ},
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def until(self, text: str) -> str:
        """What is on the screen, once this is."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), f"it ended: {self.shown}"
        return self.shown

    def answer(self, question: str, text: str) -> str:
        """Type a text when a question is shown, and take what was shown so far away."""
        shown = self.until(question)
        self.shown = ""
        self.type(text)
        return shown.replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> tuple[int, str, str]:
        """The exit status, stdout, and all that was on the screen."""
        while self._read():
            pass
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (output or b"").decode(), self.shown.replace("\r\n", "\n")

    def _read(self) -> bool:
        if not select.select([self._master], [], [], PATIENCE)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other end is closed
            return False
        self.shown += data.decode()
        return bool(data)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)


@contextmanager
def open_terminal(folder: Path, *arguments: str, stdout: bool = False, **environ: str) -> Iterator[Terminal]:
    """Start a command at a terminal of its own; in the end it is gone."""
    opened = Terminal(folder, *arguments, stdout=stdout, **environ)
    try:
        yield opened
    finally:
        opened.close()
