"""The sweep: takes up what nobody works on, wakes threads for results, and notices tasks that were taken away.

A living process may have stopped working on a task, as after the database was away: what is ours and not worked on is
taken up too, once it was seen twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.delegation.attempts import DelegationTerms
from toolstead.delegation.engine import Engine
from toolstead.delegation.task_runs import TaskRuns
from toolstead.delegation.task_store import TaskStore
from toolstead.errors import InvocationError, StorageError
from toolstead.invoker.clock import Clock
from toolstead.types.task import Task

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
HELD_SECONDS = 0.25
"""How often a process that works on tasks looks whether they are still its own."""


class TaskSweep:
    """Looks at the store from time to time."""

    def __init__(
        self,
        *,
        store: TaskStore,
        runs: TaskRuns,
        engine: Engine,
        clock: Clock,
        project: str,
        terms: Callable[[], DelegationTerms],
        is_claimed: Callable[[str], bool],
        begin: Callable[[Sequence[Task]], Awaitable[None]],
        list_held: Callable[[], Collection[str]],
    ) -> None:
        """Look at nothing yet.

        Args:
            store: What is kept.
            runs: Performs runs.
            engine: Executes the work.
            clock: Time.
            project: Whose tasks are taken up.
            terms: The current settings.
            is_claimed: Whether this process is about to work on a task.
            begin: Works on queued tasks that have a slot now.
            list_held: The tasks that this process works on, as it believes.
        """
        self._store, self._runs, self._engine, self._clock = store, runs, engine, clock
        self._project, self._terms, self._is_claimed, self._list_held = project, terms, is_claimed, list_held
        self._begin = begin
        self._tasks = OwnedTasks()
        self._seen: set[str] = set()
        self._refused: set[str] = set()

    def open(self, *, adopts: bool) -> None:
        """Begin to look; with `adopts`, also for what other processes left."""
        self._tasks.start(self._repeat(HELD_SECONDS, self.stop_lost_work), name="toolstead-held-tasks")
        if adopts:
            self._tasks.start(self._repeat(SWEEP_SECONDS, self.sweep), name="toolstead-task-sweep")

    async def close(self) -> None:
        """Look no more."""
        await self._tasks.end_all()

    async def sweep(self) -> None:
        """Take up open tasks, let queued ones begin, wake threads."""
        idle: set[str] = set()
        for task in await self._store.list_adoptable(self._project):
            if self._engine.is_working_on(task.id) or self._is_claimed(task.id):
                continue
            idle.add(task.id)
            is_ours = task.owner == self._store.owner
            if (not is_ours or task.id in self._seen) and self._can_work_on(task):
                logger.info("task %s is taken up, which %s left", task.id, task.owner or "another process")
                await self._engine.submit([task.id])
        self._seen = idle
        claims = self._engine.claims_at_once
        await self._begin(
            await self._store.start_queued(self._project, self._terms().cap, self._clock.now(), claims=claims)
        )
        for task in await self._store.list_wakes(self._project):
            await self.wake_thread(task)

    async def wake_thread(self, task: Task) -> None:
        """Wake the thread that delegated a task, unless its own worker or a queued run takes the result."""
        try:
            await self._runs.wake_thread(task)
        except InvocationError as error:  # a budget that is used up, or an agent that is gone
            self._log_once(task, f"the result of task {task.id} waits in thread {task.parent_thread_id}: {error}")

    async def stop_lost_work(self) -> None:
        """Stop working on tasks that have ended, or that another process holds."""
        if not (working := list(self._list_held())):
            return
        held = await self._store.list_held(working)
        for task_id in working:
            if task_id not in held and task_id in self._list_held():
                self._engine.stop_working_on(task_id)

    def _can_work_on(self, task: Task) -> bool:
        """Whether this process has the agent and the runtime that a task needs."""
        if task.definition:
            return True
        try:
            self._runs.resolve_terms(task.agent, model=task.model, runtime=task.runtime)
        except InvocationError as error:
            self._log_once(task, f"task {task.id} is left to another process: {error}")
            return False
        return True

    def _log_once(self, task: Task, message: str) -> None:
        if task.id not in self._refused:
            self._refused.add(task.id)
            logger.warning("%s", message)

    async def _repeat(self, seconds: float, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(seconds)
            try:
                await look()
            except StorageError as error:
                logger.log(error.log_level, "tasks could not be read: %s", error)
            except Exception:
                logger.exception("looking at the tasks failed; trying again")
