"""A deadline that stands still while the work waits for a person.

Whoever waits bounds the wait itself: a paused deadline ends nothing.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class PausableDeadline:
    """The deadline of one call. Inside a `with` block, or several at once, it does not run."""

    __slots__ = ("_left", "_pauses", "_timeout")

    def __init__(self) -> None:
        self._pauses = 0
        self._left = 0.0
        self._timeout: asyncio.Timeout | None = None

    def follow(self, timeout: asyncio.Timeout) -> None:
        """Rule over a timeout that was just entered; it may be paused already."""
        self._timeout = timeout
        if self._pauses:
            self._stop()

    def leave(self) -> None:
        """Leave the timeout alone: the work is over, or nobody waits for it any more."""
        self._timeout = None

    def __enter__(self) -> None:
        self._pauses += 1
        if self._pauses == 1:
            self._stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pauses -= 1
        # One that has expired is over: the handler is being cancelled.
        if not self._pauses and self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    def _stop(self) -> None:
        if self._timeout is None or self._timeout.expired() or (ends_at := self._timeout.when()) is None:
            return
        self._left = ends_at - asyncio.get_running_loop().time()
        self._timeout.reschedule(None)
