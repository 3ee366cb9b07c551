"""Delegated work: what was asked, how far it is, how it ended, and its review.

    queued ──slot──▶ open ──attempt──▶ reviewed ──accepted──▶ ended
      │               │                   └──rejected, attempts left──▶ open
      └───────────────┴── cancel, timeout, budget, failure ──▶ ended

A task is `queued` while it waits for a slot of its agent, open until it has an outcome, and has one outcome for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec

from toolstead.types.run import NOTHING_USED, RunError, Usage
from toolstead.types.sent import SentStruct

TaskOutcome = Literal[
    "completed", "completed_unverified", "rejected", "failed", "timeout", "cancelled", "budget", "lost"
]
OUTCOMES: frozenset[str] = frozenset(get_args(TaskOutcome))
SUCCESSES = frozenset({"completed", "completed_unverified"})
"""Outcomes that are told as `task.completed`; all others are `task.failed`."""

TaskMode = Literal["immediate", "detached"]
"""Whether the call that delegates waits for the result, or the result comes in a later turn."""

SHAPE = 1
"""The version of a task's row; a process leaves rows with a higher one alone."""

LONGEST_SUMMARY = 4_000
"""Characters of a result that its parent is shown at once; the rest is read with `delegate_status`."""


class Attempt(SentStruct, frozen=True, kw_only=True):
    """One finished attempt at a task, and its review.

    Attributes:
        task_id: The task.
        number: Which attempt, from 1.
        run_id: The run whose answer was reviewed.
        accepted: True for accepted, false for rejected, null where no reviewer decided.
        feedback: What the reviewers said.
        defect: What of the feedback stays the same when the same defect is found again.
        answer_digest: Tells whether two attempts gave the same answer.
        ended_at: When it was reviewed, in seconds since 1970.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"task_id", "defect", "answer_digest"})

    task_id: str
    number: int
    run_id: str
    accepted: bool | None
    feedback: str
    defect: str
    answer_digest: str
    ended_at: float


class Task(SentStruct, frozen=True, kw_only=True):
    """Delegated work.

    Attributes:
        id: Its id.
        agent: The agent that works on it.
        prompt: What was asked, as the caller wrote it.
        thread_id: Its own conversation.
        parent_thread_id: The conversation that delegated it.
        parent_run_id: The run that delegated it; null when an MCP client did.
        parent_task_id: The task that this run works on.
        root_run_id: The run at the top of the tree, which has the budgets; of an MCP client's task its own id.
        mode: `immediate` while a call waits for it, else `detached`.
        depth: How many runs stand above its own.
        attempt: The current attempt, from 1.
        max_attempts: How many attempts it has.
        queued_at: Since when it waits for a slot of its agent; null when it has one.
        deadline: When it ends as `timeout`, in seconds since 1970; null while it is queued.
        outcome: How it ended; null while it is open.
        summary: The beginning of its result.
        result_size: Characters of the whole result.
        error: Why it has no result, or what was wrong with it.
        usage: What its runs used.
        retry_of: The task that it repeats.
        continues: Whether its thread is that of an earlier task.
        created_at: When it was delegated, in seconds since 1970.
        ended_at: When it ended.
        shape: The version of its row.
        project: The project that it belongs to.
        duplicate_key: Equal for two calls that mean the same task.
        parent_agent: The agent that delegated it.
        profile: The profile that narrows what its runs may see and call; no profile does where it is absent.
        model: The model that was asked for; empty for the agent's own.
        runtime: The runtime that was asked for; empty for the agent's own.
        cwd: The folder that it works in, relative to the project.
        context: What else the caller gave.
        definition: The markdown of an agent that the call itself defined; empty for an agent of a file.
        timeout: Seconds that it may take.
        feedback: What the next attempt is told.
        owner: The process that works on it; null when none does.
        epoch: Counts its claims: only the newest may change it.
        taken_by: The run whose turn holds its result.
        woken_by: The run that was started because of its result.
        delivered_at: When the turn that holds its result was stored.
    """

    unsent: ClassVar[frozenset[str]] = frozenset(
        {
            "shape",
            "project",
            "duplicate_key",
            "parent_agent",
            "cwd",
            "context",
            "definition",
            "timeout",
            "feedback",
            "continues",
            "owner",
            "epoch",
            "taken_by",
            "woken_by",
            "delivered_at",
        }
    )
    optional: ClassVar[frozenset[str]] = frozenset({"parent_task_id", "retry_of", "queued_at", "profile"})

    id: str
    agent: str
    prompt: str
    thread_id: str
    parent_thread_id: str
    root_run_id: str
    project: str
    duplicate_key: str
    created_at: float
    timeout: Annotated[float, msgspec.Meta(gt=0)]
    parent_run_id: str | None = None
    parent_task_id: str | None = None
    mode: TaskMode = "detached"
    depth: int = 1
    attempt: int = 1
    max_attempts: int = 1
    queued_at: float | None = None
    deadline: float | None = None
    outcome: TaskOutcome | None = None
    summary: str | None = None
    result_size: int = 0
    error: RunError | None = None
    usage: Usage = NOTHING_USED
    retry_of: str | None = None
    ended_at: float | None = None
    shape: int = SHAPE
    parent_agent: str = ""
    model: str = ""
    runtime: str = ""
    cwd: str | None = None
    context: Mapping[str, Any] | None = None
    definition: str = ""
    feedback: str = ""
    continues: bool = False
    owner: str | None = None
    epoch: int = 0
    taken_by: str | None = None
    woken_by: str | None = None
    delivered_at: float | None = None
    profile: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has no outcome yet."""
        return self.outcome is None

    @property
    def waits_for_slot(self) -> bool:
        """Whether it is queued."""
        return self.outcome is None and self.queued_at is not None


class TreeBudget(SentStruct, frozen=True, kw_only=True):
    """What the tree below one root may use, has used, and has reserved.

    Attributes:
        root_run_id: The run at the top, or an MCP client's task.
        token_budget: Tokens that all runs of the tree may use together.
        cost_budget: USD that they may spend.
        spent_tokens: Tokens that were used.
        spent_cost: USD that were spent.
        reserved_tokens: Tokens that running requests and turns hold.
        reserved_cost: USD that they hold.
        in_flight: How many single requests hold something; they settle soon.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"in_flight"})

    root_run_id: str
    token_budget: int
    cost_budget: float
    spent_tokens: int = 0
    spent_cost: float = 0.0
    reserved_tokens: int = 0
    reserved_cost: float = 0.0
    in_flight: int = 0

    @property
    def left_tokens(self) -> int:
        """Tokens that can still be reserved."""
        return max(0, self.token_budget - self.spent_tokens - self.reserved_tokens)

    @property
    def left_cost(self) -> float:
        """USD that can still be reserved."""
        return max(0.0, self.cost_budget - self.spent_cost - self.reserved_cost)
