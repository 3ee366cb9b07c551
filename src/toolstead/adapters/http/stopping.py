"""Shutdown of a server: the requests in flight, and when they are ended.

Three steps: `begin_stop` (new requests are refused, streams end at once), `cut_requests` (calls that
took too long are cancelled), then the server closes its sockets.
"""

from __future__ import annotations

import asyncio


class Stopping:
    """The requests in flight, as the tasks that answer them. One for each server."""

    def __init__(self) -> None:
        self.begun = False
        self._requests: set[asyncio.Task[None]] = set()
        self._streams: set[asyncio.Task[None]] = set()
        self._cut: set[asyncio.Task[None]] = set()

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self._requests)

    def enter_request(self, task: asyncio.Task[None], *, stream: bool = False) -> None:
        """Track a request, or mark it as a stream: one that stays open until it is ended."""
        self._requests.add(task)
        if stream:
            self._streams.add(task)

    def leave_request(self, task: asyncio.Task[None]) -> None:
        """Remove an answered request."""
        self._requests.discard(task)
        if self._streams:
            self._streams.discard(task)
        if self._cut:
            self._cut.discard(task)

    def begin_stop(self) -> None:
        """Refuse new requests from now on, and end the streams."""
        if self.begun:
            return
        self.begun = True
        for task in tuple(self._streams):
            self._cancel_task(task)

    def cut_requests(self) -> None:
        """Cancel every request in flight."""
        self.begun = True
        for task in tuple(self._requests):
            self._cancel_task(task)

    def was_cut(self, task: asyncio.Task[None]) -> bool:
        """Whether a cancellation came from the shutdown, and not from a disconnect."""
        return task in self._cut

    def _cancel_task(self, task: asyncio.Task[None]) -> None:
        if task not in self._cut:
            self._cut.add(task)
            task.cancel()
