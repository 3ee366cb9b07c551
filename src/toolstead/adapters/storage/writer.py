"""Group commit: writes that are waiting share a transaction, and each returns when it is committed.

While one batch is being written the next one gathers. Order is kept: an operation sees everything
that was submitted before it. One that is refused is refused alone. When the database refuses a row,
the batch is halved until that row stands alone, and the others are committed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Connection

from toolstead.adapters.storage.failures import explain_failure
from toolstead.adapters.storage.ledger import Ledger, Operation
from toolstead.adapters.storage.outage_log import OutageLog
from toolstead.adapters.storage.rows import event_id
from toolstead.adapters.storage.tables import Statements
from toolstead.errors import StorageError, ToolsteadError
from toolstead.orchestrator.store import OnCommit

if TYPE_CHECKING:
    from toolstead.adapters.storage.postgres import PostgresDatabase
    from toolstead.adapters.storage.sqlite import SqliteDatabase

    Database = SqliteDatabase | PostgresDatabase

MOST_TOGETHER = 512

T = TypeVar("T")
_Write = tuple[Operation[Any], "asyncio.Future[Any]"]
"""An operation, and what its caller waits for."""


class Writer:
    """The one queue through which a process writes. It belongs to the event loop that made it."""

    def __init__(self, database: Database, shown: str, outage: OutageLog) -> None:
        self._database = database
        self.shown = shown
        self._outage = outage
        self._waiting: deque[_Write] = deque()
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self.is_closed = False
        self.on_commit: OnCommit | None = None
        """Called for each commit, before the callers that wait for it."""

    async def write(self, operation: Operation[T]) -> T:
        """Give what the operation gave, once it is committed.

        What was submitted is written also when its caller stops waiting.

        Raises:
            StorageError: The database failed, or refused the row; nothing of the operation was kept.
            ToolsteadError: The operation was refused.
        """
        if self.is_closed:
            raise StorageError(f"{self.shown} is closed here; what is written after closing is not kept")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((operation, cast("asyncio.Future[Any]", done)))
        if self._task is None:
            # It begins on the loop's next round, so that what is ready now comes along.
            self._task = asyncio.create_task(self._write_all(), name="toolstead-store-writer")
        return await done

    async def close(self) -> None:
        """Finish what was submitted; refuse what comes later."""
        self.is_closed = True
        if self._task is not None:
            await asyncio.shield(self._task)

    async def settle(self) -> None:
        """Wait for the batch that is being written, if there is one."""
        async with self._writing:
            pass

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                async with self._writing:
                    await self._write([self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))])
        finally:
            self._task = None

    async def _write(self, batch: list[_Write]) -> None:
        apply = partial(_apply_batch, self._database.statements, [operation for operation, _ in batch])
        try:
            outcomes, ledger = await self._database.write(apply)
        except Exception as error:  # noqa: BLE001 - whatever happens, every caller that waits gets the error
            shown_error, own = explain_failure(self._database.place, error)
            self._outage.note_failure(shown_error)
            if own and len(batch) > 1:
                middle = len(batch) // 2
                await self._write(batch[:middle])
                await self._write(batch[middle:])
                return
            for _, done in batch:
                _fail_write(done, shown_error)
            return
        self._outage.note_answer()
        if self.on_commit is not None and ledger.last != ledger.first:
            self.on_commit(event_id(ledger.first), event_id(ledger.last), ledger.events)
        for (_, done), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, ToolsteadError):
                _fail_write(done, outcome)
            elif not done.done():
                done.set_result(outcome)


def _fail_write(done: asyncio.Future[Any], error: Exception) -> None:
    """Give the error to the caller that waits, if it still does; each gets an error of its own to raise."""
    if done.done():
        return
    if isinstance(error, StorageError):
        own = type(error)(*error.args)
        own.is_away = error.is_away
        own.__cause__ = error.__cause__
        error = own
    done.set_exception(error)


def _apply_batch(
    statements: Statements, operations: Sequence[Operation[Any]], connection: Connection
) -> tuple[list[Any], Ledger]:
    """Apply a batch, in order, inside the transaction; a refusal stands where the outcome would."""
    ledger = Ledger(connection, statements)
    outcomes: list[Any] = []
    for _, group in itertools.groupby(operations, lambda one: one.is_direct):
        planned = list(group)
        ledger.load(
            threads={thread_id for one in planned for thread_id in one.threads},
            runs={run_id for one in planned for run_id in one.runs},
            keys={key for one in planned for key in one.keys},
            queues={thread_id for one in planned for thread_id in one.queues},
            families={run_id for one in planned for run_id in one.families},
            claimed={task_id for one in planned for task_id in one.claimed},
            shares={run_id for one in planned for run_id in one.shares},
            roots={run_id for one in planned for run_id in one.roots},
        )
        for one in planned:
            try:
                outcomes.append(one.apply(ledger))
            except ToolsteadError as refusal:
                outcomes.append(refusal)
        ledger.flush()
    return outcomes, ledger
