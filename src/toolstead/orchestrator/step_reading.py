"""Reads the steps of a run with their whole requests, a page at a time."""

from __future__ import annotations

import msgspec

from toolstead.invoker.step_requests import RequestReader
from toolstead.orchestrator.store import Store
from toolstead.types.step import RunStep

MOST_BYTES = 8 << 20
"""Bytes of a page: whole requests repeat the conversation, so that together they may have hundreds of megabytes."""
_TOGETHER = 50


class StepPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps of a run, in order.

    Attributes:
        next: The number of the last one, where others follow.
    """

    steps: list[RunStep]
    next: int | None = None


async def read_steps(
    store: Store, run_id: str, *, after: int = 0, limit: int = 50, max_bytes: int = MOST_BYTES
) -> StepPage:
    """The next steps of a run: at most `limit`, and at most `max_bytes`, but at least one.

    All steps before them are read too, since each request has only what is new in it; a run has 8 MB of steps at most.

    Raises:
        NotFoundError: No such run.
    """
    await store.read_run(run_id)
    reader, found, size, last = RequestReader(), list[RunStep](), 0, 0
    while stored := await store.list_steps(run_id, after=last, limit=_TOGETHER):
        for step in stored:
            last = step.number
            whole = reader.read_step(step)
            if last <= after:
                continue
            size += len(msgspec.json.encode(whole.request))
            if len(found) == limit or (found and size > max_bytes):
                return StepPage(steps=found, next=found[-1].number)
            found.append(whole)
    return StepPage(steps=found)
