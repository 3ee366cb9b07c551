"""Delegated work in memory: a double of `ctx.tasks` for tests of plugins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from toolstead.app.task_powers import check_item, check_run, describe_refusal, find_delegator, find_starter
from toolstead.delegation.delegation import NO_PARENT
from toolstead.errors import NotFoundError, RefusedError, ToolError, UnknownAgentError

if TYPE_CHECKING:
    from toolstead.plugins.tool_meta import ToolMeta


class FakeTasks:
    """Answers what is delegated from a table, at once; nothing runs.

    Attributes:
        tasks: What was delegated, by id, as `status` gives it.
        checkins: The messages of check-ins.
        signals: The messages of signals.
    """

    def __init__(self, results: Mapping[str, str], agents: Sequence[str] | None = None) -> None:
        """Answer with these results: the first whose key, a regular expression, is found in the prompt.

        Args:
            results: What tasks end with.
            agents: Whom work may be delegated to; any name unless given.
        """
        self._results, self._agents = results, agents
        self.tasks: dict[str, dict[str, Any]] = {}
        self.checkins: list[str] = []
        self.signals: list[str] = []

    async def start(
        self,
        prompt: str,
        *,
        parent: ToolMeta,
        agent: str | None = None,
        model: str | None = None,
        max_attempts: int = 5,
        context: Mapping[str, Any] | None = None,
    ) -> str:
        """Note a detached task, and give its id. Raises ToolError where a stead does."""
        starter = find_starter(parent)
        return self._add_task(agent or starter, prompt, context)["id"]

    async def delegate(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        meta: ToolMeta,
        mode: Literal["immediate", "detached"] = "immediate",
        queue: bool = False,
    ) -> list[dict[str, Any]]:
        """Note each task, and give its entry; what a stead refuses is refused here. Raises ToolError."""
        find_delegator(meta)
        return [self._delegate_item(item, number) for number, item in enumerate(items, start=1)]

    async def status(self, task_id: str) -> dict[str, Any]:
        """A task. Raises NotFoundError."""
        if task_id not in self.tasks:
            raise NotFoundError("task", task_id)
        return self.tasks[task_id]

    async def cancel(self, task_id: str) -> None:
        """End it. Raises NotFoundError."""
        (await self.status(task_id))["outcome"] = "cancelled"

    async def list(self, *, meta: ToolMeta) -> list[dict[str, Any]]:
        """All tasks, the newest first."""
        return [_describe(task) for task in reversed(self.tasks.values())]

    async def read(self, task_id: str, *, meta: ToolMeta, offset: int = 0) -> dict[str, Any]:
        """A task with its result from an offset on. Raises ToolError."""
        try:
            task = await self.status(task_id)
        except NotFoundError as error:
            raise ToolError(str(error)) from None
        return _describe(task) | {"summary": (task["summary"] or "")[offset:], "offset": offset}

    async def cancel_own(self, task_id: str, *, meta: ToolMeta) -> dict[str, Any]:
        """End a task. Raises ToolError."""
        await self.read(task_id, meta=meta)
        await self.cancel(task_id)
        return _describe(self.tasks[task_id])

    async def checkin(self, message: str, *, meta: ToolMeta) -> None:
        """Note a check-in. Raises ToolError outside a task."""
        _check_task(meta)
        self.checkins.append(message)

    async def signal(self, message: str, *, meta: ToolMeta) -> None:
        """Note a signal. Raises ToolError outside a task."""
        _check_task(meta)
        self.signals.append(message)

    def _delegate_item(self, item: Mapping[str, Any], number: int) -> dict[str, Any]:
        agent = ""
        try:
            check_item(item, number)
            agent = str(item.get("agent_id") or "")
            if agent and self._agents is not None and agent not in self._agents:
                raise UnknownAgentError(agent, self._agents)
        except (ToolError, UnknownAgentError) as error:
            code = "AgentNotFound" if isinstance(error, UnknownAgentError) else "InvalidRequest"
            return describe_refusal(item, code, str(error))
        return _describe(self._add_task(agent, item["prompt"], item.get("context")))

    def _add_task(self, agent: str, prompt: str, context: Any) -> dict[str, Any]:
        result = next((text for key, text in self._results.items() if re.search(key, prompt)), None)
        task: dict[str, Any] = {
            "id": f"task_{len(self.tasks) + 1}",
            "agent": agent,
            "prompt": prompt,
            "context": context,
            "outcome": "failed" if result is None else "completed",
            "summary": result,
            "attempt": 1,
            "attempts": [],
            "children": [],
            "evidence": {"calls": [], "files": [], "gates": []},
        }
        self.tasks[task["id"]] = task
        return task


def _check_task(meta: ToolMeta) -> None:
    check_run(meta)
    if meta.task_id is None:
        raise RefusedError(NO_PARENT)


def _describe(task: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"agent_id": task["agent"], "run_id": task["id"], "status": task["outcome"], "duration": 0.0}
    if task["summary"] is None:
        return shown | {"error": {"code": "failed", "message": "the test gives no result for this prompt"}}
    return shown | {"summary": task["summary"]}
