"""One batch of writes while it is being written: what it must know first, and the rows it makes.

Operations (`operations`) are plain Python between two visits to the database: `load` reads at once
what all of them need, they decide and leave rows here, and `flush` writes each table at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    bindparam,
    func,
    select,
    tuple_,
    union_all,
)

from toolstead.adapters.storage import tables
from toolstead.adapters.storage.events import join_deltas
from toolstead.adapters.storage.known_tasks import KnownTasks
from toolstead.adapters.storage.rows import StructRows, Values, event_id, pad_list
from toolstead.adapters.storage.tables import (
    ATTEMPTS,
    BEGIN,
    END,
    EVENTS,
    KEYS,
    RUNS,
    SET_SESSION,
    STEPS,
    THREADS,
    Statements,
    UsedKey,
    Written,
)
from toolstead.orchestrator.store import Ending, HeldRun
from toolstead.types.event import Event, NewEvent
from toolstead.types.run import Run
from toolstead.types.step import StepBatch

T = TypeVar("T")
Draft = tuple[NewEvent, Values]
"""An event with its row."""

_given: BindParameter[Any] = bindparam("given", expanding=True)
_KNOWN_THREADS = select(tables.threads.c.id).where(tables.threads.c.id.in_(_given))
_KNOWN_RUNS = select(tables.runs.c.id, tables.runs.c.status, tables.runs.c.thread_id).where(
    tables.runs.c.id.in_(_given)
)
_KEY: ColumnElement[Any] = tuple_(tables.idempotency_keys.c.thread_id, tables.idempotency_keys.c.key)
_KNOWN_KEYS = select(tables.idempotency_keys).where(_KEY.in_(_given))

# The runs of a task are counted by the task; those that a plugin started belong to none.
_OWN_CHILD = (tables.runs.c.attempt == 1) & tables.runs.c.task_id.is_(None) & tables.runs.c.parent_run_id.is_not(None)
_CHILDREN, _DESCENDANTS = (
    union_all(
        select(of_runs, func.count()).where(of_runs.in_(_given), _OWN_CHILD).group_by(of_runs),
        select(of_tasks, func.count()).where(of_tasks.in_(_given)).group_by(of_tasks),
    )
    for of_runs, of_tasks in (
        (tables.runs.c.parent_run_id, tables.tasks.c.parent_run_id),
        (tables.runs.c.root_run_id, tables.tasks.c.root_run_id),
    )
)

_waits, _before, _started = tables.runs.alias("waits"), tables.runs.alias("before"), tables.runs.alias("started")
_LAST_STARTED = (
    select(_started.c.n)
    .where(_started.c.thread_id == tables.threads.c.id, _started.c.started_at.is_not(None))
    .order_by(_started.c.n.desc())
    .limit(1)
    .scalar_subquery()
)
_HAS_RESULTS = (
    select(tables.tasks.c.id)
    .where(
        tables.tasks.c.parent_thread_id == tables.threads.c.id,
        tables.tasks.c.outcome.is_not(None),
        tables.tasks.c.delivered_at.is_(None),
    )
    .correlate(tables.threads)
    .exists()
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
        _HAS_RESULTS,
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
        has_results: Whether results of tasks that it delegated may wait for a turn.
    """

    session_id: str | None = None
    waiting: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    last: HeldRun | None = None
    has_results: bool = False

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
        known: Tasks and budgets.
    """

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self._connection = connection
        self.known = KnownTasks(connection, statements)
        self._statements = statements
        self.first = self.last = self._flushed = connection.exec_driver_sql(statements.lock_sequence).scalar_one()
        self.events: list[Event] = []
        self.load()
        self._rows: dict[Written, list[Values]] = {written: [] for written in tables.WRITTEN}
        self._joining: list[str] = []

    @property
    def connection(self) -> Connection:
        """For statements of an operation's own, which see every change of tasks before them, and may make more."""
        self.known.forget_tasks()
        return self._connection

    def find_in_runs(self, query: Executable, **values: str) -> CursorResult[Any]:
        """Read what has nothing to do with tasks; runs that end or begin in this batch are as they were."""
        return self._connection.execute(query, values)

    def load(
        self,
        *,
        threads: Collection[str] = (),
        runs: Collection[str] = (),
        keys: Collection[tuple[str, str]] = (),
        queues: Collection[str] = (),
        families: Collection[str] = (),
        claimed: Collection[str] = (),
        shares: Collection[str] = (),
        roots: Collection[str] = (),
    ) -> None:
        """Read what the next operations must know; what was known before is forgotten."""
        self.known.load(claimed=claimed, shares=shares, roots=roots)
        self.threads = {row[0] for row in self._find_rows(_KNOWN_THREADS, threads)}
        self.runs = {row[0]: (row[1], row[2]) for row in self._find_rows(_KNOWN_RUNS, runs)}
        used = map(KEYS.decode_row, self._find_rows(_KNOWN_KEYS, keys))
        self.keys: dict[tuple[str, str | None], UsedKey] = {(one.thread_id, one.key): one for one in used}
        self.queues = {thread_id: ThreadQueue() for thread_id in queues}
        for thread_id, session_id, run_id, owner, status, last, last_owner, results in self._find_rows(_QUEUES, queues):
            queue = self.queues[thread_id]
            queue.session_id, queue.has_results = session_id, bool(results)
            queue.waiting[run_id] = (owner, status)
            queue.last = None if last is None else HeldRun(id=last, owner=last_owner)
        self.children: Counter[str | None] = Counter()
        self.descendants: Counter[str | None] = Counter()
        for counts, query in ((self.children, _CHILDREN), (self.descendants, _DESCENDANTS)):
            for above, number in self._find_rows(query, families):
                counts[above] += number

    def _find_rows(self, query: Executable, wanted: Collection[Any]) -> Iterable[Sequence[Any]]:
        return self._connection.execute(query, pad_list(wanted)) if wanted else ()

    def add_row(self, rows: StructRows[Any], values: Values) -> None:
        """Add a row, with the next number; the thread it belongs to is there."""
        self.last += 1
        self._rows[rows].append((self.last, *values))

    def add_attempt(self, values: Values) -> None:
        """Add the row of a reviewed attempt, which has no number."""
        self._rows[ATTEMPTS].append(values)

    def write_rows(self, written: Written) -> None:
        """Write those rows of one kind that were added: the statements of later operations must see them."""
        if rows := self._rows[written]:
            self._connection.exec_driver_sql(self._statements.write[written], rows)
            rows.clear()

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
        if run.parent_run_id is not None and run.attempt == 1 and run.task_id is None:
            self.children[run.parent_run_id] += 1
            self.descendants[run.root_run_id] += 1
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
        rows = self._rows[EVENTS]
        for n, (new, values) in enumerate(drafts, self.last + 1):
            rows.append((n, *values))
            added.append(
                Event(  # `structs.asdict` would take 0.7 µs instead of 0.2, for every event
                    id=event_id(n),
                    type=new.type,
                    time=new.time,
                    data=new.data,
                    thread_id=new.thread_id,
                    run_id=new.run_id,
                    task_id=new.task_id,
                )
            )
        self.last += len(added)
        self.events += added
        return added

    def add_steps(self, rows: Iterable[Values]) -> None:
        """Add steps; those of a run that is not there are not written."""
        self._rows[STEPS].extend(rows)

    def flush(self) -> None:
        """Write what was added, each table at once; then join the deltas of the runs that ended."""
        for written in self._rows:
            self.write_rows(written)
        self.known.write()
        if self._joining:
            join_deltas(self._connection, self._statements, self._joining)
            self._joining.clear()
        if self.last != self._flushed:
            self._connection.exec_driver_sql(self._statements.set_sequence, (self.last,))
            self._flushed = self.last


@dataclass(slots=True, kw_only=True)
class Operation(Generic[T]):
    """A write that shares its transaction, and its visits to the database, with others.

    Attributes:
        apply: Decides, and leaves rows.
        threads: Threads of which it must know whether they are there.
        runs: Runs whose state it must know.
        keys: Keys of threads of which it must know what they were used for.
        queues: Threads whose unfinished runs it must know.
        families: Runs whose children and descendants it must count.
        claimed: Tasks whose claim it checks.
        shares: Runs whose share of a budget it changes.
        roots: Trees whose budget it changes.
        is_direct: Whether it runs statements that need the rows of the operations before it, and that the operations
            after it must see.
    """

    apply: Callable[[Ledger], T]
    threads: Iterable[str] = ()
    runs: Iterable[str] = ()
    keys: Iterable[tuple[str, str]] = ()
    queues: Iterable[str] = ()
    families: Iterable[str] = ()
    claimed: Iterable[str] = ()
    shares: Iterable[str] = ()
    roots: Iterable[str] = ()
    is_direct: bool = False


def encode_events(events: Sequence[NewEvent]) -> list[Draft]:
    """Events with their rows."""
    return [(event, EVENTS.encode_row(event)) for event in events]


def encode_steps(batches: Sequence[StepBatch]) -> list[Values]:
    """Steps as rows; the run's id comes last, as the statement takes it."""
    return [(*others, run_id) for run_id, *others in map(STEPS.encode_row, batches)]
