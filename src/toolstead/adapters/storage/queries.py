"""The reads, and the writes with statements of their own: functions of a connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Integer, Select, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from toolstead.adapters.storage.rows import StructRows, StructT, storable_text
from toolstead.adapters.storage.tables import (
    APPROVALS,
    MESSAGES,
    PLUGINS,
    RUNS,
    THREADS,
    events,
    idempotency_keys,
    messages,
    plugin_values,
    plugins,
    results,
    runs,
    threads,
)
from toolstead.errors import NotFoundError
from toolstead.orchestrator.store import Accepted, PluginRow
from toolstead.types.run import Run
from toolstead.types.thread import Message, Thread

CHANGEABLE = frozenset({"title", "agent", "runtime", "model", "session_id"})
EXPIRED_TOGETHER = 2_000

# Statements that are asked often are made once: making one costs more than running it.
_BY_ID: dict[StructRows[Any], Select[Any]] = {
    rows: select(rows.table).where(rows.table.c.id == bindparam("id")) for rows in (THREADS, RUNS, APPROVALS)
}
_MESSAGES = select(messages).where(messages.c.thread_id == bindparam("thread")).order_by(messages.c.n)
_LAST_MESSAGES = (
    select(messages)
    .where(messages.c.thread_id == bindparam("thread"))
    .order_by(messages.c.n.desc())
    .limit(bindparam("limit", type_=Integer))
)


def find_by_id(connection: Connection, rows: StructRows[StructT], kind: str, id: str) -> StructT:
    """Raises NotFoundError for this kind of thing."""
    row = connection.execute(_BY_ID[rows], {"id": id}).first()
    if row is None:
        raise NotFoundError(kind, id)
    return rows.decode_row(row)


def list_threads(connection: Connection, limit: int, before: str | None) -> list[Thread]:
    """The newest first. Raises NotFoundError for `before`."""
    wanted = select(threads).order_by(threads.c.n.desc()).limit(limit)
    if before is not None:
        n = connection.execute(select(threads.c.n).where(threads.c.id == before)).scalar()
        if n is None:
            raise NotFoundError("thread", before)
        wanted = wanted.where(threads.c.n < n)
    return [THREADS.decode_row(row) for row in connection.execute(wanted)]


def change_thread(connection: Connection, id: str, changes: Mapping[str, str | None]) -> Thread:
    """Raises NotFoundError."""
    values = {
        name: value if name == "session_id" and value is None else storable_text(value or "")
        for name, value in changes.items()
    }
    if values:
        connection.execute(update(threads).where(threads.c.id == id).values(**values))
    return find_by_id(connection, THREADS, "thread", id)


def remove_thread(connection: Connection, id: str) -> None:
    """With its messages, runs, keys and events. Raises NotFoundError."""
    find_by_id(connection, THREADS, "thread", id)
    of_its_runs = events.c.run_id.in_(select(runs.c.id).where(runs.c.thread_id == id))
    connection.execute(delete(events).where(events.c.thread_id == id))
    connection.execute(delete(events).where(of_its_runs))
    connection.execute(delete(threads).where(threads.c.id == id))  # the rest hangs from it


def list_messages(connection: Connection, thread_id: str, limit: int | None) -> list[Message]:
    """Oldest first; with a limit the newest of them."""
    if limit is None:
        return [MESSAGES.decode_row(row) for row in connection.execute(_MESSAGES, {"thread": thread_id})]
    newest = connection.execute(_LAST_MESSAGES, {"thread": thread_id, "limit": limit}).all()
    return [MESSAGES.decode_row(row) for row in reversed(newest)]


def find_key(connection: Connection, thread_id: str, key: str) -> Accepted | None:
    """What a key of a thread was used for."""
    chosen = (idempotency_keys.c.thread_id == thread_id) & (idempotency_keys.c.key == key)
    row = connection.execute(select(idempotency_keys.c.message_id, idempotency_keys.c.run_id).where(chosen)).first()
    return None if row is None else Accepted(message_id=row[0], run_id=row[1], fresh=False)


def list_runs(connection: Connection, thread_id: str | None, unfinished: bool, limit: int) -> list[Run]:
    """The newest first."""
    wanted = select(runs).order_by(runs.c.n.desc()).limit(limit)
    if thread_id is not None:
        wanted = wanted.where(runs.c.thread_id == thread_id)
    if unfinished:
        wanted = wanted.where(runs.c.ended_at.is_(None))
    return [RUNS.decode_row(row) for row in connection.execute(wanted)]


def unfinished_runs(connection: Connection) -> list[tuple[int, Run]]:
    """All of them with their numbers, oldest first."""
    wanted = select(runs).where(runs.c.ended_at.is_(None)).order_by(runs.c.n)
    return [(row[0], RUNS.decode_row(row)) for row in connection.execute(wanted)]


def last_unfinished_of(connection: Connection, owner: str) -> int:
    """The number of the newest unfinished run of a process; 0 when there is none."""
    mine = (runs.c.owner == owner) & runs.c.ended_at.is_(None)
    return connection.execute(select(func.max(runs.c.n)).where(mine)).scalar() or 0


def put_result(connection: Connection, handle: str, content: bytes) -> None:
    """A handle's content stands for good; one that is there is replaced."""
    _put_row(connection, results, {"handle": handle}, {"content": content, "created_at": time.time()})


def find_result(connection: Connection, handle: str) -> bytes:
    """Raises NotFoundError."""
    content = connection.execute(select(results.c.content).where(results.c.handle == handle)).scalar()
    if content is None:
        raise NotFoundError("result", handle)
    return bytes(content)


def list_plugins(connection: Connection) -> dict[str, PluginRow]:
    """What was set, by plugin."""
    return {row.name: PLUGINS.decode_row(row) for row in connection.execute(select(plugins).order_by(plugins.c.name))}


def replace_plugin(connection: Connection, name: str, before: PluginRow, after: PluginRow) -> bool:
    """Whether what was set was still this, and now is that."""
    chosen = plugins.c.name == name
    # Postgres keeps others from the row until the commit; SQLite has one writer at a time.
    row = connection.execute(select(plugins).where(chosen).with_for_update()).first()
    if (PluginRow() if row is None else PLUGINS.decode_row(row)) != before:
        return False
    if after == PluginRow():
        connection.execute(delete(plugins).where(chosen))
        return True
    values = PLUGINS.encode_values(after)
    if row is not None:
        connection.execute(update(plugins).where(chosen).values(**values))
        return True
    adding = _insert_statement(connection, plugins).values(name=name, **values)
    return connection.execute(adding.on_conflict_do_nothing()).rowcount == 1  # another process may add one meanwhile


def remove_plugin(connection: Connection, name: str) -> bool:
    """Whether anything was set."""
    return connection.execute(delete(plugins).where(plugins.c.name == name)).rowcount > 0


def find_value(connection: Connection, space: str, key: str) -> bytes | None:
    """A value of a space."""
    chosen = (plugin_values.c.space == space) & (plugin_values.c.key == key)
    value = connection.execute(select(plugin_values.c.value).where(chosen)).scalar()
    return None if value is None else bytes(value)


def put_value(connection: Connection, space: str, key: str, value: bytes) -> None:
    """Set or replace it."""
    _put_row(connection, plugin_values, {"space": space, "key": key}, {"value": value})


def remove_value(connection: Connection, space: str, key: str) -> bool:
    """Whether there was one."""
    chosen = (plugin_values.c.space == space) & (plugin_values.c.key == key)
    return connection.execute(delete(plugin_values).where(chosen)).rowcount > 0


def list_keys(connection: Connection, space: str, prefix: str) -> list[str]:
    """Sorted by code points, whatever order the database has."""
    column = plugin_values.c.key
    wanted = select(column).where(plugin_values.c.space == space)
    if prefix:
        # LIKE would ignore case in SQLite.
        wanted = wanted.where(func.substr(column, 1, len(prefix)) == prefix)
    return sorted(connection.execute(wanted).scalars())


def last_expired_event(connection: Connection, before: float) -> int:
    """The number of the newest event that is older: up to it there may be something to delete."""
    return connection.execute(select(func.max(events.c.n)).where(events.c.time < before)).scalar() or 0


def expire_events(connection: Connection, before: float, last: int) -> int:
    """Delete some of what is older and belongs to no unfinished run."""
    unfinished = select(runs.c.id).where(runs.c.ended_at.is_(None))
    free = or_(events.c.run_id.is_(None), events.c.run_id.not_in(unfinished))
    chosen = select(events.c.n).where(events.c.n <= last, events.c.time < before, free).limit(EXPIRED_TOGETHER)
    return connection.execute(delete(events).where(events.c.n.in_(chosen))).rowcount


def expire_results(connection: Connection, before: float) -> int:
    """Delete some of what is older."""
    chosen = select(results.c.handle).where(results.c.created_at < before).limit(EXPIRED_TOGETHER)
    return connection.execute(delete(results).where(results.c.handle.in_(chosen))).rowcount


def expire_keys(connection: Connection, before: float) -> int:
    """Delete what is older and belongs to no unfinished run."""
    unfinished = select(runs.c.id).where(runs.c.ended_at.is_(None))
    old = (idempotency_keys.c.created_at < before) & idempotency_keys.c.run_id.not_in(unfinished)
    return connection.execute(delete(idempotency_keys).where(old)).rowcount


def _put_row(connection: Connection, table: Any, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Insert a row, or change these values of the one that is there."""
    adding = _insert_statement(connection, table).values(**key, **values)
    connection.execute(adding.on_conflict_do_update(index_elements=list(key), set_=values))


def _insert_statement(connection: Connection, table: Any) -> Any:
    """Each database has its own that minds conflicts."""
    insert: Callable[..., Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
    return insert(table)
