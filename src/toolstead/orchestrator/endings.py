"""What is told when a message comes, when a run begins, and when it ends: the events, and the ending itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from toolstead.errors import InvocationError, LimitError, ModelError, NoRoomError, SessionLostError
from toolstead.invoker.runtime import Answer
from toolstead.orchestrator.store import Ending, NewEvent
from toolstead.types.run import Run, RunEnd, RunError, RunStatus, Usage
from toolstead.types.thread import Message


def completed(run: Run, answer: Answer, message: Message) -> Ending:
    """A run that was answered: its last events are the answer and `completed`."""
    now = message.created_at
    done = {"result": answer.text, "usage": answer.usage.to_json()}
    return Ending(
        status="completed",
        ended_at=now,
        result=answer.text,
        usage=answer.usage,
        answer=message,
        events=[told(message, now), NewEvent(type="completed", time=now, data=done, **_place(run))],
    )


def used(data: Mapping[str, Any]) -> Usage:
    """What a `usage` event says."""
    return Usage(input_tokens=data["inputTokens"], output_tokens=data["outputTokens"], cost=data["cost"])


def told(message: Message, now: float) -> NewEvent:
    """A message was stored."""
    data = {"messageId": message.id, "role": message.role, "content": message.content}
    return NewEvent(type="message", time=now, data=data, thread_id=message.thread_id, run_id=message.run_id)


def _place(run: Run) -> dict[str, Any]:
    return {"thread_id": run.thread_id, "run_id": run.id}


def _about(run: Run) -> dict[str, Any]:
    return {"agent": run.agent, "runtime": run.runtime, "model": run.model}


def ended(status: RunEnd, code: str, message: str) -> Ending:
    """A run that ended without an answer, and why."""
    return Ending(status=status, ended_at=time.time(), error=RunError(code=code, message=message))


def lost(run: Run) -> Ending:
    """A run whose process is dead."""
    now = time.time()
    error = RunError(code="lost", message=f"the process {run.owner} that ran it is dead")
    events = [NewEvent(type="error", time=now, data=error.to_json(), **_place(run))]
    return Ending(status="lost", ended_at=now, error=error, events=events)


def given_up(run: Run) -> Ending:
    """A run that nobody performs, because the database failed."""
    ending = ended("failed", "storage", "the database failed while it was being stored, and it was given up")
    last = last_event(run, ending)
    return structs.replace(ending, events=[last] if last is not None else [])


def code_of(error: InvocationError) -> str:
    """The word for programs that says why no answer came."""
    match error:
        case NoRoomError():
            return "no_room"
        case SessionLostError():
            return "session_lost"
        case LimitError():
            return "limit"
        case ModelError(fault=fault):
            return f"model_{fault}"
        case _:
            return "runtime"


def begun(run: Run, now: float) -> NewEvent:
    """A run began."""
    return NewEvent(type="run.started", time=now, data=_about(run), **_place(run))


def last_event(run: Run, ending: Ending) -> NewEvent | None:
    """The one event that ends a run without an answer."""
    if ending.error is None:
        return None
    return NewEvent(type=end_type(ending.status), time=ending.ended_at, data=ending.error.to_json(), **_place(run))


def end_type(status: RunStatus) -> str:
    """The type of the event that ends a run's stream."""
    return status if status in ("completed", "cancelled") else "error"
