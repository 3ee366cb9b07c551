"""The store, over SQLite or Postgres: every method of the port, in terms of operations and queries."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from toolstead.adapters.installing import install_command
from toolstead.adapters.storage import approvals, queries, run_commands
from toolstead.adapters.storage.address import parse_address
from toolstead.adapters.storage.approvals import add_approval, resolve_approvals
from toolstead.adapters.storage.events import list_events, read_position
from toolstead.adapters.storage.operations import (
    Direct,
    accept_message,
    add_message,
    add_thread,
    append_events,
    begin_run,
    end_runs,
)
from toolstead.adapters.storage.process_locks import OWNER
from toolstead.adapters.storage.tables import APPROVALS, RUNS, THREADS
from toolstead.adapters.storage.writer import DatabaseDriver, Writer
from toolstead.errors import StorageError
from toolstead.orchestrator.store import (
    Accepted,
    Begun,
    Behind,
    Ending,
    EventFilter,
    OnCommit,
    PluginRow,
    Resolution,
    RunCommand,
    Store,
)
from toolstead.types.approval import Approval
from toolstead.types.event import Event, NewEvent
from toolstead.types.run import Run
from toolstead.types.thread import Message, Thread

PATIENCE_SECONDS = 10.0
EXPIRABLE = frozenset({"events", "results", "keys", "approvals"})

T = TypeVar("T")


async def open_store(
    url_or_path: str | Path,
    *,
    owner: str | None = None,
    locks: Path | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Store:
    """Open a database, bring it to this version, and be known as alive from here on.

    Args:
        url_or_path: A file, `sqlite:///PATH`, or `postgresql://USER:PASSWORD@HOST/NAME`.
        owner: This process, as runs will name it; two that are alive cannot share one. Unique unless given.
        locks: The folder of the processes' locks, for SQLite; `locks` beside the file unless given.
        patience: After how many seconds of waiting for another writer a write fails.

    Raises:
        StorageError: It cannot be opened; the message says why, and what to do.
    """
    address = parse_address(url_or_path)
    owner = owner or f"{os.getpid()}-{secrets.token_hex(8)}"
    if not OWNER.fullmatch(owner):
        raise StorageError(f"the owner {owner!r} must be up to 100 letters, digits, dots, dashes and underscores")
    if address.path is not None:
        from toolstead.adapters.storage.sqlite import SqliteDatabase

        database = SqliteDatabase(address.path, locks or address.path.parent / "locks", owner, patience)
    else:
        try:
            from toolstead.adapters.storage.postgres import PostgresDatabase
        except ModuleNotFoundError as error:
            raise StorageError(
                f"{address.shown} needs the Postgres driver, which is not installed ({error.name} is missing);"
                f" install it with: {install_command('postgres')}"
            ) from error
        database = PostgresDatabase(address, owner, patience)
    await database.open()
    store = SqlStore(database, owner, address.shown)
    try:
        await store.note_begin()
    except BaseException:
        await store.close()
        raise
    return store


class SqlStore:
    """Everything that is kept; made by `open_store`."""

    def __init__(self, database: DatabaseDriver, owner: str, shown: str) -> None:
        self.owner = owner
        self._database = database
        self._writer = Writer(database, shown)
        self._shown = shown
        self._begun_at = 0
        self._closed = False

    async def note_begin(self) -> None:
        """Note where the database stands: what is unfinished of our name from before was another process's."""
        self._begun_at = await self._read(self._last_unfinished)

    async def create_thread(self, thread: Thread) -> None:
        """Keep a new thread; one that is there already stays as it is."""
        await self._writer.write(add_thread(thread))

    async def read_thread(self, id: str) -> Thread:
        """Raises NotFoundError."""
        return await self._read(lambda connection: queries.find_by_id(connection, THREADS, "thread", id))

    async def list_threads(self, *, limit: int = 100, before: str | None = None) -> list[Thread]:
        """The newest first; `before` is the id of the last one of the page before."""
        return await self._read(lambda connection: queries.list_threads(connection, limit, before))

    async def update_thread(self, id: str, **changes: str | None) -> Thread:
        """Change title, agent, runtime, model or session_id. Raises NotFoundError."""
        if unknown := changes.keys() - queries.CHANGEABLE:
            can = ", ".join(sorted(queries.CHANGEABLE))
            raise ValueError(f"a thread's {', '.join(sorted(unknown))} cannot be changed; {can} can")
        return await self._run_direct(lambda connection: queries.change_thread(connection, id, changes))

    async def delete_thread(self, id: str) -> None:
        """Delete it with its messages, runs, events and approvals. Raises NotFoundError."""

        def remove_rows(connection: Connection) -> None:
            queries.remove_thread(connection, id)
            approvals.remove_approvals(connection, id)

        await self._run_direct(remove_rows)

    async def list_messages(self, thread_id: str, *, limit: int | None = None) -> list[Message]:
        """Its messages, oldest first; with a limit the newest of them."""
        return await self._read(lambda connection: queries.list_messages(connection, thread_id, limit))

    async def add_message(
        self,
        message: Message,
        events: Sequence[NewEvent] = (),
        *,
        idempotency_key: str | None = None,
        command_id: str | None = None,
    ) -> Accepted:
        """Keep a message that starts no run, with its events. Raises NotFoundError for its thread."""
        return await self._writer.write(add_message(message, idempotency_key, events, command_id))

    async def find_accepted(self, thread_id: str, idempotency_key: str) -> Accepted | None:
        """What a key of a thread was used for; None when it was not."""
        return await self._read(lambda connection: queries.find_key(connection, thread_id, idempotency_key))

    async def accept_message(
        self,
        message: Message,
        run: Run,
        *,
        thread: Thread | None = None,
        idempotency_key: str | None = None,
        events: Sequence[NewEvent] = (),
    ) -> Accepted:
        """Keep a message and the queued run that will answer it, in one commit; its thread is made if it is new."""
        return await self._writer.write(accept_message(message, run, idempotency_key, events, thread))

    async def begin_run(self, run: Run, started_at: float, events: Sequence[NewEvent] = ()) -> Begun | Behind | None:
        """Queued becomes running, unless others of its thread go first; None when it is not queued any more."""
        return await self._writer.write(begin_run(run, started_at, events))

    async def end_run(self, id: str, ending: Ending) -> list[Event] | None:
        """Give a run its one end; None when it has one already."""
        return (await self._writer.write(end_runs([(id, ending)])))[0]

    async def read_run(self, id: str) -> Run:
        """Raises NotFoundError."""
        return await self._read(lambda connection: queries.find_by_id(connection, RUNS, "run", id))

    async def add_command(self, command: RunCommand) -> bool:
        """Keep a command for the process that holds an unfinished run; False when the run has ended."""
        return await self._run_direct(lambda connection: run_commands.add_command(connection, command))

    async def list_commands(self) -> list[RunCommand]:
        """The commands for this process's runs, oldest first."""
        return await self._read(lambda connection: run_commands.list_commands(connection, self.owner))

    async def has_command(self, id: str) -> bool:
        """Whether a command is still there."""
        return await self._read(lambda connection: run_commands.has_command(connection, id))

    async def remove_command(self, id: str) -> bool:
        """Remove a command; False when it was there no more."""
        return await self._run_direct(lambda connection: run_commands.remove_command(connection, id))

    async def list_runs(self, *, thread_id: str | None = None, unfinished: bool = False, limit: int = 100) -> list[Run]:
        """The newest first."""
        return await self._read(lambda connection: queries.list_runs(connection, thread_id, unfinished, limit))

    async def recover_runs(self, ending_for: Callable[[Run], Ending]) -> list[tuple[Run, list[Event]]]:
        """End the runs of processes that are dead, and only those: `ending_for(run)` gives each its Ending.

        The dead stay dead, so it does not matter that they are found in one step and their runs ended
        in the next: a run that another process ended in between keeps that end.
        """
        unfinished = await self._read(queries.unfinished_runs)
        others = sorted({run.owner for _, run in unfinished} - {self.owner})
        alive = await self._database.living_owners(others)
        abandoned = [run for n, run in unfinished if self._is_abandoned(n, run.owner, alive)]
        if not abandoned:
            return []
        endings = [(run, ending_for(run)) for run in abandoned]
        stored = await self._writer.write(end_runs([(run.id, ending) for run, ending in endings]))
        return [
            (ending.given_to(run), events)
            for (run, ending), events in zip(endings, stored, strict=True)
            if events is not None
        ]

    async def add_approval(self, approval: Approval, events: Sequence[NewEvent]) -> list[Event]:
        """Keep a question, with its events; the last of them tells of it."""
        return await self._writer.write(add_approval(approval, events))

    async def resolve_approval(self, id: str, resolution: Resolution) -> list[Event] | None:
        """Give a question its one decision; None when it has one already, or is gone."""
        return (await self._writer.write(resolve_approvals([(id, resolution)])))[0]

    async def read_approval(self, id: str) -> Approval:
        """Raises NotFoundError."""
        return await self._read(lambda connection: queries.find_by_id(connection, APPROVALS, "approval", id))

    async def pending_approvals(self) -> list[Approval]:
        """Those without a decision, oldest first."""
        return [approval for _, approval in await self._read(approvals.list_pending)]

    async def pending_ids(self, owner: str) -> frozenset[str]:
        """The ids of a process's questions that have no decision."""
        return await self._read(lambda connection: approvals.pending_ids(connection, owner))

    async def recover_approvals(
        self, resolution_for: Callable[[Approval], Resolution]
    ) -> list[tuple[Approval, list[Event]]]:
        """Decide the questions of processes that are dead, and only those; as `recover` does with runs."""
        pending = await self._read(approvals.list_pending)
        if not pending:
            return []
        alive = await self._database.living_owners(sorted({one.owner for _, one in pending} - {self.owner}))
        abandoned = [one for n, one in pending if self._is_abandoned(n, one.owner, alive)]
        if not abandoned:
            return []
        decided = [(one, resolution_for(one)) for one in abandoned]
        stored = await self._writer.write(resolve_approvals([(one.id, resolution) for one, resolution in decided]))
        return [
            (resolution.given_to(one), events)
            for (one, resolution), events in zip(decided, stored, strict=True)
            if events is not None
        ]

    async def append_events(self, events: Sequence[NewEvent]) -> list[Event]:
        """Keep events in this order; their ids are assigned in commit order."""
        if not events:
            return []
        return await self._writer.write(append_events(events))

    async def list_events(
        self, wanted: EventFilter, *, after: str | None = None, until: str | None = None, limit: int = 500
    ) -> list[Event]:
        """Events after an id and up to another, oldest first. Raises NotFoundError for what never was an id."""
        return await self._read(lambda connection: list_events(connection, wanted, after, until, limit))

    async def event_position(self) -> str:
        """The id up to which everything is committed; our own commits up to it were told."""
        position = await self._read(read_position)
        await self._writer.settle()
        return position

    def on_commit(self, listener: OnCommit) -> None:
        """Tell this listener of each commit of this process."""
        self._writer.on_commit = listener

    async def keep_result(self, handle: str, content: bytes) -> None:
        """Keep a whole result."""
        await self._run_direct(lambda connection: queries.put_result(connection, handle, content))

    async def read_result(self, handle: str) -> bytes:
        """Raises NotFoundError."""
        return await self._read(lambda connection: queries.find_result(connection, handle))

    async def list_plugins(self) -> Mapping[str, PluginRow]:
        """What was set, by plugin."""
        return await self._read(queries.list_plugins)

    async def replace_plugin(self, name: str, before: PluginRow, after: PluginRow) -> bool:
        """Set this instead of what was set before; False when that was not it, and nothing is changed."""
        return await self._run_direct(lambda connection: queries.replace_plugin(connection, name, before, after))

    async def reset_plugin(self, name: str) -> bool:
        """Forget what was set; False when nothing was."""
        return await self._run_direct(lambda connection: queries.remove_plugin(connection, name))

    async def get_value(self, space: str, key: str) -> bytes | None:
        """A value of a plugin's own space."""
        return await self._read(lambda connection: queries.find_value(connection, space, key))

    async def set_value(self, space: str, key: str, value: bytes) -> None:
        """Keep a value."""
        await self._run_direct(lambda connection: queries.put_value(connection, space, key, value))

    async def delete_value(self, space: str, key: str) -> bool:
        """Forget a value; False when there was none."""
        return await self._run_direct(lambda connection: queries.remove_value(connection, space, key))

    async def list_keys(self, space: str, prefix: str = "") -> list[str]:
        """The keys of a space, sorted."""
        return await self._read(lambda connection: queries.list_keys(connection, space, prefix))

    async def expire_rows(self, before: float, kinds: Collection[str] = EXPIRABLE) -> int:
        """Delete what is older and belongs to no unfinished run; give the number of rows.

        It goes in small steps, and other writes come in between.
        """
        if unknown := set(kinds) - EXPIRABLE:
            raise ValueError(f"{', '.join(sorted(unknown))} do not expire; {', '.join(sorted(EXPIRABLE))} do")
        gone = 0
        if "events" in kinds:
            last = await self._read(lambda connection: queries.last_expired_event(connection, before))
            gone += await self._until_none(lambda connection: queries.expire_events(connection, before, last))
        if "results" in kinds:
            gone += await self._until_none(lambda connection: queries.expire_results(connection, before))
        if "keys" in kinds:
            gone += await self._run_direct(lambda connection: queries.expire_keys(connection, before))
            await self._run_direct(lambda connection: run_commands.expire_commands(connection, before))
        if "approvals" in kinds:
            gone += await self._run_direct(lambda connection: approvals.expire_approvals(connection, before))
        return gone

    async def close(self) -> None:
        """Finish what is being written, give up this process's lock, close."""
        self._closed = True
        await self._writer.close()
        await self._database.close()

    def _last_unfinished(self, connection: Connection) -> int:
        return max(
            queries.last_unfinished_of(connection, self.owner), approvals.last_pending_of(connection, self.owner)
        )

    def _is_abandoned(self, n: int, owner: str, alive: Collection[str]) -> bool:
        return n <= self._begun_at if owner == self.owner else owner not in alive

    async def _read(self, work: Callable[[Connection], T]) -> T:
        if self._closed:
            raise StorageError(f"{self._shown} is closed here; open it again to read")
        return await self._database.read(work)

    async def _run_direct(self, work: Callable[[Connection], T]) -> T:
        return await self._writer.write(Direct(work))

    async def _until_none(self, work: Callable[[Connection], int]) -> int:
        gone = 0
        while (rows := await self._run_direct(work)) > 0:
            gone += rows
        return gone
