"""One batch of writes while it is being written: what it must know first, and the rows it makes.

Operations (`operations`) are plain Python between two visits to the database: `load` reads at once
what all of them need, they decide and leave rows here, and `flush` writes each table at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs
from sqlalchemy import BindParameter, ColumnElement, Connection, Executable, bindparam, func, select, tuple_

from toolstead.adapters.storage import tables
from toolstead.adapters.storage.events import join_deltas
from toolstead.adapters.storage.rows import StructRows, Values, event_id, pad_list
from toolstead.adapters.storage.tables import (
    BEGIN,
    END,
    EVENTS,
    KEYS,
    RUNS,
    SET_SESSION,
    THREADS,
    Statements,
    UsedKey,
    Written,
)
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

_FIRST_TRIES = tables.runs.c.attempt == 1
_CHILDREN, _DESCENDANTS = (
    select(column, func.count()).where(column.in_(_given), _FIRST_TRIES).group_by(column)
    for column in (tables.runs.c.parent_run_id, tables.runs.c.root_run_id)
)

_waits, _before, _started = tables.runs.alias("waits"), tables.runs.alias("before"), tables.runs.alias("started")
_LAST_STARTED = (
    select(_started.c.n)
    .where(_started.c.thread_id == tables.threads.c.id, _started.c.started_at.is_not(None))
    .order_by(_started.c.n.desc())
    .limit(1)
    .scalar_subquery()
)
_QUEUES = (
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


@dataclass(slots=True)
class ThreadQueue:
    """The unfinished runs of one thread, oldest first.

    Attributes:
        session_id: The thread's.
        waiting: Run → its owner, and its status.
        last: The run that began last, whether it has ended or not.
    """

    session_id: str | None = None
    waiting: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    last: HeldRun | None = None

    def runs_before(self, id: str) -> tuple[HeldRun, ...]:
        """The runs that go before a waiting one: those that are older, and the one that runs."""
        older = list(self.waiting).index(id)
        return tuple(
            HeldRun(id=other, owner=owner)
            for place, (other, (owner, status)) in enumerate(self.waiting.items())
            if place < older or status == "running"
        )


class Ledger:
    """The state of one transaction, as far as its operations asked for it, and what they add.

    Attributes:
        first: The last number that was given before it.
        last: The last number that was given.
        events: Those that were added, in order.
        threads: Those that exist, of those that were asked for.
        runs: Run → its status and thread.
        keys: A thread and an idempotency key → what the key was used for.
        queues: Thread → its unfinished runs.
        children: Run → how many runs it started, of those that were asked for.
        descendants: Run → how many runs are below it where it is a root.
    """

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self.connection = connection
        self._statements = statements
        self.first = self.last = self._flushed = connection.exec_driver_sql(statements.lock_sequence).scalar_one()
        self.events: list[Event] = []
        self.load()
        self._rows: dict[Written, list[Values]] = {written: [] for written in tables.WRITTEN}
        self._joining: list[str] = []

    def load(
        self,
        *,
        threads: Collection[str] = (),
        runs: Collection[str] = (),
        keys: Collection[tuple[str, str]] = (),
        queues: Collection[str] = (),
        families: Collection[str] = (),
    ) -> None:
        """Read what the next operations must know; what was known before is forgotten."""
        self.threads = {row[0] for row in self._find_rows(_KNOWN_THREADS, threads)}
        self.runs = {row[0]: (row[1], row[2]) for row in self._find_rows(_KNOWN_RUNS, runs)}
        used = map(KEYS.decode_row, self._find_rows(_KNOWN_KEYS, keys))
        self.keys: dict[tuple[str, str | None], UsedKey] = {(one.thread_id, one.key): one for one in used}
        self.queues = {thread_id: ThreadQueue() for thread_id in queues}
        for thread_id, session_id, run_id, owner, status, last, last_owner in self._find_rows(_QUEUES, queues):
            queue = self.queues[thread_id]
            queue.session_id = session_id
            queue.waiting[run_id] = (owner, status)
            queue.last = None if last is None else HeldRun(id=last, owner=last_owner)
        self.children: dict[str | None, int] = {row[0]: row[1] for row in self._find_rows(_CHILDREN, families)}
        self.descendants: dict[str | None, int] = {row[0]: row[1] for row in self._find_rows(_DESCENDANTS, families)}

    def _find_rows(self, query: Executable, wanted: Collection[Any]) -> Iterable[Sequence[Any]]:
        return self.connection.execute(query, pad_list(wanted)) if wanted else ()

    def add_row(self, rows: StructRows[Any], values: Values) -> None:
        """Add a row, with the next number; the thread it belongs to is there."""
        self.last += 1
        self._rows[rows].append((self.last, *values))

    def add_thread(self, id: str, values: Values) -> None:
        """Add a thread, unless it is there."""
        if id not in self.threads:
            self.threads.add(id)
            self.add_row(THREADS, values)

    def add_run(self, run: Run, values: Values) -> None:
        """Add a run to a thread that is there."""
        self.runs[run.id] = (run.status, run.thread_id)
        if (queue := self.queues.get(run.thread_id)) is not None:
            queue.waiting[run.id] = (run.owner, run.status)
        if run.parent_run_id is not None and run.attempt == 1:
            for counts, above in ((self.children, run.parent_run_id), (self.descendants, run.root_run_id)):
                counts[above] = counts.get(above, 0) + 1
        self.add_row(RUNS, values)

    def add_key(self, used: UsedKey) -> None:
        """Remember what a key was used for."""
        self.keys[used.thread_id, used.key] = used
        self._rows[KEYS].append(KEYS.encode_row(used))

    def begin_run(self, run: Run) -> None:
        """Queued becomes running; the caller has looked at its queue."""
        self.runs[run.id] = (run.status, run.thread_id)
        queue = self.queues[run.thread_id]
        owner, _ = queue.waiting[run.id]
        queue.waiting[run.id] = (owner, run.status)
        queue.last = HeldRun(id=run.id, owner=owner)
        self._rows[BEGIN].append((*BEGIN.encode_row(run), run.id))

    def end_run(self, id: str, ending: Ending) -> None:
        """Set the end of a run that has none; the caller has looked."""
        thread_id = self.runs[id][1]
        self.runs[id] = (ending.status, thread_id)
        if (queue := self.queues.get(thread_id)) is not None:
            queue.waiting.pop(id, None)
            queue.session_id = ending.session_id or queue.session_id
        self._rows[END].append((*END.encode_row(ending), id))
        self._joining.append(id)
        if ending.session_id is not None:
            self._rows[SET_SESSION].append((*SET_SESSION.encode_row(ending), thread_id))

    def add_events(self, drafts: Sequence[Draft]) -> list[Event]:
        """Add events in this order, and give them their ids."""
        added: list[Event] = []
        for new, values in drafts:
            self.add_row(EVENTS, values)
            added.append(Event(id=event_id(self.last), **structs.asdict(new)))
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
        if self.last != self._flushed:
            self.connection.exec_driver_sql(self._statements.set_sequence, (self.last,))
            self._flushed = self.last
