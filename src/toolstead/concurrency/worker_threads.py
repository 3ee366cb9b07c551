"""Plain functions in worker threads: what blocks must not hold up the event loop, and cannot be cancelled.

    waiting ── a thread is free ──▶ running ── returned or raised ──▶ ended
       └── cancelled ──▶ withdrawn     └── cancelled ──▶ abandoned ── returned or raised ──▶ ended, in the log

Python cannot end a thread. So the caller of an abandoned call goes on at once, and the call keeps its thread until it
ends by itself: when it looks at `is_call_abandoned`, waits with `wait_on_loop`, or is done. Such threads do not count
among those that work, and are bounded on their own: a function that never ends is refused after a few, while others
still have all threads. The threads are daemons: none of them holds up the end of the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from toolstead.concurrency.suspended_coroutine import UnendingThreadError
from toolstead.errors import ToolError

logger = logging.getLogger(__name__)

MOST_WORKING = 32
"""Calls that run at once; further ones wait in order."""
MOST_ABANDONED = 64
MOST_ABANDONED_OF_ONE = 8
"""Abandoned calls that may still run: of all functions, and of one."""
TIME_TO_NOTICE = 2.0
"""Seconds that an abandoned call has to end by itself before the log warns of it."""
_LOOK = 0.25
"""Seconds between two looks at whether a call that waits for the event loop was abandoned meanwhile."""

_T = TypeVar("_T")
_numbers = itertools.count(1)


class _WorkerCall:
    """A function on its way through a thread; its fields change under the pool's lock."""

    __slots__ = ("_context", "answer", "began", "function", "is_abandoned", "is_over", "loop", "name")

    def __init__(self, function: Callable[[], Any], name: str) -> None:
        self.function = function
        self.name = name
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()
        self.is_abandoned = self.is_over = False
        self.began = monotonic()
        self._context = contextvars.copy_context()

    def perform(self) -> tuple[Any, BaseException | None]:
        """Call the function, and give what it returned or raised."""
        try:
            return self._context.run(self.function), None
        except BaseException as error:  # noqa: BLE001 - whatever it raises is raised where it was called
            return None, error

    def deliver(self, outcome: tuple[Any, BaseException | None]) -> None:
        """Hand the outcome to the event loop; a closed one has no waiting caller."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: tuple[Any, BaseException | None]) -> None:
        if not self.answer.done():
            self.answer.set_result(outcome)


class WorkerThreads:
    """A bounded number of threads, begun when they are needed. Calls may come from any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_WorkerCall] = deque()
        self._handed: SimpleQueue[_WorkerCall] = SimpleQueue()
        self._idle = self._working = 0
        self._abandoned: Counter[str] = Counter()

    async def run(self, function: Callable[[], _T], name: str) -> _T:
        """Call a function in a thread, with a copy of the caller's context variables.

        Args:
            function: What to call.
            name: Whose calls are counted together, and what the log calls it.

        Raises:
            ToolError: Too many abandoned calls still run.
            asyncio.CancelledError: The caller was cancelled. Caused by `UnendingThreadError` where the
                function was running, and goes on.
        """
        call = _WorkerCall(function, name)
        self._begin(call)
        try:
            value, error = await call.answer
        except asyncio.CancelledError:
            if self._give_up(call):
                raise asyncio.CancelledError from UnendingThreadError("its thread cannot be ended")
            raise
        if error is None:
            return value
        if isinstance(error, Exception | asyncio.CancelledError):
            raise error
        raise RuntimeError(f"it raised {type(error).__name__}, which ends no process from here") from error

    def _begin(self, call: _WorkerCall) -> None:
        with self._lock:
            self._check_abandoned(call.name)
            if self._idle:
                self._idle -= 1
                self._working += 1
                self._handed.put(call)
            elif self._working < MOST_WORKING:
                self._start_thread(call)
            else:
                self._waiting.append(call)

    def _check_abandoned(self, name: str) -> None:
        """Refuse a call while too many before it do not end. Raises ToolError."""
        own, everyone = self._abandoned[name], self._abandoned.total()
        if own >= MOST_ABANDONED_OF_ONE:
            held = f"{own} calls of {name}"
        elif everyone >= MOST_ABANDONED:
            names = ", ".join(f"{count} of {one}" for one, count in self._abandoned.most_common(3))
            held = f"{everyone} calls ({names})"
        else:
            return
        raise ToolError(
            f"{name} was not begun: {held} that were abandoned at their deadline are still running in threads, which "
            "cannot be ended; try again when some have ended"
        )

    def _start_thread(self, call: _WorkerCall) -> None:
        """Begin a thread with its first call. Raises ToolError."""
        thread = threading.Thread(
            target=self._work, args=(call,), name=f"toolstead-worker-{next(_numbers)}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            raise ToolError(f"{call.name} was not begun: {error}; try again when less is running") from error
        self._working += 1

    def _work(self, call: _WorkerCall | None) -> None:
        """What a thread does: one call after the other, until one of them was abandoned."""
        while call is not None:
            _current.call = call
            outcome = (None, None) if call.is_abandoned else call.perform()
            _current.call = None
            following = self._end(call)
            if call.is_abandoned:
                error = outcome[1] if isinstance(outcome[1], Exception) else None
                level = logging.INFO if error is None else logging.WARNING
                took = monotonic() - call.began
                logger.log(level, "%s: a call that its caller left ended after %.1f s", call.name, took, exc_info=error)
                return
            call.deliver(outcome)
            call, outcome = None, None  # an idle thread keeps neither a result nor an error alive
            call = following or self._handed.get()

    def _end(self, call: _WorkerCall) -> _WorkerCall | None:
        """Note that a call has ended, and give the thread the next one; None makes it idle, or lets it end."""
        with self._lock:
            call.is_over = True
            if call.is_abandoned:
                self._abandoned[call.name] -= 1
                self._abandoned = +self._abandoned  # without those that are zero
                return None
            if (following := self._take_waiting()) is None:
                self._working -= 1
                self._idle += 1
            return following

    def _take_waiting(self) -> _WorkerCall | None:
        """The first call that waits and may begin."""
        while self._waiting:
            call = self._waiting.popleft()
            try:
                self._check_abandoned(call.name)
            except ToolError as error:
                call.is_over = True
                call.deliver((None, error))
            else:
                return call
        return None

    def _give_up(self, call: _WorkerCall) -> bool:
        """Withdraw a call that waits; abandon one that runs, and give its place to the next. Whether it goes on."""
        with self._lock:
            if call in self._waiting:
                self._waiting.remove(call)
                return False
            if call.is_over:
                return False
            call.is_abandoned = True
            self._abandoned[call.name] += 1
            self._working -= 1
            if (following := self._take_waiting()) is not None:
                try:
                    self._start_thread(following)
                except ToolError:  # it waits for another call's
                    self._waiting.appendleft(following)
        logger.info("%s: the caller of a call left after %.1f s", call.name, monotonic() - call.began)
        call.loop.call_later(TIME_TO_NOTICE, self._warn_of_abandoned, call)
        return True

    def _warn_of_abandoned(self, call: _WorkerCall) -> None:
        """Log a call that did not end soon after its caller left."""
        with self._lock:
            if call.is_over:
                return
            count = self._abandoned[call.name]
        logger.warning(
            "%s: the caller of a call left; a plain function cannot be stopped, so it goes on in its thread until it "
            "returns, for %.1f s so far (%s)",
            call.name,
            monotonic() - call.began,
            "1 such call runs" if count == 1 else f"{count} such calls run",
        )


WORKERS = WorkerThreads()
"""The threads of this process."""


class _Current(threading.local):
    """The call that this thread is in, where it is one of ours."""

    call: _WorkerCall | None = None


_current = _Current()


def is_in_worker() -> bool:
    """Whether this is a worker thread, in a call."""
    return _current.call is not None


def is_call_abandoned() -> bool:
    """Whether the call that this worker thread is in was abandoned; never anywhere else."""
    return _current.call is not None and _current.call.is_abandoned


def wait_on_loop(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine on the event loop of the call that this worker thread is in, and wait for it.

    Args:
        work: Makes the coroutine; not called when the call was abandoned.

    Raises:
        asyncio.CancelledError: The call was abandoned: its caller has gone.
    """
    call = _current.call
    if call is None or call.is_abandoned:
        raise asyncio.CancelledError("the caller of this call has gone")
    running = asyncio.run_coroutine_threadsafe(work(), call.loop)
    while True:
        try:
            return running.result(_LOOK)
        except TimeoutError:
            if running.done():
                raise
        if call.is_abandoned:
            running.cancel()
            raise asyncio.CancelledError("the caller of this call has gone")
