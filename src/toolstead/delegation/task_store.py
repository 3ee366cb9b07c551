"""The task store port: what is kept of delegated work. `adapters/storage` implements it.

Each method that writes is one commit and can be repeated. Whoever works on a task holds a claim: the task's epoch as
it was when the claim was made. A write with an older epoch raises `StaleClaimError`, so a process that lost its
claim, and does not know it, changes nothing.

What becomes of a result, in the row of its task:

    ended ──▶ taken by a turn ──turn completed──▶ delivered
      ▲             │
      └─────────────┘ turn lost or stopped; of a detached one also: failed, cancelled
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

import msgspec

from toolstead.delegation.budget import Exhausted, Grant, TokenWish, TreeShare
from toolstead.types.run import RunError, TreeLimits, Usage
from toolstead.types.sent import SentStruct
from toolstead.types.task import Attempt, Task, TaskOutcome, TreeBudget

RefusalCode = Literal["DelegateInProgress", "AgentNotFound", "LimitReached", "InvalidRequest"]


class Holder(SentStruct, frozen=True, kw_only=True):
    """An open task that holds one of its agent's slots.

    Attributes:
        run_id: The task.
        deadline: When it ends at the latest, in seconds since 1970.
    """

    run_id: str
    deadline: float | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task was not admitted.

    Attributes:
        code: A word for programs.
        message: A sentence for the model: which limit, and what would be right.
        holders: For `DelegateInProgress`, which tasks hold the agent's slots, or its conversation.
    """

    code: RefusalCode
    message: str
    holders: Sequence[Holder] = ()


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is stored.

    Attributes:
        is_fresh: False when an equal call had started it before.
        position: Its place in the queue for its agent, from 1; 0 when it has a slot.
    """

    task: Task
    is_fresh: bool
    position: int = 0


class TaskClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The right to change a task."""

    task_id: str
    epoch: int


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that one call wants to start.

    Attributes:
        tasks: As they would be stored.
        limits: How far the tree below the calling run may grow.
        cap: Open tasks that each agent may have.
        tree: The tree's budget, to be stored where it is not; its `spent` is what the root has used so far.
        share: The root's own share, stored with it.
        parent: The claim of the task whose run calls; None where it is none of a task.
        may_queue: Whether a task waits where its agent has no slot.
        holds_claim: Whether this process works on them from the start.
    """

    tasks: Sequence[Task]
    limits: TreeLimits
    cap: int
    tree: TreeBudget
    share: TreeShare | None = None
    parent: TaskClaim | None = None
    may_queue: bool = False
    holds_claim: bool = True


class TaskEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ends.

    Attributes:
        result: The whole result; None where there is none.
        attempt: The attempt that was reviewed last, where its review is not stored yet.
        usage: What its runs used; summed up where it is not known.
        may_have_children: False where it is known that it delegated nothing.
        cap: Open tasks that its agent may have: others of the queue get the slots that become free.
    """

    outcome: TaskOutcome
    ended_at: float
    cap: int
    result: str | None = None
    error: RunError | None = None
    attempt: Attempt | None = None
    usage: Usage | None = None
    may_have_children: bool = True


class TasksEnded(msgspec.Struct, frozen=True, kw_only=True):
    """What the end of a task changed.

    Attributes:
        tasks: Every task that ended with it, itself first.
        started: Queued tasks that have a slot now; those with this process as their owner are claimed.
        runs: Unfinished runs of the ended tasks; their owners were asked to cancel them.
    """

    tasks: Sequence[Task] = ()
    started: Sequence[Task] = ()
    runs: Sequence[str] = ()


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks are wanted; several conditions must all hold."""

    project: str | None = None
    parent_thread_id: str | None = None
    parent_task_id: str | None = None
    root_run_id: str | None = None
    is_open: bool | None = None


class TaskStore(Protocol):
    """What is kept of tasks, and the budgets of their trees."""

    owner: str
    """This process, as tasks name it."""

    async def admit_tasks(self, request: AdmissionRequest) -> list[Admitted | Refusal]:
        """Count everything and store what may be started, item by item, in one commit.

        Raises StaleClaimError for the parent's claim, and InvocationError for a run that has ended.
        """
        ...

    async def claim_task(self, task_id: str, epoch: int, now: float) -> Task | None:
        """Become the owner of an open task that has this epoch; None when it has another, or is not open or queued.

        Unfinished runs of the task that another process holds end as `lost` in the same commit.
        """
        ...

    async def return_task(self, claim: TaskClaim) -> bool:
        """Give up a claim, so that another process can take it; False when it was lost before."""
        ...

    async def record_attempt(self, claim: TaskClaim, attempt: Attempt, feedback: str) -> Task:
        """Store a rejected attempt; the next one begins. Raises StaleClaimError."""
        ...

    async def end_task(self, claim: TaskClaim, end: TaskEnd, *, claims_started: bool) -> TasksEnded:
        """Give a task its one outcome; its open children end as `cancelled` with it. Raises StaleClaimError."""
        ...

    async def cancel_task(self, task_id: str, why: str, *, now: float, cap: int) -> TasksEnded:
        """End a task and those below it as `cancelled`, whoever works on them; an ended one stays as it is.

        Raises NotFoundError.
        """
        ...

    async def abandon_task(self, task_id: str, run_id: str | None, why: str, now: float, cap: int) -> TasksEnded:
        """End a task as `cancelled` if this run still waits for it: not where it was lost, or another one does."""
        ...

    async def read_task(self, id: str) -> Task:
        """Raises NotFoundError."""
        ...

    async def read_task_result(self, id: str) -> str | None:
        """The whole result. Raises NotFoundError for the task."""
        ...

    async def list_tasks(self, wanted: TaskFilter, *, limit: int = 100) -> list[Task]:
        """The newest first."""
        ...

    async def list_attempts(self, task_id: str) -> list[Attempt]:
        """The reviewed attempts, oldest first."""
        ...

    async def find_position(self, task: Task) -> int:
        """The place of a queued task, from 1."""
        ...

    async def has_run_key(self, thread_id: str, key: str) -> bool:
        """Whether a run with this key was accepted in a thread."""
        ...

    async def start_queued(self, project: str, cap: int, now: float, *, claims: bool) -> list[Task]:
        """Give free slots to the tasks that wait for one, and claim those where wanted; those that have one now."""
        ...

    async def list_held(self, ids: Collection[str]) -> set[str]:
        """Those of these tasks that are open and ours."""
        ...

    async def list_waiting(self, thread_id: str) -> list[Task]:
        """The tasks whose results wait for a turn of a thread, oldest first."""
        ...

    async def list_adoptable(self, project: str) -> list[Task]:
        """Open tasks with a slot that no living process but this one holds."""
        ...

    async def list_wakes(self, project: str) -> list[Task]:
        """For each thread that should be woken for results, the oldest task whose result waits there."""
        ...

    async def take_results(self, task_ids: Sequence[str], now: float) -> list[Task]:
        """Mark results as delivered to an MCP client that has just read them."""
        ...

    async def reserve_share(self, share: TreeShare, wish: TokenWish) -> Grant | Exhausted:
        """Note what a run has used, and reserve more for it, in one commit.

        Raises NotFoundError for the tree, and InvocationError for a run that has ended.
        """
        ...

    async def settle_share(self, share: TreeShare) -> None:
        """Note what a run has used, and give back what it holds."""
        ...

    async def read_tree(self, root_run_id: str) -> TreeBudget | None:
        """The budget of a tree; None for one in which nothing was delegated."""
        ...
