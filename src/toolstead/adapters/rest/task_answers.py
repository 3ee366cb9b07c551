"""Response bodies about delegated tasks; `app/stead_tasks.py` makes them."""

from __future__ import annotations

from typing import Any, ClassVar

from toolstead.adapters.rest.answers import Count
from toolstead.types.sent import SentStruct
from toolstead.types.task import Attempt, Task, TreeBudget


class TaskList(SentStruct, frozen=True, kw_only=True):
    """Tasks.

    Attributes:
        tasks: The newest first, each with the beginning of its prompt.
    """

    tasks: list[Task]


class TaskNode(SentStruct, frozen=True, kw_only=True):
    """A task in a tree, with the beginning of its prompt.

    Attributes:
        children: The tasks that it delegated, oldest first.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"task"})

    task: Task
    children: list[TaskNode]


class TaskBudget(SentStruct, frozen=True, kw_only=True):
    """What the whole tree may use, has used, has reserved, and has left.

    Attributes:
        left_tokens: Tokens that can still be reserved.
        left_cost: USD that can still be reserved.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"tree"})

    tree: TreeBudget
    left_tokens: int
    left_cost: float


class CalledTool(SentStruct, frozen=True, kw_only=True):
    """A tool call that an agent made for a task.

    Attributes:
        name: The tool.
        is_error: Whether it failed.
        content: The beginning of its result.
    """

    name: str
    is_error: bool
    content: str


class TaskEvidence(SentStruct, frozen=True, kw_only=True):
    """What was done for a task, as reviewers see it.

    Attributes:
        calls: The newest tool calls, in their order.
        gates: What the gates found.
    """

    calls: list[CalledTool]
    gates: list[dict[str, Any]]


class TaskDetails(SentStruct, frozen=True, kw_only=True):
    """A task, with all that is known of it.

    Attributes:
        position: Its place in the queue for its agent, from 1; absent when it has a slot.
        attempts: The reviewed attempts, oldest first.
        children: The tasks that it delegated, oldest first.
        budget: That of the whole tree; absent when the tree has none.
        evidence: What was done for it.
        tree: All tasks below it, nested.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"task"})
    optional: ClassVar[frozenset[str]] = frozenset({"position", "budget"})

    task: Task
    attempts: list[Attempt]
    children: list[Task]
    evidence: TaskEvidence
    tree: list[TaskNode]
    position: Count | None = None
    budget: TaskBudget | None = None


class TaskResultPart(SentStruct, frozen=True, kw_only=True):
    """A part of a task's result.

    Attributes:
        text: The part; empty where the task has no result, or none yet.
        offset: How many characters stand before it.
        size: How many characters the whole result has.
        next: The value of `offset` for the next part; absent on the last one.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"next"})

    text: str
    offset: Count
    size: Count
    next: Count | None = None
