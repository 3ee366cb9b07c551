"""Events in the database: reading them from any id on, and joining the deltas of a run that ended.

While a run goes on, each `message.delta` is a row. With its end, each sequence of deltas that no other event of
the run interrupts becomes one row, which keeps where its parts were:

    before   n 5 "a"   n 7 "b"   n 9 "cd"                      6 and 8 are events of other runs
    after    n 9 "abcd", first_n 5, parts [5, 1, 2, 1, 2, 2]   number and length; then distance and length of each next

Reading gives the text that the single rows would give from any id on, each piece once and in order; adjacent ones
come as one event. So a reader of the run that saw 7 gets "cd"; a reader of all runs gets 5, 6, 7, 8 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec.json import encode as encode_json
from msgspec.structs import replace
from sqlalchemy import Connection, LargeBinary, Select, and_, bindparam, case, cast, func, select

from toolstead.adapters.storage.rows import event_id, event_number, from_json, pad_list, to_json
from toolstead.adapters.storage.tables import EVENTS, Statements, events, sequence
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import EventPage
from toolstead.types.event import DELTA, Event

LONGEST_SPAN = 10_000
"""How far apart the first and the last number of a joined row may be: it bounds the search for rows that overlap."""

COLUMNS = [*(events.c[name] for name in EVENTS.names), events.c.parts]
MOST_BYTES = 8 << 20
"""Bytes of the events that are read at once."""
SIZE = {
    "sqlite": func.length(cast(events.c.data, LargeBinary)),
    "postgresql": func.octet_length(events.c.data),
}
_POSITION = select(sequence.c.value)
_OF_RUNS = (
    select(
        events.c.n,
        events.c.run_id,
        events.c.thread_id,
        events.c.task_id,
        case((and_(events.c.type == DELTA, events.c.first_n.is_(None)), events.c.data)),
    )
    .where(events.c.run_id.in_(bindparam("given", expanding=True)))
    .order_by(events.c.run_id, events.c.n)
)


def read_position(connection: Connection) -> str:
    """The id up to which everything is committed."""
    return event_id(connection.execute(_POSITION).scalar_one())


def list_events(
    connection: Connection,
    wanted: EventFilter,
    *,
    after: str | None = None,
    until: str | None = None,
    limit: int = 500,
) -> EventPage:
    """Oldest first. Raises NotFoundError for an `after` or an `until` that is no id."""
    first = 0 if after is None else event_number(after)
    last = None if until is None else event_number(until)
    between = [events.c.n > first] if last is None else [events.c.n > first, events.c.n <= last]
    # The sizes first: a driver may read a whole result into memory, and an event may have megabytes.
    sizes = _apply_filter(select(SIZE[connection.dialect.name]), wanted).order_by(events.c.n)
    fitting = count_fitting(connection.execute(sizes.where(*between).limit(limit)).scalars(), limit)
    query = _apply_filter(select(*COLUMNS), wanted).order_by(events.c.n)
    rows = list(connection.execute(query.where(*between).limit(fitting)))
    if len(rows) == fitting > 0:
        last = rows[-1][0]
    if last is not None:
        start = events.c.first_n
        overlapping = query.where(start > last - LONGEST_SPAN, start <= last, events.c.n > last)
        rows += connection.execute(overlapping)
    is_plain = all(row[-1] is None for row in rows)
    found = [create_event(row, row[0]) for row in rows] if is_plain else merge_parts(rows, first, last)[:fitting]
    page = EventPage(found)
    page.is_last = len(found) < fitting
    return page


def count_fitting(sizes: Iterable[int], limit: int, max_bytes: int = MOST_BYTES) -> int:
    """How many a page may have: the limit, unless that would be too many bytes; at least one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if count and total > max_bytes:
            return count
    return limit


def join_deltas(connection: Connection, statements: Statements, run_ids: Sequence[str]) -> None:
    """Make one row of each sequence of these runs' deltas."""
    gone: list[tuple[str, int, int]] = []
    joined: list[tuple[int, str, str, int]] = []
    for run_id, numbers, data in _find_sequences(connection.execute(_OF_RUNS, pad_list(run_ids))):
        parts: list[int] = []
        for n, before, one in zip(numbers, (0, *numbers), data, strict=False):
            parts += (n - before, len(one["text"]))
        whole = {**data[0], "text": "".join(one["text"] for one in data)}
        gone.append((run_id, numbers[0], numbers[-1]))
        joined.append((numbers[0], encode_json(parts).decode(), to_json(whole), numbers[-1]))
    if joined:
        connection.exec_driver_sql(statements.remove_parts, gone)
        connection.exec_driver_sql(statements.join_parts, joined)


def _find_sequences(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, list[int], list[dict[str, Any]]]]:
    """The run, the numbers and the data of two or more deltas that differ in their text alone."""
    numbers: list[int] = []
    texts: list[dict[str, Any]] = []
    kind: tuple[Any, ...] = ()
    for n, run_id, thread_id, task_id, encoded in rows:
        data: dict[str, Any] = {} if encoded is None else from_json(encoded)
        is_text = isinstance(data.get("text"), str)
        before, kind = kind, (run_id, thread_id, task_id, {**data, "text": ""})
        if numbers and (not is_text or kind != before or n - numbers[0] > LONGEST_SPAN):
            if len(numbers) > 1:
                yield before[0], numbers, texts
            numbers, texts = [], []
        if is_text:
            numbers.append(n)
            texts.append(data)
    if len(numbers) > 1:
        yield kind[0], numbers, texts


def merge_parts(rows: Iterable[Sequence[Any]], first: int, last: int | None) -> list[Event]:
    """The events of rows, of which some are joined, in (first, last]; adjacent parts are one event.

    Deltas may be joined between two queries, so that a part is there twice; the first one counts.
    """
    pieces: dict[int, tuple[Sequence[Any], str | None]] = {}
    for row in rows:
        if row[-1] is None:
            pieces.setdefault(row[0], (row, None))
            continue
        for n, text in _split_row(row):
            if n > first and (last is None or n <= last):
                pieces.setdefault(n, (row, text))
    found: list[Event] = []
    in_order = ((n, *pieces[n]) for n in sorted(pieces))
    for _, group in groupby(in_order, lambda piece: id(piece[1])):
        numbers, (row, *_), texts = zip(*group, strict=True)
        event = create_event(row, numbers[-1])
        if texts[0] is not None:
            event = replace(event, data={**event.data, "text": "".join(texts)})
        found.append(event)
    return found


def _split_row(row: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """The number and the text of each part."""
    text: str = from_json(row[EVENTS.names.index("data")])["text"]
    numbers: list[int] = from_json(row[-1])
    n = start = 0
    for distance, length in zip(numbers[::2], numbers[1::2], strict=True):
        n += distance
        yield n, text[start : start + length]
        start += length


def create_event(row: Sequence[Any], n: int) -> Event:
    """The event of a row, under a number."""
    return Event(id=event_id(n), **EVENTS.decode_fields(row[:-1]))


def _apply_filter(query: Select[Any], wanted: EventFilter) -> Select[Any]:
    for name in ("thread_id", "run_id", "task_id"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(events.c[name] == value)
    return query if wanted.types is None else query.where(events.c.type.in_(sorted(wanted.types)))
