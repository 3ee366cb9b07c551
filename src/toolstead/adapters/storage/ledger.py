"""One batch of writes while it is being written: what it must know first, and the rows it makes.

Operations (`operations`) are plain Python between two visits to the database: `load` reads at once
what all of them need, they decide and leave rows here, and `flush` writes each table at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs
from sqlalchemy import BindParameter, ColumnElement, Connection, bindparam, select, tuple_

from toolstead.adapters.storage import tables
from toolstead.adapters.storage.events import join_deltas
from toolstead.adapters.storage.rows import StructRows, Values, event_id, pad_list
from toolstead.adapters.storage.statements import Statements
from toolstead.adapters.storage.tables import BEGIN, END, EVENTS, KEYS, RUNS, SET_SESSION, THREADS, UsedKey, Written
from toolstead.errors import NotFoundError
from toolstead.orchestrator.store import Ending, HeldRun
from toolstead.types.event import Event, NewEvent
from toolstead.types.run import Run

Draft = tuple[NewEvent, Values]
"""An event with its row."""

_given: BindParameter[Any] = bindparam("given", expanding=True)
_KNOWN_THREADS = select(tables.threads.c.id).where(tables.threads.c.id.in_(_given))
_KNOWN_RUNS = select(tables.runs.c.id, tables.runs.c.status, tables.runs.c.thread_id).where(
    tables.runs.c.id.in_(_given)
)
_KEY: ColumnElement[Any] = tuple_(tables.idempotency_keys.c.thread_id, tables.idempotency_keys.c.key)
_KNOWN_KEYS = select(tables.idempotency_keys).where(_KEY.in_(_given))

_waits, _before, _started = tables.runs.alias("waits"), tables.runs.alias("before"), tables.runs.alias("started")
_LAST_STARTED = (
    select(_started.c.n)
    .where(_started.c.thread_id == tables.threads.c.id, _started.c.started_at.is_not(None))
    .order_by(_started.c.n.desc())
    .limit(1)
    .scalar_subquery()
)
_LINES = (
    select(
        tables.threads.c.id,
        tables.threads.c.session_id,
        _waits.c.id,
        _waits.c.owner,
        _waits.c.status,
        _before.c.id,
        _before.c.owner,
    )
    .join(_waits, (_waits.c.thread_id == tables.threads.c.id) & _waits.c.ended_at.is_(None))
    .outerjoin(_before, _before.c.n == _LAST_STARTED)
    .where(tables.threads.c.id.in_(_given))
    .order_by(_waits.c.n)
)
"""A row for each unfinished run of the threads, oldest first; each with the run that began last in its thread."""


@dataclass(slots=True, kw_only=True)
class Needs:
    """What a batch must know before it decides; see `operations.Operation`."""

    threads: set[str]
    runs: set[str]
    keys: set[tuple[str, str]]
    lines: set[str]


class Line:
    """The unfinished runs of one thread, oldest first.

    Attributes:
        waiting: Run → its owner, and its status.
        last: The run that began last, whether it has ended or not.
        session_id: The thread's.
    """

    __slots__ = ("last", "session_id", "waiting")

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.waiting: dict[str, tuple[str, str]] = {}
        self.last: HeldRun | None = None

    def runs_before(self, id: str) -> tuple[HeldRun, ...]:
        """Who goes before a run: those that are older, and whoever runs."""
        ahead: list[HeldRun] = []
        older = True
        for other, (owner, status) in self.waiting.items():
            if other == id:
                older = False
            elif older or status == "running":
                ahead.append(HeldRun(id=other, owner=owner))
        return tuple(ahead)


class Ledger:
    """The state of one transaction, as far as its operations asked for it, and what they add.

    Attributes:
        first: The last number that was given before it.
        events: Those that were added, in order.
    """

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self.connection = connection
        self._statements = statements
        self.first = self._first = self._last = connection.exec_driver_sql(statements.lock_sequence).scalar_one()
        self.events: list[Event] = []
        self._threads: set[str] = set()
        self._runs: dict[str, tuple[str, str]] = {}
        self._keys: dict[tuple[str, str], UsedKey] = {}
        self._lines: dict[str, Line] = {}
        self._rows: dict[Written, list[Values]] = {written: [] for written in tables.WRITTEN}
        self._joining: list[str] = []

    def load(self, needs: Needs) -> None:
        """Read what is needed; what was known before is forgotten."""
        run = self.connection.execute
        self._threads = {row[0] for row in run(_KNOWN_THREADS, pad_list(needs.threads))} if needs.threads else set()
        self._runs = {row[0]: (row[1], row[2]) for row in run(_KNOWN_RUNS, pad_list(needs.runs))} if needs.runs else {}
        used = map(KEYS.decode_row, run(_KNOWN_KEYS, pad_list(needs.keys))) if needs.keys else ()
        self._keys = {(one.thread_id, one.key): one for one in used}
        self._lines = _read_lines(needs.lines, run(_LINES, pad_list(needs.lines))) if needs.lines else {}

    @property
    def last(self) -> int:
        """The last number that was given."""
        return self._last

    def has_thread(self, id: str) -> bool:
        """Whether there is such a thread; it was asked for in the needs."""
        return id in self._threads

    def check_thread(self, id: str) -> None:
        """Refuse a thread that is not there.

        Raises:
            NotFoundError: There is none.
        """
        if id not in self._threads:
            raise NotFoundError("thread", id)

    def run_state(self, id: str) -> tuple[str, str] | None:
        """A run's status and thread; None when there is no such run."""
        return self._runs.get(id)

    def find_key(self, thread_id: str, key: str | None) -> UsedKey | None:
        """What a key of a thread was used for."""
        return None if key is None else self._keys.get((thread_id, key))

    def line_of(self, thread_id: str) -> Line:
        """The unfinished runs of a thread; it was asked for in the needs."""
        return self._lines[thread_id]

    def add_row(self, rows: StructRows[Any], values: Values) -> None:
        """Add a row, with the next number; the thread it belongs to is there."""
        self._last += 1
        self._rows[rows].append((self._last, *values))

    def add_thread(self, id: str, values: Values) -> None:
        """Add a thread that is not there."""
        self._threads.add(id)
        self.add_row(THREADS, values)

    def add_run(self, run: Run, values: Values) -> None:
        """Add a run to a thread that is there."""
        self._runs[run.id] = (run.status, run.thread_id)
        if (line := self._lines.get(run.thread_id)) is not None:
            line.waiting[run.id] = (run.owner, run.status)
        self.add_row(RUNS, values)

    def add_key(self, used: UsedKey) -> None:
        """Remember what a key was used for."""
        self._keys[used.thread_id, used.key] = used
        self._rows[KEYS].append(KEYS.encode_row(used))

    def begin_run(self, run: Run) -> None:
        """Queued becomes running; the caller has looked at its line."""
        self._runs[run.id] = (run.status, run.thread_id)
        line = self._lines[run.thread_id]
        owner, _ = line.waiting[run.id]
        line.waiting[run.id] = (owner, run.status)
        line.last = HeldRun(id=run.id, owner=owner)
        self._rows[BEGIN].append(BEGIN.encode_row(run, run.id))

    def end_run(self, id: str, ending: Ending) -> None:
        """Set the end of a run that has none; the caller has looked."""
        thread_id = self._runs[id][1]
        self._runs[id] = (ending.status, thread_id)
        if (line := self._lines.get(thread_id)) is not None:
            line.waiting.pop(id, None)
            line.session_id = ending.session_id or line.session_id
        self._rows[END].append(END.encode_row(ending, id))
        if ending.has_deltas:
            self._joining.append(id)
        if ending.session_id is not None:
            self._rows[SET_SESSION].append(SET_SESSION.encode_row(ending, thread_id))

    def add_events(self, drafts: Sequence[Draft]) -> list[Event]:
        """Add events in this order, and give them their ids."""
        added: list[Event] = []
        for new, values in drafts:
            self.add_row(EVENTS, values)
            added.append(Event(id=event_id(self._last), **structs.asdict(new)))
        self.events += added
        return added

    def flush(self) -> None:
        """Write what was added, each table at once; then join the deltas of the runs that ended."""
        for written, rows in self._rows.items():
            if rows:
                self.connection.exec_driver_sql(self._statements.write[written], rows)
                rows.clear()
        if self._joining:
            join_deltas(self.connection, self._statements, self._joining)
            self._joining.clear()
        if self._last != self._first:
            self.connection.exec_driver_sql(self._statements.set_sequence, (self._last,))
            self._first = self._last


def _read_lines(threads: Collection[str], rows: Iterable[Sequence[Any]]) -> dict[str, Line]:
    lines = {thread_id: Line() for thread_id in threads}
    for thread_id, session_id, run_id, owner, status, last, last_owner in rows:
        line = lines[thread_id]
        line.session_id = session_id
        line.waiting[run_id] = (owner, status)
        line.last = None if last is None else HeldRun(id=last, owner=last_owner)
    return lines
