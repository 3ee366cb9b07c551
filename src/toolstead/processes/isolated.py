"""A function of ours in processes of its own: what may take long and cannot be interrupted, such as a parser in C.

Each process answers one request after another. One whose answer does not come whole is killed: what it would still
write would be taken for the answer to the next request. The limits of time and memory are set by the process itself
(`concurrency/own_limits.py`), as the system enforces them without help of the interpreter.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from toolstead.processes.piped import PipedProcess

Answer = TypeVar("Answer")
ReadAnswer = Callable[[asyncio.StreamReader], Awaitable[tuple[Answer, bool]]]
"""Reads an answer, and says whether it came whole."""

_PROGRAM = (
    "import sys; from importlib import import_module; module, sys.path[:] = sys.argv[1], sys.argv[2:];"
    " import_module(module).main()"
)


class IsolatedProgram:
    """Gives requests to a module's `main`, in a bounded number of processes; idle ones are kept for a while."""

    def __init__(
        self,
        module: str,
        *,
        most: int,
        longest_line: int,
        keep_idle: float = 0.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            module: Its `main` reads requests from stdin and writes answers to stdout, until the input ends.
            most: Processes at once; further requests wait.
            longest_line: Bytes of an answer's line; about twice as many are buffered.
            keep_idle: Seconds that an idle process is kept for the next request; then `aclose` must be called in
                the end.
            env: The processes' whole environment; None means our own.
        """
        self._module = module
        self._longest_line = longest_line
        self._keep_idle = keep_idle
        self._env = env
        self._room = asyncio.Semaphore(most)
        self._idle: list[PipedProcess] = []
        self._ending: asyncio.TimerHandle | None = None

    async def exchange(self, request: bytes, read_answer: ReadAnswer[Answer], *, timeout: float) -> Answer:
        """Give a process a request, and read its answer.

        Args:
            request: What its `main` reads.
            read_answer: Reads the answer. At the end of the output it must return, and say that it is not whole.
            timeout: Seconds for all of it, those in which others came first included.

        Raises:
            OSError: No process can be started.
            TimeoutError: The time is over.
        """
        async with asyncio.timeout(timeout), self._room:
            process = self._idle.pop() if self._idle else self._start_process()
            try:
                process.stdin.write(request)
                answer, is_whole = await read_answer(process.stdout)
            except BaseException:
                await process.kill()
                raise
            if is_whole and self._keep_idle:
                self._keep_process(process)
            else:
                await process.kill()
            return answer

    async def aclose(self) -> None:
        """End the processes."""
        if self._ending is not None:
            self._ending.cancel()
        while self._idle:
            await self._idle.pop().kill()

    def _start_process(self) -> PipedProcess:
        command = (sys.executable, "-P", "-c", _PROGRAM, self._module, *filter(None, sys.path))
        return PipedProcess(command, cwd=Path("/"), env=self._env, longest_line=self._longest_line)

    def _keep_process(self, process: PipedProcess) -> None:
        """Keep it for the next request, and end what is idle after a while."""
        self._idle.append(process)
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(self._keep_idle, self._end_idle)

    def _end_idle(self) -> None:
        while self._idle:
            self._idle.pop().stdin.end_input()  # it exits by itself, and closes then
