"""The event log: where everything that happens is reported; `feed` hands it to readers.

Without a store, failures and changes are kept in memory, bounded; calls that succeed go to readers only. With one
(`attach`), what belongs to a run, what failed and what changed is stored, and readers get it once it is, with the id
it got there. Nothing here blocks.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolstead.types.event import Event, NewEvent

if TYPE_CHECKING:
    from toolstead.orchestrator.feed import EventReader, Feed
    from toolstead.orchestrator.journal import Journal, StepSource
    from toolstead.orchestrator.store import Store
    from toolstead.types.call import Caller
    from toolstead.types.step import StepBatch

logger = logging.getLogger(__name__)

MOST_KEPT = 1_000
LASTING = frozenset({"tools.changed", "plugin.status", "approval.requested", "approval.resolved"})
"""Types of which every event is kept, also outside of runs."""


class EventLog:
    """One numbered log for a process. Ids carry an epoch, so that two processes never share one."""

    def __init__(self, kept: int = MOST_KEPT) -> None:
        self._kept: deque[Event] = deque(maxlen=kept)
        self._is_full = False
        self._epoch = f"{int(time.time()):x}{secrets.token_hex(6)}"
        self._numbers = itertools.count(1)
        self._journal: Journal | None = None
        self.feed: Feed | None = None
        """Hands events to readers; made with the first reader, or with the store."""
        self.listening = False
        """Whether anyone reads along right now; a plain attribute, asked on every call."""

    @property
    def recent_events(self) -> list[Event]:
        """The last failures and changes that no store has, oldest first."""
        return list(self._kept)

    @property
    def waiting(self) -> int:
        """How many events wait for the store."""
        return len(self._kept) if self._journal is None else self._journal.waiting

    def emit(self, type: str, data: Mapping[str, Any], caller: Caller | None = None, *, keep: bool = False) -> None:
        """Number an event, keep it if it must not be lost, hand it to every reader.

        Without a caller it belongs to no thread, as a change of the tools does. With `keep` it must
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
            # Padded, so that ids sort as they were given. Beside a store there are only the store's ids.
            id="" if self._journal is not None else f"{self._epoch}-{next(self._numbers):010}",
            type=type,
            time=time.time(),
            data=data,
            thread_id=caller.thread_id if caller else None,
            run_id=caller.run_id if caller else None,
            task_id=caller.task_id if caller else None,
        )
        if lasting:
            self._keep_until_stored(event)
        if self.feed is not None:
            self.feed.mention_event(event)

    def _keep_until_stored(self, event: Event) -> None:
        if len(self._kept) == self._kept.maxlen and not self._is_full:
            self._is_full = True
            logger.warning(
                "%s failures and changes are kept until there is a store; the oldest go now", len(self._kept)
            )
        self._kept.append(event)

    def attach_store(self, store: Store) -> None:
        """Store events from now on; those kept in memory so far are stored first."""
        from toolstead.orchestrator.journal import Journal

        self._get_feed().attach(store)
        self._journal = Journal(store)
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

    async def take_unstored(self, run_id: str) -> list[NewEvent]:
        """The events of a run that are not stored yet; what is being stored is waited for."""
        return await self._journal.take_unstored(run_id) if self._journal is not None else []

    def add_steps(self, run_id: str, source: StepSource) -> None:
        """Store the steps of a run with its next events, or with its end."""
        if self._journal is not None:
            self._journal.add_steps(run_id, source)

    def take_steps(self, run_id: str) -> list[StepBatch]:
        """The steps of a run that are not stored yet; after `take_unstored`, none is being stored."""
        return self._journal.take_steps(run_id) if self._journal is not None else []

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
        if journal is not None:
            await journal.close()
        if self.feed is not None:
            await self.feed.detach()

    def open_stream(self, types: Collection[str] | None = None) -> EventReader:
        """Read along from now on; close it when done."""
        from toolstead.orchestrator.log_store import EventFilter

        wanted = None if types is None else frozenset([types] if isinstance(types, str) else types)
        return self._get_feed().start_reader(EventFilter(types=wanted))

    def close(self) -> None:
        """End every reader."""
        if self.feed is not None:
            self.feed.close()

    def _get_feed(self) -> Feed:
        if self.feed is None:
            from toolstead.orchestrator.feed import Feed

            self.feed = Feed(on_readers=self._note_readers)
        return self.feed

    def _note_readers(self, listening: bool) -> None:
        self.listening = listening
