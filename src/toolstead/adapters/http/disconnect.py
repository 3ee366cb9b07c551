"""Cancel a call when its client disconnects.

Watching costs a task. Most calls finish in their first step and never need one: the watch is scheduled
on the event loop before the call begins, and unscheduled when the call ends before the loop runs it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from toolstead.adapters.http.asgi import Receive


class DisconnectWatch:
    """`with DisconnectWatch(receive) as watch: await call` cancels the current task when the client disconnects.

    Attributes:
        gone: Whether the client disconnected.
    """

    __slots__ = ("_receive", "_start", "_task", "_watcher", "gone")

    def __init__(self, receive: Receive) -> None:
        self.gone = False
        self._receive = receive
        self._task: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._start: asyncio.Handle | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._start = asyncio.get_running_loop().call_soon(self._start_waiting)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Stop watching, and absorb the cancellation that this watch sent."""
        if self._start is not None:
            self._start.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if not self.gone or self._task is None:
            return False
        return self._task.uncancel() == 0 and kind is asyncio.CancelledError

    def _start_waiting(self) -> None:
        self._start = None
        self._watcher = asyncio.get_running_loop().create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if self._task is not None:
            self._task.cancel()
