"""A leash for code that may ignore being cancelled: its caller can always go on.

Like `deadline`, it goes on with a coroutine that made its first step bare. Unlike there, a late answer is no answer,
nobody but the caller can cancel the caller, and everything can be ended at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from toolstead.plugins.held import Held

GRACE = 1.0
"""Seconds that a coroutine has to end after its time is over and it was cancelled."""
CALLERS_GRACE = 5.0
"""The same after its caller was cancelled. Longer, because a timeout of its own looks the same from here."""


class LateError(Exception):
    """Its time was over before it ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it did not end within {seconds:g} seconds")


class StuckError(Exception):
    """It was cancelled and went on all the same, so it was closed by force."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it was cancelled after {seconds:g} seconds at most, went on all the same, and was let go")


class ClosedError(Exception):
    """Everything is being closed, and so it was cancelled."""

    def __init__(self) -> None:
        super().__init__("everything is being closed")


class Leash(Held):
    """Holds one coroutine while it waits, and its time is limited."""

    __slots__ = ("_closing", "_expired", "_expiring", "_gone", "_seconds")

    def __init__(self, seconds: float) -> None:
        """For a coroutine that may take this long; to be made in the task that will hold it."""
        super().__init__(CALLERS_GRACE)
        self._seconds = seconds
        self._closing = self._expired = False
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._expiring: asyncio.TimerHandle | None = None

    async def hold(self, steps: Coroutine[Any, Any, Any], waiting: Any) -> tuple[Any, BaseException | None]:
        """Go on with a coroutine that made its first step and waits for something.

        Args:
            steps: The coroutine.
            waiting: What it yielded.

        Returns:
            Its answer, or what it raised: `LateError`, `StuckError` and `ClosedError` tell of its end by us, and
            a `CancelledError` here is the coroutine's own.

        Raises:
            asyncio.CancelledError: The caller was cancelled, whatever the coroutine made of it.
        """
        self._expiring = self._loop.call_later(self._seconds, self._expire)
        answer: Any = None
        error: BaseException | None = None
        try:
            answer = await self.drive(steps, waiting)
        except GeneratorExit:
            raise
        except BaseException as raised:  # noqa: BLE001 - whatever it raises is told to the caller
            error = raised
        finally:
            self._expiring.cancel()
            self._gone.set_result(None)
            if self._expired:
                self._task.uncancel()
        if self.left:
            error = StuckError(self._seconds)
        if isinstance(error, KeyboardInterrupt):
            return None, error
        if self.is_cancelled:
            raise error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError() from error
        if self._closing:
            return None, ClosedError()
        if self._expired and not self.left:
            late = LateError(self._seconds)
            late.__cause__ = error
            return None, late
        if self._cancels and isinstance(error, asyncio.CancelledError):
            raise error
        return answer, error

    @property
    def is_held_here(self) -> bool:
        """Whether it is the running task that waits: then it cannot wait for the end as well."""
        return self._task is asyncio.current_task()

    async def end(self) -> None:
        """Cancel it now, and wait until it has ended or was let go."""
        if not self._expired:
            self._closing = True
            self._expire()
        await asyncio.wait((self._gone,))

    def _expire(self) -> None:
        if self._expired:
            return
        self._expired = True
        if self._expiring is not None:  # perhaps it is ended before its time is over
            self._expiring.cancel()
        self._expiring = self._loop.call_later(GRACE, self.leave)
        self._task.cancel()
