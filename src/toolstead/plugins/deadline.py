"""A deadline that costs nothing until the handler waits for something.

Most handlers answer without ever suspending, and a timer that is armed and disarmed for each of
them costs more than the rest of the call. So the dispatcher makes the first step bare; a handler
that suspends comes here and gets its timer, and from then on everything, cancellation included,
passes through as if it had been awaited directly. One that goes on although it was cancelled is let
go after a grace: a limit holds whatever a handler makes of it.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from toolstead.plugins.held import Held

_T = TypeVar("_T")

GRACE = 10.0
"""Seconds that a handler has to end after it was cancelled: time to end a process, or to undo something."""


class DeadlineError(Exception):
    """The deadline passed and the handler was cancelled; never leaves the dispatcher.

    Not a `TimeoutError`, so that a handler's own is told apart: that one is a crash.

    Attributes:
        deaf: It went on all the same, and was let go.
    """

    def __init__(self, seconds: float, *, deaf: bool = False) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.deaf = deaf


class DeafError(Exception):
    """The caller's cancellation was ignored, and the handler let go: the cause of what the caller is told."""


async def finish_in_time(steps: Coroutine[Any, Any, _T], waiting: Any, seconds: float) -> _T:
    """Go on with a coroutine that made its first step and waits for something.

    Args:
        steps: The coroutine.
        waiting: What it yielded.
        seconds: How long it may take from now.

    Raises:
        DeadlineError: It did not finish in time, and was cancelled.
        asyncio.CancelledError: The caller was cancelled, and so was it.
    """
    held, deadline = Held(GRACE), asyncio.timeout(seconds)
    try:
        async with deadline:
            answer = await held.drive(steps, waiting)
    except TimeoutError:
        if deadline.expired():
            raise DeadlineError(seconds) from None
        raise
    if not held.left:
        return answer
    if held.is_cancelled:
        raise asyncio.CancelledError from DeafError()
    raise DeadlineError(seconds, deaf=True)


@types.coroutine
def resumed(steps: Coroutine[Any, Any, _T], waiting: Any) -> Generator[Any, Any, _T]:
    """The rest of a coroutine that made its first step, as if it had been awaited from the beginning.

    Args:
        steps: The coroutine.
        waiting: What it yielded.
    """
    try:
        while True:
            try:
                sent = yield waiting
            except BaseException as error:  # noqa: BLE001 - whatever is thrown in is the handler's to see
                waiting = steps.throw(error)
            else:
                waiting = steps.send(sent)
    except StopIteration as done:
        return done.value
