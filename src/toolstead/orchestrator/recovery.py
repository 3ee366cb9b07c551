"""Recovery: ends the runs of dead processes, and those of our own that no task performs.

Only the process locks of the store decide which processes are alive.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

from msgspec.structs import replace

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import StorageError
from toolstead.orchestrator.endings import end_lost_run, end_with_error
from toolstead.orchestrator.parts import OrchestratorParts
from toolstead.types.run import Run

logger = logging.getLogger(__name__)

RECOVER_SECONDS = 10.0
"""How often to look for dead processes."""
LEAST_SECONDS = 1.0
"""How often at most, while something waits for a run of another process."""
PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Seconds between two polls of a run of another process; the last one repeats."""
MOST_DOUBTFUL = 10_000
GIVEN_UP = "the database failed while it was being stored"


def repeat_pauses() -> Iterator[float]:
    """The seconds to wait between polls, without end."""
    return itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))


class Recovery:
    """Ends the runs that no process performs, and waits for those of live processes."""

    def __init__(self, parts: OrchestratorParts) -> None:
        self._store, self._clock = parts.store, parts.clock
        self._doubtful: dict[str, Run] = {}
        self._recovered_at = float("-inf")
        self._tasks = OwnedTasks()

    async def open(self) -> None:
        """End the runs of dead processes, now and periodically."""
        await self.recover_runs()
        self._tasks.start(self._recover_again(), name="toolstead-recovery")

    async def close(self) -> None:
        """Stop polling."""
        await self._tasks.end_all()

    async def recover_runs(self) -> None:
        """End the runs of dead processes, and those of our own that were given up."""
        self._recovered_at = self._clock.monotonic()
        now = self._clock.now()
        for run, _ in await self._store.recover_runs(lambda run: end_lost_run(run, now)):
            logger.warning("run %s was lost with its process %s", run.id, run.owner)
        for run in list(self._doubtful.values()):
            events = await self._store.end_run(run.id, end_with_error(run, "failed", "storage", GIVEN_UP, now))
            self._doubtful.pop(run.id, None)
            if events is not None:
                logger.warning("run %s was performed by no process, and was ended", run.id)

    def note_doubtful(self, run: Run) -> None:
        """Note a run of ours that no task performs, and that may be unfinished in the database.

        Its thread would wait for it in every process, so it is ended when the database can be written again.
        """
        if len(self._doubtful) >= MOST_DOUBTFUL:
            logger.error("run %s may be left unfinished until this process ends: too many are in doubt", run.id)
            return
        self._doubtful[run.id] = replace(run, prompt="")

    async def wait_for_end(self, run_id: str) -> Run:
        """Wait for the end of a run of another process; end it here when that process is dead.

        Raises:
            NotFoundError: No such run, or it is gone with its thread.
        """
        pauses = repeat_pauses()
        while not (run := await self._store.read_run(run_id)).has_ended:
            await self.pause_for(next(pauses))
        return run

    async def pause_for(self, seconds: float) -> None:
        """Pause before the next poll; recover first, unless that was done a moment ago."""
        if self._clock.monotonic() - self._recovered_at >= LEAST_SECONDS:
            await self._try_to_recover()
        await self._clock.sleep(seconds)

    async def _recover_again(self) -> None:
        while True:
            await self._clock.sleep(RECOVER_SECONDS)
            await self._try_to_recover()

    async def _try_to_recover(self) -> None:
        try:
            await self.recover_runs()
        except StorageError as error:
            logger.log(error.log_level, "runs of dead processes could not be read: %s", error)
