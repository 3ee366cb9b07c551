"""What happened: one shape for every event of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

TYPES = frozenset(
    {
        "message",
        "message.delta",
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
"""The types that Toolstead itself tells; plugins' own are called `<plugin>.<word>`."""


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened and is not stored yet, so that it has no id.

    Attributes:
        type: The event's type, such as `tool_result`.
        time: Seconds since the epoch.
        data: The type's own fields, in camelCase.
    """

    type: str
    time: float
    data: Mapping[str, Any]
    thread_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None


class Event(NewEvent, frozen=True, kw_only=True):
    """One thing that happened.

    Attributes:
        id: Opaque; later events have later ids.
    """

    id: str

    def to_json(self) -> dict[str, Any]:
        """The shape of an SSE event's `data:` line."""
        shown: dict[str, Any] = {"id": self.id, "type": self.type, "time": self.time}
        if self.thread_id is not None:
            shown["threadId"] = self.thread_id
        if self.run_id is not None:
            shown["runId"] = self.run_id
        if self.task_id is not None:
            shown["taskId"] = self.task_id
        shown["data"] = dict(self.data)
        return shown
