"""The feed: events to every reader, in order and each once, with and without a store.

What this process stores is handed to readers as it is, once it is committed. The store is read only for what is
missing: what was stored before a reader came, what other processes stored, what a slow reader could not hold.

Everything up to the feed's position was handed out, and nothing after it. A commit has a beginning and an end:

    it begins at the position     hand its events out, the position is its end
    it ends before the position   nothing: it was read from the store already
    else                          other processes stored something before it: read the store from the position on

A reader goes through these states:

    waiting     the position is not known yet; the first commit or look at the store gives it → live or replaying
    live        takes what the feed hands out; when more waits than it may hold → replaying
    replaying   reads the store up to its boundary, the feed's position when it began; what is handed out meanwhile
                is after that, and waits → live
    finishing   reads the store up to its end → closed
    closed      gives what waits, and ends

Without a store there is nothing to replay: a slow reader misses the oldest events, and `missed` counts them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Self

from toolstead.concurrency.owned_tasks import cancel_tasks
from toolstead.errors import StorageError
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Store
from toolstead.types.event import Event

logger = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""How many events wait for a reader that can read on from the store."""
MOST_UNSTORED = 10_000
"""How many wait for a reader without a store."""
PAGE = 200
POLL_SECONDS = 0.5
"""How often other processes' events are looked for."""

EVERYTHING = EventFilter()


class EventReader:
    """Events that fit a filter, in order, none twice: `async for event in reader`. Close it when done.

    Attributes:
        wanted: Which events it gives.
        missed: How many it could not hold and cannot give any more, because they were not stored.
        ends_with_store: Whether it ends when the store is closed; else it goes on with what is not stored.
    """

    def __init__(
        self, feed: Feed, wanted: EventFilter, *, after: str | None = None, ends_with_store: bool = False
    ) -> None:
        self.wanted = wanted
        self.missed = 0
        self.ends_with_store = ends_with_store
        self._feed = feed
        self._after = after
        self._sent: str | None = None
        self._boundary: str | None = None
        self._page: deque[Event] = deque()
        self._waiting: deque[tuple[Event, bool]] = deque()
        self._is_replaying = False
        self._is_finishing = False
        self._is_closed = False
        self._arrived = asyncio.Event()

    def begin(self, position: str) -> None:
        """Learn where the feed is; from there on it hands out everything. Only the first time counts."""
        if self._sent is None:
            # An id above all others never was one, or is of another database: nothing comes after it there.
            self._sent = position if self._after is None else min(self._after, position)
            self._replay_until(position if self._sent < position else None)

    def offer(self, event: Event, *, is_stored: bool) -> None:
        """Take an event, if it is wanted."""
        if not _fits_filter(event, self.wanted):
            return
        can_replay = self._feed.store is not None and self._sent is not None
        if len(self._waiting) >= (MOST_WAITING if can_replay else MOST_UNSTORED):
            if can_replay:
                self._drop_waiting()
                self._replay_until(self._feed.position)
            else:
                self._miss(1)
                self._waiting.popleft()
        self._waiting.append((event, is_stored))
        self._arrived.set()

    def finish(self) -> None:
        """Give all that the store has by now, then end."""
        self._feed.forget_reader(self)
        self._drop_waiting()
        self._is_replaying = self._is_finishing = True
        self._boundary = None
        self._arrived.set()

    def lose_store(self) -> None:
        """The store is being closed: end, or go on with what is not stored."""
        if self.ends_with_store:
            self.close()
        elif self._is_replaying:
            logger.warning("an event reader was behind when the store was closed; the rest is only there")
        self._sent, self._is_replaying = None, False

    def close(self) -> None:
        """End it: what waits is still given, then iteration stops."""
        self._feed.forget_reader(self)
        self._is_closed = True
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while True:
            if self._page:
                event = self._page.popleft()
                self._sent = event.id
                return event
            if self._is_replaying and not self._is_closed:
                await self._replay_page()
            elif self._waiting:
                event, is_stored = self._waiting.popleft()
                if is_stored:
                    self._sent = event.id
                return event
            elif self._is_closed:
                raise StopAsyncIteration
            else:
                self._arrived.clear()
                await self._arrived.wait()

    async def _replay_page(self) -> None:
        """Fetch the next page from the store, until it says that it is the last and nothing was dropped meanwhile."""
        boundary, store = self._boundary, self._feed.store
        if store is None:
            self.close()
            return
        page = await store.list_events(self.wanted, after=self._sent or None, until=boundary, limit=PAGE)
        self._page.extend(page)
        if page.is_last and boundary == self._boundary:
            self._is_replaying = False
            self._is_closed = self._is_finishing

    def _replay_until(self, boundary: str | None) -> None:
        self._boundary, self._is_replaying = boundary, boundary is not None

    def _drop_waiting(self) -> None:
        """Forget what waits: it is in the store, or it is missed."""
        self._miss(sum(not is_stored for _, is_stored in self._waiting))
        self._waiting.clear()

    def _miss(self, count: int) -> None:
        if count and not self.missed:
            logger.warning("an event reader fell behind by %s events; the oldest are dropped", len(self._waiting))
        self.missed += count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Feed:
    """Hands events to readers, those of the store in its order.

    Attributes:
        store: Where the events of all processes are; None while there is none.
        position: Everything up to this id was handed out; None while there is no reader, or before it is known.
    """

    def __init__(
        self, *, on_readers: Callable[[bool], None] = lambda _: None, poll_seconds: float = POLL_SECONDS
    ) -> None:
        """Make a feed.

        Args:
            on_readers: Called when a reader came or left, with whether there are any.
            poll_seconds: How often other processes' events are looked for.
        """
        self.store: Store | None = None
        self.position: str | None = None
        self._on_readers = on_readers
        self._poll_seconds = poll_seconds
        self._readers: set[EventReader] = set()
        self._departures = 0  # how often the last reader left
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start_reader(
        self, wanted: EventFilter = EVERYTHING, *, after: str | None = None, ends_with_store: bool = False
    ) -> EventReader:
        """Read along from now on, with or without a store."""
        reader = EventReader(self, wanted, after=after, ends_with_store=ends_with_store)
        self._readers.add(reader)
        if self.position is not None:
            reader.begin(self.position)
        self._on_readers(True)
        self._watch()
        return reader

    async def open_reader(self, wanted: EventFilter = EVERYTHING, *, after: str | None = None) -> EventReader:
        """Read stored events after an id, or from now on, until the store is closed; an empty id is before the first.

        Raises:
            StorageError: The store cannot be read.
        """
        await self.catch_up()  # so that "from now on" begins after what other processes have stored
        reader = self.start_reader(wanted, after=after, ends_with_store=True)
        try:
            if self.position is None:
                await self.catch_up()
        except BaseException:
            reader.close()
            raise
        return reader

    def attach(self, store: Store) -> None:
        """Read from a store, from now on."""
        self.store = store
        store.on_commit(self.hand_commit)
        self._watch()

    def hand_commit(self, first: str, last: str, events: Sequence[Event]) -> None:
        """Hand out what this process has just stored, or read the store when something else comes before it."""
        if not self._readers:
            return
        if self.position is None:
            self._begin(first)
        if first == self.position:
            self._hand_out(events)
            self.position = last
        else:
            self._wake.set()

    def mention_event(self, event: Event) -> None:
        """Hand out an event that is not stored."""
        for reader in self._readers:
            reader.offer(event, is_stored=False)

    def forget_reader(self, reader: EventReader) -> None:
        """A reader has left."""
        self._readers.discard(reader)
        if not self._readers:
            self.position = None
            self._departures += 1
            self._wake.set()
        self._on_readers(bool(self._readers))

    async def detach(self) -> None:
        """Read the store no more."""
        self.store = self.position = None
        for reader in tuple(self._readers):
            reader.lose_store()
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks((task,))

    def close(self) -> None:
        """End every reader."""
        for reader in tuple(self._readers):
            reader.close()

    async def catch_up(self) -> None:
        """Hand out all that is stored by now, whichever process stored it.

        Raises:
            StorageError: The store cannot be read.
        """
        newest, looked = "", -1
        while looked != self._departures:  # else it was asked for readers that have left: those of now came later
            if self.store is None or not self._readers:
                return
            looked = self._departures
            newest = await self.store.event_position()
        if self.position is None:
            self._begin(newest)  # what this process stored before was handed out before, and would have begun it
        while self.store is not None and self.position is not None and self.position < newest:
            before = self.position
            found = await self.store.list_events(EVERYTHING, after=before, until=newest, limit=PAGE)
            if self.position == before:  # else another call read the same meanwhile
                self._hand_out(found)
                self.position = newest if found.is_last else self.position

    def _begin(self, position: str) -> None:
        self.position = position
        for reader in self._readers:
            reader.begin(position)

    def _watch(self) -> None:
        if self._task is None and self.store is not None and self._readers:
            self._task = asyncio.create_task(self._poll_store(), name="toolstead-feed")

    async def _poll_store(self) -> None:
        while self._readers:
            self._wake.clear()
            try:
                await self.catch_up()
            except Exception as error:
                if isinstance(error, StorageError):
                    logger.log(error.log_level, "events could not be read; looking again: %s", error)
                else:
                    logger.exception("events could not be read; looking again")
                await asyncio.sleep(self._poll_seconds)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._wake.wait()
        self._task = None

    def _hand_out(self, events: Iterable[Event]) -> None:
        for event in events:
            for reader in self._readers:
                reader.offer(event, is_stored=True)
            self.position = event.id


def _fits_filter(event: Event, wanted: EventFilter) -> bool:
    return (
        (wanted.run_id is None or event.run_id == wanted.run_id)
        and (wanted.thread_id is None or event.thread_id == wanted.thread_id)
        and (wanted.task_id is None or event.task_id == wanted.task_id)
        and (wanted.types is None or event.type in wanted.types)
    )
