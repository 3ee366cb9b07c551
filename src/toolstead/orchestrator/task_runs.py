"""Performs the runs of tasks: implements the port of `delegation/task_runs.py` over the orchestrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from toolstead.delegation.run_context import RunContext
from toolstead.delegation.task_events import create_checkin_event
from toolstead.delegation.task_runs import AgentTerms, StartedRun, TaskRunRequest
from toolstead.delegation.task_store import TaskFilter
from toolstead.delegation.task_texts import write_signal
from toolstead.errors import NotFoundError
from toolstead.orchestrator.endings import create_message_event
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.orchestrator import NO_LIMIT, Orchestrator
from toolstead.orchestrator.request import SIGNAL, RunRequest
from toolstead.types.event import DELTA
from toolstead.types.run import Run
from toolstead.types.task import Task, TreeBudget
from toolstead.types.thread import Message

LONGEST_PROGRESS = 20_000
"""Characters that are kept of what a run said that did not come to its answer."""
MOST_RUNS = 100
"""The newest runs of a task's thread among which its last answer is looked for."""


class OrchestratedRuns:
    """Starts runs for tasks, and puts messages into the threads that delegated them."""

    def __init__(self, orchestrator: Orchestrator, *, now: Callable[[], float], new_id: Callable[[str], str]) -> None:
        self._orchestrator, self._store = orchestrator, orchestrator.store
        self._now, self._new_id = now, new_id

    def find_context(self, run_id: str) -> RunContext | None:
        """What is known of a run that this process performs."""
        return self._orchestrator.find_context(run_id)

    def resolve_terms(self, agent: str, *, model: str = "", runtime: str = "") -> AgentTerms:
        """On which terms an agent works. Raises UnknownAgentError and RuntimeFailureError."""
        config = self._orchestrator.agents.resolve_agent(agent, model=model, runtime=runtime, is_child=True)
        turn = config.turn
        return AgentTerms(
            agent=config.agent,
            seconds=config.timeout,
            limits=config.tree,
            budget=TreeBudget(
                root_run_id="",
                token_budget=NO_LIMIT if turn.tokens is None else turn.tokens,
                cost_budget=NO_LIMIT if turn.cost is None else turn.cost,
            ),
        )

    def find_room(self, runtime: str, model: str, agent: str) -> str | None:
        """Why a run that may not wait would find no session now; None when it would find one."""
        config = self._orchestrator.agents.resolve_agent(agent, model=model, runtime=runtime, is_child=True)
        return self._orchestrator.invoker.pool.explain_no_room(config.runtime)

    async def start_run(self, request: TaskRunRequest) -> StartedRun:
        """Store a run of a task, and perform it here."""
        task = request.task
        accepted = await self._orchestrator.submit(
            RunRequest(
                prompt=request.prompt or "",
                thread_id=task.thread_id,
                agent=task.agent,
                model=task.model,
                runtime=task.runtime,
                cwd=task.cwd,
                timeout=request.seconds,
                idempotency_key=request.key,
                parent_run_id=task.parent_run_id,
                parent_agent=task.parent_agent,
                parent_thread_id=task.parent_thread_id,
                root_run_id=task.root_run_id,
                task_id=task.id,
                depth=task.depth,
                attempt=task.attempt,
                may_wait=task.mode == "detached",
                claim=request.claim,
                turn=request.turn,
                answers=request.answers,
                is_woken=request.prompt is None,
                is_new_thread=request.is_new_thread,
                profile=task.profile,
            )
        )
        return StartedRun(run_id=accepted.run_id, message_id=accepted.message_id, is_fresh=accepted.fresh)

    async def wait_for_run(self, run_id: str) -> Run:
        """Wait for the end of a run of any process."""
        return await self._orchestrator.wait(run_id)

    async def cancel_run(self, run_id: str, why: str) -> Run:
        """Cancel a run of any process, and wait for its end."""
        return await self._orchestrator.cancel(run_id, why)

    async def stop_run(self, run_id: str) -> None:
        """End a run of this process so that another process repeats it."""
        await self._orchestrator.stop_run(run_id)

    async def read_last_answer(self, task: Task, run: Run) -> Run:
        """The newest run of a task's thread that works on it or has taken results of what it delegated.

        Those that answer signals are waited for, because they may have taken results; without, they are no answer.
        """
        while True:
            found = await self._store.list_runs(thread_id=task.thread_id, limit=MOST_RUNS)
            unfinished = [one for one in found if not one.has_ended]
            if not unfinished:
                delegated = await self._store.list_tasks(TaskFilter(parent_task_id=task.id))
                took = {child.taken_by for child in delegated}
                answers = (one for one in found if one.task_id == task.id or one.id in took)
                return next((one for one in answers if one.status == "completed"), run)
            await asyncio.gather(*(self._orchestrator.wait(one.id) for one in unfinished))

    async def read_progress(self, run_id: str) -> str:
        """What a run without an answer has said so far."""
        events = await self._store.list_events(EventFilter(run_id=run_id, types=frozenset({DELTA})))
        return "".join(str(event.data.get("text", "")) for event in events)[-LONGEST_PROGRESS:]

    async def wake_thread(self, task: Task) -> bool:
        """Start a run for the results that wait in the thread that delegated a task."""
        if self._orchestrator.has_waiting_run(task.parent_thread_id) or await self._is_taken_by_worker(task):
            return False
        try:
            parent = None if task.parent_run_id is None else await self._store.read_run(task.parent_run_id)
        except NotFoundError:
            return False
        if parent is None:
            return False
        accepted = await self._orchestrator.submit(
            RunRequest(
                prompt="",
                thread_id=task.parent_thread_id,
                thread_must_exist=True,
                agent=parent.agent,
                model=parent.model,
                runtime=parent.runtime,
                root_run_id=task.root_run_id,
                depth=parent.depth,
                is_woken=True,
                profile=parent.profile,
            )
        )
        return accepted.fresh

    async def _is_taken_by_worker(self, task: Task) -> bool:
        """Whether the result is for the worker of a task, or is taken by a run that has not begun yet."""
        if task.parent_task_id is not None:
            return True
        unfinished = await self._store.list_runs(thread_id=task.parent_thread_id, unfinished=True)
        return any(run.started_at is None for run in unfinished)

    async def add_checkin(self, task: Task, message: str, key: str) -> None:
        """Put a progress message into the thread that delegated a task, once for each key."""
        now, message_id = self._now(), self._new_id("msg")
        note = Message(
            id=message_id,
            thread_id=task.parent_thread_id,
            role="system",
            content=f"[{task.agent}, task {task.id}] {message}",
            created_at=now,
            kind="checkin",
        )
        events = [create_message_event(note), create_checkin_event(task, message_id, message, now)]
        await self._store.add_message(note, events, idempotency_key=key)

    async def send_signal(self, task: Task, message: str, key: str) -> None:
        """Give the agent that delegated a task a message: to its running turn, else in a new one."""
        parent = None if task.parent_run_id is None else await self._store.read_run(task.parent_run_id)
        await self._orchestrator.steer(
            RunRequest(
                prompt=write_signal(task.agent, task.id, message),
                kind=SIGNAL,
                thread_id=task.parent_thread_id,
                thread_must_exist=True,
                agent="" if parent is None else parent.agent,
                model="" if parent is None else parent.model,
                runtime="" if parent is None else parent.runtime,
                idempotency_key=key,
                root_run_id=task.root_run_id,
                depth=task.depth - 1,
                profile=task.profile if parent is None else parent.profile,
            )
        )
