"""One shell in an empty home, as a reader of a page has it: what a page says is typed into it, in order.

The home has a `toolstead` command in `~/.local/bin`, and nothing else of ours is on its PATH. Where the machine
allows it, the shell has a network of its own with nothing but loopback, so that pages may name ports.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests import machine

PATIENCE = 100
_LOOPBACK = """
import fcntl, os, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x49))
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Brings loopback up in a new network, then becomes the shell."""


class PageShell:
    """A bash that is given one command after the other; folder and variables stay from each to the next."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.home = folder / "home"
        self.work = self.home / "work"
        self._files = folder / "shell"
        for place in (self.work, self._files, self.home / ".local" / "bin"):
            place.mkdir(parents=True)
        self.add_program("toolstead", [sys.executable, "-m", "toolstead"])
        self.add_program("python", [sys.executable])
        command = ["bash", "--norc", "--noprofile"]
        if machine.reason_for_lack("netns") is None:
            command = ["unshare", "--net", sys.executable, "-c", _LOOPBACK, *command]
        self._count = 0
        self._prompt = self._files / "prompt"
        os.mkfifo(self._prompt)
        self._ended = os.open(self._prompt, os.O_RDWR)
        self.environ = {
            "HOME": str(self.home),
            "PATH": f"{self.home / '.local' / 'bin'}:{os.defpath}",
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            "SHELL": "/bin/bash",
            "TERM": "dumb",
            **environ,
        }
        self._process = subprocess.Popen(
            command,
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def add_program(self, name: str, command: list[str]) -> None:
        """Put a program on the reader's PATH."""
        file = self.home / ".local" / "bin" / name
        words = " ".join(f"'{word}'" for word in command)
        file.write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
        file.chmod(0o755)

    def write_file(self, name: str, text: str) -> Path:
        """Write a file of the page: below the home where it begins with `~/`, else in the current folder."""
        folder = Path(self.run("pwd").output.strip())
        path = self.home / name[2:] if name.startswith("~/") else folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def run(self, command: str) -> Ran:
        """Type a command; wait until it has ended."""
        self._count += 1
        script, output = self._files / f"{self._count}.sh", self._files / f"{self._count}.out"
        script.write_text(command + "\n", "utf-8")
        self._type(f"source '{script}' > '{output}' 2>&1 < /dev/null; echo $? > '{self._prompt}'\n")
        status = self._read_prompt(command)
        return Ran(status=status, output=output.read_text("utf-8", errors="replace"))

    def start_server(self, command: str) -> str:
        """Type a command that stays, as in a second terminal; give what it printed once it listens."""
        self._count += 1
        output = self._files / f"{self._count}.out"
        self._type(f"{command} > '{output}' 2>&1 < /dev/null &\necho 0 > '{self._prompt}'\n")
        self._read_prompt(command)
        waited = self.run(f"timeout {PATIENCE - 1} sh -c 'until grep -q https*:// {output}; do sleep 0.1; done'")
        printed = output.read_text("utf-8", errors="replace")
        assert waited.status == 0, f"{command} does not listen:\n{printed}"
        return printed

    def close(self) -> None:
        """End the shell and everything that was started in it."""
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
            os.close(self._ended)
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _type(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def _read_prompt(self, command: str) -> int:
        """The status of the command that has ended."""
        ready, _, _ = select.select([self._ended], [], [], PATIENCE)
        assert ready, f"no end within {PATIENCE} seconds: {command}"
        return int(os.read(self._ended, 100))


class Ran:
    """How a command ended, and what it printed on stdout and stderr."""

    def __init__(self, *, status: int, output: str) -> None:
        self.status, self.output = status, output
