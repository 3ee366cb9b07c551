"""Lines of a running command, handed on as progress; what waits for a slow caller is bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

logger = logging.getLogger(__name__)

MOST_WAITING = 1_048_576
"""Bytes of lines that wait for the caller; the next ones are dropped."""

SECONDS_TO_CATCH_UP = 2.0
"""How long the answer of a command that has ended waits until the caller has read its lines."""

_COST_OF_A_LINE = 64

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class LineProgress:
    """`async with LineProgress(meta.report_progress) as progress`: `progress.take_lines` gets lines as they come."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = MOST_WAITING
        self._missed = 0

    async def __aenter__(self) -> Self:
        self._reporting = asyncio.create_task(self._report_lines(), name="toolstead-line-progress")
        return self

    def take_lines(self, lines: list[bytes]) -> None:
        """Pass on lines; those that do not fit in the queue are dropped."""
        self._missed += len(lines)
        for line in lines:
            if self._room < 0:
                break
            self._room -= len(line) + _COST_OF_A_LINE
            self._waiting.put_nowait(line)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the caller catch up, but not for long; then log how much it has missed."""
        self._waiting.put_nowait(None)
        try:
            if error is None:
                await asyncio.wait([self._reporting], timeout=SECONDS_TO_CATCH_UP)
        finally:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])
            if self._missed:
                logger.warning("%s lines of progress were dropped: the caller reads too slowly", f"{self._missed:,}")
        failed = None if self._reporting.cancelled() else self._reporting.exception()
        if failed is not None and error is None:
            raise failed

    async def _report_lines(self) -> None:
        count = 0
        while (line := await self._waiting.get()) is not None:
            count += 1
            await self._report(count, None, line.decode("utf-8", "replace"))
            self._room += len(line) + _COST_OF_A_LINE
            self._missed -= 1
