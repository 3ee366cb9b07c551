"""The reads, and the writes with statements of their own: functions of a connection.

A command to a run is a row from when it is sent until it is carried out, refused or withdrawn. The process that holds
the run reads those of its name, so one indexed query serves all its runs.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    LargeBinary,
    Select,
    Table,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from toolstead.adapters.storage.files import delete_files
from toolstead.adapters.storage.rows import StructRows, StructT, storable_text
from toolstead.adapters.storage.step_queries import delete_steps_of_thread
from toolstead.adapters.storage.tables import (
    APPROVALS,
    COMMANDS,
    MESSAGES,
    PENDING,
    PLUGINS,
    RESULTS,
    RUNS,
    THREADS,
    approvals,
    events,
    idempotency_keys,
    messages,
    plugin_values,
    plugins,
    run_commands,
    runs,
    threads,
)
from toolstead.adapters.storage.task_queries import delete_tasks
from toolstead.errors import NotFoundError
from toolstead.orchestrator.log_store import MessagePage
from toolstead.orchestrator.store import Accepted, RunCommand
from toolstead.types.approval import Approval
from toolstead.types.plugin_row import PluginRow
from toolstead.types.result import KeptResult
from toolstead.types.run import Run
from toolstead.types.thread import ListedThread, Message, Thread, ThreadFilter

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
_MESSAGES_BETWEEN = (
    select(messages)
    .where(messages.c.thread_id == bindparam("thread"))
    .where(messages.c.n > bindparam("first"), messages.c.n <= bindparam("last"))
    .order_by(messages.c.n)
)
MESSAGE_SIZE = {
    "sqlite": func.length(cast(messages.c.content, LargeBinary)),
    "postgresql": func.octet_length(messages.c.content),
}
_MESSAGE_SIZES = {
    dialect: select(messages.c.n, size)
    .where(messages.c.thread_id == bindparam("thread"), messages.c.n > bindparam("first"))
    .order_by(messages.c.n)
    .limit(bindparam("limit", type_=Integer))
    for dialect, size in MESSAGE_SIZE.items()
}
_OF_OWNER = (
    select(run_commands)
    .where(run_commands.c.owner == bindparam("owner"))
    .order_by(run_commands.c.created_at, run_commands.c.id)
)
_UNFINISHED = select(runs.c.id).where(runs.c.ended_at.is_(None))


def find_by_id(connection: Connection, rows: StructRows[StructT], kind: str, id: str) -> StructT:
    """Raises NotFoundError for this kind of thing."""
    row = connection.execute(_BY_ID[rows], {"id": id}).first()
    if row is None:
        raise NotFoundError(kind, id)
    return rows.decode_row(row)


_LAST_RUN = select(func.max(runs.c.n)).where(runs.c.thread_id == threads.c.id).correlate(threads).scalar_subquery()
_USED_N = func.coalesce(_LAST_RUN, threads.c.n)
"""A thread is as new as its last run; numbers of both are from one sequence."""
_USED_AT = func.coalesce(runs.c.ended_at, runs.c.started_at, runs.c.created_at, threads.c.created_at)


def list_threads(
    connection: Connection, wanted: ThreadFilter | None = None, *, limit: int = 100, before: str | None = None
) -> list[ListedThread]:
    """Those that were used last come first. Raises NotFoundError for `before`."""
    wanted = wanted or ThreadFilter()
    chosen = select(threads, runs.c.status, runs.c.agent, _USED_AT).select_from(
        threads.outerjoin(runs, runs.c.n == _LAST_RUN)
    )
    if wanted.project is not None:
        chosen = chosen.where(threads.c.project == wanted.project)
    if wanted.are_roots:
        chosen = chosen.where(threads.c.parent_thread_id.is_(None))
    if wanted.prefix:
        chosen = chosen.where(func.substr(threads.c.id, 1, len(wanted.prefix)) == wanted.prefix)  # LIKE has no case
    if before is not None:
        n = connection.execute(select(_USED_N).select_from(threads).where(threads.c.id == before)).scalar()
        if n is None:
            raise NotFoundError("thread", before)
        chosen = chosen.where(n > _USED_N)
    found = connection.execute(chosen.order_by(_USED_N.desc()).limit(limit))
    return [
        ListedThread(**THREADS.decode_fields(row), status=status, answered_by=agent or "", used_at=at)
        for *row, status, agent, at in found
    ]


def update_thread(connection: Connection, id: str, **changes: str | None) -> Thread:
    """Change what is `CHANGEABLE`. Raises NotFoundError."""
    if unknown := changes.keys() - CHANGEABLE:
        can = ", ".join(sorted(CHANGEABLE))
        raise ValueError(f"a thread's {', '.join(sorted(unknown))} cannot be changed; {can} can")
    values = {
        name: value if name == "session_id" and value is None else storable_text(value or "")
        for name, value in changes.items()
    }
    if values:
        connection.execute(update(threads).where(threads.c.id == id).values(**values))
    return find_by_id(connection, THREADS, "thread", id)


def list_thread_tree(connection: Connection, id: str) -> list[str]:
    """The ids of a thread and of every thread below it."""
    tree = select(literal(id).label("id")).cte("tree", recursive=True)
    tree = tree.union(select(threads.c.id).join(tree, threads.c.parent_thread_id == tree.c.id))
    return list(connection.execute(select(tree.c.id)).scalars())


def delete_thread(connection: Connection, id: str) -> None:
    """With the threads below it, and the messages, runs, steps, keys, events, approvals, tasks and shared files of all.

    Raises NotFoundError.
    """
    find_by_id(connection, THREADS, "thread", id)
    for one in list_thread_tree(connection, id):
        delete_files(connection, one)
        delete_tasks(connection, one)
        delete_steps_of_thread(connection, one)
        connection.execute(delete(events).where(events.c.thread_id == one))
        connection.execute(delete(events).where(events.c.run_id.in_(select(runs.c.id).where(runs.c.thread_id == one))))
        connection.execute(delete(approvals).where(approvals.c.thread_id == one))
        connection.execute(delete(threads).where(threads.c.id == one))  # the rest hangs from it


def list_messages(connection: Connection, thread_id: str, *, limit: int | None = None) -> list[Message]:
    """Oldest first; with a limit the newest of them."""
    if limit is None:
        return [MESSAGES.decode_row(row) for row in connection.execute(_MESSAGES, {"thread": thread_id})]
    newest = connection.execute(_LAST_MESSAGES, {"thread": thread_id, "limit": limit}).all()
    return [MESSAGES.decode_row(row) for row in reversed(newest)]


def list_message_page(
    connection: Connection,
    thread_id: str,
    *,
    after: str | None = None,
    limit: int = 200,
    max_bytes: int = 8 << 20,
) -> MessagePage:
    """The next messages, oldest first. Raises NotFoundError for `after`."""
    first = 0
    if after is not None:
        of_thread = (messages.c.thread_id == thread_id) & (messages.c.id == after)
        found = connection.execute(select(messages.c.n).where(of_thread)).scalar()
        if found is None:
            raise NotFoundError("message", after)
        first = found
    # The sizes first: a driver may read a whole result into memory, and a message may have megabytes.
    parameters = {"thread": thread_id, "first": first, "limit": limit + 1}
    last, count, total = first, 0, 0
    with connection.execute(_MESSAGE_SIZES[connection.dialect.name], parameters) as sizes:
        for n, size in sizes:
            total += size
            if count == limit or (count and total > max_bytes):
                has_more = True
                break
            last, count = n, count + 1
        else:
            has_more = False
    rows = connection.execute(_MESSAGES_BETWEEN, {"thread": thread_id, "first": first, "last": last})
    return MessagePage(messages=[MESSAGES.decode_row(row) for row in rows], has_more=has_more)


def find_accepted(connection: Connection, thread_id: str, idempotency_key: str) -> Accepted | None:
    """What a key of a thread was used for."""
    chosen = (idempotency_keys.c.thread_id == thread_id) & (idempotency_keys.c.key == idempotency_key)
    row = connection.execute(select(idempotency_keys.c.message_id, idempotency_keys.c.run_id).where(chosen)).first()
    return None if row is None else Accepted(message_id=row[0], run_id=row[1], fresh=False)


def list_runs(
    connection: Connection, *, thread_id: str | None = None, unfinished: bool = False, limit: int = 100
) -> list[Run]:
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


def last_unfinished(connection: Connection, owner: str) -> int:
    """The number of the newest unfinished run or pending approval of a process; 0 when there is none."""
    of_runs = select(func.max(runs.c.n)).where(runs.c.owner == owner, runs.c.ended_at.is_(None))
    of_approvals = select(func.max(approvals.c.n)).where(approvals.c.owner == owner, PENDING)
    return max(connection.execute(newest).scalar() or 0 for newest in (of_runs, of_approvals))


def pending_approvals(connection: Connection) -> list[tuple[int, Approval]]:
    """All of them with their numbers, oldest first."""
    wanted = select(approvals).where(PENDING).order_by(approvals.c.n)
    return [(row[0], APPROVALS.decode_row(row)) for row in connection.execute(wanted)]


def pending_ids(connection: Connection, owner: str) -> frozenset[str]:
    """The ids of a process's questions that have no decision."""
    return frozenset(connection.execute(select(approvals.c.id).where(PENDING, approvals.c.owner == owner)).scalars())


def add_command(connection: Connection, command: RunCommand) -> bool:
    """Keep it, unless its run has ended; the run's owner is the one to read it."""
    values = COMMANDS.encode_values(command)
    given = [literal(value, run_commands.c[name].type) for name, value in values.items()]
    found = select(*given, runs.c.owner).where(runs.c.id == command.run_id, runs.c.ended_at.is_(None))
    adding = insert(run_commands).from_select([*values, "owner"], found)
    return connection.execute(adding).rowcount == 1


def list_commands(connection: Connection, owner: str) -> list[RunCommand]:
    """The commands to a process's runs, oldest first."""
    return [COMMANDS.decode_row(row) for row in connection.execute(_OF_OWNER, {"owner": owner})]


def has_command(connection: Connection, id: str) -> bool:
    """Whether it is there."""
    return connection.execute(select(run_commands.c.id).where(run_commands.c.id == id)).first() is not None


def remove_command(connection: Connection, id: str) -> bool:
    """Whether it was there."""
    return connection.execute(delete(run_commands).where(run_commands.c.id == id)).rowcount == 1


def keep_result(connection: Connection, handle: str, result: KeptResult) -> None:
    """A handle's content stands for good; one that is there is replaced."""
    _put_row(
        connection, RESULTS.table, {"handle": handle}, {**RESULTS.encode_values(result), "created_at": time.time()}
    )


def read_result(connection: Connection, handle: str) -> KeptResult:
    """Raises NotFoundError."""
    row = connection.execute(select(RESULTS.table).where(RESULTS.table.c.handle == handle)).first()
    if row is None:
        raise NotFoundError("result", handle)
    return RESULTS.decode_row(row)


def list_plugins(connection: Connection) -> dict[str, PluginRow]:
    """What was set, by plugin."""
    return {row.name: PLUGINS.decode_row(row) for row in connection.execute(select(plugins).order_by(plugins.c.name))}


def replace_plugin(connection: Connection, name: str, before: PluginRow, after: PluginRow) -> bool:
    """Whether what was set was still this, and now is that."""
    row = connection.execute(select(plugins).where(plugins.c.name == name)).first()
    if (PluginRow() if row is None else PLUGINS.decode_row(row)) != before:
        return False
    reset_plugin(connection, name)
    if after != PluginRow():
        connection.execute(insert(plugins).values(name=name, **PLUGINS.encode_values(after)))
    return True


def reset_plugin(connection: Connection, name: str) -> bool:
    """Whether anything was set."""
    return connection.execute(delete(plugins).where(plugins.c.name == name)).rowcount > 0


def get_value(connection: Connection, space: str, key: str) -> bytes | None:
    """A value of a space."""
    chosen = (plugin_values.c.space == space) & (plugin_values.c.key == key)
    value = connection.execute(select(plugin_values.c.value).where(chosen)).scalar()
    return None if value is None else bytes(value)


def set_value(connection: Connection, space: str, key: str, value: bytes) -> None:
    """Set or replace it."""
    _put_row(connection, plugin_values, {"space": space, "key": key}, {"value": value})


def delete_value(connection: Connection, space: str, key: str) -> bool:
    """Whether there was one."""
    chosen = (plugin_values.c.space == space) & (plugin_values.c.key == key)
    return connection.execute(delete(plugin_values).where(chosen)).rowcount > 0


def list_keys(connection: Connection, space: str, prefix: str = "") -> list[str]:
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
    free = or_(events.c.run_id.is_(None), events.c.run_id.not_in(_UNFINISHED))
    chosen = select(events.c.n).where(events.c.n <= last, events.c.time < before, free).limit(EXPIRED_TOGETHER)
    return connection.execute(delete(events).where(events.c.n.in_(chosen))).rowcount


def expire_results(connection: Connection, before: float) -> int:
    """Delete some of what is older."""
    results = RESULTS.table
    chosen = select(results.c.handle).where(results.c.created_at < before).limit(EXPIRED_TOGETHER)
    return connection.execute(delete(results).where(results.c.handle.in_(chosen))).rowcount


def expire_keys(connection: Connection, before: float) -> int:
    """Delete what is older and belongs to no unfinished run, and likewise commands, which are not counted."""
    old = (run_commands.c.created_at < before) & run_commands.c.run_id.not_in(_UNFINISHED)
    connection.execute(delete(run_commands).where(old))
    old = (idempotency_keys.c.created_at < before) & idempotency_keys.c.run_id.not_in(_UNFINISHED)
    return connection.execute(delete(idempotency_keys).where(old)).rowcount


def expire_approvals(connection: Connection, before: float) -> int:
    """Delete what was decided longer ago."""
    return connection.execute(delete(approvals).where(approvals.c.decided_at < before)).rowcount


def _put_row(connection: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Insert a row in place of the one that has its key, if there is one; writers take turns (`tables.sequence`)."""
    connection.execute(delete(table).where(*(table.c[name] == value for name, value in key.items())))
    connection.execute(insert(table).values(**key, **values))
