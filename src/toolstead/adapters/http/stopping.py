"""Shutdown of a server: the requests in flight, and when they are ended.

Three steps: `begin_stop` (new requests are refused, streams end at once), `cut_requests` (calls that
took too long are cancelled), then the server closes its sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable


class Stopping:
    """The requests in flight, as the tasks that answer them. One for each server."""

    def __init__(self) -> None:
        self.begun = False
        self._requests: dict[asyncio.Task[None], bool] = {}
        self._cut: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[], None]] = []

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self._requests)

    def enter_request(self, task: asyncio.Task[None], *, stream: bool = False) -> None:
        """Track a request, or mark it as a stream: one that stays open until it is ended."""
        self._requests[task] = stream

    def leave_request(self, task: asyncio.Task[None]) -> None:
        """Remove an answered request."""
        self._requests.pop(task, None)
        self._cut.discard(task)

    def call_at_begin(self, listener: Callable[[], None]) -> None:
        """Call this when the shutdown begins."""
        self._listeners.append(listener)

    def begin_stop(self) -> None:
        """Refuse new requests from now on, and end the streams."""
        self.begun = True
        for listener in self._listeners:
            listener()
        self._cancel_requests(task for task, is_stream in self._requests.items() if is_stream)

    def cut_requests(self) -> None:
        """Cancel every request in flight."""
        self._cancel_requests(self._requests)

    def was_cut(self, task: asyncio.Task[None]) -> bool:
        """Whether a cancellation came from the shutdown, and not from a disconnect."""
        return task in self._cut

    def _cancel_requests(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        for task in set(tasks) - self._cut:
            self._cut.add(task)
            task.cancel()
