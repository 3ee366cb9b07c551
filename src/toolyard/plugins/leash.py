"""A leash for code that may ignore being cancelled: its caller can always go on.

Like `deadline`, it goes on with a coroutine that made its first step bare, in the caller's own task, so that
timeouts and task groups in it work as anywhere. Unlike there, a coroutine that was cancelled and does not end
within a grace is closed by force, a late answer is no answer, and nobody but the caller can cancel the caller.
Above: the hook runner. Below: nothing.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

GRACE = 1.0
"""Seconds that a coroutine has to end after its time is over and it was cancelled."""
CALLERS_GRACE = 5.0
"""The same after its caller was cancelled. Longer, because a timeout of its own looks the same from here."""

_TRIES = 10


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


class Leash:
    """Holds one coroutine while it waits."""

    __slots__ = (
        "_base",
        "_cancels",
        "_closing",
        "_expired",
        "_gate",
        "_gone",
        "_left",
        "_loop",
        "_seconds",
        "_task",
        "_timers",
    )

    def __init__(self, seconds: float) -> None:
        """For a coroutine that may take this long; to be made in the task that will hold it."""
        task = asyncio.current_task()
        assert task is not None, "only a task can wait"  # noqa: S101 - a coroutine that waits is always in one
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._base = task.cancelling()
        self._closing = self._expired = self._left = False
        self._cancels = 0
        self._gate: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []

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
        self._timers.append(self._loop.call_later(self._seconds, self._expire))
        try:
            answer, error = await self._drive(steps, waiting)
        finally:
            for timer in self._timers:
                timer.cancel()
            self._gone.set_result(None)
            if self._left:
                _close(steps)  # before the count is looked at: what it has open takes back its own cancellations
            if self._expired:
                self._task.uncancel()
        if self._left:
            error = StuckError(self._seconds)
        if isinstance(error, KeyboardInterrupt):
            return None, error
        if self._task.cancelling() > self._base:
            raise error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError() from error
        if self._closing:
            return None, ClosedError()
        if self._expired and not self._left:
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
        self._timers.append(self._loop.call_later(GRACE, self._leave))
        self._task.cancel()

    def _leave(self) -> None:
        self._left = True
        self._wake()

    def _leave_if_cancelled(self, cancels: int) -> None:
        if cancels == self._cancels and self._task.cancelling() > self._base:
            self._leave()

    def _wake(self, _: object = None) -> None:
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    @types.coroutine
    def _drive(
        self, steps: Coroutine[Any, Any, Any], waiting: Any
    ) -> Generator[Any, Any, tuple[Any, BaseException | None]]:
        """Do what a task does with its coroutine, but inside a task, and only as long as it is held."""
        while True:
            thrown: BaseException | None = None
            try:
                if self._is_ours(waiting):
                    waiting._asyncio_future_blocking = False  # noqa: SLF001 - says that it is waited for, as tasks do
                    thrown = yield from self._until_done(waiting)
                else:
                    yield waiting
            except GeneratorExit:
                _close(steps)
                raise
            except BaseException as error:  # noqa: BLE001 - whatever is thrown in is the coroutine's to see
                thrown = error
                self._note(error)
            if self._left:
                return None, None
            try:
                waiting = steps.send(None) if thrown is None else steps.throw(thrown)
            except StopIteration as done:
                return done.value, None
            except BaseException as error:  # noqa: BLE001 - whatever it raises is told to the caller
                return None, error

    def _is_ours(self, waiting: Any) -> bool:
        """Whether this is a future that we can wait for; about all else the task complains as it always does."""
        return asyncio.isfuture(waiting) and waiting is not self._task and waiting.get_loop() is self._loop

    def _until_done(self, waited: asyncio.Future[Any]) -> Generator[Any, Any, BaseException | None]:
        """Wait at a gate of our own, for a task that is waited for may swallow what we pass on, and never end.

        Returns:
            A cancellation that could not be passed on to what is waited for.
        """
        while not (waited.done() or self._left):
            self._gate = self._loop.create_future()
            waited.add_done_callback(self._wake)
            try:
                yield from self._gate
            except asyncio.CancelledError as error:
                self._note(error)
                if not waited.cancel(*error.args):
                    return error
            finally:
                waited.remove_done_callback(self._wake)
                self._gate = None
        return None

    def _note(self, error: BaseException) -> None:
        """A cancellation came that is not ours: the caller's, or one of a timeout that the coroutine has open."""
        if isinstance(error, asyncio.CancelledError) and not self._expired:
            self._cancels += 1
            self._timers.append(self._loop.call_later(CALLERS_GRACE, self._leave_if_cancelled, self._cancels))


def _close(steps: Coroutine[Any, Any, Any]) -> None:
    """End it where it stands; each try ends one more of its `finally` that waits."""
    for _ in range(_TRIES):
        try:
            steps.close()
        except KeyboardInterrupt:
            raise
        except RuntimeError:  # it waits again, or this is an error of its own: then the next try finds it closed
            continue
        except BaseException:  # noqa: BLE001 - its last words; it has ended
            return
        return
    _keep_for_ever(steps)


def _keep_for_ever(steps: Coroutine[Any, Any, Any]) -> None:
    """Never collect what cannot be closed, not even when Python ends.

    Collecting closes once more, and without a loop every `await` raises at once: `while True: try: await … except:
    pass` would then go round for ever, and the process would not end. A reference that nobody gives back prevents it.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(steps))
