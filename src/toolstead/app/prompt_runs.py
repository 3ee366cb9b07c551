"""Runs the children of tools that are prompts: each call of such a tool is a run below the calling one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from toolstead.agents.prompt_tool import ChildAnswer, name_child
from toolstead.errors import InvocationError, NotFoundError, StorageError, ToolError

if TYPE_CHECKING:
    from toolstead.orchestrator.event_log import EventLog
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.plugins.tool_meta import ToolMeta
    from toolstead.types.agent import PromptTool


class PromptRuns:
    """Starts the runs, and waits for them; implements `RunChild`."""

    def __init__(self, conversations: Callable[[], Awaitable[Orchestrator]], log: EventLog) -> None:
        self._conversations = conversations
        self._log = log

    async def __call__(
        self, definition: PromptTool, prompt: str, meta: ToolMeta, *, thread_id: str | None = None
    ) -> ChildAnswer:
        """Run a child, with the model and the runtime of the calling run unless the tool names a model."""
        from toolstead.orchestrator.orchestrator import watched_run
        from toolstead.orchestrator.request import RunRequest

        caller, name = meta.caller, definition.name
        if caller.run_id is None or caller.agent_id is None:
            raise ToolError(f"{name} starts an agent for the run that calls it; talk to an agent instead")
        try:
            orchestrator = await self._conversations()
            parent = await orchestrator.store.read_run(caller.run_id)
            model = definition.model or parent.model
            request = RunRequest(
                prompt=prompt,
                thread_id=thread_id,
                agent=name_child(caller.agent_id, name),
                model=model,
                runtime=orchestrator.agents.choose_runtime(parent.runtime, model).name,
                cwd=None if caller.cwd is None else str(caller.cwd),
                attempt=1 if thread_id is None else 2,
            )
            run = await watched_run(orchestrator, self._log, request.as_child_of(caller), None)
        except (InvocationError, NotFoundError, StorageError) as error:
            raise ToolError(f"{name} was not started: {error}") from error
        if run.status != "completed":
            reason = run.error.message if run.error is not None else "it gave no reason"
            raise ToolError(f"{name} has no result: its agent's run ended as {run.status}: {reason}")
        return ChildAnswer(text=run.result or "", thread_id=run.thread_id)
