"""The events of a message, of a run's beginning and of its end, and the ending itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.invoker.runtime import Answer
from toolstead.orchestrator.store import Ending
from toolstead.types.event import NewEvent
from toolstead.types.run import Run, RunEnd, RunError, RunStatus, Usage
from toolstead.types.thread import Message


def end_with_answer(run: Run, answer: Answer, message: Message) -> Ending:
    """A run that was answered: its last events are the answer and `completed`."""
    now = message.created_at
    done = {"result": answer.text, "usage": answer.usage.to_json()}
    return Ending(
        status="completed",
        ended_at=now,
        result=answer.text,
        usage=answer.usage,
        answer=message,
        events=[
            create_message_event(message),
            NewEvent(
                type="completed",
                time=now,
                data=done,
                thread_id=run.thread_id,
                run_id=run.id,
                task_id=run.task_id,
            ),
        ],
    )


def read_usage(data: Mapping[str, Any]) -> Usage:
    """The usage that a `usage` event reports."""
    return Usage(input_tokens=data["inputTokens"], output_tokens=data["outputTokens"], cost=data["cost"])


def create_message_event(message: Message) -> NewEvent:
    """A message was stored."""
    data = {"messageId": message.id, "role": message.role, "content": message.content}
    return NewEvent(
        type="message", time=message.created_at, data=data, thread_id=message.thread_id, run_id=message.run_id
    )


def end_with_error(run: Run, status: RunEnd, code: str, message: str, now: float) -> Ending:
    """A run that ended without an answer, and why; its last event has the reason, too."""
    error = RunError(code=code, message=message)
    last = NewEvent(
        type=choose_end_type(status),
        time=now,
        data=error.to_json(),
        thread_id=run.thread_id,
        run_id=run.id,
        task_id=run.task_id,
    )
    return Ending(status=status, ended_at=now, error=error, events=[last])


def end_lost_run(run: Run, now: float) -> Ending:
    """A run whose process is dead."""
    return end_with_error(run, "lost", "lost", f"the process {run.owner} that ran it is dead", now)


def create_start_event(run: Run, now: float) -> NewEvent:
    """A run began."""
    about = {"agent": run.agent, "runtime": run.runtime, "model": run.model}
    return NewEvent(
        type="run.started", time=now, data=about, thread_id=run.thread_id, run_id=run.id, task_id=run.task_id
    )


def choose_end_type(status: RunStatus) -> str:
    """The type of the event that ends a run's stream."""
    return status if status in ("completed", "cancelled") else "error"
