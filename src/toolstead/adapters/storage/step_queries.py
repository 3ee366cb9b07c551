"""The steps of runs: listing them, and deleting those of a thread and those that are old.

A row has the steps of a run that one commit stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, Integer, bindparam, delete, select

from toolstead.adapters.storage.tables import run_steps, runs
from toolstead.types.step import RecordedStep, RunStep

FOUND_TOGETHER = 500
DELETED_TOGETHER = 8
"""Runs whose steps one commit deletes: each may have megabytes of them, and other writers wait."""

_OF_RUN = (
    select(run_steps.c.steps)
    .where(run_steps.c.run_id == bindparam("run"), run_steps.c.last > bindparam("after", type_=Integer))
    .order_by(run_steps.c.number)
    .limit(bindparam("limit", type_=Integer))
)
_decode = msgspec.json.Decoder(list[RecordedStep]).decode


def list_steps(connection: Connection, run_id: str, *, after: int = 0, limit: int = 50) -> list[RunStep]:
    """Those of a run after a number, in order."""
    rows = connection.execute(_OF_RUN, {"run": run_id, "after": after, "limit": limit}).scalars()
    found = [step for row in rows for step in _decode(row) if step.number > after][:limit]
    return [RunStep(run_id=run_id, **msgspec.structs.asdict(step)) for step in found]


def delete_steps_of_thread(connection: Connection, thread_id: str) -> None:
    """Those of every run of a thread."""
    of_thread = select(runs.c.id).where(runs.c.thread_id == thread_id)
    connection.execute(delete(run_steps).where(run_steps.c.run_id.in_(of_thread)))


def list_expired_runs(connection: Connection, before: float) -> list[str]:
    """Some runs that ended earlier and have steps, the oldest first."""
    has_steps = select(run_steps.c.number).where(run_steps.c.run_id == runs.c.id).exists()
    wanted = select(runs.c.id).where(runs.c.ended_at < before, has_steps).order_by(runs.c.n).limit(FOUND_TOGETHER)
    return list(connection.execute(wanted).scalars())


def delete_steps(connection: Connection, run_ids: Sequence[str]) -> int:
    """Delete the steps of these runs; give the number of rows."""
    return connection.execute(delete(run_steps).where(run_steps.c.run_id.in_(run_ids))).rowcount
