"""Follows delegated tasks: one and those below it until none of them is open, or those of the project for ever.

    stream opened ──▶ first look: what is open is shown ──▶ each event of a known task is shown ──▶ none open: over
                                                                 └── of an unknown one: look whether it belongs here

The stream begins before the first look, so nothing falls between them; what the look has shown is not shown again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolstead.app.client import SteadClient
from toolstead.errors import ServeError

MOST_LOOKED_AT = 500
ENDS = frozenset({"task.completed", "task.failed"})
TYPES = ("task.created", "task.checkin", "task.evaluated", *sorted(ENDS))


class TaskWatch:
    """Follows tasks, and gives what happens to them."""

    def __init__(
        self,
        client: SteadClient,
        *,
        top: Mapping[str, Any] | None,
        show_task: Callable[[Mapping[str, Any]], None],
        show_event: Callable[[Mapping[str, Any]], None],
        show_start: Callable[[], None],
    ) -> None:
        """Look at nothing yet.

        Args:
            client: Where the tasks are.
            top: The task above the others; None for all tasks of the project.
            show_task: Takes each task that is open at the beginning, oldest first.
            show_event: Takes what happens from then on.
            show_start: Called between the two, unless nothing is open.
        """
        self._client, self._top = client, top
        self._show_task, self._show_event, self._show_start = show_task, show_event, show_start
        self._seen: dict[str, bool] = {}
        """Every task that was looked at, and whether its end is still to come."""
        self._announced: set[str] = set()
        self._foreign: set[str] = set()

    async def follow(self) -> None:
        """Follow them until none is open.

        Raises:
            ServeError: The server has stopped before.
        """
        async with self._client.tasks.follow_events(TYPES) as events:
            for task in await self._look():
                self._announced.add(task["id"])
                self._seen[task["id"]] = task["outcome"] is None
                if task["outcome"] is None:
                    self._show_task(task)
            if self._is_over():
                return
            self._show_start()
            async for event in events:
                await self._take_event(event)
                if self._is_over():
                    return
        raise ServeError(f"{self._client.url or 'this process'} has stopped; the tasks cannot be followed any more")

    def _is_over(self) -> bool:
        return self._top is not None and not any(self._seen.values())

    async def _take_event(self, event: Mapping[str, Any]) -> None:
        task_id, kind = event["taskId"], event["type"]
        if task_id in self._foreign:
            return
        if task_id not in self._seen:
            for task in await self._look():
                self._seen.setdefault(task["id"], True)  # its end comes in the stream, also where it has ended by now
            if task_id not in self._seen:
                self._foreign.add(task_id)
                return
        if kind == "task.created":
            if task_id in self._announced:
                return
            self._announced.add(task_id)
        elif kind in ENDS:
            if not self._seen[task_id]:
                return
            self._seen[task_id] = False
        self._show_event(event)

    async def _look(self) -> list[dict[str, Any]]:
        """The tasks that are followed, the oldest first."""
        root = None if self._top is None else self._top["rootRunId"]
        found = (await self._client.tasks.list_tasks(root=root, limit=MOST_LOOKED_AT))[::-1]
        if self._top is None:
            return found
        wanted = {self._top["id"], *self._seen}
        for task in found:  # a task is older than those below it
            if task.get("parentTaskId") in wanted:
                wanted.add(task["id"])
        return [task for task in found if task["id"] in wanted]
