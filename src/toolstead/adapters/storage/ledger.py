"""One batch of writes while it is being written: what it must know first, and the rows it makes.

Operations (`operations`) are plain Python between two visits to the database: `load` reads at once
what all of them need, they decide and leave rows here, and `flush` writes each table at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, bindparam, select, tuple_

from toolstead.adapters.storage import tables
from toolstead.adapters.storage.rows import Values, event_id
from toolstead.adapters.storage.statements import Statements
from toolstead.errors import NotFoundError
from toolstead.orchestrator.store import HeldRun, NewEvent
from toolstead.types.event import Event

Draft = tuple[NewEvent, str]
"""An event with its data as JSON text."""

_STEPS = (1, 8, 64, 512)

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


class Needs:
    """What a batch must know before it decides."""

    __slots__ = ("keys", "lines", "runs", "threads")

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.runs: set[str] = set()
        self.keys: set[tuple[str, str]] = set()
        self.lines: set[str] = set()


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

    def before(self, id: str) -> tuple[HeldRun, ...]:
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
    """The state of one transaction, as far as its operations asked for it, and what they add."""

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self.connection = connection
        self._statements = statements
        self._first = self._last = statements.lock_sequence.number(connection)
        self._threads: set[str] = set()
        self._runs: dict[str, tuple[str, str]] = {}
        self._keys: dict[tuple[str, str], tuple[str, str]] = {}
        self._lines: dict[str, Line] = {}
        self._new_threads: list[Values] = []
        self._new_messages: list[Values] = []
        self._new_runs: list[Values] = []
        self._new_keys: list[Values] = []
        self._new_events: list[Values] = []
        self._begun: list[Values] = []
        self._ended: list[Values] = []
        self._sessions: list[Values] = []

    def load(self, needs: Needs) -> None:
        """Read what is needed; what was known before is forgotten."""
        run = self.connection.execute
        self._threads = {row[0] for row in run(_KNOWN_THREADS, _padded(needs.threads))} if needs.threads else set()
        self._runs = {row[0]: (row[1], row[2]) for row in run(_KNOWN_RUNS, _padded(needs.runs))} if needs.runs else {}
        self._keys = (
            {(row[0], row[1]): (row[2], row[3]) for row in run(_KNOWN_KEYS, _padded(needs.keys))} if needs.keys else {}
        )
        self._lines = _lines(needs.lines, run(_LINES, _padded(needs.lines))) if needs.lines else {}

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

    def holder_of(self, key: tuple[str, str]) -> tuple[str, str] | None:
        """The message and run that a key of a thread was used for."""
        return self._keys.get(key)

    def line(self, thread_id: str) -> Line:
        """The unfinished runs of a thread; it was asked for in the needs."""
        return self._lines[thread_id]

    def add_thread(self, id: str, values: Values) -> None:
        """Add a thread that is not there."""
        self._threads.add(id)
        self._new_threads.append((self._number(), *values))

    def add_message(self, values: Values) -> None:
        """Add a message to a thread that is there."""
        self._new_messages.append((self._number(), *values))

    def add_run(self, id: str, status: str, thread_id: str, owner: str, values: Values) -> None:
        """Add a run to a thread that is there."""
        self._runs[id] = (status, thread_id)
        if (line := self._lines.get(thread_id)) is not None:
            line.waiting[id] = (owner, status)
        self._new_runs.append((self._number(), *values))

    def add_key(self, key: tuple[str, str], holder: tuple[str, str], created_at: float) -> None:
        """Remember what a key was used for."""
        self._keys[key] = holder
        self._new_keys.append((*key, *holder, created_at))

    def begin_run(self, id: str, thread_id: str, started_at: float) -> None:
        """Queued becomes running; the caller has looked at its line."""
        self._runs[id] = ("running", thread_id)
        line = self._lines[thread_id]
        owner, _ = line.waiting[id]
        line.waiting[id] = (owner, "running")
        line.last = HeldRun(id=id, owner=owner)
        self._begun.append((started_at, id))

    def end_run(self, id: str, status: str, values: Values) -> None:
        """Set the end of a run that has none; the caller has looked."""
        thread_id = self._runs[id][1]
        self._runs[id] = (status, thread_id)
        if (line := self._lines.get(thread_id)) is not None:
            line.waiting.pop(id, None)
        self._ended.append((*values, id))

    def set_session(self, thread_id: str, session_id: str) -> None:
        """Remember the runtime's own id of a conversation."""
        if (line := self._lines.get(thread_id)) is not None:
            line.session_id = session_id
        self._sessions.append((session_id, thread_id))

    def add_events(self, drafts: Sequence[Draft]) -> list[Event]:
        """Add events in this order, and give them their ids."""
        added: list[Event] = []
        n = self._last
        for new, data in drafts:
            n += 1
            self._new_events.append((n, new.type, new.time, new.thread_id, new.run_id, new.task_id, data))
            added.append(
                Event(
                    id=event_id(n),
                    type=new.type,
                    time=new.time,
                    data=new.data,
                    thread_id=new.thread_id,
                    run_id=new.run_id,
                    task_id=new.task_id,
                )
            )
        self._last = n
        return added

    def flush(self) -> None:
        """Write what was added, each table at once, in the order in which rows refer to each other."""
        connection, statements = self.connection, self._statements
        for statement, rows in (
            (statements.add_thread, self._new_threads),
            (statements.add_message, self._new_messages),
            (statements.add_run, self._new_runs),
            (statements.add_key, self._new_keys),
            (statements.begin_run, self._begun),
            (statements.end_run, self._ended),
            (statements.set_session, self._sessions),
            (statements.add_event, self._new_events),
        ):
            statement.run_many(connection, rows)
            rows.clear()
        if self._last != self._first:
            statements.set_sequence.run(connection, (self._last,))
            self._first = self._last

    def _number(self) -> int:
        self._last += 1
        return self._last


def _lines(threads: Collection[str], rows: Iterable[Sequence[Any]]) -> dict[str, Line]:
    lines = {thread_id: Line() for thread_id in threads}
    for thread_id, session_id, run_id, owner, status, last, last_owner in rows:
        line = lines[thread_id]
        line.session_id = session_id
        line.waiting[run_id] = (owner, status)
        line.last = None if last is None else HeldRun(id=last, owner=last_owner)
    return lines


def _padded(wanted: Collection[Any]) -> dict[str, list[Any]]:
    """The list, filled up with its last value to one of a few lengths: few lengths are few statements to prepare."""
    values = list(wanted)
    length = next((step for step in _STEPS if step >= len(values)), len(values))
    return {"given": values + values[-1:] * (length - len(values))}
