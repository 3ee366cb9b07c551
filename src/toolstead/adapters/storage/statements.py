"""The statements of the busy path, compiled once for a database and sent as they are.

Running a Core statement costs some 50 µs of Python and each row of it some more; text that is
already compiled, with rows that are already tuples, costs what the driver costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Dialect,
    Select,
    Table,
    Update,
    bindparam,
    insert,
    literal_column,
    select,
    update,
)

from toolstead.adapters.storage import tables
from toolstead.adapters.storage.rows import Values


class Statement:
    """One statement, compiled; its parameters are given in the order of `names`."""

    def __init__(self, clause: Any, dialect: Dialect, names: Sequence[str]) -> None:
        compiled = clause.compile(dialect=dialect, column_keys=list(names) if clause.is_insert else None)
        if list(compiled.positiontup) != list(names):
            raise AssertionError(f"{compiled.string} takes {compiled.positiontup}, not {names}")
        self.text: str = compiled.string

    def run(self, connection: Connection, values: Values) -> None:
        """Run it once."""
        connection.exec_driver_sql(self.text, values)

    def run_many(self, connection: Connection, rows: list[Values]) -> None:
        """Run it for every row."""
        if rows:
            connection.exec_driver_sql(self.text, rows)

    def number(self, connection: Connection) -> int:
        """Run it for the one number it gives."""
        return connection.exec_driver_sql(self.text).scalar_one()


class Statements:
    """What writing a batch runs."""

    def __init__(self, dialect: Dialect) -> None:
        self.lock_sequence = Statement(_locked_sequence(), dialect, ())
        self.set_sequence = Statement(_set_sequence(), dialect, ("last",))
        self.add_thread = _adding(tables.threads, dialect)
        self.add_message = _adding(tables.messages, dialect)
        self.add_run = _adding(tables.runs, dialect)
        self.add_key = _adding(tables.idempotency_keys, dialect)
        self.add_event = _adding(tables.events, dialect)
        self.begin_run = Statement(_begin_run(), dialect, ("started", "run"))
        self.end_run = Statement(_end_run(), dialect, (*(f"new_{name}" for name in _ENDING), "run"))
        self.set_session = Statement(_set_session(), dialect, ("session", "thread"))


_RUNNING: ColumnElement[Any] = literal_column("'running'")
_ENDING = (
    "status",
    "result",
    "error_code",
    "error_message",
    "input_tokens",
    "output_tokens",
    "cost",
    "ended_at",
)


def _adding(table: Table, dialect: Dialect) -> Statement:
    return Statement(insert(table), dialect, [column.name for column in table.columns])


def _locked_sequence() -> Select[Any]:
    # SQLite has its lock from BEGIN IMMEDIATE, and no FOR UPDATE: SQLAlchemy leaves it out there.
    table = tables.sequence
    return select(table.c.value).with_for_update()


def _set_sequence() -> Update:
    return update(tables.sequence).values(value=_given("last", tables.sequence.c.value))


def _begin_run() -> Update:
    runs = tables.runs
    chosen = runs.c.id == _given("run", runs.c.id)
    started = (runs.c.started_at, _given("started", runs.c.started_at))
    return update(runs).ordered_values(started, (runs.c.status, _RUNNING)).where(chosen)


def _end_run() -> Update:
    runs = tables.runs
    changes = {name: _given(f"new_{name}", runs.c[name]) for name in _ENDING}
    ordered = [(runs.c[name], value) for name, value in changes.items()]
    return update(runs).ordered_values(*ordered).where(runs.c.id == _given("run", runs.c.id))


def _set_session() -> Update:
    threads = tables.threads
    changed = update(threads).values(session_id=_given("session", threads.c.session_id))
    return changed.where(threads.c.id == _given("thread", threads.c.id))


def _given(name: str, column: Any) -> BindParameter[Any]:
    return bindparam(name, type_=column.type)
