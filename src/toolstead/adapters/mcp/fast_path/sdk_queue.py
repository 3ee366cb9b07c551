"""The queue of messages for the SDK on stdio, and the ids of its unanswered requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from toolstead.adapters.mcp.descriptors import Lines, TooLongError
from toolstead.adapters.mcp.fast_path.messages import AnyMessage, NoMessage, read_any

MOST_WAITING = 1_000
"""Messages that may wait for the SDK; above this, reading from the client pauses."""

_ENDLESS = "subscriptions/listen"
"""The one request that stays open until the client disconnects."""


class SdkQueue:
    """Messages for the SDK, in order of arrival.

    Attributes:
        unanswered: The ids of its unanswered requests.
    """

    def __init__(self, serve: Callable[[SdkQueue], Coroutine[Any, Any, None]], lines: Lines) -> None:
        self.unanswered: set[str] = set()
        self._serve = serve
        self._lines = lines
        self._waiting: deque[bytes | TooLongError] = deque()
        self._came = asyncio.Event()
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it was given anything yet."""
        return self._task is not None

    def put_line(self, line: bytes | TooLongError) -> None:
        """Give it a message; the first one starts it."""
        if isinstance(line, bytes):
            self._follow_message(line)
        self._waiting.append(line)
        self._came.set()
        if len(self._waiting) > MOST_WAITING:
            self._lines.pause_reading("the SDK is slow")
        if self._task is None:
            work = self._serve(self)
            self._task = asyncio.get_running_loop().create_task(work, name="toolstead-stdio-sdk")

    async def read_messages(self) -> AsyncIterator[bytes | TooLongError]:
        """Yield every message until the queue ends."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._ended:
                return
            self._lines.go_on("the SDK is slow")
            self._came.clear()
            await self._came.wait()

    async def end_input(self) -> None:
        """End the queue, and wait until the SDK has answered and stopped."""
        self._ended = True
        self._came.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Cancel the SDK's task and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _follow_message(self, line: bytes) -> None:
        try:
            message = read_any(line)
        except NoMessage:
            return
        match message:
            case AnyMessage(id=str() | int() as id, method=str() as method) if method != _ENDLESS:
                self.unanswered.add(str(id))
            case AnyMessage(method="notifications/cancelled", params={"requestId": str() | int() as id}):
                self.unanswered.discard(str(id))  # it will not be answered
            case _:
                pass
