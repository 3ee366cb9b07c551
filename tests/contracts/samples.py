"""Small threads, messages, runs and events to store."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

from toolstead.orchestrator.store import Ending
from toolstead.types.event import NewEvent
from toolstead.types.run import Run, RunEnd, RunError
from toolstead.types.thread import Message, Role, Thread

_numbers = itertools.count(1)


def new_id(kind: str) -> str:
    """Unique over the processes of a test."""
    return f"{kind}-{os.getpid()}-{next(_numbers):06}"


def thread(id: str | None = None, **fields: Any) -> Thread:
    return Thread(id=id or new_id("thread"), **({"created_at": 1000.0} | fields))


def message(thread_id: str, content: str = "hello", role: Role = "user", **fields: Any) -> Message:
    values = {"id": new_id("message"), "created_at": 1000.0} | fields
    return Message(thread_id=thread_id, content=content, role=role, **values)


def run(thread_id: str, owner: str, **fields: Any) -> Run:
    values = {"id": new_id("run"), "created_at": 1000.0, "prompt": "hello"} | fields
    return Run(thread_id=thread_id, owner=owner, **values)


def event(type: str = "message", time: float = 1000.0, data: Any = None, **fields: Any) -> NewEvent:
    return NewEvent(type=type, time=time, data={} if data is None else data, **fields)


def ending(status: RunEnd = "completed", events: Sequence[NewEvent] = (), **fields: Any) -> Ending:
    return Ending(status=status, **({"ended_at": 2000.0} | fields), events=events)


def lost(found: Run) -> Ending:
    """The ending that recovery gives."""
    why = RunError(code="lost", message="its process died")
    told = event("error", data=why.to_json(), thread_id=found.thread_id, run_id=found.id)
    return ending("lost", [told], error=why)
