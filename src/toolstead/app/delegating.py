"""Delegation of a stead: its engine, review and agents, connected; and what is shown of a task."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from toolstead.adapters.engine.local import LocalEngine
from toolstead.delegation.attempts import DelegationTerms
from toolstead.delegation.delegation import Delegation
from toolstead.delegation.order import Order
from toolstead.delegation.review import ReviewResult, TaskReviewer
from toolstead.delegation.task_store import TaskFilter
from toolstead.delegation.task_texts import LARGEST_CONTEXT
from toolstead.errors import ToolError, UnknownAgentError
from toolstead.invoker.clock import REAL_CLOCK
from toolstead.orchestrator.ids import Ids
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.task_runs import OrchestratedRuns
from toolstead.plugins.hook_runner import HookRunner
from toolstead.tools.confinement import resolve_inside
from toolstead.types.call import Caller
from toolstead.types.run import Run
from toolstead.types.task import Task

if TYPE_CHECKING:
    from toolstead.agents.prompt_tool import FindProblems
    from toolstead.app.agents import SteadAgents
    from toolstead.app.settings import GateSettings, Settings
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.tools.handlers.pinned import Pinned
    from toolstead.types.tool import JSONSchema

MOST_CHILDREN = 1_000
MOST_CALLS = 200
"""Tool calls of a task that are shown as evidence, the newest ones."""


class DelegationParts:
    """Delegation, and what its callers need around it.

    Attributes:
        delegation: Delegated work.
        agents: The agents of the stead.
    """

    def __init__(
        self,
        delegation: Delegation,
        agents: SteadAgents,
        orchestrator: Orchestrator,
        reviewer: TaskReviewer,
        *,
        project: Path,
        now: Callable[[], float],
        new_id: Callable[[str], str],
    ) -> None:
        self.delegation, self.agents, self.now = delegation, agents, now
        self._orchestrator, self._reviewer, self._project, self._new_id = orchestrator, reviewer, project, new_id
        self._listeners: dict[str, Callable[[str], None]] = {}
        orchestrator.on_task_text = self._take_text

    @contextmanager
    def listen(self, task_id: str, take: Callable[[str], None]) -> Generator[None]:
        """Hear what the sub-agent of a task says in this process, piece by piece."""
        self._listeners[task_id] = take
        try:
            yield
        finally:
            self._listeners.pop(task_id, None)

    async def make_order(self, item: Mapping[str, Any], caller: Caller) -> Order:
        """The order of one item of a call.

        Raises:
            UnknownAgentError: The caller may not delegate to this agent, or there is no such one.
            ToolError: The folder, the conversation or the markdown cannot be used.
        """
        context: Mapping[str, Any] = item.get("context") or {}
        order = Order(
            agent=str(item.get("agent_id") or ""),
            prompt=str(item["prompt"]),
            context=self._check_context(context),
            cwd=self._find_folder(context, caller),
            definition=str(item.get("markdown") or ""),
            model=str(item.get("model") or ""),
        )
        if conversation := item.get("conversation_id"):
            order = await self._continue(order, str(conversation), caller)
        if not order.definition:
            self._check_agent(order.agent, caller)
        return await self.complete_order(order, caller)

    async def complete_order(self, order: Order, caller: Caller, *, like_parent: bool = False) -> Order:
        """The order with the model and the runtime that it runs on; an agent that it defines is made known.

        Args:
            order: As the call has it.
            caller: Who delegates.
            like_parent: It runs as its parent does, unless it says otherwise.

        Raises:
            UnknownAgentError, ToolError: The agent or its markdown cannot be used.
        """
        parent = None if caller.run_id is None else self.delegation.runs.find_context(caller.run_id)
        if order.definition:
            task_id = self._new_id("task")
            agent = self.agents.register_spawned(task_id, caller.agent_id or "", order.definition)
            order = structs.replace(order, agent=agent.name, task_id=task_id, model=order.model or agent.model)
        like_parent = like_parent or order.agent == caller.agent_id or bool(order.definition)
        if parent is not None and like_parent:
            model = order.model or parent.run.model
            runtime = self._orchestrator.agents.choose_runtime(parent.run.runtime, model).name
            order = structs.replace(order, model=model, runtime=runtime)
        if order.cwd is None and caller.cwd is not None:
            order = structs.replace(order, cwd=str(caller.cwd))
        return order

    async def prepare_task(self, task: Task) -> None:
        """Make the agent known that a task defines, after those above it that are defined so too."""
        if not task.definition:
            return
        if task.parent_task_id is not None:
            await self.prepare_task(await self.delegation.store.read_task(task.parent_task_id))
        self.agents.register_spawned(task.id, task.parent_agent, task.definition, was_accepted=True)

    async def describe_task(self, task_id: str) -> dict[str, Any]:
        """A task with its attempts, its children, the tree's budget and what was called.

        Raises:
            NotFoundError: No such task.
        """
        store = self.delegation.store
        task = await store.read_task(task_id)
        children = await store.list_tasks(TaskFilter(parent_task_id=task.id), limit=MOST_CHILDREN)
        tree = await store.read_tree(task.root_run_id)
        shown = task.to_json()
        if task.waits_for_slot:
            shown["position"] = await store.find_position(task)
        shown["attempts"] = [attempt.to_json() for attempt in await store.list_attempts(task.id)]
        shown["children"] = [child.to_json() for child in reversed(children)]
        if tree is not None:
            shown["budget"] = tree.to_json() | {"leftTokens": tree.left_tokens, "leftCost": tree.left_cost}
        shown["evidence"] = {
            "calls": await self._list_calls(task),
            "files": await self._list_files(task),
            **self._list_gates(task),
        }
        return shown

    async def _list_calls(self, task: Task) -> list[dict[str, Any]]:
        events = await self._orchestrator.store.list_events(
            EventFilter(task_id=task.id, types=frozenset({"tool_result"})), limit=1_000
        )
        return [
            {"name": event.data["name"], "isError": event.data["isError"], "content": event.data["content"]}
            for event in events[-MOST_CALLS:]
        ]

    async def _list_files(self, task: Task) -> list[str]:
        """The shared files whose newest version the task's own runs wrote."""
        store = self._orchestrator.store
        own = {run.id for run in await store.list_runs(thread_id=task.thread_id, limit=MOST_CALLS)}
        return [file.path for file in await store.list_files(task.thread_id) if file.run_id in own]

    def _list_gates(self, task: Task) -> dict[str, Any]:
        return {"gates": [result.to_json() for result in self._reviewer.last_gates(task.id)]}

    def _check_agent(self, agent: str, caller: Caller) -> None:
        """Refuse an agent that is not on the caller's list. Raises UnknownAgentError."""
        if caller.agent_id is None:
            known = self.agents.list_delegates()
        else:
            known = self.agents.may_delegate_to(caller.agent_id)
        if agent not in known:
            raise UnknownAgentError(agent, known)

    def _check_context(self, context: Mapping[str, Any]) -> Mapping[str, Any] | None:
        import msgspec

        size = len(msgspec.json.encode(context))
        if size > LARGEST_CONTEXT:
            raise ToolError(
                f"context has {size:,} bytes, and at most {LARGEST_CONTEXT:,} are passed on; put long texts into a "
                "shared file (vfs_write) and name it in the prompt"
            )
        return context or None

    def _find_folder(self, context: Mapping[str, Any], caller: Caller) -> str | None:
        """The folder of an order, relative to the project. Raises ToolError for one outside, or none."""
        folder = context.get("working_directory")
        if folder is None:
            return None
        base = self._project if caller.cwd is None else caller.cwd
        resolved = resolve_inside(self._project, str(base / str(folder)))
        if not resolved.is_dir():
            raise ToolError(f"context.working_directory: there is no folder {str(folder)!r} in the project")
        return str(resolved.relative_to(self._project.resolve()))

    async def _continue(self, order: Order, conversation: str, caller: Caller) -> Order:
        """The order as the next one in the conversation of an earlier task. Raises ToolError."""
        store = self.delegation.store
        found = [
            task
            for task in await store.list_tasks(TaskFilter(parent_thread_id=caller.thread_id), limit=1_000)
            if task.thread_id == conversation
        ]
        if not found:
            raise ToolError(
                f"conversation_id: there is no conversation {conversation!r} of a task that was delegated here"
            )
        newest = found[0]
        if order.agent and order.agent != newest.agent:
            raise ToolError(f"conversation_id: {conversation!r} is a conversation with {newest.agent}")
        return structs.replace(
            order, agent=newest.agent, thread_id=conversation, model=newest.model, runtime=newest.runtime
        )

    def _take_text(self, task_id: str, text: str) -> None:
        if (take := self._listeners.get(task_id)) is not None:
            take(text)


def create_delegation(
    orchestrator: Orchestrator,
    agents: SteadAgents,
    *,
    hooks: HookRunner,
    settings: Callable[[], Settings],
    project: Path,
    find_problems: FindProblems,
    environ: Mapping[str, str],
    pinned: Pinned | None,
) -> DelegationParts:
    """Connect delegation to the parts of a stead; open it before it is used."""
    clock, ids = REAL_CLOCK, Ids()

    def read_terms() -> DelegationTerms:
        current = settings()
        return DelegationTerms(
            cap=current.multi_agent.max_concurrent_delegates, stall_seconds=current.delegation.stall_timeout
        )

    async def prepare(task: Task) -> None:
        await parts.prepare_task(task)

    def list_gates(task: Task) -> list[Mapping[str, Any]]:
        agent = agents.find_agent(task.agent)
        own = () if agent is None else agent.gates
        return [*(describe_gate(gate) for gate in settings().delegation.gates), *own]

    def find_schema(task: Task) -> JSONSchema | None:
        agent = agents.find_agent(task.agent)
        return None if agent is None else agent.result_schema

    def find_folder(task: Task) -> Path:
        return project / (task.cwd or "")

    common: dict[str, Any] = {"find_problems": find_problems, "environ": environ, "pinned": pinned}
    reviewer = TaskReviewer(gates_of=list_gates, schema_of=find_schema, folder_of=find_folder, hooks=hooks, **common)
    # The child of a tool that is a prompt only has to fit its schema: the tool's own agent looks at the rest.
    prompt_reviewer = TaskReviewer(
        gates_of=lambda _: (), schema_of=find_schema, folder_of=find_folder, hooks=HookRunner(), **common
    )

    async def review_task(task: Task, run: Run, answer: str) -> ReviewResult:
        review = prompt_reviewer if agents.is_prompt_child(task.agent) else reviewer
        return await review(task, run, answer)

    delegation = Delegation(
        store=orchestrator.store,
        runs=OrchestratedRuns(orchestrator, now=clock.now, new_id=ids.new_id),
        engine=LocalEngine(),
        review=review_task,
        hooks=hooks,
        clock=clock,
        ids=ids,
        project=str(project),
        terms=read_terms,
        prepare=prepare,
    )
    parts = DelegationParts(
        delegation, agents, orchestrator, reviewer, project=project, now=clock.now, new_id=ids.new_id
    )
    return parts


def describe_gate(gate: GateSettings) -> dict[str, Any]:
    """A gate of the settings, as an agent's file would have it."""
    return {"command": gate.command, "timeout": gate.timeout} if gate.command else {"files": list(gate.files)}
