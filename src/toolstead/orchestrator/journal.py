"""The journal: events of this process on their way into the store, many in one commit, each run's in order.

The events of a run that are not stored yet are stored with its end, in one commit. When the store cannot be written,
events wait, bounded; what has to be left out is counted and logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolstead.errors import StorageError

if TYPE_CHECKING:
    from toolstead.orchestrator.store import Store
    from toolstead.types.event import NewEvent

logger = logging.getLogger(__name__)

MOST_WAITING = 50_000
RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)


class Journal:
    """Writes events in the background. Close it to write the last ones."""

    def __init__(self, store: Store, *, most_waiting: int = MOST_WAITING) -> None:
        self._store = store
        self._most_waiting = most_waiting
        self._waiting: dict[str | None, list[NewEvent]] = {}
        self._count = 0
        self._storing: dict[str | None, list[NewEvent]] = {}
        self._settled = asyncio.Event()
        self._lost = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._write(), name="toolstead-journal")

    def add(self, event: NewEvent) -> None:
        """Take an event; it is stored soon."""
        if self._count >= self._most_waiting:
            self._lost += 1
            if self._lost == 1:
                logger.error("%s events wait for the database; later ones are left out", self._count)
            return
        self._count += 1
        self._waiting.setdefault(event.run_id, []).append(event)
        self._wake.set()

    async def take_unstored(self, run_id: str) -> list[NewEvent]:
        """The events of a run that are not stored yet: to be stored with its end.

        What is being stored is waited for: if that fails, it would come after the end.
        """
        while run_id in self._storing:
            await self._settled.wait()
        own = self._waiting.pop(run_id, [])
        self._count -= len(own)
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
            self._storing, self._waiting = self._waiting, {}
            batch = [event for events in self._storing.values() for event in events]
            self._settled.clear()
            try:
                await self._store.append_events(batch)
            except StorageError as error:
                if self._closing and failures:
                    logger.exception("%s events could not be stored", len(batch))
                    self._put_back()
                    return
                if not failures:
                    logger.warning("events wait for the database: %s", error)
                self._put_back()
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
                continue
            except Exception:
                logger.exception("%s events could not be stored together; each is tried alone", len(batch))
                await self._store_each(batch)
            failures = 0
            self._count -= len(batch)
            self._storing = {}
            self._settled.set()
            if self._lost:
                logger.error("%s events were left out while the database could not be written", self._lost)
                self._lost = 0

    async def _store_each(self, batch: Sequence[NewEvent]) -> None:
        for event in batch:
            try:
                await self._store.append_events([event])
            except Exception:
                logger.exception("an event %s of run %s cannot be stored, and is left out", event.type, event.run_id)

    def _put_back(self) -> None:
        """What could not be stored waits again, each run's in front of what came meanwhile."""
        for run_id, later in self._waiting.items():
            self._storing.setdefault(run_id, []).extend(later)
        self._waiting, self._storing = self._storing, {}
        self._settled.set()
