"""A coroutine that is gone on with in its caller's own task, and let go of when it ignores being cancelled.

Timeouts and task groups in it work as anywhere. As long as nobody cancels, what it waits for is waited for directly,
so that it costs nothing; after that, and for tasks, which may swallow a cancellation that is passed on to them, there
is a gate before it which can be opened from here.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

_TRIES = 10


class Held:
    """Holds one coroutine while it waits.

    Attributes:
        left: It was cancelled, and did not end within its grace.
    """

    __slots__ = ("_base", "_cancels", "_gate", "_grace", "_loop", "_since", "_task", "_timer", "left")

    def __init__(self, grace: float) -> None:
        """For a coroutine that has this long to end after it was cancelled; made in the task that will hold it."""
        task = asyncio.current_task()
        assert task is not None, "only a task can wait"  # noqa: S101 - a coroutine that waits is always in one
        self.left = False
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._grace = grace
        self._base = task.cancelling()
        self._cancels = 0
        self._since = 0.0
        self._gate: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the task that holds it is cancelled, and was not when it began to."""
        return self._task.cancelling() > self._base

    @types.coroutine
    def drive(self, steps: Coroutine[Any, Any, Any], waiting: Any) -> Generator[Any, Any, Any]:
        """Do what a task does with its coroutine, but inside a task, and only as long as it is held.

        Args:
            steps: The coroutine; it made its first step.
            waiting: What it yielded.

        Returns:
            Its answer; nothing, and it is closed, when it was `left`.
        """
        try:
            while True:
                thrown: BaseException | None = None
                try:
                    if waiting is None or (type(waiting) is asyncio.Future and not self._cancels):
                        yield waiting
                    elif self._is_ours(waiting):
                        waiting._asyncio_future_blocking = False  # noqa: SLF001 - says that it is waited for, as tasks do
                        thrown = yield from self._until_done(waiting)
                    else:
                        yield waiting
                except GeneratorExit:
                    close(steps)
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever is thrown in is the coroutine's to see
                    thrown = error
                    if isinstance(error, asyncio.CancelledError):
                        self._cancelled()
                if self.left:
                    close(steps)  # now, so that what it has open takes back its own cancellations
                    return None
                waiting = steps.send(None) if thrown is None else steps.throw(thrown)
        except StopIteration as done:
            return done.value
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def leave(self) -> None:
        """Hold it no longer."""
        self.left = True
        self._wake()

    def _cancelled(self) -> None:
        """A cancellation came: the caller's, or one of a timeout that the coroutine has open.

        It may come again and again, as task groups of anyio do it: the first that nobody took back counts.
        """
        self._cancels += 1
        if self._task.cancelling() <= self._base + 1:
            self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._grace, self._ring)

    def _ring(self) -> None:
        """Look whether it is still cancelled, and long enough."""
        self._timer = None
        if not self.is_cancelled:
            return
        left = self._since + self._grace - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._ring)
        else:
            self.leave()

    def _wake(self, _: object = None) -> None:
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    def _is_ours(self, waiting: Any) -> bool:
        """Whether this is a future that we can wait for; about all else the task complains as it always does."""
        return asyncio.isfuture(waiting) and waiting is not self._task and waiting.get_loop() is self._loop

    def _until_done(self, waited: asyncio.Future[Any]) -> Generator[Any, Any, BaseException | None]:
        """Wait at a gate of our own, for a task that is waited for may swallow what we pass on, and never end.

        Returns:
            A cancellation that could not be passed on to what is waited for.
        """
        while not (waited.done() or self.left):
            self._gate = self._loop.create_future()
            waited.add_done_callback(self._wake)
            try:
                yield from self._gate
            except asyncio.CancelledError as error:
                self._cancelled()
                if not waited.cancel(*error.args):
                    return error
            finally:
                waited.remove_done_callback(self._wake)
                self._gate = None
        return None


def close(steps: Coroutine[Any, Any, Any]) -> None:
    """End a coroutine where it stands; each try ends one more of its `finally` that waits."""
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
    keep_for_ever(steps)


def keep_for_ever(unended: object) -> None:
    """Never collect what cannot be closed, not even when Python ends.

    Collecting closes once more, and without a loop every `await` raises at once: `while True: try: await … except:
    pass` would then go round for ever, and the process would not end. A reference that nobody gives back prevents it.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(unended))
