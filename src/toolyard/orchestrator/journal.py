"""The journal: events of this process on their way into the store, many in one commit, in order.

What a run told so far is stored with its end, in one commit. When the store cannot be written, events
wait, bounded; what has to be left out is counted and said. Above: the event log, the orchestrator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from toolyard.errors import StorageError
from toolyard.orchestrator.store import EventStore, NewEvent
from toolyard.types.event import Event

logger = logging.getLogger(__name__)

MOST_WAITING = 50_000
RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)

OnStored = Callable[[Sequence[Event]], None]


class Journal:
    """Writes events behind whoever tells them. Close it to write the last ones."""

    def __init__(self, store: EventStore, on_stored: OnStored, *, most_waiting: int = MOST_WAITING) -> None:
        self._store = store
        self._on_stored = on_stored
        self._most_waiting = most_waiting
        self._waiting: list[NewEvent] = []
        self._lost = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._write(), name="toolyard-journal")

    def add(self, event: NewEvent) -> None:
        """Take an event; it is stored soon."""
        if len(self._waiting) >= self._most_waiting:
            self._lost += 1
            if self._lost == 1:
                logger.error("%s events wait for the database; later ones are left out", len(self._waiting))
            return
        self._waiting.append(event)
        self._wake.set()

    def take(self, run_id: str) -> list[NewEvent]:
        """What a run told that is not being stored yet: to be stored with its end."""
        own = [event for event in self._waiting if event.run_id == run_id]
        if own:
            self._waiting = [event for event in self._waiting if event.run_id != run_id]
        return own

    async def close(self) -> None:
        """Store what waits, then end."""
        self._closing = True
        self._wake.set()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        failures = 0
        while self._waiting or not self._closing:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch, self._waiting = self._waiting, []
            try:
                self._on_stored(await self._store.append(batch))
            except StorageError as error:
                if self._closing and failures:
                    logger.exception("%s events could not be stored", len(batch))
                    return
                if not failures:
                    logger.warning("events wait for the database: %s", error)
                self._waiting = [*batch, *self._waiting]
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
                continue
            failures = 0
            if self._lost:
                logger.error("%s events were left out while the database could not be written", self._lost)
                self._lost = 0
