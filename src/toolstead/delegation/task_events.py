"""The events of tasks, as the log of the delegating thread has them.

They belong to no run: a task may end long after the run that delegated it, whose stream ends with its own end.
"""

from __future__ import annotations

from typing import Any

from toolstead.types.event import NewEvent
from toolstead.types.task import SUCCESSES, Attempt, Task


def create_created_event(task: Task, position: int = 0) -> NewEvent:
    """Work was delegated; `position` is its place in the queue for its agent."""
    about: dict[str, Any] = {
        "agent": task.agent,
        "prompt": task.prompt,
        "threadId": task.thread_id,
        "mode": task.mode,
        "depth": task.depth,
        "maxAttempts": task.max_attempts,
    }
    return _create_event(task, "task.created", task.created_at, about | ({"position": position} if position else {}))


def create_checkin_event(task: Task, message_id: str, message: str, now: float) -> NewEvent:
    """A sub-agent reported its progress."""
    return _create_event(task, "task.checkin", now, {"agent": task.agent, "messageId": message_id, "message": message})


def create_evaluated_event(task: Task, attempt: Attempt) -> NewEvent:
    """An attempt was reviewed."""
    return _create_event(task, "task.evaluated", attempt.ended_at, {"agent": task.agent, **attempt.to_json()})


def create_ended_event(task: Task) -> NewEvent:
    """A task has its outcome."""
    about: dict[str, Any] = {"agent": task.agent, "outcome": task.outcome, "attempts": task.attempt}
    if task.summary is not None:
        about["summary"] = task.summary
    if task.error is not None:
        about["error"] = task.error.to_json()
    about["usage"] = task.usage.to_json()
    kind = "task.completed" if task.outcome in SUCCESSES else "task.failed"
    return _create_event(task, kind, task.ended_at or task.created_at, about)


def _create_event(task: Task, type: str, time: float, data: dict[str, Any]) -> NewEvent:
    return NewEvent(type=type, time=time, data=data, thread_id=task.parent_thread_id, task_id=task.id)
