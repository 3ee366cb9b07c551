"""Cancel a call when its client disconnects.

Watching costs a task. Most calls finish in their first step and never need one: the watch is scheduled
on the event loop before the call begins, and unscheduled when the call ends before the loop runs it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, cast

from toolstead.adapters.http.asgi import Receive


class DisconnectWatch:
    """`with DisconnectWatch(receive) as watch: await call` cancels the current task when the client disconnects.

    Attributes:
        gone: Whether the client disconnected.
    """

    __slots__ = ("_pending", "_receive", "_task", "gone")

    def __init__(self, receive: Receive) -> None:
        self.gone = False
        self._receive = receive
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        # First the scheduled start of the watcher, then the watcher.
        self._pending: asyncio.Handle | asyncio.Task[None] = asyncio.get_running_loop().call_soon(self._start_waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Stop watching, and absorb the cancellation that this watch sent."""
        self._pending.cancel()
        return self.gone and self._task.uncancel() == 0 and kind is asyncio.CancelledError

    def _start_waiting(self) -> None:
        self._pending = asyncio.get_running_loop().create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._task.cancel()
