"""The reads for people: runs in lists and trees, pages of the event log and of a thread, from the newest on.

A page of the event log is found in two steps: the numbers of its rows, from indexes alone, then the rows. The runs of a
tree have a row of the index each, and the page is the newest of what each of them gives.

Where types or a tool are wanted, no index has them. So a page looks at most at `LOOKED_AT` events that fit otherwise,
and goes on where that ended: each page costs the same, and an index for it would slow down every event that is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.json import encode as encode_json
from sqlalchemy import ColumnElement, Connection, bindparam, func, literal, select, true, union_all

from toolstead.adapters.storage.events import (
    COLUMNS,
    LONGEST_SPAN,
    SIZE,
    count_fitting,
    create_event,
    merge_parts,
    read_position,
)
from toolstead.adapters.storage.queries import MESSAGE_SIZE
from toolstead.adapters.storage.rows import event_id, event_number, pad_list
from toolstead.adapters.storage.tables import MESSAGES, RUNS, events, messages, runs, tasks, threads
from toolstead.errors import NotFoundError
from toolstead.orchestrator.log_store import MOST_IN_TREE, LogFilter, LogPage, MessagePage, RunFilter
from toolstead.types.event import Event
from toolstead.types.run import ListedRun

BEGINNING = 300
"""Characters of a run's prompt and result in a list."""
LOOKED_AT = 20_000
"""Events that a page looks at in search of types or of a tool."""
NAMING_TOOLS = frozenset({"tool_use", "tool_result", "approval.requested"})
"""Types of events whose `name` is that of a tool."""

_CUT = frozenset({"prompt", "result"})
_LISTED = [func.substr(one, 1, BEGINNING + 1) if one.name in _CUT else one for one in runs.c]
_POSITION_OF = {"sqlite": func.instr, "postgresql": func.strpos}
_ROWS = select(*COLUMNS).where(events.c.n.in_(bindparam("given", expanding=True))).order_by(events.c.n)


def list_run_page(
    connection: Connection, wanted: RunFilter, *, limit: int = 50, before: str | None = None
) -> list[ListedRun]:
    """The newest first. Raises NotFoundError for `before`."""
    # The numbers first: sorting whole rows of a large project takes twenty times as long.
    chosen = select(runs.c.n).order_by(runs.c.n.desc()).limit(limit)
    if wanted.project is not None:
        chosen = chosen.join(threads, threads.c.id == runs.c.thread_id).where(threads.c.project == wanted.project)
    if wanted.thread_id is not None:
        chosen = chosen.where(runs.c.thread_id == wanted.thread_id)
    if wanted.status is not None:
        chosen = chosen.where(runs.c.status == wanted.status)
    if wanted.is_active is not None:
        chosen = chosen.where(runs.c.ended_at.is_(None) if wanted.is_active else runs.c.ended_at.is_not(None))
    if wanted.are_roots:
        chosen = chosen.where(runs.c.parent_run_id.is_(None))
    if before is not None:
        n = connection.execute(select(runs.c.n).where(runs.c.id == before)).scalar()
        if n is None:
            raise NotFoundError("run", before)
        chosen = chosen.where(runs.c.n < n)
    rows = connection.execute(select(*_LISTED).where(runs.c.n.in_(chosen)).order_by(runs.c.n.desc()))
    return [_list_run(row) for row in rows]


def find_root(connection: Connection, id: str) -> str:
    """The id of the root above a run; one that no run has is a root's."""
    return connection.execute(select(runs.c.root_run_id).where(runs.c.id == id)).scalar() or id


def list_run_tree(
    connection: Connection, root: str, *, project: str | None = None, limit: int = MOST_IN_TREE
) -> list[ListedRun]:
    """The root and the runs below it, oldest first."""
    wanted = select(*_LISTED).where((runs.c.root_run_id == root) | (runs.c.id == root))
    if project is not None:
        wanted = wanted.join(threads, threads.c.id == runs.c.thread_id).where(threads.c.project == project)
    return [_list_run(row) for row in connection.execute(wanted.order_by(runs.c.n).limit(limit))]


def _list_run(row: Sequence[Any]) -> ListedRun:
    fields = RUNS.decode_fields(row)
    for name in _CUT:
        if fields[name] is not None and len(fields[name]) > BEGINNING:
            fields[name] = f"{fields[name][:BEGINNING]}…"
    return ListedRun(**{**fields, "root_run_id": fields["root_run_id"] or fields["id"]})


def read_event_log(
    connection: Connection,
    wanted: LogFilter,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = 200,
) -> LogPage:
    """The newest events, or the newest before an id, or the oldest after one. Raises NotFoundError for no id."""
    search = _EventSearch(connection, wanted, limit)
    if after is not None:
        return search.read_after(event_number(after))
    if before is not None:
        return search.read_before(event_number(before))
    position = read_position(connection)  # before the events: what comes after it is not in the page
    page = search.read_before(event_number(position) + 1)
    return LogPage(events=page.events, before=page.before, after=position)


class _EventSearch:
    """Looks for one page of events."""

    def __init__(self, connection: Connection, wanted: LogFilter, limit: int) -> None:
        self._connection, self._limit = connection, limit
        self._tool = wanted.tool
        given = [(events.c[name], getattr(wanted, name)) for name in ("thread_id", "run_id", "task_id")]
        plain = [column == value for column, value in given if value is not None]
        self._branches = [[*plain, of_tree] for of_tree in _select_tree(wanted.root_run_id)]
        types = wanted.types
        self._further: list[ColumnElement[bool]] = []
        if wanted.tool is not None:
            types = NAMING_TOOLS if types is None else types & NAMING_TOOLS
            said = f'"name":{encode_json(wanted.tool).decode()}'
            self._further.append(_POSITION_OF[connection.dialect.name](events.c.data, said) > 0)
        if types is not None:
            self._further.append(events.c.type.in_(sorted(types)))

    def read_before(self, end: int) -> LogPage:
        """The newest events of lower numbers."""
        floor = self._find_bound(events.c.n < end, is_newest=True)
        below = events.c.n < end if floor is None else (events.c.n < end) & (events.c.n > floor)
        numbers = self._choose(below, is_newest=True)
        fitting = self._count_fitting(numbers)
        first = numbers[fitting - 1] if len(numbers) > fitting > 0 else (floor or 0) + 1
        found = self._read(numbers[:fitting], first - 1, end - 1)
        if len(found) > self._limit:  # joined rows whose parts alternate
            first = event_number(found[-self._limit - 1].id) + 1
            found = found[-self._limit :]
        return LogPage(events=self._keep_named(found), before=event_id(first) if first > 1 else None)

    def read_after(self, start: int) -> LogPage:
        """The oldest events of higher numbers."""
        last = event_number(read_position(self._connection))
        top = self._find_bound(events.c.n > start, is_newest=False)
        last = last if top is None else min(top - 1, last)
        numbers = self._choose((events.c.n > start) & (events.c.n <= last), is_newest=False)
        fitting = self._count_fitting(numbers)
        last = numbers[fitting - 1] if len(numbers) > fitting > 0 else last
        found = self._read(numbers[:fitting], start, last)
        if len(found) > self._limit:
            found = found[: self._limit]
            last = event_number(found[-1].id)
        return LogPage(events=self._keep_named(found), after=event_id(max(start, last)))

    def _find_bound(self, between: ColumnElement[bool], *, is_newest: bool) -> int | None:
        """The number of the first event that this page does not look at; None where it may look at all."""
        if not self._further:
            return None
        order = events.c.n.desc() if is_newest else events.c.n
        bounds: list[int] = []
        for branch in self._branches:
            far = select(events.c.n).where(*branch, between).order_by(order).offset(LOOKED_AT).limit(1)
            bounds += self._connection.execute(far).scalars()
        return (max if is_newest else min)(bounds, default=None)

    def _choose(self, between: ColumnElement[bool], *, is_newest: bool) -> list[int]:
        """The numbers of the next rows, and of one more where there is one."""
        order = events.c.n.desc() if is_newest else events.c.n
        found: set[int] = set()
        for branch in self._branches:
            nearest = select(events.c.n).where(*branch, between, *self._further).order_by(order)
            found.update(self._connection.execute(nearest.limit(self._limit + 1)).scalars())
        return sorted(found, reverse=is_newest)[: self._limit + 1]

    def _count_fitting(self, numbers: Sequence[int]) -> int:
        """How many of these rows are in the page."""
        if not numbers:
            return 0
        size = SIZE[self._connection.dialect.name]
        sizes_of = select(events.c.n, size).where(events.c.n.in_(bindparam("given", expanding=True)))
        rows = self._connection.execute(sizes_of, pad_list(numbers))
        sizes: dict[int, int] = {n: bytes_ for n, bytes_ in rows}  # noqa: C416 - a result has keys(), so dict() takes it for a mapping
        return count_fitting((sizes.get(n, 0) for n in numbers[: self._limit]), min(self._limit, len(numbers)))

    def _read(self, numbers: Sequence[int], first: int, last: int) -> list[Event]:
        """The events of these rows, with what other rows have between two numbers: joined deltas that end later."""
        rows: list[Any] = []
        if numbers:
            rows += self._connection.execute(_ROWS, pad_list(numbers))
        start = events.c.first_n
        for branch in self._branches:
            overlapping = select(*COLUMNS).where(*branch, *self._further, start <= last, start > last - LONGEST_SPAN)
            rows += self._connection.execute(overlapping.where(events.c.n > last))
        if all(row[-1] is None for row in rows):
            return [create_event(row, row[0]) for row in sorted(rows, key=lambda row: row[0])]
        return merge_parts(rows, first, last)

    def _keep_named(self, found: list[Event]) -> list[Event]:
        """Without events that only mention the name of the tool."""
        return found if self._tool is None else [one for one in found if one.data.get("name") == self._tool]


def _select_tree(root: str | None) -> list[ColumnElement[bool]]:
    """Conditions of which each has an index: one of the events of a tree fits one of them."""
    if root is None:
        return [true()]
    of_tree = union_all(select(runs.c.id).where(runs.c.root_run_id == root), select(literal(root)))
    return [
        events.c.run_id.in_(of_tree),
        events.c.task_id.in_(select(tasks.c.id).where(tasks.c.root_run_id == root)),
    ]


def list_last_messages(
    connection: Connection,
    thread_id: str,
    *,
    before: str | None = None,
    limit: int = 200,
    max_bytes: int = 8 << 20,
) -> MessagePage:
    """The last messages, or the last before one of them, oldest first. Raises NotFoundError for `before`."""
    of_thread = messages.c.thread_id == thread_id
    earlier = of_thread
    if before is not None:
        n = connection.execute(select(messages.c.n).where(of_thread, messages.c.id == before)).scalar()
        if n is None:
            raise NotFoundError("message", before)
        earlier = of_thread & (messages.c.n < n)
    size = MESSAGE_SIZE[connection.dialect.name]
    newest = select(messages.c.n, size).where(earlier).order_by(messages.c.n.desc()).limit(limit + 1)
    sizes = connection.execute(newest).all()
    fitting = count_fitting((size for _, size in sizes[:limit]), min(limit, len(sizes)), max_bytes)
    if not fitting:
        return MessagePage(messages=[], has_more=False)
    rows = connection.execute(
        select(messages).where(earlier, messages.c.n >= sizes[fitting - 1][0]).order_by(messages.c.n)
    )
    return MessagePage(messages=[MESSAGES.decode_row(row) for row in rows], has_more=len(sizes) > fitting)
