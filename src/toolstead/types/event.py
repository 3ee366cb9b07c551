"""What happened: one shape for every event of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from toolstead.types.sent import SentStruct

DELTA = "message.delta"
"""A piece of an answer, as the model gives it."""

TYPES = frozenset(
    {
        "message",
        DELTA,
        "tool_use",
        "tool_result",
        "error",
        "completed",
        "cancelled",
        "plan.updated",
        "delegate.started",
        "delegate.delta",
        "delegate.completed",
        "delegate.failed",
        "task.created",
        "task.checkin",
        "task.evaluated",
        "task.completed",
        "task.failed",
        "run.started",
        "thinking",
        "usage",
        "approval.requested",
        "approval.resolved",
        "tools.changed",
        "plugin.status",
    }
)
"""The types of Toolstead itself; plugins' own are called `<plugin>.<word>`."""


class NewEvent(SentStruct, frozen=True, kw_only=True):
    """One thing that happened and is not stored yet, so that it has no id.

    Attributes:
        type: What happened, such as `tool_result`.
        time: When, in seconds since 1970.
        data: The type's own members, in camelCase.
        thread_id: Its thread.
        run_id: Its run.
        task_id: Its task.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"thread_id", "run_id", "task_id"})

    type: str
    time: float
    data: Mapping[str, Any]
    thread_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None


class Event(NewEvent, frozen=True, kw_only=True):
    """Something that happened, as the `data` of a stream has it.

    Attributes:
        id: To come back with; opaque, and later events have later ones. Empty when it was not stored.
    """

    id: str
