"""The local engine: tasks are worked on in this process, each in an asyncio task of its own.

Another process takes them over through the store: a process that is dead holds nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.delegation.engine import WorkOnTask
from toolstead.errors import InvocationError


class LocalEngine:
    """Executes tasks here."""

    claims_at_once = True

    def __init__(self) -> None:
        self._work: WorkOnTask | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks = OwnedTasks()

    async def open(self, work: WorkOnTask) -> None:
        """Begin to execute what is submitted."""
        self._work = work

    async def submit(self, task_ids: Sequence[str]) -> None:
        """Work on each of them, unless that is being done.

        Raises:
            InvocationError: The engine is closed.
        """
        if self._work is None:
            raise InvocationError("Toolstead is shutting down; the task is taken up after the restart")
        for task_id in task_ids:
            if task_id in self._running:
                continue
            running = self._tasks.start(self._execute(self._work, task_id), name=f"toolstead-{task_id}")
            self._running[task_id] = running

    def is_working_on(self, task_id: str) -> bool:
        """Whether it is being executed here."""
        return task_id in self._running

    def stop_working_on(self, task_id: str) -> None:
        """Cancel the work on a task."""
        if (running := self._running.get(task_id)) is not None:
            running.cancel()

    async def close(self) -> None:
        """Begin nothing more, and end what is being executed."""
        self._work = None
        await self._tasks.end_all()

    async def _execute(self, work: WorkOnTask, task_id: str) -> None:
        try:
            await work(task_id)
        finally:
            self._running.pop(task_id, None)
