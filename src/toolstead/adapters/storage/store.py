"""The store, over SQLite or Postgres: each method of the port is a query or an operation, run by `SqlStore`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from toolstead.adapters.installing import install_command
from toolstead.adapters.storage import (
    files,
    log_queries,
    operations,
    queries,
    step_queries,
    task_operations,
    task_queries,
    task_run_operations,
    tree_budgets,
)
from toolstead.adapters.storage.address import lasting_error, parse_address
from toolstead.adapters.storage.events import list_events, read_position
from toolstead.adapters.storage.ledger import Operation
from toolstead.adapters.storage.outage_log import OutageLog
from toolstead.adapters.storage.process_locks import OWNER
from toolstead.adapters.storage.tables import APPROVALS, RUNS, THREADS
from toolstead.adapters.storage.writer import Writer
from toolstead.delegation.task_store import AdmissionRequest, Admitted, Refusal, TaskClaim, TaskEnd, TasksEnded
from toolstead.errors import StorageError
from toolstead.orchestrator.store import Ending, OnCommit, Resolution, RunCommand, Store, StoredChange
from toolstead.types.approval import Approval
from toolstead.types.event import Event
from toolstead.types.run import Run
from toolstead.types.task import Task
from toolstead.types.thread import Thread

if TYPE_CHECKING:
    from types import CoroutineType

    from toolstead.adapters.storage.writer import Database

PATIENCE_SECONDS = 10.0
EXPIRABLE = frozenset({"events", "results", "keys", "approvals", "steps"})

T = TypeVar("T")
P = ParamSpec("P")
OwnedT = TypeVar("OwnedT", Run, Approval)
ChangeT = TypeVar("ChangeT", bound=StoredChange)


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
    address = parse_address(url_or_path, patience)
    owner = owner or f"{os.getpid()}-{secrets.token_hex(8)}"
    if not OWNER.fullmatch(owner):
        raise StorageError(f"the owner {owner!r} must be up to 100 letters, digits, dots, dashes and underscores")
    outage = OutageLog()
    if address.path is not None:
        from toolstead.adapters.storage.sqlite import SqliteDatabase

        database = SqliteDatabase(address, address.path, locks or address.path.parent / "locks", owner)
    else:
        try:
            from toolstead.adapters.storage.postgres import PostgresDatabase
        except ModuleNotFoundError as error:
            raise lasting_error(
                f"{address.shown} needs the Postgres driver, which is not installed ({error.name} is missing);"
                f" install it with: {install_command('postgres')}"
            ) from error
        database = PostgresDatabase(address, owner, outage)
    store = SqlStore(database, owner, address.shown, outage)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store


if TYPE_CHECKING:
    StoreMethod = Callable[Concatenate["SqlStore", P], CoroutineType[Any, Any, T]]


def _make_reader(query: Callable[Concatenate[Connection, P], T]) -> StoreMethod[P, T]:
    """The method that runs a query which only reads."""

    @wraps(query)
    async def read(store: SqlStore, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.read(lambda connection: query(connection, *args, **kwargs))

    return read


def _make_runner(query: Callable[Concatenate[Connection, P], T]) -> StoreMethod[P, T]:
    """The method that runs a query which writes."""

    @wraps(query)
    async def run(store: SqlStore, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.write_with(lambda connection: query(connection, *args, **kwargs))

    return run


def _make_writer(make_operation: Callable[P, Operation[T]]) -> StoreMethod[P, T]:
    """The method that makes an operation and writes it."""

    @wraps(make_operation)
    async def write(store: SqlStore, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store.writer.write(make_operation(*args, **kwargs))

    return write


class SqlStore:
    """Everything that is kept; made by `open_store`. The port documents each method."""

    def __init__(self, database: Database, owner: str, shown: str, outage: OutageLog) -> None:
        self.owner = owner
        self._database = database
        self._outage = outage
        self.writer = Writer(database, shown, self._outage)
        self._begun_at = 0

    create_thread = _make_writer(operations.add_thread)
    list_threads = _make_reader(queries.list_threads)
    update_thread = _make_runner(queries.update_thread)
    list_thread_tree = _make_reader(queries.list_thread_tree)
    delete_thread = _make_runner(queries.delete_thread)
    list_messages = _make_reader(queries.list_messages)
    list_message_page = _make_reader(queries.list_message_page)
    add_message = _make_writer(operations.add_message)
    find_accepted = _make_reader(queries.find_accepted)

    accept_message = _make_writer(operations.accept_message)
    begin_run = _make_writer(operations.begin_run)
    list_runs = _make_reader(queries.list_runs)
    list_steps = _make_reader(step_queries.list_steps)
    list_run_page = _make_reader(log_queries.list_run_page)
    list_run_tree = _make_reader(log_queries.list_run_tree)
    find_root = _make_reader(log_queries.find_root)
    read_event_log = _make_reader(log_queries.read_event_log)
    list_last_messages = _make_reader(log_queries.list_last_messages)
    add_command = _make_runner(queries.add_command)
    has_command = _make_reader(queries.has_command)
    remove_command = _make_runner(queries.remove_command)

    add_approval = _make_writer(operations.add_approval)
    pending_ids = _make_reader(queries.pending_ids)

    append_events = _make_writer(operations.append_events)
    list_events = _make_reader(list_events)

    keep_result = _make_runner(queries.keep_result)
    read_result = _make_reader(queries.read_result)
    list_plugins = _make_reader(queries.list_plugins)
    replace_plugin = _make_runner(queries.replace_plugin)
    reset_plugin = _make_runner(queries.reset_plugin)
    get_value = _make_reader(queries.get_value)
    set_value = _make_runner(queries.set_value)
    delete_value = _make_runner(queries.delete_value)
    list_keys = _make_reader(queries.list_keys)

    accept_run = _make_writer(task_run_operations.accept_run)
    return_task = _make_writer(task_operations.return_task)
    abandon_task = _make_writer(task_operations.abandon_task)
    record_attempt = _make_writer(task_operations.record_attempt)
    read_task = _make_reader(task_queries.read_task)
    read_task_result = _make_reader(task_queries.read_task_result)
    list_tasks = _make_reader(task_queries.list_tasks)
    list_attempts = _make_reader(task_queries.list_attempts)
    list_waiting = _make_reader(task_queries.list_waiting)
    list_wakes = _make_reader(task_queries.list_wakes)
    find_position = _make_reader(task_queries.find_position)
    take_results = _make_runner(task_queries.take_results)
    reserve_share = _make_writer(tree_budgets.reserve_share)
    settle_share = _make_writer(tree_budgets.settle_share_now)
    read_tree = _make_reader(tree_budgets.find_tree)

    read_file = _make_reader(files.read_file)
    list_files = _make_reader(files.list_files)
    list_file_versions = _make_reader(files.list_file_versions)
    write_file = _make_runner(files.write_file)

    async def open(self) -> None:
        """Open the database, and note where it stands: what is unfinished of our name by now is another process's."""
        await self._database.open()
        self._begun_at = await self.read(lambda connection: queries.last_unfinished(connection, self.owner))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function that only reads. Raises StorageError."""
        if self.writer.is_closed:
            raise StorageError(f"{self.writer.shown} is closed here; open it again to read")
        try:
            answer = await self._database.read(work)
        except StorageError as error:
            self._outage.note_failure(error)
            raise
        self._outage.note_answer()
        return answer

    async def write_with(self, work: Callable[[Connection], T]) -> T:
        """Run a function that writes, and return when that is committed. Raises StorageError."""
        return await self.writer.write(operations.run_directly(work))

    async def read_thread(self, id: str) -> Thread:
        """Raises NotFoundError."""
        return await self.read(lambda connection: queries.find_by_id(connection, THREADS, "thread", id))

    async def read_run(self, id: str) -> Run:
        """Raises NotFoundError."""
        return await self.read(lambda connection: queries.find_by_id(connection, RUNS, "run", id))

    async def read_approval(self, id: str) -> Approval:
        """Raises NotFoundError."""
        return await self.read(lambda connection: queries.find_by_id(connection, APPROVALS, "approval", id))

    async def end_run(self, id: str, ending: Ending) -> list[Event] | None:
        """Give a run its one end; None when it has one already."""
        return (await self.writer.write(operations.end_runs([(id, ending)])))[0]

    async def resolve_approval(self, id: str, resolution: Resolution) -> list[Event] | None:
        """Give a question its one decision; None when it has one already, or is gone."""
        return (await self.writer.write(operations.resolve_approvals([(id, resolution)])))[0]

    async def list_commands(self) -> list[RunCommand]:
        """The commands for this process's runs, oldest first."""
        return await self.read(lambda connection: queries.list_commands(connection, self.owner))

    async def pending_approvals(self) -> list[Approval]:
        """Those without a decision, oldest first."""
        return [approval for _, approval in await self.read(queries.pending_approvals)]

    async def recover_runs(self, ending_for: Callable[[Run], Ending]) -> list[tuple[Run, list[Event]]]:
        """End the runs of processes that are dead, and only those: `ending_for(run)` gives each its Ending."""
        return await self._settle_abandoned(queries.unfinished_runs, ending_for, operations.end_runs)

    async def recover_approvals(
        self, resolution_for: Callable[[Approval], Resolution]
    ) -> list[tuple[Approval, list[Event]]]:
        """Decide the questions of processes that are dead, and only those."""
        return await self._settle_abandoned(queries.pending_approvals, resolution_for, operations.resolve_approvals)

    async def admit_tasks(self, request: AdmissionRequest) -> list[Admitted | Refusal]:
        """Store the tasks that may be started."""
        return await self.writer.write(task_operations.admit_tasks(request, self.owner))

    async def claim_task(self, task_id: str, epoch: int, now: float) -> Task | None:
        """Become the owner of an open task that has this epoch."""
        return await self.writer.write(task_run_operations.claim_task(task_id, epoch, self.owner, now))

    async def end_task(self, claim: TaskClaim, end: TaskEnd, *, claims_started: bool) -> TasksEnded:
        """Give a task its one outcome."""
        owner = self.owner if claims_started else None
        return await self.writer.write(task_operations.end_task(claim, end, owner))

    async def start_queued(self, project: str, cap: int, now: float, *, claims: bool) -> list[Task]:
        """Give free slots to the tasks that wait for one."""
        owner = self.owner if claims else None
        return await self.writer.write(task_operations.start_queued(project, cap, now, owner))

    async def cancel_task(self, task_id: str, why: str, *, now: float, cap: int) -> TasksEnded:
        """End a task and those below it as `cancelled`. Raises NotFoundError."""
        await self.read_task(task_id)
        return await self.writer.write(task_operations.cancel_task(task_id, why, now, cap))

    async def has_run_key(self, thread_id: str, key: str) -> bool:
        """Whether a run with this key was accepted in a thread."""
        return await self.find_accepted(thread_id, key) is not None

    async def list_held(self, ids: Collection[str]) -> set[str]:
        """Those of these tasks that are open and ours."""
        return await self.read(lambda connection: task_queries.list_held(connection, list(ids), self.owner))

    async def list_adoptable(self, project: str) -> list[Task]:
        """Open tasks with a slot that no living process but this one holds."""
        found = await self.read(lambda connection: task_queries.list_open(connection, project))
        owners = {task.owner for task in found if task.owner is not None} - {self.owner}
        alive = await self._database.living_owners(sorted(owners))
        return [task for task in found if task.owner not in alive]

    async def event_position(self) -> str:
        """The id up to which everything is committed; the listener has our own commits up to it."""
        position = await self.read(read_position)
        await self.writer.settle()
        return position

    def on_commit(self, listener: OnCommit) -> None:
        """Call this listener for each commit of this process."""
        self.writer.on_commit = listener

    async def expire_rows(self, before: float, kinds: Collection[str] = EXPIRABLE) -> int:
        """Delete what is older and belongs to no unfinished run; give the number of rows.

        It goes in small steps, and other writes come in between.
        """
        if unknown := set(kinds) - EXPIRABLE:
            raise ValueError(f"{', '.join(sorted(unknown))} do not expire; {', '.join(sorted(EXPIRABLE))} do")
        # Found by a read, so that no step looks through newer events while it holds the write lock.
        last = await self.read(lambda connection: queries.last_expired_event(connection, before))
        steps: dict[str, Callable[[Connection], int]] = {
            "events": lambda connection: queries.expire_events(connection, before, last),
            "results": lambda connection: queries.expire_results(connection, before),
            "keys": lambda connection: queries.expire_keys(connection, before),
            "approvals": lambda connection: queries.expire_approvals(connection, before),
        }
        gone = 0
        for step in (step for kind, step in steps.items() if kind in kinds):
            while (rows := await self.write_with(step)) > 0:
                gone += rows
        return gone + (await self._expire_steps(before) if "steps" in kinds else 0)

    async def _expire_steps(self, before: float) -> int:
        """Delete the steps of runs that ended earlier, all steps of a run at once: each needs those before it."""
        gone = 0
        while expired := await self.read(lambda connection: step_queries.list_expired_runs(connection, before)):
            for start in range(0, len(expired), step_queries.DELETED_TOGETHER):
                together = expired[start : start + step_queries.DELETED_TOGETHER]
                gone += await self.write_with(partial(step_queries.delete_steps, run_ids=together))
        return gone

    async def close(self) -> None:
        """Finish what is being written, give up this process's lock, close."""
        await self.writer.close()
        await self._database.close()

    async def _settle_abandoned(
        self,
        list_open: Callable[[Connection], list[tuple[int, OwnedT]]],
        change_for: Callable[[OwnedT], ChangeT],
        settle: Callable[[Sequence[tuple[str, ChangeT]]], Operation[list[list[Event] | None]]],
    ) -> list[tuple[OwnedT, list[Event]]]:
        """Settle what dead processes left open.

        The dead stay dead, so it does not matter that they are found in one step and what they left is settled
        in the next: what another process settled in between stays as it is.
        """
        found = await self.read(list_open)
        alive = await self._database.living_owners(sorted({one.owner for _, one in found} - {self.owner}))
        abandoned = [
            one for n, one in found if (n <= self._begun_at if one.owner == self.owner else one.owner not in alive)
        ]
        if not abandoned:
            return []
        changes = [change_for(one) for one in abandoned]
        stored = await self.writer.write(
            settle([(one.id, change) for one, change in zip(abandoned, changes, strict=True)])
        )
        return [
            (change.given_to(one), events)
            for one, change, events in zip(abandoned, changes, stored, strict=True)
            if events is not None
        ]
