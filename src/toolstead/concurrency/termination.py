"""Signals that end the process, also when foreign code does not let the event loop run.

A signal's callback runs on the event loop, as usual. Beside it a watch is set, by the signal handler itself: a thread
of the interpreter's own, which needs nothing of Python. It shows where every thread is and ends the process, unless the
loop comes round in time and sets it anew, each second until the work is done:

    signal ──▶ watch set ──▶ loop runs the callback ──▶ each second: watch set anew ──▶ work done: watch removed
                   └── the loop does not run for STUCK seconds: traceback on stderr, the process ends with status 1

Code that holds the interpreter without ever letting go (a long call inside a C extension) delays the handler itself.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

STUCK = 10.0
"""Seconds after a signal in which the event loop must run again; as long as calls in flight may take to finish."""
_LOOK = 1.0
_STDERR = 2


@contextmanager
def take_signals(
    callback: Callable[[], object], numbers: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT)
) -> Generator[None]:
    """Call back on the running event loop for each signal; afterwards restore the previous handlers.

    May be nested: the inner callback replaces the outer one, whose work then goes on under the watch.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    taker = SignalTaker(callback, numbers)
    try:
        yield
    finally:
        taker.remove(before)


class SignalTaker:
    """Answers signals on the running event loop, and watches it from the first one on."""

    def __init__(self, callback: Callable[[], object], numbers: tuple[signal.Signals, ...]) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._watching: asyncio.TimerHandle | None = None
        self._of_loop: dict[int, Any] = {}
        for number in numbers:
            self._loop.add_signal_handler(number, self._answer)
            if threading.current_thread() is threading.main_thread():
                self._of_loop[number] = signal.getsignal(number)
                signal.signal(number, self.handle_signal)

    def handle_signal(self, number: int, frame: Any) -> None:
        """Set the watch, then let the loop's own handler pass the signal on."""
        set_watch()
        handler = self._of_loop[number]
        if callable(handler):
            handler(number, frame)

    def keep_watch(self) -> None:
        """Set the watch anew, now and each second."""
        set_watch()
        if self._watching is not None:
            self._watching.cancel()
        self._watching = self._loop.call_later(_LOOK, self.keep_watch)

    def remove(self, before: Mapping[signal.Signals, Any]) -> None:
        """Restore the handlers of before; one of ours goes on watching once a signal came."""
        outer: object = None
        for number, handler in before.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, handler)
            outer = getattr(handler, "__self__", outer)
        if self._watching is not None:
            self._watching.cancel()
            faulthandler.cancel_dump_traceback_later()
            if isinstance(outer, SignalTaker):
                outer.keep_watch()

    def _answer(self) -> None:
        self.keep_watch()
        self._callback()


def set_watch() -> None:
    """End the process unless this is called again, or the watch is removed, within `STUCK` seconds."""
    faulthandler.dump_traceback_later(STUCK, exit=True, file=_STDERR)
