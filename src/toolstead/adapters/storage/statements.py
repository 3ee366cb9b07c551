"""The statements of the busy path, compiled once for a database and sent as they are.

Running a Core statement costs some 50 µs of Python and each row of it some more; text that is
already compiled, with rows that are already tuples, costs what the driver costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BindParameter, Dialect, bindparam, delete, func, insert, select, update

from toolstead.adapters.storage import tables
from toolstead.adapters.storage.rows import StructChange, StructRows


class Statements:
    """What writing a batch runs.

    Attributes:
        write: The statement that writes a row of each of `tables.WRITTEN`, or many.
        remove_parts: Removes a sequence of a run's deltas, all but the last.
        join_parts: Makes the last one the whole.
    """

    def __init__(self, dialect: Dialect) -> None:
        sequence = tables.sequence
        # SQLite has its lock from BEGIN IMMEDIATE, and no FOR UPDATE: SQLAlchemy leaves it out there.
        self.lock_sequence = _compile_clause(select(sequence.c.value).with_for_update(), dialect, ())
        last = bindparam("last", type_=sequence.c.value.type)
        self.set_sequence = _compile_clause(update(sequence).values(value=last), dialect, ("last",))
        self.write = {
            written: _compile_insert(written, dialect)
            if isinstance(written, StructRows)
            else _compile_change(written, dialect)
            for written in tables.WRITTEN
        }
        events = tables.events
        n, first, last = events.c.n, _bind_column("first", events.c.n), _bind_column("last", events.c.n)
        removing = delete(events).where(events.c.run_id == _bind_column("run", events.c.run_id), n >= first, n < last)
        self.remove_parts = _compile_clause(removing, dialect, ("run", "first", "last"))
        parts, data = _bind_column("new_parts", events.c.parts), _bind_column("new_data", events.c.data)
        joining = update(events).ordered_values(
            (events.c.first_n, first), (events.c.parts, parts), (events.c.data, data)
        )
        self.join_parts = _compile_clause(joining.where(n == last), dialect, ("first", "new_parts", "new_data", "last"))


def _compile_insert(rows: StructRows[Any], dialect: Dialect) -> str:
    return _compile_clause(insert(rows.table), dialect, rows.names)


def _compile_change(change: StructChange[Any], dialect: Dialect) -> str:
    columns = [change.table.c[name] for name in change.names]
    # A null leaves the column as it was.
    new = [(column, func.coalesce(_bind_column(f"new_{column.name}", column), column)) for column in columns]
    chosen = change.table.c.id == _bind_column("chosen", change.table.c.id)
    names = [f"new_{column.name}" for column in columns]
    return _compile_clause(update(change.table).ordered_values(*new).where(chosen), dialect, (*names, "chosen"))


def _compile_clause(clause: Any, dialect: Dialect, names: Sequence[str]) -> str:
    """The text of a statement that takes its parameters in the order of `names`."""
    compiled = clause.compile(dialect=dialect, column_keys=list(names) if clause.is_insert else None)
    if list(compiled.positiontup) != list(names):
        raise AssertionError(f"{compiled.string} takes {compiled.positiontup}, not {names}")
    return compiled.string


def _bind_column(name: str, column: Any) -> BindParameter[Any]:
    return bindparam(name, type_=column.type)
