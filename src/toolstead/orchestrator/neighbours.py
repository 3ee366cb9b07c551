"""The other processes on the same database: whose runs are waited for, which of them died, who talked last."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from toolstead.errors import NotFoundError, StorageError
from toolstead.invoker.key import session_key
from toolstead.invoker.pool import SessionPool
from toolstead.orchestrator.endings import begun, given_up, lost
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.lane import Job, Lane
from toolstead.orchestrator.store import Begun, Behind, HeldRun, Store
from toolstead.types.run import Run

logger = logging.getLogger(__name__)

RECOVER_SECONDS = 10.0
"""How often dead processes are looked for."""
LEAST_SECONDS = 1.0
"""How often at most, while something waits for a run of another process."""
PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""How long to wait between two looks at a run of another process; the last one repeats."""
MOST_DOUBTFUL = 10_000
MOST_PREWARMED = 1_000
MOST_NEVER_BEGUN = 20

NOBODY = ""
"""Stands for the run that began last in a thread in which none has."""


def pauses() -> Iterator[float]:
    """Seconds to wait, again and again."""
    return itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))


class Neighbours:
    """What the orchestrator must know of others that use its database."""

    def __init__(self, store: Store, log: EventLog, pool: SessionPool) -> None:
        self._store = store
        self._log = log
        self._pool = pool
        self._doubtful: dict[str, Run] = {}
        self._prewarmed: dict[str, str] = {}
        """Thread → the run after which its session was opened ahead of the next message."""
        self.changed_ids = 0
        """How often the id of a conversation may have become another: a thread that was read before is read again."""
        self._looked = float("-inf")
        self._recovering: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """End the runs of processes that died, now and from time to time."""
        await self.recover()
        self._recovering = asyncio.create_task(self._recover_again(), name="toolstead-recovery")

    async def close(self) -> None:
        """Look no more."""
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)

    async def recover(self) -> None:
        """End the runs of processes that are dead, and those of our own that were given up."""
        self._looked = asyncio.get_running_loop().time()
        for run, events in await self._store.recover(lost):
            logger.warning("run %s was lost with its process %s", run.id, run.owner)
            self._log.publish(events)
        for run in list(self._doubtful.values()):
            events = await self._store.end_run(run.id, given_up(run))
            self._doubtful.pop(run.id, None)
            if events is not None:
                logger.warning("run %s was found without anybody who performs it, and got its end", run.id)
                self._log.publish(events)

    def doubt(self, run: Run) -> None:
        """A run of ours that nobody performs, and of which the database may keep that it is unfinished.

        Its thread would wait for it in every process, so it gets its end when the database can be written again.
        """
        if len(self._doubtful) >= MOST_DOUBTFUL:
            logger.error("run %s may be left unfinished until this process ends: too many are in doubt", run.id)
            return
        self._doubtful[run.id] = replace(run, prompt="")

    async def begin(self, job: Job, lane: Lane) -> Begun | Behind | None:
        """Begin a run when its turn has come, whichever processes hold those before it; see `Store.begin_run`.

        Those of its own lane are not waited for: they stand behind it, and are to go first. Our session of the
        thread is ended when the conversation went on without it.
        """
        run = job.run
        for seconds in pauses():
            started = time.time()
            try:
                outcome = await self._store.begin_run(run, started, [begun(run, started)])
            except BaseException:
                # It may have begun, and then the next run will not see who talked here before this one.
                self._outdate(run.thread_id)
                raise
            if isinstance(outcome, Begun):
                job.run = replace(run, status="running", started_at=started)
                self._compare(run.thread_id, outcome.last)
            if not isinstance(outcome, Behind):
                return outcome
            first = outcome.runs[0]
            job.behind = frozenset(one.id for one in outcome.runs)
            if lane.holds(job.behind):
                return outcome
            if first.owner == self._store.owner:  # on its way into the lane, or to its end
                await self._look_for_dead()
                await asyncio.sleep(seconds)
                continue
            with suppress(NotFoundError):
                await self.end_of(first.id)
        raise AssertionError("there is always another pause")

    async def end_of(self, run_id: str) -> Run:
        """Wait for the end of a run that another process holds; one that died with it gets its end here.

        Raises:
            NotFoundError: No such run, or it is gone with its thread.
        """
        for seconds in pauses():
            run = await self._store.run(run_id)
            if run.ended:
                return run
            await self._look_for_dead()
            await asyncio.sleep(seconds)
        raise AssertionError("there is always another pause")

    async def may_prewarm(self, thread_id: str) -> bool:
        """Whether a session opened now would be up to date; ask before reading the thread.

        One that is open and is not up to date is ended.
        """
        newest = await self._store.runs(thread_id=thread_id, limit=MOST_NEVER_BEGUN)
        last = next((run for run in newest if run.started_at is not None), None)
        if last is not None and last.owner == self._store.owner:
            return True
        if last is not None and not last.ended:
            return False
        after = NOBODY if last is None else last.id
        if self._prewarmed.get(thread_id) != after:
            self._pool.evict(session_key(thread_id), outdated=True)
        while len(self._prewarmed) >= MOST_PREWARMED:
            del self._prewarmed[next(iter(self._prewarmed))]
        self._prewarmed[thread_id] = after
        return True

    def _compare(self, thread_id: str, last: HeldRun | None) -> None:
        """See whether our session of a thread had part in the run that began last there."""
        ahead = self._prewarmed.pop(thread_id, None)
        if last is not None and last.owner == self._store.owner:
            return
        if ahead == (NOBODY if last is None else last.id):
            return
        if last is None:  # nothing was said here: at most there is a session of a deleted thread of this name
            self._pool.evict(session_key(thread_id), outdated=True)
        else:
            self._outdate(thread_id)

    def _outdate(self, thread_id: str) -> None:
        """What we have of a thread may be out of date: the session, and what was read."""
        self._pool.evict(session_key(thread_id), outdated=True)
        self.changed_ids += 1

    async def _look_for_dead(self) -> None:
        """Recover, unless that was done a moment ago."""
        if asyncio.get_running_loop().time() - self._looked >= LEAST_SECONDS:
            await self._try_to_recover()

    async def _recover_again(self) -> None:
        while True:
            await asyncio.sleep(RECOVER_SECONDS)
            await self._try_to_recover()

    async def _try_to_recover(self) -> None:
        try:
            await self.recover()
        except StorageError as error:
            logger.warning("runs of dead processes could not be looked for: %s", error)
