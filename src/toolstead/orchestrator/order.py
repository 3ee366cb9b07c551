"""The order of a thread's runs: one at a time, as they were accepted, whichever processes hold them.

The store decides (`begin_run`); here a run waits until the store lets it begin. It waits for the run directly
before it: in this process for that run's end, for another process by looking again and again. So every wait is for
a run that was accepted earlier, and no two wait for each other.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from toolstead.errors import NoRoomError, NotFoundError
from toolstead.orchestrator.active_run import ActiveRun
from toolstead.orchestrator.endings import create_start_event
from toolstead.orchestrator.freshness import SessionFreshness
from toolstead.orchestrator.parts import OrchestratorParts
from toolstead.orchestrator.recovery import Recovery, repeat_pauses
from toolstead.orchestrator.store import Begun, Behind, HeldRun


class ThreadOrder:
    """Begins runs when the store permits it."""

    def __init__(self, parts: OrchestratorParts, recovery: Recovery, freshness: SessionFreshness) -> None:
        self._store, self._active, self._clock = parts.store, parts.active, parts.clock
        self._recovery, self._freshness = recovery, freshness

    async def begin_run(self, active: ActiveRun) -> Begun | None:
        """Begin a run when its turn has come; None when it ended meanwhile.

        Raises:
            NoRoomError: It would have to wait, and may not.
        """
        run = active.run
        for seconds in repeat_pauses():
            started = self._clock.now()
            try:
                outcome = await self._store.begin_run(run, started, [create_start_event(run, started)])
            except BaseException:
                # It may have begun, and then the next run cannot see which process ran before this one.
                self._freshness.mark_outdated(run.thread_id)
                raise
            if isinstance(outcome, Behind):
                if not active.request.may_wait:
                    raise NoRoomError(
                        f"thread {run.thread_id!r} is busy with another run, and a child may not wait behind one: "
                        f"start it when that one has ended, or in another thread"
                    )
                await self._wait_for(outcome.runs[-1], seconds)
                continue
            if outcome is not None:
                active.run = replace(run, status="running", started_at=started)
                active.stored_session = outcome.session_id
                self._freshness.note_beginning(run.thread_id, outcome.last)
                await self._take_place(active)
            return outcome
        raise AssertionError("there is always another pause")

    async def _wait_for(self, before: HeldRun, seconds: float) -> None:
        ours = self._active.get(before.id)
        if ours is not None:
            await asyncio.wait((ours.ended,))
        elif before.owner == self._store.owner:  # no task performs it: recovery ends it
            await self._recovery.pause_for(seconds)
        else:
            with suppress(NotFoundError):
                await self._recovery.wait_for_end(before.id)

    async def _take_place(self, active: ActiveRun) -> None:
        """Make it the thread's run in this process, after the hooks of the run before it."""
        running, thread_id = self._active.running, active.run.thread_id
        while (other := running.get(thread_id)) is not None:
            await asyncio.wait((other.ended,))
        running[thread_id] = active
