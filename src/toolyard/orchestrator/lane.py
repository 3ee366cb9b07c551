"""A lane: the runs of one thread, one at a time, in the order in which they came.

Above: the orchestrator. Nothing is below.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from toolyard.types.run import Run


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A run on its way through a lane.

    Attributes:
        wanted_end: Somebody asked for its end; why, in words.
        session: Where the runtime's id of the conversation became another: the new one, or None for none.
        ended: Gets the run as it was stored at its end.
    """

    run: Run
    resume: str | None = None
    cwd: str | None = None
    timeout: float | None = None
    wanted_end: str | None = None
    session: tuple[str | None] | None = None
    task: asyncio.Future[None] | None = None
    ended: asyncio.Future[Run] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


Perform = Callable[[Job], Awaitable[None]]


class Lane:
    """Performs the jobs of one thread, one after the other, while there are any."""

    def __init__(self, perform: Perform, on_empty: Callable[[], None]) -> None:
        self._perform = perform
        self._on_empty = on_empty
        self._waiting: deque[Job] = deque()
        self._ending: set[asyncio.Future[None]] = set()
        self.current: Job | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, job: Job) -> None:
        """Put a job at the end."""
        self._waiting.append(job)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"toolyard-lane-{job.run.thread_id}")

    def end(self, why: str) -> None:
        """Ask for the end of everything in it."""
        for job in (*tuple(self._waiting), *([self.current] if self.current is not None else [])):
            self.end_job(job, why)

    def end_job(self, job: Job, why: str) -> None:
        """Ask for the end of one job: one that runs is interrupted, one that waits gets its end at once."""
        if job.wanted_end is not None:
            return
        job.wanted_end = why
        if job.task is not None:
            job.task.cancel()
        elif job in self._waiting:
            self._waiting.remove(job)
            job.task = asyncio.ensure_future(self._perform(job))
            self._ending.add(job.task)
            job.task.add_done_callback(self._ending.discard)

    async def ended(self) -> None:
        """Wait until nothing is left in it."""
        if waiting := [*self._ending, *([self._task] if self._task is not None else [])]:
            await asyncio.wait(waiting)

    async def _run(self) -> None:
        while self._waiting:
            self.current = job = self._waiting.popleft()
            job.task = asyncio.ensure_future(self._perform(job))
            await asyncio.wait([job.task])  # whatever comes of it was handled where it was performed
        self.current, self._task = None, None
        self._on_empty()
