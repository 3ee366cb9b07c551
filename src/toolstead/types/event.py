"""What happened: one shape for every event of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from toolstead.types.sent import SentStruct

DELTA = "message.delta"
"""A piece of an answer, as the model gives it."""

THINKING = "thinking"
"""A piece of what the model thinks before it answers; or, with `retry`, that it is asked again."""

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
        THINKING,
        "usage",
        "approval.requested",
        "approval.resolved",
        "tools.changed",
        "plugin.status",
    }
)
"""The types of Toolstead itself; plugins' own are called `<plugin>.<word>`."""


class RetryNotice(SentStruct, frozen=True, kw_only=True):
    """A request to a model failed, and is made again: the `retry` of a `thinking` event.

    Attributes:
        reason: Why it failed.
        attempt: Which try comes next; the first request is 1. Null where the runtime does not report it.
        attempts: How many there are at most; null where that is not reported.
        seconds: How long it waits until then; null where that is not reported.
    """

    reason: str
    attempt: int | None = None
    attempts: int | None = None
    seconds: float | None = None

    def to_event(self) -> dict[str, Any]:
        """The data of the event; its text is empty, as the model thought nothing."""
        return {"text": "", "retry": self.to_json()}


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
