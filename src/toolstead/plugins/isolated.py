"""A plugin's function in a process of its own: for parsers, and whatever else cannot be interrupted or may grow.

Both ends are here. In the plugin, `IsolatedCalls` gives bytes and gets bytes; in the process, the module that it names
has a `main` that calls `answer_calls` with the function. Each message is a header and its content.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolstead.errors import ToolError

if TYPE_CHECKING:
    from toolstead.processes.isolated import IsolatedProgram

MOST_PROCESSES = 2
IDLE = 60.0
"""Seconds that an idle process is kept."""
_HEADER = struct.Struct(">?Q")
"""Whether the function answered or raised, and the length of the content."""
_LONGEST_ERROR = 500
_NICER = 5
"""Below whoever answers other calls, and yet not so far that a busy machine never gets to it."""


class IsolatedCalls:
    """Calls a function in a bounded number of processes, which know nothing of this one's environment."""

    def __init__(self, module: str, *, seconds: float, memory: int, largest: int) -> None:
        """Start nothing yet.

        Args:
            module: Where its `main` is.
            seconds: Processor time of one call.
            memory: Bytes that a process may use.
            largest: Bytes of an answer.
        """
        self._module = module
        self._bounds = f"{seconds:g} seconds of processor time or {memory // 1_048_576:,} MB of memory"
        self._arguments = (seconds, memory)
        self._largest = largest
        self._program: IsolatedProgram | None = None

    async def call(self, content: bytes, *, timeout: float) -> bytes:
        """What the function answers.

        Args:
            content: What it is called with.
            timeout: Seconds for all of it, those in which others came first included.

        Raises:
            ToolError: It raised, it took too long, or used too much memory.
        """
        seconds, memory = self._arguments
        request = struct.pack(">dQQ", seconds, memory, len(content)) + content
        try:
            answer = await self._open_program().exchange(request, self._read_answer, timeout=timeout)
        except TimeoutError:
            raise ToolError(f"there was no answer within {timeout:g} seconds; try again later") from None
        except OSError as error:
            raise ToolError(f"no process could be started for it ({error.strerror or error}); try again") from error
        if answer is None:
            raise ToolError(f"it takes more than {self._bounds}, which is the most allowed")
        succeeded, result = answer
        if not succeeded:
            raise ToolError(result.decode("utf-8", "replace"))
        return result

    async def aclose(self) -> None:
        """End the processes."""
        if self._program is not None:
            await self._program.aclose()

    def _open_program(self) -> IsolatedProgram:
        if self._program is None:
            from toolstead.processes.isolated import IsolatedProgram  # few plugins need it, and those not at once

            self._program = IsolatedProgram(
                self._module, most=MOST_PROCESSES, longest_line=65_536, keep_idle=IDLE, env={}
            )
        return self._program

    async def _read_answer(self, stdout: asyncio.StreamReader) -> tuple[tuple[bool, bytes] | None, bool]:
        try:
            succeeded, length = _HEADER.unpack(await stdout.readexactly(_HEADER.size))
            if length > self._largest:
                text = f"its answer has {length:,} bytes; at most {self._largest:,} are taken"
                return (False, text.encode()), False
            return (succeeded, await stdout.readexactly(length)), True
        except asyncio.IncompleteReadError:  # a limit ended it
            return None, False


def answer_calls(function: Callable[[bytes], bytes]) -> None:
    """Answer calls until the input ends: the `main` of the module that `IsolatedCalls` names."""
    from toolstead.concurrency.own_limits import limit_memory, limit_time, lower_priority

    lower_priority(_NICER)
    read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
    request = struct.Struct(">dQQ")
    while header := read(request.size):
        seconds, memory, length = request.unpack(header)
        content = read(length)
        limit_memory(memory)
        limit_time(seconds)
        try:
            succeeded, answer = True, function(content)
        except Exception as error:  # noqa: BLE001 - a parser may raise anything; its caller gets the text
            text = f"{type(error).__name__}: {error}" if not isinstance(error, ToolError) else str(error)
            succeeded, answer = False, text[:_LONGEST_ERROR].encode("utf-8", "replace")
        limit_time(0)
        write(_HEADER.pack(succeeded, len(answer)) + answer)
        sys.stdout.flush()
