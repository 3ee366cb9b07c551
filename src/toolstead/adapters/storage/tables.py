"""The tables, as queries see them, and the statements that write a batch.

`migrations` makes the tables, and a test keeps the two alike.

The columns of what has a Struct are its fields (`rows`): a new field of `Run` is a column here, and needs only the
migration that adds it.

`n` is a row's number in the one sequence of the database. Numbers are given in commit order, so
ordering by `n` is ordering by when a row became visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Dialect,
    Double,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from toolstead.adapters.storage.rows import StructChange, StructRows
from toolstead.delegation.budget import TreeShare
from toolstead.orchestrator.store import Ending, Resolution, RunCommand
from toolstead.types.approval import Approval
from toolstead.types.event import NewEvent
from toolstead.types.plugin_row import PluginRow
from toolstead.types.result import KeptResult
from toolstead.types.run import Run
from toolstead.types.step import StepBatch
from toolstead.types.task import Attempt, Task, TreeBudget
from toolstead.types.thread import Message, Thread
from toolstead.types.vfs import FileVersion, TreeUsage

metadata = MetaData()


def _number_column() -> Column[Any]:
    return Column("n", BigInteger, primary_key=True)


class UsedKey(msgspec.Struct, frozen=True, kw_only=True):
    """What an idempotency key of a thread was used for."""

    thread_id: str
    key: str
    message_id: str
    run_id: str
    created_at: float


sequence = Table(
    "sequence",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""One row, `rows`: the last number given. A writer locks it first, so writers take turns."""

THREADS = StructRows("threads", Thread, metadata, _number_column())
MESSAGES = StructRows("messages", Message, metadata, _number_column())
RUNS = StructRows("runs", Run, metadata, _number_column())
"""A run is unfinished while `ended_at` is null."""

COMMANDS = StructRows("run_commands", RunCommand, metadata, Column("owner", Text, nullable=False))
"""`owner` is the process that holds the run, and is to carry the command out."""

KEYS = StructRows("idempotency_keys", UsedKey, metadata)

EVENTS = StructRows("events", NewEvent, metadata, _number_column())
"""No foreign keys: an event may name a thread that does not exist."""

# Only a row of joined deltas has these (`events`): no Struct has them, and no insert names them.
EVENTS.table.append_column(Column("first_n", BigInteger))
EVENTS.table.append_column(Column("parts", Text))

RESULTS = StructRows(
    "results",
    KeptResult,
    metadata,
    Column("handle", Text, primary_key=True),
    Column("created_at", Double, nullable=False),
)

PLUGINS = StructRows("plugins", PluginRow, metadata, Column("name", Text, primary_key=True))

plugin_values = Table(
    "plugin_values",
    metadata,
    Column("space", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

APPROVALS = StructRows("approvals", Approval, metadata, _number_column())
"""`n` is the number of the event that it was asked. No foreign keys: a call may name a thread that does not exist."""

FILES = StructRows("vfs_versions", FileVersion, metadata, Column("root_id", Text, primary_key=True))
"""`root_id` is the root of the thread tree. No foreign keys: a call may name a thread that does not exist."""

# The last column, and in no Struct that is listed: it is read only where the text is wanted.
FILES.table.append_column(Column("content", Text, nullable=False))

TREES = StructRows("vfs_trees", TreeUsage, metadata, Column("root_id", Text, primary_key=True))
"""Counted with each write: to count the versions of a large tree would take long."""

TASKS = StructRows("tasks", Task, metadata, _number_column())
"""A task is open while `outcome` is null. No foreign keys: it is stored before its thread."""

# The last column, and in no Struct that is listed: it is read only where the whole result is wanted.
TASKS.table.append_column(Column("result", Text))

ATTEMPTS = StructRows("task_attempts", Attempt, metadata)
BUDGETS = StructRows("tree_budgets", TreeBudget, metadata)
SHARES = StructRows("tree_shares", TreeShare, metadata)

STEPS = StructRows("run_steps", StepBatch, metadata)
"""Written only while the run is there, and deleted with it."""

threads, messages, runs, run_commands, idempotency_keys, events, approvals, plugins = (
    one.table for one in (THREADS, MESSAGES, RUNS, COMMANDS, KEYS, EVENTS, APPROVALS, PLUGINS)
)
tasks, attempts, budgets, shares = (one.table for one in (TASKS, ATTEMPTS, BUDGETS, SHARES))
run_steps = STEPS.table

PENDING: ColumnElement[bool] = approvals.c.decision.is_(None)

BEGIN = StructChange(RUNS, {"status", "started_at"})
END = StructChange(RUNS, set(Ending.__struct_fields__))
RESOLVE = StructChange(APPROVALS, set(Resolution.__struct_fields__))
SET_SESSION = StructChange(THREADS, {"session_id"})
START_TASK = StructChange(TASKS, {"queued_at", "deadline", "owner", "epoch"}, clears=True)
END_TASK = StructChange(
    TASKS,
    {"outcome", "ended_at", "error", "summary", "result_size", "usage", "owner", "epoch", "queued_at", "taken_by"},
    clears=True,
)
SET_TREE = StructChange(BUDGETS, set(TreeBudget.__struct_fields__) - {"root_run_id"}, key="root_run_id", clears=True)
SET_SHARE = StructChange(SHARES, set(TreeShare.__struct_fields__) - {"run_id"}, key="run_id", clears=True)

Written = StructRows[Any] | StructChange
WRITTEN: tuple[Written, ...] = (
    THREADS,
    MESSAGES,
    RUNS,
    KEYS,
    TASKS,
    ATTEMPTS,
    BEGIN,
    END,
    SET_SESSION,
    EVENTS,
    STEPS,
)
"""What a batch writes, in the order in which rows refer to each other."""
KNOWN: tuple[Written, ...] = (START_TASK, END_TASK, BUDGETS, SET_TREE, SHARES, SET_SHARE)
"""What `known_tasks` writes of it."""


class Statements:
    """What writing a batch runs, compiled once for a database and sent as it is.

    Running a Core statement costs some 50 µs of Python and each row of it some more; text that is already compiled,
    with rows that are already tuples, costs what the driver costs.

    Attributes:
        write: The statement that writes a row of each of `WRITTEN` and `KNOWN`, or many.
        remove_parts: Removes a sequence of a run's deltas, all but the last.
        join_parts: Makes the last one the whole.
    """

    def __init__(self, dialect: Dialect) -> None:
        # SQLite has its lock from BEGIN IMMEDIATE, and no FOR UPDATE: SQLAlchemy leaves it out there.
        self.lock_sequence = _compile_clause(select(sequence.c.value).with_for_update(), dialect, ())
        last = bindparam("last", type_=sequence.c.value.type)
        self.set_sequence = _compile_clause(update(sequence).values(value=last), dialect, ("last",))
        self.write = {
            written: _compile_clause(insert(written.table), dialect, written.names)
            if isinstance(written, StructRows)
            else _compile_change(written, dialect)
            for written in (*WRITTEN, *KNOWN)
        }
        self.write[STEPS] = _compile_steps(dialect)
        n, first, last = events.c.n, _bind_column("first", events.c.n), _bind_column("last", events.c.n)
        removing = delete(events).where(events.c.run_id == _bind_column("run", events.c.run_id), n >= first, n < last)
        self.remove_parts = _compile_clause(removing, dialect, ("run", "first", "last"))
        parts, data = _bind_column("new_parts", events.c.parts), _bind_column("new_data", events.c.data)
        joining = update(events).ordered_values(
            (events.c.first_n, first), (events.c.parts, parts), (events.c.data, data)
        )
        self.join_parts = _compile_clause(joining.where(n == last), dialect, ("first", "new_parts", "new_data", "last"))


def _compile_change(change: StructChange, dialect: Dialect) -> str:
    columns = [change.table.c[one.name] for one in change.columns]
    given = [(column, _bind_column(f"new_{column.name}", column)) for column in columns]
    new = given if change.clears else [(column, func.coalesce(value, column)) for column, value in given]
    key = change.table.c[change.key]
    chosen = key == _bind_column("chosen", key)
    names = [f"new_{column.name}" for column in columns]
    return _compile_clause(update(change.table).ordered_values(*new).where(chosen), dialect, (*names, "chosen"))


def _compile_steps(dialect: Dialect) -> str:
    """Writes steps, unless their run is gone. They may be there: a commit may succeed and its connection be lost."""
    first, *others = STEPS.names
    values = [_bind_column(name, run_steps.c[name]) for name in others]
    of_run = select(runs.c.id, *values).where(runs.c.id == _bind_column(first, runs.c.id))
    adding = _compile_clause(insert(run_steps).from_select(STEPS.names, of_run), dialect, (*others, first))
    return f"{adding} ON CONFLICT DO NOTHING"


def _compile_clause(clause: Any, dialect: Dialect, names: Sequence[str]) -> str:
    """The text of a statement that takes its parameters in the order of `names`."""
    compiled = clause.compile(dialect=dialect, column_keys=list(names) if clause.is_insert else None)
    if list(compiled.positiontup) != list(names):
        raise AssertionError(f"{compiled.string} takes {compiled.positiontup}, not {names}")
    return compiled.string


def _bind_column(name: str, column: Any) -> BindParameter[Any]:
    return bindparam(name, type_=column.type)
