"""Runs the children of tools that are prompts: each call of such a tool is a delegated task that the call waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from toolstead.agents.prompt_tool import name_child
from toolstead.errors import InvocationError, NotFoundError, StaleClaimError, StorageError, ToolError

if TYPE_CHECKING:
    from toolstead.app.delegating import DelegationParts
    from toolstead.plugins.tool_meta import ToolMeta
    from toolstead.types.agent import PromptTool
    from toolstead.types.task import Task

REPAIRED = 2
"""Attempts where the answer must fit a schema: the first, and one that repairs it."""


class PromptRuns:
    """Starts the tasks, and waits for them; implements `RunChild`."""

    def __init__(self, open_delegation: Callable[[], Awaitable[DelegationParts]]) -> None:
        self._open = open_delegation

    async def __call__(self, definition: PromptTool, prompt: str, meta: ToolMeta) -> str:
        """Run a child, with the model and the runtime of the calling run unless the tool names a model."""
        name = definition.name
        if meta.caller.run_id is None or meta.caller.agent_id is None:
            raise ToolError(f"{name} starts an agent for the run that calls it; talk to an agent instead")
        try:
            parts = await self._open()
            task = await self._start_task(parts, definition, prompt, meta)
            ended = await self._wait_for(parts, task, meta)
            answer = await parts.delegation.store.read_task_result(task.id)
        except (InvocationError, NotFoundError, StaleClaimError, StorageError) as error:
            raise ToolError(f"{name} was not started: {error}") from error
        if ended.outcome == "completed":
            return answer or ""
        reason = ended.error.message if ended.error is not None else "it gave no reason"
        if ended.outcome == "rejected":
            raise ToolError(
                f"{name} has no valid result: its agent answered {ended.attempt} times with something that its "
                f"result_schema does not allow: {reason}\nThe last answer began: {(answer or '')[:200]!r}"
            )
        raise ToolError(f"{name} has no result: its agent's task ended as {ended.outcome}: {reason}")

    async def _start_task(self, parts: DelegationParts, definition: PromptTool, prompt: str, meta: ToolMeta) -> Task:
        from toolstead.delegation.order import Order
        from toolstead.delegation.task_store import Refusal

        caller = meta.caller
        order = Order(
            agent=name_child(caller.agent_id or "", definition.name),
            prompt=prompt,
            model=definition.model,
            max_attempts=1 if definition.result_schema is None else REPAIRED,
            is_capped=False,
        )
        order = await parts.complete_order(order, caller, like_parent=True)
        [found] = await parts.delegation.delegate([order], caller, mode="immediate")
        if isinstance(found, Refusal):
            raise ToolError(f"{definition.name} was not started: {found.message}")
        return found.task

    async def _wait_for(self, parts: DelegationParts, task: Task, meta: ToolMeta) -> Task:
        try:
            return await parts.delegation.wait_for_task(task.id)
        except asyncio.CancelledError:
            await asyncio.shield(parts.delegation.abandon([task.id], meta.caller.run_id))
            raise
