"""Values to rows and back: the one place that knows what a column holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from toolstead.errors import NotFoundError
from toolstead.orchestrator.store import Ending
from toolstead.types.content import whole_text
from toolstead.types.event import Event
from toolstead.types.run import NOTHING_USED, Run, RunError, Usage
from toolstead.types.thread import Message, Thread

Values = tuple[Any, ...]
"""A row in the order of its table's columns, or of a statement's parameters."""


def _plain_mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"what is stored must be JSON, and {type(value).__name__} is not")


_encoder = msgspec.json.Encoder(enc_hook=_plain_mapping)
_decode = msgspec.json.Decoder().decode


def storable(text: str) -> str:
    """The text, with U+FFFD for what a database cannot hold: NUL, and halves of surrogate pairs."""
    return whole_text(text.replace("\0", "\ufffd") if "\0" in text else text)


def storable_or_none(text: str | None) -> str | None:
    """As `storable`; None stays None."""
    return None if text is None else storable(text)


def to_json(data: Mapping[str, Any]) -> str:
    """A JSON column's text.

    Raises:
        TypeError: Something in it is not JSON.
    """
    try:
        return _encoder.encode(data).decode()
    except UnicodeEncodeError:
        return _encoder.encode(_storable_deep(data)).decode()


def from_json(text: str) -> Any:
    """A JSON column's value."""
    return _decode(text)


def _storable_deep(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {_storable_deep(key): _storable_deep(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_storable_deep(inner) for inner in cast("Sequence[Any]", value)]
    return value


def event_id(n: int) -> str:
    """An event's id: padded, so that ids sort as text."""
    return str(n).zfill(16)


def event_number(id: str) -> int:
    """The number behind an event's id.

    Raises:
        NotFoundError: No event ever had this id.
    """
    if not (id.isascii() and id.isdigit() and 16 <= len(id) <= 18):
        raise NotFoundError("event", id)
    return int(id)


def thread_values(thread: Thread) -> Values:
    """A thread without its number."""
    return (
        thread.id,
        thread.created_at,
        storable(thread.title),
        thread.agent,
        thread.runtime,
        thread.model,
        thread.parent_thread_id,
        thread.session_id,
    )


def message_values(message: Message) -> Values:
    """A message without its number."""
    return (
        message.id,
        message.thread_id,
        message.role,
        message.kind,
        storable(message.content),
        message.created_at,
        message.run_id,
    )


def run_values(run: Run) -> Values:
    """A run without its number."""
    return (
        run.id,
        run.thread_id,
        run.parent_run_id,
        run.owner,
        run.status,
        storable(run.prompt),
        run.agent,
        run.runtime,
        run.model,
        storable_or_none(run.result),
        run.error.code if run.error else None,
        storable(run.error.message) if run.error else None,
        run.usage.input_tokens,
        run.usage.output_tokens,
        run.usage.cost,
        run.created_at,
        run.started_at,
        run.ended_at,
        run.parent_agent,
        run.task_id,
        run.depth,
    )


def ending_values(ending: Ending) -> Values:
    """What an ending sets, in the order of `Statements.end_run`, without the run's id."""
    usage = ending.usage or NOTHING_USED
    return (
        ending.status,
        storable_or_none(ending.result),
        ending.error.code if ending.error else None,
        storable(ending.error.message) if ending.error else None,
        usage.input_tokens,
        usage.output_tokens,
        usage.cost,
        ending.ended_at,
    )


def thread_from(row: Sequence[Any]) -> Thread:
    """A thread from a whole row."""
    _, own_id, created_at, title, agent, runtime, model, parent_thread_id, session_id = row
    return Thread(
        id=own_id,
        created_at=created_at,
        title=title,
        agent=agent,
        runtime=runtime,
        model=model,
        parent_thread_id=parent_thread_id,
        session_id=session_id,
    )


def message_from(row: Sequence[Any]) -> Message:
    """A message from a whole row."""
    _, own_id, thread_id, role, kind, content, created_at, run_id = row
    return Message(
        id=own_id, thread_id=thread_id, role=role, kind=kind, content=content, created_at=created_at, run_id=run_id
    )


def run_from(row: Sequence[Any]) -> Run:
    """A run from a whole row."""
    _, own_id, thread_id, parent_run_id, owner, status, prompt, agent, runtime, model, result, code, text = row[:13]
    input_tokens, output_tokens, cost, created_at, started_at, ended_at, parent_agent, task_id, depth = row[13:]
    return Run(
        id=own_id,
        thread_id=thread_id,
        parent_run_id=parent_run_id,
        owner=owner,
        status=status,
        prompt=prompt,
        agent=agent,
        runtime=runtime,
        model=model,
        result=result,
        error=None if code is None else RunError(code=code, message=text),
        usage=Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost=cost),
        created_at=created_at,
        started_at=started_at,
        ended_at=ended_at,
        parent_agent=parent_agent,
        task_id=task_id,
        depth=depth,
    )


def event_from(row: Sequence[Any]) -> Event:
    """An event from a whole row."""
    n, own_type, time, thread_id, run_id, task_id, data = row
    return Event(
        id=event_id(n),
        type=own_type,
        time=time,
        data=_decode(data),
        thread_id=thread_id,
        run_id=run_id,
        task_id=task_id,
    )
