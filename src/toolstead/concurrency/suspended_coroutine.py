"""A coroutine of foreign code (a tool, a hook, a step of a plugin) in its caller's own task, with a deadline.

`start_coroutine` takes the first step. Most coroutines end there; one that waits comes back as a `SuspendedCoroutine`,
and `finish` runs the rest of it:

    running ── deadline passed, caller cancelled, or `end` ──▶ cancelled ── grace period over ──▶ abandoned
       └───────────────────── returned or raised ─────────────────┴──────▶ ended

| state     | how its futures are awaited                   | a cancellation of the task                        |
|-----------|-----------------------------------------------|---------------------------------------------------|
| running   | directly; tasks behind a gate                 | is thrown into it, and the grace period begins    |
| cancelled | behind a gate                                 | is thrown into it; the grace period stays         |
| abandoned | not at all: it is closed by force             | is the caller's own                               |

A gate is a future of ours that is awaited instead. A task passes a cancellation on to the task that it awaits; where
that one ignores it, nothing but a gate can wake the first one up again.

A cancellation that is taken back, as `asyncio.timeout` inside the coroutine does it, leads back to running.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from toolstead.concurrency.pausable_deadline import PausableDeadline

GRACE = 5.0
"""Seconds to end after the caller was cancelled. The longer one: the caller's own timeout looks the same here."""
LATE_GRACE = 1.0
"""Seconds to end after the deadline passed."""
_CLOSE_ATTEMPTS = 10


def render_seconds(seconds: float) -> str:
    """`1 second`, `0.5 seconds`."""
    return "1 second" if seconds == 1 else f"{seconds:g} seconds"


class DeadlineError(Exception):
    """The deadline passed, and the coroutine was cancelled.

    Not a `TimeoutError`, so that it cannot be mistaken for one that the coroutine raises itself.

    Attributes:
        was_abandoned: It ignored its cancellation.
        goes_on: What it waited for goes on in a thread, which nothing can end.
    """

    def __init__(self, seconds: float, *, was_abandoned: bool = False, goes_on: bool = False) -> None:
        how = ", ignored its cancellation and was abandoned" if was_abandoned else ""
        super().__init__(f"it did not end within {render_seconds(seconds)}{how}")
        self.seconds = seconds
        self.was_abandoned = was_abandoned
        self.goes_on = goes_on


class IgnoredCancellationError(Exception):
    """What was called goes on in spite of its cancellation: the cause of the `CancelledError` that the caller gets."""


class UnendingThreadError(IgnoredCancellationError):
    """It goes on in a thread, until the function there returns."""


class ClosingError(Exception):
    """It was cancelled by the shutdown."""


def start_coroutine(steps: Awaitable[Any]) -> Any:
    """Take the first step of a coroutine: its answer, or a `SuspendedCoroutine` where it waits for something.

    Anything else that can be awaited is taken as a coroutine that awaits it.

    Why coroutines are driven by hand here, measured on the row `call` (CPython 3.11): the whole call of a tool takes
    1.8 µs, its floor (the bare function with its validation) 0.47 µs. A task for every call, the plain way, would add
    11 µs with `asyncio.timeout` around it or 15 µs with `asyncio.wait`; `asyncio.timeout` without a task 4 µs. A
    coroutine that took its first step here cannot go on in another task, because `asyncio.timeout` and `TaskGroup`
    remember the task that they were entered in. The runner between saves 0.2 µs: a coroutine that is asked directly
    ends with a `StopIteration`, which has to be raised and caught (3.12 and 3.13 alike).
    """
    if type(steps) is not CoroutineType:
        steps = _await_anything(steps)
    try:
        runner = _idle_runners.pop()
    except IndexError:
        runner = cast("Generator[Any, Any, None]", _run_coroutines())
        runner.send(None)
    waiting = runner.send(steps)
    if type(waiting) is not _Answer:
        return SuspendedCoroutine(cast("Coroutine[Any, Any, Any]", steps), runner, waiting)
    answer, waiting.value = waiting.value, None
    _idle_runners.append(runner)
    return answer


async def _await_anything(something: Awaitable[Any]) -> Any:
    return await something


class _Answer:
    """Yielded by a runner: its coroutine has ended."""

    __slots__ = ("value",)

    value: Any


@types.coroutine
def _run_coroutines() -> Generator[Any, Any, None]:
    """A runner: is sent one coroutine after another, yields what it waits for, and at last its answer.

    It ends with a coroutine that raises, and belongs to the first that waits.
    """
    answer = _Answer()
    steps = yield answer
    while True:
        answer.value = yield from steps
        steps = yield answer


_idle_runners: list[Generator[Any, Any, None]] = []


class SuspendedCoroutine:
    """A coroutine that waits for something; exactly one of the ways to finish it is taken, once."""

    __slots__ = (
        "_abandoned",
        "_base",
        "_closing",
        "_coroutine",
        "_ended",
        "_gate",
        "_got_cancellation",
        "_grace",
        "_late_grace",
        "_loop",
        "_runner",
        "_task",
        "_timeout",
        "_timer",
        "_waiting",
    )

    def __init__(self, coroutine: Coroutine[Any, Any, Any], runner: Generator[Any, Any, None], waiting: Any) -> None:
        """A coroutine that made its first step in the running task, the runner that took it, and what it yielded."""
        self._coroutine = coroutine
        self._runner = runner
        self._waiting = waiting
        self._abandoned = self._closing = self._got_cancellation = False
        self._ended: asyncio.Future[None] | None = None
        self._gate: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @types.coroutine
    def resume(self) -> Generator[Any, Any, Any]:
        """Run the rest without any limit, as if it had been awaited from the beginning."""
        runner, waiting = self._runner, self._waiting
        while type(waiting) is not _Answer:
            try:
                sent = yield waiting
            except BaseException as error:  # noqa: BLE001 - whatever is thrown in is the coroutine's to see
                waiting = runner.throw(error)
            else:
                waiting = runner.send(sent)
        return waiting.value

    async def finish(
        self,
        seconds: float,
        *,
        grace: float,
        late_grace: float | None = None,
        deadline: PausableDeadline | None = None,
    ) -> Any:
        """Run the rest with a deadline. An answer that it gives in spite of its cancellation counts.

        Args:
            seconds: How long it may take from now.
            grace: Seconds that it has to end after a cancellation.
            late_grace: The same after the deadline passed, where it is another.
            deadline: Pauses the deadline, where something can.

        Raises:
            DeadlineError: It did not finish in time, and was cancelled.
            asyncio.CancelledError: The caller was cancelled, and so was it.
        """
        task = asyncio.current_task()
        assert task is not None, "only a task can wait"  # noqa: S101 - a coroutine that waits is always in one
        self._task = task
        self._loop = task.get_loop()
        self._base = task.cancelling()
        self._grace, self._late_grace = grace, grace if late_grace is None else late_grace
        self._timeout = asyncio.timeout(seconds)
        try:
            async with self._timeout:
                if deadline is not None:
                    deadline.follow(self._timeout)
                answer = await self._drive_steps()
        except TimeoutError as error:
            if self._timeout.expired():
                cause = error.__cause__
                why = None if cause is None else cause.__cause__
                raise DeadlineError(
                    seconds,
                    was_abandoned=isinstance(why, IgnoredCancellationError),
                    goes_on=isinstance(why, UnendingThreadError),
                ) from cause
            raise
        finally:
            if deadline is not None:
                deadline.leave()
            if self._ended is not None:
                self._ended.set_result(None)
        if not self._abandoned:
            return answer
        if self._is_cancelled:
            raise asyncio.CancelledError from IgnoredCancellationError("it ignored its cancellation and was abandoned")
        raise DeadlineError(seconds, was_abandoned=True)

    async def finish_strictly(self, seconds: float) -> tuple[Any, BaseException | None]:
        """Run the rest with a deadline. A late answer is none, and only the caller can cancel the caller.

        Returns:
            Its answer, or what it raised. `DeadlineError` and `ClosingError` say that it was ended by us, and a
            `CancelledError` here is the coroutine's own.

        Raises:
            asyncio.CancelledError: The caller was cancelled, whatever the coroutine made of it.
        """
        answer: Any = None
        error: BaseException | None = None
        try:
            answer = await self.finish(seconds, grace=GRACE, late_grace=LATE_GRACE)
        except GeneratorExit:
            raise
        except KeyboardInterrupt as interrupt:
            return None, interrupt
        except BaseException as raised:  # noqa: BLE001 - whatever it raises is the caller's to judge
            error = raised
        if self._is_cancelled:
            if isinstance(error, asyncio.CancelledError):
                raise error
            raise asyncio.CancelledError from error
        if self._closing:
            return None, ClosingError("Toolstead is shutting down")
        if self._timeout.expired() and not isinstance(error, DeadlineError):
            late = DeadlineError(seconds)
            late.__cause__ = error
            return None, late
        if self._got_cancellation and isinstance(error, asyncio.CancelledError):
            raise error  # a cancellation from before the first step, which counts as taken back
        return answer, error

    @property
    def is_in_running_task(self) -> bool:
        """Whether it is the running task that waits: then it cannot wait for the end as well."""
        return self._task is asyncio.current_task()

    async def end(self) -> None:
        """Cancel it now, and wait until it has ended or was abandoned."""
        if not self._timeout.expired():
            self._closing = True
            self._timeout.reschedule(self._loop.time())
        if self._ended is None:
            self._ended = self._loop.create_future()
        await asyncio.wait((self._ended,))

    @property
    def _is_cancelled(self) -> bool:
        """Whether the task is cancelled, and was not when it began to wait."""
        return self._task.cancelling() > self._base

    @types.coroutine
    def _drive_steps(self) -> Generator[Any, Any, Any]:
        """Do what a task does with its coroutine, until it ends or is abandoned."""
        runner, waiting = self._runner, self._waiting
        try:
            while type(waiting) is not _Answer:
                thrown: BaseException | None = None
                try:
                    if self._needs_gate(waiting):
                        waiting._asyncio_future_blocking = False  # noqa: SLF001 - as tasks do; else no task could await it
                        thrown = yield from self._wait_at_gate(waiting)
                    else:
                        yield waiting
                except GeneratorExit:
                    self._close()
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever is thrown in is the coroutine's to see
                    thrown = error
                    if isinstance(error, asyncio.CancelledError):
                        self._note_cancellation()
                if self._abandoned:
                    self._close()  # now, so that the timeouts it has open take back their cancellations
                    return None
                waiting = runner.send(None) if thrown is None else runner.throw(thrown)
            return waiting.value
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _needs_gate(self, waiting: Any) -> bool:
        """Whether this is a future to be awaited behind a gate.

        A plain future takes every cancellation, so the first one wakes the task up. What the task cannot
        await, such as itself or a future of another loop, is the task's own to complain about.
        """
        if waiting is None or (not self._got_cancellation and type(waiting) is asyncio.Future):
            return False
        awaited: Any = waiting
        return asyncio.isfuture(awaited) and waiting is not self._task and waiting.get_loop() is self._loop

    def _wait_at_gate(self, awaited: asyncio.Future[Any]) -> Generator[Any, Any, BaseException | None]:
        """Wait until a future is done or the coroutine is abandoned.

        Returns:
            A cancellation that could not be passed on to the future.
        """
        while not (awaited.done() or self._abandoned):
            self._gate = self._loop.create_future()
            awaited.add_done_callback(self._open_gate)
            try:
                yield from self._gate
            except asyncio.CancelledError as error:
                self._note_cancellation()
                if not awaited.cancel(*error.args):
                    return error
            finally:
                awaited.remove_done_callback(self._open_gate)
                self._gate = None
        return None

    def _open_gate(self, _: object = None) -> None:
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    def _note_cancellation(self) -> None:
        """Begin the grace period: with the first cancellation that was not taken back, however often it is repeated."""
        self._got_cancellation = True
        ends_at = self._loop.time() + (self._late_grace if self._timeout.expired() else self._grace)
        if self._timer is not None:
            if self._task.cancelling() > self._base + 1 and ends_at >= self._timer.when():
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(ends_at, self._abandon_coroutine)

    def _abandon_coroutine(self) -> None:
        self._timer = None
        if self._is_cancelled:
            self._abandoned = True
            self._open_gate()

    def _close(self) -> None:
        """End the coroutine where it stands; each attempt ends one more of its `finally` blocks that wait."""
        for _ in range(_CLOSE_ATTEMPTS):
            try:
                self._coroutine.close()
            except KeyboardInterrupt:
                raise
            except RuntimeError:  # it waits again, or it failed: then the next attempt finds it closed
                continue
            except BaseException:  # noqa: BLE001 - the last that it says; it has ended
                return
            return
        keep_forever(self._runner)


def keep_forever(unended: object) -> None:
    """Never collect what cannot be closed, not even when Python ends.

    Collecting closes once more, and without a loop every `await` raises at once: `while True: try: await … except:
    pass` would then loop for ever, and the process would not end. A module's variable does not prevent that, because
    Python empties modules at its end; a reference that is never given back does.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(unended))
