"""An event loop whose clock jumps: waiting takes no time, and a deadlock is an error at once.

Everything that waits on the loop (sleeps, timeouts, timers) keeps its order and its distances, so
eight idle minutes pass in a microsecond, and the same plan always gives the same interleaving.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class DeadlockError(Exception):
    """Nothing can ever happen any more, and somebody still waits."""


class _Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type] - the best one of this system
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise DeadlockError("nothing is scheduled, and somebody still waits")
        self.loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own, in seconds from 0."""

    def __init__(self) -> None:
        selector = _Selector()
        selector.loop = self
        self.now = 0.0
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run_virtually(main: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end, without waiting for anything."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
