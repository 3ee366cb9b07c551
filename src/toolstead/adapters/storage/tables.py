"""The tables, as queries see them; `migrations` makes them, and a test keeps the two alike.

The columns of what has a Struct are its fields (`rows`): a new field of `Run` is a column here, and needs only the
migration that adds it.

`n` is a row's number in the one sequence of the database. Numbers are given in commit order, so
ordering by `n` is ordering by when a row became visible.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import BigInteger, Column, ColumnElement, Double, LargeBinary, MetaData, Table, Text

from toolstead.adapters.storage.rows import StructChange, StructRows
from toolstead.orchestrator.store import Ending, PluginRow, Resolution, RunCommand
from toolstead.types.approval import Approval
from toolstead.types.event import NewEvent
from toolstead.types.run import Run
from toolstead.types.thread import Message, Thread

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
"""One row, `rows`: the last number given. Who writes locks it first, so writers take turns."""

THREADS = StructRows("threads", Thread, metadata, _number_column())
MESSAGES = StructRows("messages", Message, metadata, _number_column())
RUNS = StructRows("runs", Run, metadata, _number_column())
"""A run is unfinished while `ended_at` is null."""

COMMANDS = StructRows("run_commands", RunCommand, metadata, Column("owner", Text, nullable=False))
"""`owner` is the process that holds the run, and is to carry the command out."""

KEYS = StructRows("idempotency_keys", UsedKey, metadata)

EVENTS = StructRows("events", NewEvent, metadata, _number_column())
"""No foreign keys: an event may speak of a thread that nobody made."""

# Only a row of joined deltas has these (`events`): no Struct has them, and no insert names them.
EVENTS.table.append_column(Column("first_n", BigInteger))
EVENTS.table.append_column(Column("parts", Text))

results = Table(
    "results",
    metadata,
    Column("handle", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
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
"""`n` is the number of the event that tells of it. No foreign keys: a call may name a thread that nobody made."""

threads, messages, runs, run_commands, idempotency_keys, events, approvals, plugins = (
    one.table for one in (THREADS, MESSAGES, RUNS, COMMANDS, KEYS, EVENTS, APPROVALS, PLUGINS)
)

PENDING: ColumnElement[bool] = approvals.c.decision.is_(None)

BEGIN = StructChange(RUNS, {"status", "started_at"})
END = StructChange(RUNS, set(Ending.__struct_fields__))
RESOLVE = StructChange(APPROVALS, set(Resolution.__struct_fields__))
SET_SESSION = StructChange(THREADS, {"session_id"})

Written = StructRows[Any] | StructChange[Any]
WRITTEN: tuple[Written, ...] = (THREADS, MESSAGES, RUNS, KEYS, BEGIN, END, SET_SESSION, EVENTS)
"""What a batch writes, in the order in which rows refer to each other."""
