"""The delegated tasks of a stead, as people see them: listed, shown with their trees, cancelled, started again.

REST and the commands show the same: `adapters/rest/task_routes.py` and `task_client.py` are thin layers above this.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolstead.errors import NotFoundError

if TYPE_CHECKING:
    from toolstead.app.delegating import DelegationParts
    from toolstead.types.task import Task

logger = logging.getLogger(__name__)

LONGEST_PROMPT = 1_000
"""Characters of each prompt in lists and trees; the task itself is shown with all of it."""
LONGEST_PART = 16_000
"""Characters of a result that are given at once, unless more are asked for."""
MOST_IN_TREE = 10_000


class SteadTasks:
    """The tasks of one project. Those of other projects in the same database are as unknown as those of nobody."""

    def __init__(self, open_delegation: Callable[[], Awaitable[DelegationParts]], project: Path) -> None:
        """Open nothing yet.

        Args:
            open_delegation: Opens delegated work, and the database with the first call.
            project: Whose tasks they are.
        """
        self._open, self._project = open_delegation, str(project)

    async def list_tasks(
        self, *, thread: str | None = None, root: str | None = None, is_open: bool | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Tasks, the newest first, each with the beginning of its prompt.

        Args:
            thread: Only those that this thread delegated.
            root: Only those of the tree below this root: a run, or a task that is its own root.
            is_open: Only those without an outcome, or only those with one.
            limit: At most so many.
        """
        return [_describe_briefly(task) for task in await self._list(thread, root, is_open, limit)]

    async def read_task(self, id: str) -> dict[str, Any]:
        """A task with its attempts, its budget, what was called, and the tree of the tasks below it.

        Raises:
            NotFoundError: No such task.
        """
        task = await self._find(id)
        described = await (await self._open()).describe_task(id)
        return described | {"tree": nest_tasks(await self._list(None, task.root_run_id, None, MOST_IN_TREE), below=id)}

    async def read_task_result(self, id: str, *, offset: int = 0, limit: int = LONGEST_PART) -> dict[str, Any]:
        """A part of a task's result; empty where it has none.

        Raises:
            NotFoundError: No such task.
        """
        await self._find(id)
        whole = await (await self._open()).delegation.store.read_task_result(id) or ""
        part = whole[offset : offset + limit]
        end = offset + len(part)
        shown: dict[str, Any] = {"text": part, "offset": offset, "size": len(whole)}
        return shown | ({"next": end} if part and end < len(whole) else {})

    async def cancel_task(self, id: str) -> dict[str, Any]:
        """End a task and those below it; one that has ended is unchanged.

        Raises:
            NotFoundError: No such task.
        """
        await self._find(id)
        return (await (await self._open()).delegation.cancel(id, "a person cancelled it")).to_json()

    async def retry_task(self, id: str) -> dict[str, Any]:
        """Start the work of an ended task again, as a new task in a tree of its own.

        Raises:
            NotFoundError: No such task.
            RefusedError: It has not ended.
            InvocationError: Its agent or its runtime is not there any more.
        """
        await self._find(id)
        return (await (await self._open()).delegation.retry(id)).to_json()

    async def _list(self, thread: str | None, root: str | None, is_open: bool | None, limit: int) -> list[Task]:
        from toolstead.delegation.task_store import TaskFilter

        wanted = TaskFilter(project=self._project, parent_thread_id=thread, root_run_id=root, is_open=is_open)
        return await (await self._open()).delegation.store.list_tasks(wanted, limit=limit)

    async def _find(self, id: str) -> Task:
        task = await (await self._open()).delegation.store.read_task(id)
        if task.project != self._project:
            raise NotFoundError("task", id)
        return task


def nest_tasks(found: Sequence[Task], *, below: str) -> list[dict[str, Any]]:
    """The tasks below one, each with those below itself as `children`, the oldest first.

    Args:
        found: All tasks of a tree, the newest first.
        below: The task.
    """
    if len(found) == MOST_IN_TREE:
        logger.warning("the tree of task %s has more than %s tasks; the oldest are not shown", below, MOST_IN_TREE)
    children: dict[str | None, list[dict[str, Any]]] = {task.id: [] for task in found}
    for task in reversed(found):
        children.setdefault(task.parent_task_id, []).append(_describe_briefly(task) | {"children": children[task.id]})
    return children.get(below, [])


def _describe_briefly(task: Task) -> dict[str, Any]:
    shown = task.to_json()
    if len(task.prompt) > LONGEST_PROMPT:
        shown["prompt"] = f"{task.prompt[:LONGEST_PROMPT]}…"
    return shown
