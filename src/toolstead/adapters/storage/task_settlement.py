"""What the end of a run means for tasks: results that its turn held, children that it waited for.

| the run ended as | results of children it waited for | detached results it took | children still open |
|---|---|---|---|
| completed | delivered | delivered | those it waited for end as `cancelled` |
| failed, timeout, cancelled | delivered | wait for the next turn | those it waited for end as `cancelled` |
| lost, stopped | wait, and wake the thread again | wait, and wake again | go on, as detached ones |
"""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, update

from toolstead.adapters.storage.tables import runs, tasks
from toolstead.types.run import Usage

INTERRUPTED = frozenset({"lost", "stopped"})
"""Ends of runs whose work another process may take up again."""

_UNDELIVERED = tasks.c.delivered_at.is_(None)
_TAKEN = (tasks.c.taken_by == bindparam("run")) & _UNDELIVERED
_IS_WAITED_FOR = tasks.c.mode == "immediate"
_DELIVER = update(tasks).where(_TAKEN).values(delivered_at=bindparam("now"))
_DELIVER_WAITED = update(tasks).where(_TAKEN, _IS_WAITED_FOR).values(delivered_at=bindparam("now"))
_RETURN = update(tasks).where(_TAKEN).values(taken_by=None)
_RETURN_AND_WAKE = update(tasks).where(_TAKEN).values(taken_by=None, woken_by=None)
_WAKE_AGAIN = update(tasks).where(tasks.c.woken_by == bindparam("run"), _UNDELIVERED).values(woken_by=None)
_DETACH = (
    update(tasks)
    .where(tasks.c.parent_run_id == bindparam("run"), _IS_WAITED_FOR, tasks.c.outcome.is_(None))
    .values(mode="detached")
)


_OF_RUN = select(runs.c.task_id).where(runs.c.id == bindparam("run")).scalar_subquery()
_ADD_USED = (
    update(tasks)
    .where(tasks.c.id == _OF_RUN, tasks.c.outcome.is_not(None))
    .values(
        input_tokens=tasks.c.input_tokens + bindparam("read"),
        output_tokens=tasks.c.output_tokens + bindparam("written"),
        cost=tasks.c.cost + bindparam("money"),
    )
)


def add_late_usage(connection: Connection, run_id: str, usage: Usage) -> None:
    """Add what a cancelled run used to its task, if that ended before it: then it was summed without this run."""
    values = {"read": usage.input_tokens, "written": usage.output_tokens, "money": usage.cost}
    connection.execute(_ADD_USED, {"run": run_id, **values})


def settle_run(connection: Connection, run_id: str, status: str, now: float) -> None:
    """Apply the table above; open children that the run waited for are ended by the caller."""
    if status == "completed":
        connection.execute(_DELIVER, {"run": run_id, "now": now})
        return
    if status in INTERRUPTED:
        # Another run may have been woken for what this one took, and found nothing: it comes no more.
        connection.execute(_RETURN_AND_WAKE, {"run": run_id})
        connection.execute(_WAKE_AGAIN, {"run": run_id})
        connection.execute(_DETACH, {"run": run_id})
        return
    connection.execute(_DELIVER_WAITED, {"run": run_id, "now": now})
    connection.execute(_RETURN, {"run": run_id})
