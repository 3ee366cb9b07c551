"""The runs port: what delegation asks of the orchestrator, which performs runs."""

from __future__ import annotations

from typing import Protocol

import msgspec

from toolstead.delegation.run_context import RunContext
from toolstead.delegation.task_store import TaskClaim
from toolstead.types.run import Run, TreeLimits
from toolstead.types.task import Task, TreeBudget

NO_RESULTS = "no_results"
"""The code of a run that was started for results which another turn of its thread has taken meanwhile."""


class TaskRunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to work on a task.

    Attributes:
        key: The same for a run that repeats the same turn; it is started once.
        prompt: What it is asked; None for a turn that answers results of tasks it delegated.
        answers: The stored message that it answers, where an earlier run was to and was lost.
        turn: Which turn of which attempt it is.
        seconds: How long it may take.
        is_new_thread: Whether the task's thread cannot be there yet.
    """

    task: Task
    claim: TaskClaim
    key: str
    turn: str
    seconds: float
    prompt: str | None = None
    answers: str | None = None
    is_new_thread: bool = False


class StartedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was started, and the message that it answers; `is_fresh` when it was not there before."""

    run_id: str
    message_id: str
    is_fresh: bool


class AgentTerms(msgspec.Struct, frozen=True, kw_only=True):
    """On which terms an agent works.

    Attributes:
        agent: Its name.
        seconds: How long a task of it may take.
        limits: How far the tree below a root of it may grow.
        budget: What a tree below a root of it may use; its root is not named.
    """

    agent: str
    seconds: float
    limits: TreeLimits
    budget: TreeBudget


class TaskRuns(Protocol):
    """Starts, finds and ends runs."""

    def find_context(self, run_id: str) -> RunContext | None:
        """What is known of a run that this process performs."""
        ...

    def resolve_terms(self, agent: str, *, model: str = "", runtime: str = "") -> AgentTerms:
        """On which terms an agent works. Raises UnknownAgentError and RuntimeFailureError."""
        ...

    def find_room(self, runtime: str, model: str, agent: str) -> str | None:
        """Why a run that may not wait would find no session now; None when it would find one."""
        ...

    async def start_run(self, request: TaskRunRequest) -> StartedRun:
        """Store a run, and perform it here.

        Raises StaleClaimError, LimitError, UnknownAgentError, RuntimeFailureError, StorageError.
        """
        ...

    async def wait_for_run(self, run_id: str) -> Run:
        """Wait for the end of a run of any process. Raises NotFoundError."""
        ...

    async def cancel_run(self, run_id: str, why: str) -> Run:
        """Cancel a run of any process, and wait for its end. Raises NotFoundError."""
        ...

    async def stop_run(self, run_id: str) -> None:
        """End a run of this process so that another process repeats it."""
        ...

    async def read_last_answer(self, task: Task, run: Run) -> Run:
        """The newest completed run that works on a task or has taken results for it: not one that answers a signal."""
        ...

    async def read_progress(self, run_id: str) -> str:
        """What a run without an answer has said so far."""
        ...

    async def wake_thread(self, task: Task) -> bool:
        """Start a run for the results that wait in the thread that delegated a task; False when none is needed."""
        ...

    async def add_checkin(self, task: Task, message: str, key: str) -> None:
        """Put a progress message into the thread that delegated a task, once for each key; it starts no run."""
        ...

    async def send_signal(self, task: Task, message: str, key: str) -> None:
        """Give the agent that delegated a task a message, once for each key: to its running turn, else in a new one."""
        ...
