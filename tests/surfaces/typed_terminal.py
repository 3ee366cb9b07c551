"""A command on a terminal of 80 columns, and a person who reads it and types."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.programs.running import TOOLSTEAD
from tests.surfaces.talking_project import remove_looks
from tests.waiting import PATIENCE

CTRL_C, CTRL_D = "\x03", "\x04"


class TypedTerminal:
    """A running command; `written` is all that it has written to its terminal."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self.written = ""
        self._master = master
        self._news = asyncio.Event()
        self._seen = 0
        asyncio.get_running_loop().add_reader(master, self._take)

    def _take(self) -> None:
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the command has closed its end
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
        self.written += data.decode("utf-8", "replace")
        self._news.set()

    @property
    def shown(self) -> str:
        """What a person sees of it in the end."""
        return remove_looks(self.written)

    async def sees(self, text: str) -> None:
        """Wait until this was written after what was seen before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while text not in self.written[self._seen :]:
                    self._news.clear()
                    await self._news.wait()
        assert text in self.written[self._seen :], self.shown
        self._seen = self.written.index(text, self._seen) + len(text)

    def types(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    async def ended(self) -> int:
        """Its exit status, once it has ended by itself."""
        return await asyncio.wait_for(self.process.wait(), PATIENCE)

    @property
    def settings(self) -> list[object]:
        """Those of the terminal."""
        return termios.tcgetattr(self._master)


@asynccontextmanager
async def at_terminal(folder: Path, *arguments: str, **environ: str) -> AsyncIterator[TypedTerminal]:
    """The command on a terminal of its own."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *TOOLSTEAD,
        *arguments,
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1", **environ},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
    )
    terminal = TypedTerminal(process, master)
    try:
        yield terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait_for(process.wait(), PATIENCE)
        asyncio.get_running_loop().remove_reader(master)
        os.close(slave)
        os.close(master)
