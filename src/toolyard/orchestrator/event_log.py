"""The event log, in memory: what is kept is bounded, who listens is bounded, nothing blocks.

Failures and changes are kept; calls that go well are told only to who listens.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Self

from toolyard.types.call import Caller
from toolyard.types.event import Event

logger = logging.getLogger(__name__)

MOST_KEPT = 1_000
MOST_WAITING = 10_000


class EventStream:
    """Events from the moment it was made, in order: `async for event in stream`.

    A reader that falls behind loses the oldest events; `lost` counts them and the log says so.
    """

    def __init__(self, log: EventLog, types: Collection[str] | None, waiting: int = MOST_WAITING) -> None:
        self.lost = 0
        self._log = log
        self._types = None if types is None else frozenset([types] if isinstance(types, str) else types)
        self._waiting: deque[Event] = deque(maxlen=waiting)
        self._arrived = asyncio.Event()
        self._closed = False

    def offer(self, event: Event) -> None:
        """Take an event, if it is of a wanted type."""
        if self._types is not None and event.type not in self._types:
            return
        if len(self._waiting) == self._waiting.maxlen:
            self.lost += 1
            if self.lost == 1:
                logger.warning("an event reader fell behind by %s events; the oldest are dropped", len(self._waiting))
        self._waiting.append(event)
        self._arrived.set()

    def close(self) -> None:
        """End the stream: what waits is still read, then iteration stops."""
        self._log.forget(self)
        self._closed = True
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventLog:
    """One numbered log for a process. Ids carry an epoch, so that two processes never share one."""

    def __init__(self, kept: int = MOST_KEPT) -> None:
        self._kept: deque[Event] = deque(maxlen=kept)
        self._streams: list[EventStream] = []
        self._epoch = f"{int(time.time()):x}{secrets.token_hex(6)}"
        self._numbers = itertools.count(1)
        self.listening = False
        """Whether anyone reads along right now; a plain attribute, asked on every call."""

    @property
    def recent(self) -> list[Event]:
        """The last failures and changes, oldest first."""
        return list(self._kept)

    def emit(self, type: str, data: Mapping[str, Any], caller: Caller | None = None) -> None:
        """Number an event, keep it if it must not be lost, hand it to every reader.

        Without a caller it belongs to no thread, as a change of the tools does.
        """
        event = Event(
            id=f"{self._epoch}-{next(self._numbers):010}",  # padded, so that ids sort as they were given
            type=type,
            time=time.time(),
            data=data,
            thread_id=caller.thread_id if caller else None,
            run_id=caller.run_id if caller else None,
            task_id=caller.task_id if caller else None,
        )
        if type == "tools.changed" or data.get("isError"):
            self._kept.append(event)
        for stream in self._streams:
            stream.offer(event)

    def stream(self, types: Collection[str] | None = None) -> EventStream:
        """Read along from now on; close it when done."""
        stream = EventStream(self, types)
        self._streams.append(stream)
        self.listening = True
        return stream

    def forget(self, stream: EventStream) -> None:
        """Stop handing events to a stream."""
        if stream in self._streams:
            self._streams.remove(stream)
        self.listening = bool(self._streams)

    def close(self) -> None:
        """End every stream."""
        for stream in tuple(self._streams):
            stream.close()
