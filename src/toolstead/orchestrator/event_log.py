"""The event log: one way in for everything that happens, and out to whoever reads along.

Without a store, failures and changes are kept in memory, bounded; calls that go well are told only to
who listens. With one (`attach`), what belongs to a run, what failed and what changed is stored, and
readers get it once it is, with the id it got there. Nothing here blocks.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from toolstead.types.event import Event, NewEvent

if TYPE_CHECKING:
    from toolstead.orchestrator.feed import Feed
    from toolstead.orchestrator.journal import Journal
    from toolstead.orchestrator.store import Store
    from toolstead.types.call import Caller

logger = logging.getLogger(__name__)

MOST_KEPT = 1_000
MOST_WAITING = 10_000
LASTING = frozenset({"tools.changed", "plugin.status", "approval.requested", "approval.resolved"})
"""Types of which every event is kept, also outside of runs."""


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
        self._log.forget_stream(self)
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
        self._is_full = False
        self._streams: list[EventStream] = []
        self._epoch = f"{int(time.time()):x}{secrets.token_hex(6)}"
        self._numbers = itertools.count(1)
        self._journal: Journal | None = None
        self.feed: Feed | None = None
        """Where stored events are read; none without a store."""
        self.listening = False
        """Whether anyone reads along right now; a plain attribute, asked on every call."""

    @property
    def recent_events(self) -> list[Event]:
        """The last failures and changes that no store has, oldest first."""
        return list(self._kept)

    def emit(self, type: str, data: Mapping[str, Any], caller: Caller | None = None, *, keep: bool = False) -> None:
        """Number an event, keep it if it must not be lost, hand it to every reader.

        Without a caller it belongs to no thread, as a change of the tools does. `keep` says that this one must
        not be lost, whatever its type.
        """
        lasting = keep or type in LASTING or bool(data.get("isError"))
        if self._journal is not None and (lasting or (caller is not None and caller.run_id is not None)):
            event = NewEvent(
                type=type,
                time=time.time(),
                data=data,
                thread_id=caller.thread_id if caller else None,
                run_id=caller.run_id if caller else None,
                task_id=caller.task_id if caller else None,
            )
            self._journal.add(event)
            return
        event = Event(
            id=f"{self._epoch}-{next(self._numbers):010}",  # padded, so that ids sort as they were given
            type=type,
            time=time.time(),
            data=data,
            thread_id=caller.thread_id if caller else None,
            run_id=caller.run_id if caller else None,
            task_id=caller.task_id if caller else None,
        )
        if lasting:
            self._keep_event(event)
        for stream in self._streams:
            stream.offer(event)
        if self.feed is not None and self.feed.has_readers:
            self.feed.mention_event(replace(event, id=""))

    def _keep_event(self, event: Event) -> None:
        """Keep an event until there is a store."""
        if len(self._kept) == self._kept.maxlen and not self._is_full:
            self._is_full = True
            logger.warning(
                "%s failures and changes are kept until there is a store; the oldest go now", len(self._kept)
            )
        self._kept.append(event)

    def attach_store(self, store: Store) -> None:
        """Store events from now on; those kept in memory so far are stored first."""
        from toolstead.orchestrator.feed import Feed
        from toolstead.orchestrator.journal import Journal

        self.feed = Feed(store, on_readers=self._look_who_listens)
        self._journal = Journal(store, self.publish)
        while self._kept:
            early = self._kept.popleft()
            self._journal.add(
                NewEvent(
                    type=early.type,
                    time=early.time,
                    data=early.data,
                    thread_id=early.thread_id,
                    run_id=early.run_id,
                    task_id=early.task_id,
                )
            )

    def publish(self, events: Sequence[Event]) -> None:
        """Tell of events that were just stored."""
        for stream in self._streams:
            for event in events:
                stream.offer(event)
        if self.feed is not None:
            self.feed.notice_stored()

    async def take_unstored(self, run_id: str) -> list[NewEvent]:
        """What a run told that is not stored yet; what is being stored is waited for."""
        return await self._journal.take_unstored(run_id) if self._journal is not None else []

    def put_back(self, events: Sequence[NewEvent]) -> None:
        """Store what was taken after all: it could not be stored with what it was taken for."""
        if self._journal is not None:
            for event in events:
                self._journal.add(event)

    async def catch_up(self) -> None:
        """Let readers have all that is stored by now, before some of it is deleted."""
        if self.feed is not None:
            await self.feed.catch_up()

    async def detach_store(self) -> None:
        """Store what waits, and end the readers of stored events."""
        journal, self._journal = self._journal, None
        feed, self.feed = self.feed, None
        if journal is not None:
            await journal.close()
        if feed is not None:
            await feed.close()

    def open_stream(self, types: Collection[str] | None = None) -> EventStream:
        """Read along from now on; close it when done."""
        stream = EventStream(self, types)
        self._streams.append(stream)
        self.listening = True
        return stream

    def forget_stream(self, stream: EventStream) -> None:
        """Stop handing events to a stream."""
        if stream in self._streams:
            self._streams.remove(stream)
        self._look_who_listens()

    def _look_who_listens(self) -> None:
        self.listening = bool(self._streams) or (self.feed is not None and self.feed.has_readers)

    def close(self) -> None:
        """End every stream."""
        for stream in tuple(self._streams):
            stream.close()
