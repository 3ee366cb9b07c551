"""A lane: the runs of one thread, one at a time, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from toolstead.types.run import NOTHING_USED, Run, Usage
from toolstead.types.thread import Thread


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A run on its way through a lane.

    Attributes:
        thread: Its thread, as it was read when the message came.
        seen: How many sessions' ids had changed by then; see `Neighbours`.
        wanted_end: Somebody asked for its end; why, in words.
        ending: Its end is being stored: nothing interrupts that.
        behind: The runs that go before it, while it may not begin.
        used: What the runtime has told so far of what it used; a run that fails has used it all the same.
        session: Where the runtime's id of the conversation became another: the new one, or None for none.
        ended: Gets the run as it was stored at its end; cancelled when it was never stored at all.
    """

    run: Run
    thread: Thread
    seen: int
    resume: str | None = None
    cwd: str | None = None
    timeout: float | None = None
    wanted_end: str | None = None
    ending: bool = False
    behind: frozenset[str] = frozenset()
    used: Usage = NOTHING_USED
    session: tuple[str | None] | None = None
    ended: asyncio.Future[Run] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


Perform = Callable[[Job], Awaitable[bool]]


class Lane:
    """Performs the jobs of one thread, one after the other, while there are any."""

    def __init__(self, perform: Perform, on_empty: Callable[[], None]) -> None:
        """Make an empty lane.

        Args:
            perform: Sees a job to its end; never raises, also when it is cancelled. False when others of the lane
                must go before it, which `Job.behind` names.
            on_empty: Called when the last job has ended.
        """
        self._perform = perform
        self._on_empty = on_empty
        self._waiting: deque[Job] = deque()
        self._ending: set[asyncio.Future[bool]] = set()
        self.current: Job | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, job: Job) -> None:
        """Put a job at the end."""
        self._waiting.append(job)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"toolstead-lane-{job.run.thread_id}")

    def holds(self, ids: Collection[str]) -> bool:
        """Whether any of these runs waits here."""
        return any(job.run.id in ids for job in self._waiting)

    def end_job(self, job: Job, why: str) -> None:
        """Ask for the end of one job: one that runs is interrupted, one that waits gets its end at once."""
        if job.wanted_end is not None:
            return
        job.wanted_end = why
        if job is self.current:
            if self._task is not None and not job.ending:
                self._task.cancel()
        elif job in self._waiting:
            self._waiting.remove(job)
            task = asyncio.ensure_future(self._perform(job))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _run(self) -> None:
        """Perform what waits. This task waits for nothing else, so cancelling it interrupts the current job alone."""
        while self._waiting:
            self.current = self._waiting.popleft()
            if not await self._perform(self.current):
                self._put_back(self.current)
            while self._task is not None and self._task.cancelling():
                self._task.uncancel()  # that was for the job before
        self.current, self._task = None, None
        self._on_empty()

    def _put_back(self, job: Job) -> None:
        """Let those pass that were stored earlier: a caller who leaves may have its job put here out of order."""
        places = [place for place, other in enumerate(self._waiting) if other.run.id in job.behind]
        self._waiting.insert(places[-1] + 1 if places else 0, job)
