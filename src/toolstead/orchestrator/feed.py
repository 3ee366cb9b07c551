"""The feed: stored events to whoever reads along, in the order of their ids, from any of them on.

A reader gets what was stored before it came by itself, and what comes after from one look at the store for all
readers. One that falls behind is sent back to the store: its memory is bounded, and it misses nothing. Events
of other processes on the same database are looked for while anybody reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from toolstead.orchestrator.store import EventFilter, EventStore
from toolstead.types.event import Event

logger = logging.getLogger(__name__)

MOST_WAITING = 1_000
PAGE = 200
LOOK_SECONDS = 0.5
"""How often other processes' events are looked for."""

EVERYTHING = EventFilter()


class EventReader:
    """Events that fit a filter, in order, none twice: `async for event in reader`. Close it when done."""

    def __init__(self, feed: Feed, wanted: EventFilter, after: str) -> None:
        self.wanted = wanted
        self._feed = feed
        self._sent = after
        self._page: deque[Event] = deque()
        self._fresh: deque[Event] = deque()
        self._replaying = True
        self._closed = False
        self._arrived = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Take an event; a reader that is too far behind will ask the store for it later."""
        if not _fits_filter(event, self.wanted):
            return
        if len(self._fresh) >= MOST_WAITING:
            self._fresh.clear()
            self._replaying = True
        self._fresh.append(event)
        self._arrived.set()

    def close(self) -> None:
        """End it: iteration stops."""
        self._feed.forget_reader(self)
        self._closed = True
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            if self._replaying and not self._page:
                await self._replay_page()
            waiting = self._page or self._fresh
            if waiting:
                event = waiting.popleft()
                if not event.id:  # it was not stored, so it is only for those who are here
                    return event
                if event.id > self._sent:
                    self._sent = event.id
                    return event
                continue
            if self._replaying:
                continue
            self._arrived.clear()
            await self._arrived.wait()
        raise StopAsyncIteration

    async def _replay_page(self) -> None:
        """Fetch the next page from the store; an empty one means that nothing is missing any more."""
        page = await self._feed.store.list_events(self.wanted, after=self._sent or None, limit=PAGE)
        self._page.extend(page)
        self._replaying = bool(page)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Feed:
    """Hands stored events to readers, as the database orders them. Close it when done."""

    def __init__(
        self, store: EventStore, *, on_readers: Callable[[], None] = lambda: None, look_seconds: float = LOOK_SECONDS
    ) -> None:
        """Make a feed.

        Args:
            store: Where the events are.
            on_readers: Called when the first reader came or the last one left.
            look_seconds: How often other processes' events are looked for.
        """
        self.store = store
        self._on_readers = on_readers
        self._look_seconds = look_seconds
        self._readers: set[EventReader] = set()
        self._last = ""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_readers(self) -> bool:
        """Whether anybody reads along right now."""
        return bool(self._readers)

    async def open_reader(self, wanted: EventFilter = EVERYTHING, *, after: str | None = None) -> EventReader:
        """Read events after an id, or from now on; an empty id is before the first.

        An id above all others is that of an event that was deleted: nothing that is still there comes after it.
        """
        newest = await self.store.last_event_id() or ""
        reader = EventReader(self, wanted, newest if after is None else min(after, newest))
        if not self._readers:
            self._last = newest
        self._readers.add(reader)
        self._on_readers()
        if self._task is None:
            self._task = asyncio.create_task(self._pump_events(), name="toolstead-feed")
        return reader

    def notice_stored(self) -> None:
        """This process just stored something: look at once."""
        self._wake.set()

    def mention_event(self, event: Event) -> None:
        """Tell of an event that is not stored to those who are here."""
        for reader in self._readers:
            reader.offer(event)

    def forget_reader(self, reader: EventReader) -> None:
        """A reader has left."""
        self._readers.discard(reader)
        self._on_readers()
        self._wake.set()

    async def close(self) -> None:
        """End every reader."""
        for reader in tuple(self._readers):
            reader.close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def catch_up(self) -> None:
        """Hand out all that is stored by now, so that what is deleted next was told."""
        while self._readers:
            found = await self.store.list_events(EVERYTHING, after=self._last or None, limit=PAGE)
            self._hand_out(found)
            if len(found) < PAGE:
                return

    async def _pump_events(self) -> None:
        while self._readers:
            try:
                async with asyncio.timeout(self._look_seconds):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                self._hand_out(await self._next_events())
            except Exception:
                logger.exception("events could not be read; looking again")
                await asyncio.sleep(self._look_seconds)
        self._task = None

    async def _next_events(self) -> list[Event]:
        """What comes after the last event handed out, in order, whoever stored it."""
        found = await self.store.list_events(EVERYTHING, after=self._last or None, limit=PAGE)
        if len(found) == PAGE:
            self._wake.set()
        return found

    def _hand_out(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.id <= self._last:
                continue
            self._last = event.id
            for reader in self._readers:
                reader.offer(event)


def _fits_filter(event: Event, wanted: EventFilter) -> bool:
    return (
        (wanted.run_id is None or event.run_id == wanted.run_id)
        and (wanted.thread_id is None or event.thread_id == wanted.thread_id)
        and (wanted.task_id is None or event.task_id == wanted.task_id)
        and (wanted.types is None or event.type in wanted.types)
    )
