"""The journal: events of this process on their way into the store, many in one commit, each run's in order.

Steps of runs come along with events: a step alone causes no commit. The events and steps of a run that are not stored
yet are stored with its end, in one commit. When the store cannot be written, both wait, bounded; what has to be left
out is counted and logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from toolstead.errors import StorageError

if TYPE_CHECKING:
    from toolstead.orchestrator.store import Store
    from toolstead.types.event import NewEvent
    from toolstead.types.step import StepBatch

logger = logging.getLogger(__name__)

MOST_WAITING = 50_000
MOST_STEP_BYTES = 64_000_000
RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)


class StepSource(Protocol):
    """Has the steps of a run."""

    def take_steps(self) -> StepBatch | None:
        """Those since the last time; None when there are none."""
        ...


class Journal:
    """Writes events, and steps with them, in the background. Close it to write the last ones."""

    def __init__(
        self, store: Store, *, most_waiting: int = MOST_WAITING, most_step_bytes: int = MOST_STEP_BYTES
    ) -> None:
        self._store = store
        self._most_waiting, self._most_step_bytes = most_waiting, most_step_bytes
        self._waiting: dict[str | None, list[NewEvent]] = {}
        self._count = 0
        self._storing: dict[str | None, list[NewEvent]] = {}
        self._sources: dict[str, StepSource] = {}
        self._refused: dict[str, list[StepBatch]] = {}
        """Steps that the store did not take; they are tried again."""
        self._storing_steps: dict[str, list[StepBatch]] = {}
        self._settled = asyncio.Event()
        self._lost = self._lost_steps = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._write(), name="toolstead-journal")

    @property
    def waiting(self) -> int:
        """How many events are not stored yet."""
        return self._count

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

    def add_steps(self, run_id: str, source: StepSource) -> None:
        """Store the steps that a source has by then, with the next events or with its run's end."""
        self._sources[run_id] = source

    async def take_unstored(self, run_id: str) -> list[NewEvent]:
        """The events of a run that are not stored yet: to be stored with its end.

        What is being stored is waited for: if that fails, it would come after the end.
        """
        while run_id in self._storing or run_id in self._storing_steps:
            await self._settled.wait()
        own = self._waiting.pop(run_id, [])
        self._count -= len(own)
        return own

    def take_steps(self, run_id: str) -> list[StepBatch]:
        """The steps of a run that are not stored yet: to be stored with its end."""
        batches, source = self._refused.pop(run_id, []), self._sources.pop(run_id, None)
        if source is not None and (batch := source.take_steps()) is not None:
            batches.append(batch)
        return batches

    async def close(self) -> None:
        """Store what waits, then end."""
        self._closing = True
        self._wake.set()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        failures = 0
        while self._waiting or not self._closing or self._sources or self._refused:
            if not self._waiting and not self._closing:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._storing, self._waiting = self._waiting, {}
            self._storing_steps = {run_id: self.take_steps(run_id) for run_id in {**self._refused, **self._sources}}
            batch = [event for events in self._storing.values() for event in events]
            steps = [one for own in self._storing_steps.values() for one in own]
            self._settled.clear()
            try:
                await self._store.append_events(batch, steps)
            except StorageError as error:
                if self._closing and failures:
                    logger.exception("%s events could not be stored", len(batch))
                    self._put_back()
                    return
                if not failures:
                    logger.log(error.log_level, "events wait for the database: %s", error)
                self._put_back()
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
                continue
            except Exception:
                logger.exception("%s events could not be stored together; each is tried alone", len(batch))
                await self._store_each(batch, steps)
            failures = 0
            self._count -= len(batch)
            self._storing, self._storing_steps = {}, {}
            self._settled.set()
            self._tell_lost()

    def _tell_lost(self) -> None:
        if self._lost:
            logger.error("%s events were left out while the database could not be written", self._lost)
            self._lost = 0
        if self._lost_steps:
            logger.error("%s steps were left out while the database could not be written", self._lost_steps)
            self._lost_steps = 0

    async def _store_each(self, batch: Sequence[NewEvent], steps: Sequence[StepBatch]) -> None:
        for event in batch:
            try:
                await self._store.append_events([event])
            except Exception:
                logger.exception("an event %s of run %s cannot be stored, and is left out", event.type, event.run_id)
        for one in steps:
            try:
                await self._store.append_events([], [one])
            except Exception:
                logger.exception("step %s of run %s cannot be stored, and is left out", one.number, one.run_id)

    def _put_back(self) -> None:
        """What could not be stored waits again, each run's in front of what came meanwhile."""
        for run_id, later in self._waiting.items():
            self._storing.setdefault(run_id, []).extend(later)
        self._waiting, self._storing = self._storing, {}
        size = sum(len(one.steps) for own in self._refused.values() for one in own)
        for run_id, own in self._storing_steps.items():
            for one in own:
                size += len(one.steps)
                if size <= self._most_step_bytes:
                    self._refused.setdefault(run_id, []).append(one)
                    continue
                if not self._lost_steps:
                    logger.error("steps of more than %s bytes wait for the database; some are left out", size)
                self._lost_steps += one.last - one.number + 1
        self._storing_steps = {}
        self._settled.set()
