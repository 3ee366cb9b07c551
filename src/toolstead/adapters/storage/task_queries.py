"""The reads of tasks: functions of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, select, update

from toolstead.adapters.storage.rows import pad_list
from toolstead.adapters.storage.tables import ATTEMPTS, TASKS, attempts, budgets, runs, shares, tasks
from toolstead.delegation.task_store import TaskFilter
from toolstead.errors import NotFoundError
from toolstead.types.task import SHAPE, Attempt, Task

COLUMNS = tuple(tasks.c[name] for name in TASKS.names)
"""All but the whole result."""

IS_OPEN: ColumnElement[bool] = tasks.c.outcome.is_(None)
WAITS: ColumnElement[bool] = tasks.c.outcome.is_not(None) & tasks.c.delivered_at.is_(None) & tasks.c.taken_by.is_(None)
"""Its result waits for a turn that takes it."""

_BY_ID = select(*COLUMNS).where(tasks.c.id == bindparam("id"))
_WAITING = select(*COLUMNS).where(tasks.c.parent_thread_id == bindparam("thread"), WAITS).order_by(tasks.c.n)
_TAKE = update(tasks).where(tasks.c.id.in_(bindparam("given", expanding=True)))


def find_task(connection: Connection, id: str) -> Task | None:
    """A task, if it is there."""
    row = connection.execute(_BY_ID, {"id": id}).first()
    return None if row is None else TASKS.decode_row(row)


def read_task(connection: Connection, id: str) -> Task:
    """Raises NotFoundError."""
    task = find_task(connection, id)
    if task is None:
        raise NotFoundError("task", id)
    return task


def read_task_result(connection: Connection, id: str) -> str | None:
    """The whole result; one that is short is all in the summary."""
    row = connection.execute(select(tasks.c.result, tasks.c.summary).where(tasks.c.id == id)).first()
    if row is None:
        raise NotFoundError("task", id)
    return row[0] if row[0] is not None else row[1]


def list_tasks(connection: Connection, wanted: TaskFilter, *, limit: int = 100) -> list[Task]:
    """The newest first."""
    query = select(*COLUMNS).order_by(tasks.c.n.desc()).limit(limit)
    for name in ("project", "parent_thread_id", "parent_task_id", "root_run_id"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(tasks.c[name] == value)
    if wanted.is_open is not None:
        query = query.where(IS_OPEN if wanted.is_open else tasks.c.outcome.is_not(None))
    return [TASKS.decode_row(row) for row in connection.execute(query)]


def list_attempts(connection: Connection, task_id: str) -> list[Attempt]:
    """Oldest first."""
    query = select(attempts).where(attempts.c.task_id == task_id).order_by(attempts.c.number)
    return [ATTEMPTS.decode_row(row) for row in connection.execute(query)]


def find_position(connection: Connection, task: Task) -> int:
    """The place of a queued task among those of its agent, from 1."""
    own = select(tasks.c.n).where(tasks.c.id == task.id).scalar_subquery()
    before = select(func.count()).where(
        tasks.c.project == task.project,
        tasks.c.agent == task.agent,
        IS_OPEN,
        tasks.c.queued_at.is_not(None),
        tasks.c.n <= own,
    )
    return connection.execute(before).scalar_one()


def list_open(connection: Connection, project: str) -> list[Task]:
    """The open tasks of a project that have a slot, oldest first."""
    wanted = select(*COLUMNS).where(
        tasks.c.project == project, IS_OPEN, tasks.c.queued_at.is_(None), tasks.c.shape <= SHAPE
    )
    return [TASKS.decode_row(row) for row in connection.execute(wanted.order_by(tasks.c.n))]


def list_held(connection: Connection, ids: Sequence[str], owner: str) -> set[str]:
    """Those of these tasks that are open and held by a process."""
    held = select(tasks.c.id).where(tasks.c.id.in_(bindparam("given", expanding=True)), tasks.c.owner == owner, IS_OPEN)
    return set(connection.execute(held, pad_list(ids)).scalars()) if ids else set()


def list_wakes(connection: Connection, project: str) -> list[Task]:
    """The oldest waiting result of each thread whose agent is to be woken for it.

    Not those of an MCP client, which reads them itself, nor of a task, whose worker gives them to it: when it has
    ended, nobody wants them any more.
    """
    busy = runs.alias("busy")
    has_queued_run = select(busy.c.id).where(
        busy.c.thread_id == tasks.c.parent_thread_id, busy.c.ended_at.is_(None), busy.c.started_at.is_(None)
    )
    query = select(*COLUMNS).where(
        tasks.c.project == project,
        WAITS,
        tasks.c.woken_by.is_(None),
        tasks.c.parent_run_id.is_not(None),
        tasks.c.shape <= SHAPE,
        tasks.c.parent_task_id.is_(None),
        ~has_queued_run.exists(),
    )
    found = [TASKS.decode_row(row) for row in connection.execute(query.order_by(tasks.c.n))]
    return list({task.parent_thread_id: task for task in reversed(found)}.values())


def list_waiting(connection: Connection, thread_id: str) -> list[Task]:
    """The results that wait for a turn of a thread, oldest first."""
    return [TASKS.decode_row(row) for row in connection.execute(_WAITING, {"thread": thread_id})]


def take_waiting(connection: Connection, thread_id: str, run_id: str) -> list[Task]:
    """Let a run's turn hold the results that wait in its thread."""
    found = list_waiting(connection, thread_id)
    if found:
        connection.execute(_TAKE.values(taken_by=run_id), pad_list([task.id for task in found]))
    return found


def take_results(connection: Connection, task_ids: Sequence[str], now: float) -> list[Task]:
    """Mark results as delivered to the MCP client that reads them."""
    chosen = select(*COLUMNS).where(tasks.c.id.in_(bindparam("given", expanding=True)), WAITS)
    found = [TASKS.decode_row(row) for row in connection.execute(chosen, pad_list(task_ids))] if task_ids else []
    if found:
        connection.execute(_TAKE.values(delivered_at=now), pad_list([task.id for task in found]))
    return found


def note_woken(connection: Connection, thread_id: str, run_id: str) -> bool:
    """Note that a run was started for the results that wait in a thread; False when none waits for that."""
    waiting = update(tasks).where(tasks.c.parent_thread_id == thread_id, WAITS, tasks.c.woken_by.is_(None))
    return connection.execute(waiting.values(woken_by=run_id)).rowcount > 0


def delete_tasks(connection: Connection, thread_id: str) -> None:
    """Delete the tasks of a thread, and those that it delegated, with their attempts and budgets."""
    gone = (tasks.c.thread_id == thread_id) | (tasks.c.parent_thread_id == thread_id)
    ids: Any = select(tasks.c.id).where(gone)
    connection.execute(delete(attempts).where(attempts.c.task_id.in_(ids)))
    connection.execute(delete(budgets).where(budgets.c.root_run_id.in_(ids)))
    own_runs = select(runs.c.id).where(runs.c.thread_id == thread_id)
    connection.execute(delete(budgets).where(budgets.c.root_run_id.in_(own_runs)))
    connection.execute(delete(shares).where(shares.c.run_id.in_(own_runs)))
    connection.execute(delete(tasks).where(gone))
