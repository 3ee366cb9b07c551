"""Ends a program when our process was killed and could not do it itself.

Claude Code does not leave when its input ends in the middle of a turn: it waits for the model, or for a command. So a
small process of its own waits for our end, which it learns from a pipe, and then ends whatever carries the program's
mark. For that it needs `/proc`: elsewhere a program whose turn is under way outlives a process that was killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress

from toolstead.tools.handlers import escaped

logger = logging.getLogger(__name__)

_ENVIRONS = "/proc/self/environ"
_PROGRAM = """
import runpy, sys
kill_escaped = runpy.run_path(sys.argv[1])["kill_escaped"]
sys.stdin.buffer.read()
kill_escaped(sys.argv[2], ())
"""
"""Only the standard library is needed for it, so it starts at once and stays small."""


class Watcher:
    """Watches over everything with one mark, from `start` until `close`."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: asyncio.Task[int] | None = None

    async def start(self) -> None:
        """Begin to watch; a watcher that cannot be had is logged, and the program is started all the same."""
        if not os.access(_ENVIRONS, os.R_OK):
            logger.info("claude: should this process be killed, a program at work is left: there is no /proc here")
            return
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _PROGRAM, escaped.__file__, self._mark),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # what ends our process group is to leave it alone
            )
        except OSError as error:
            logger.warning("claude: nobody will end a program that this process leaves behind: %s", error)
            return
        self._waiting = asyncio.create_task(self._process.wait())
        self._waiting.add_done_callback(self._name_end)

    async def close(self) -> None:
        """Watch no more. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        if self._waiting is not None:
            await asyncio.wait((self._waiting,))

    def _name_end(self, waiting: asyncio.Task[int]) -> None:
        """Say so when it ended by itself."""
        if self._process is not None and not waiting.cancelled():
            logger.warning("claude: the watcher over a program has ended with status %s", waiting.result())
