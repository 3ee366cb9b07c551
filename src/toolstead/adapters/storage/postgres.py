"""Postgres: a pool of connections, and one more that holds this process's lock.

The lock is a session's advisory lock: the server releases it when the connection ends, so a
process that died is known to be dead without a clock. A connection that is lost while we live is
made again and the lock taken anew; in between, another process may end our runs, and our own end
then comes second and is refused. When the server itself was away, every process has lost its lock
at once: none counts as dead until all have had time to take theirs again. A pooler that hands out
connections by transaction (PgBouncer's `transaction` mode) cannot hold such a lock: give this URL
a direct connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none; what it gives is Any here
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from toolstead.adapters.storage.address import DatabaseAddress, not_understood
from toolstead.adapters.storage.failures import explain_failure
from toolstead.adapters.storage.migrations import log_migration, migrate_step
from toolstead.adapters.storage.outage_log import OutageLog
from toolstead.adapters.storage.tables import Statements
from toolstead.errors import StorageError

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 60.0
RETRY_SECONDS = (0.1, 0.5, 1.0)
SETTLING_SECONDS = 10.0
"""How long after the server came back every process counts as alive: long enough for each to take its lock again."""

_MIGRATING = "SELECT pg_advisory_xact_lock(hashtext('toolstead.migrations'))"
_HELD = """
    SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_UP = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float"

T = TypeVar("T")


class PostgresDatabase:
    """One database on a server, and this process's lock there."""

    def __init__(self, place: DatabaseAddress, owner: str, outage: OutageLog | None = None) -> None:
        self.place = place
        self._outage = outage or OutageLog()
        self._owner = owner
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._connect,
            pool_size=4,
            max_overflow=4,
            pool_timeout=CONNECT_SECONDS * 2,
            hide_parameters=True,
        )
        self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self.statements = Statements(self._engine.dialect)
        self._guard: Any = None
        self._regained_at = -SETTLING_SECONDS
        """When the lock was taken again after its connection was lost, by the loop's clock."""
        self._regaining: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Bring the database to this version, take this process's lock; close it in any case.

        Raises:
            StorageError: It cannot be reached, entered or migrated, or the owner is taken.
        """
        taken = list[int]()
        while (version := await self._explain_errors(self.write(self._migrate_step))) is not None:
            taken.append(version)
        log_migration(self.place.shown, taken)
        await self._explain_errors(self._take_lock())

    async def ping(self) -> None:
        """See that it lets us in. Raises StorageError."""
        await self._explain_errors(self._try_twice(self._reading, lambda one: one.exec_driver_sql("SELECT 1")))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function that only reads. Raises StorageError."""
        return await self._explain_errors(self._try_twice(self._reading, work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a function in a transaction and commit it; an error of it or of the driver rolls it back."""
        return await self._try_twice(self._engine, work)

    async def living_owners(self, owners: Sequence[str]) -> set[str]:
        """Which of these processes hold their lock; all of them while locks may be missing for another reason.

        They may while our own is missing or was just taken again, and when the server was just started.

        Raises:
            StorageError: The server cannot be asked.
        """
        up, held = await self.read(
            lambda connection: (
                connection.exec_driver_sql(_UP).scalar_one(),
                set(connection.exec_driver_sql(_HELD).scalars()),
            )
        )
        settled = min(up, asyncio.get_running_loop().time() - self._regained_at) >= SETTLING_SECONDS
        if self._guard is None or not settled:
            return set(owners)
        return {owner for owner in owners if _lock_key(owner) in held}

    async def close(self) -> None:
        """Give up the lock and every connection."""
        self._closed = True
        if self._regaining is not None:
            self._regaining.cancel()
            await asyncio.gather(self._regaining, return_exceptions=True)
        if self._guard is not None:
            await self._release_lock(self._guard)
        await self._engine.dispose()

    async def _connect(self) -> Any:
        settings = {
            "application_name": "toolstead",
            "lock_timeout": f"{self.place.patience * 1000:.0f}",
            "idle_in_transaction_session_timeout": f"{COMMAND_SECONDS * 1000:.0f}",
            # A machine that vanished is noticed, and its locks freed, in half a minute.
            "tcp_keepalives_idle": "10",
            "tcp_keepalives_interval": "5",
            "tcp_keepalives_count": "4",
        }
        connect = cast("Callable[..., Awaitable[Any]]", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType] - as above
        try:
            return await connect(
                self.place.url, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=settings
            )
        except asyncpg.InterfaceError:
            raise
        except ValueError:
            # The text of this error quotes what was taken for a part of the URL.
            raise not_understood(self.place.shown) from None

    def _migrate_step(self, connection: Connection) -> int | None:
        connection.exec_driver_sql(_MIGRATING)
        return migrate_step(connection, self.place.shown)

    async def _take_lock(self) -> None:
        guard = await self._connect()
        try:
            taken = await guard.fetchval("SELECT pg_try_advisory_lock($1)", _lock_key(self._owner))
        except BaseException:  # the store may be closed while the lock is taken again
            guard.terminate()
            raise
        if not taken:
            await guard.close()
            raise StorageError(
                f"{self.place.shown}: the owner {self._owner!r} is held by a process that is alive; choose another"
            )
        self._guard = guard
        guard.add_termination_listener(self._note_lost)

    def _note_lost(self, guard: Any) -> None:
        if self._closed or guard is not self._guard:
            return
        self._guard = None
        logger.info("%s: the connection that holds this process's lock is lost; taking it again", self.place.shown)
        self._regaining = asyncio.get_running_loop().create_task(self._regain_lock(), name="toolstead-store-lock")

    async def _regain_lock(self) -> None:
        said = ""
        for attempt in itertools.count():
            await asyncio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
            try:
                await self._explain_errors(self._take_lock())
            except StorageError as error:
                self._outage.note_failure(error)  # one line of the log, whoever notices the outage first
                level = logging.DEBUG if str(error) == said else error.log_level
                logger.log(level, "this process's lock is not held yet: %s", error)
                said = str(error)
            else:
                self._outage.note_answer()
                self._regained_at = asyncio.get_running_loop().time()
                logger.info("%s: this process holds its lock again", self.place.shown)
                return

    async def _release_lock(self, guard: Any) -> None:
        try:
            # Unlocked explicitly, it is free when we return; the end of a connection is noticed a little later.
            await guard.execute("SELECT pg_advisory_unlock_all()")
            await guard.close(timeout=CONNECT_SECONDS)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            guard.terminate()

    async def _try_twice(self, engine: AsyncEngine, work: Callable[[Connection], T]) -> T:
        """Once more, when a pooled connection turns out to be dead; nothing of the first was committed."""
        try:
            return await self._run_once(engine, work)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            logger.info("%s: a connection was lost; trying once more with a new one", self.place.shown)
            return await self._run_once(engine, work)

    async def _run_once(self, engine: AsyncEngine, work: Callable[[Connection], T]) -> T:
        async with engine.connect() as connection:
            outcome = await connection.run_sync(work)
            try:
                await connection.commit()
            except (DBAPIError, OSError) as error:
                lost = StorageError(
                    f"{self.place.shown} was lost during a commit, so that what was being written"
                    " may or may not be kept; look before you write it again"
                )
                lost.is_away = True
                raise lost from error
            return outcome

    async def _explain_errors(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except (DBAPIError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise explain_failure(self.place, error)[0] from error


async def check_answer(place: DatabaseAddress) -> None:
    """Connect once, and change nothing. Raises StorageError."""
    database = PostgresDatabase(place, "")
    try:
        await database.ping()
    finally:
        await database.close()


def _lock_key(owner: str) -> int:
    """The number that Postgres locks for a process."""
    return int.from_bytes(hashlib.blake2b(f"toolstead:{owner}".encode(), digest_size=8).digest(), "big", signed=True)
