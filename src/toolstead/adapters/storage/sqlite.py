"""SQLite: one worker that writes, a few that read, whole batches to a hop.

WAL with `synchronous=NORMAL`: what was acknowledged survives the death of the process, however it
dies. A power cut may take the last commits with it, and leaves the database whole. The driver is
the blocking one, in workers of its own: one hop for a batch costs less than one for each statement.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from toolstead.adapters.storage.address import DatabaseAddress
from toolstead.adapters.storage.failures import explain_failure
from toolstead.adapters.storage.migrations import log_migration, migrate_step
from toolstead.adapters.storage.process_locks import ProcessLock, living_owners, opening_lock, sweep_locks
from toolstead.adapters.storage.tables import Statements
from toolstead.errors import StorageError

logger = logging.getLogger(__name__)

READERS = 2
OPENING_SECONDS = 60.0
"""How long to wait for another process that opens, and perhaps migrates, the same database."""

T = TypeVar("T")


class SqliteDatabase:
    """One database file, this process's lock beside it, and the workers that use it."""

    def __init__(self, place: DatabaseAddress, path: Path, locks: Path, owner: str) -> None:
        self._path = path.absolute()  # the current folder may change
        self._locks = locks.absolute()
        self._owner = owner
        self.place = replace(place, shown=str(self._path))
        self._engine = create_engine(
            "sqlite+pysqlite://",
            creator=self._connect,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",  # we send BEGIN and COMMIT ourselves
            hide_parameters=True,
        )
        self.statements = Statements(self._engine.dialect)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="toolstead-store-write")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="toolstead-store-read")
        self._reading = threading.local()
        self._connections: list[Connection] = []
        self._writing: Connection | None = None
        self._lock: ProcessLock | None = None
        self._identity: tuple[int, int] | None = None

    async def open(self) -> None:
        """Make the file where there is none, bring it to this version, take this process's lock; close it in any case.

        Raises:
            StorageError: It cannot be made, opened or migrated, or the owner is taken.
        """
        await self._run_in(self._writer, self._open)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function that only reads, in a reader. Raises StorageError."""
        return await self._run_in(self._readers, lambda: self._read(work))

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a function in a transaction and commit it; an error of it or of the driver rolls it back."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._run_transaction, work)

    async def living_owners(self, owners: Sequence[str]) -> set[str]:
        """Which of these processes are alive; the locks of the dead are cleared away. Raises StorageError."""

        def look_at_locks() -> set[str]:
            with opening_lock(self._locks, OPENING_SECONDS):
                alive = living_owners(self._locks, owners)
                sweep_locks(self._locks)
                return alive

        return await self._run_in(self._readers, look_at_locks)

    async def close(self) -> None:
        """Close every connection, then give up the lock."""
        await asyncio.to_thread(self._close)

    async def _run_in(self, workers: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(workers, work)
        except (DBAPIError, sqlite3.Error, OSError) as error:
            raise explain_failure(self.place, error)[0] from error

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        with opening_lock(self._locks, OPENING_SECONDS):
            # Only a file that is not there is touched: closing any descriptor of a file drops every lock that
            # this process has on it, those of another store that it has open included.
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            self._make_private()
            self._identity = self._file_identity()
            connection = self._writing_connection()
            mode = connection.exec_driver_sql("PRAGMA journal_mode = WAL").scalar()
            if mode != "wal":
                raise StorageError(
                    f"{self._path} cannot be shared by several processes: SQLite's WAL does not work on its disk"
                    f" (journal_mode stays {mode}); put the data folder on a local disk"
                )
            taken = list[int]()
            while (
                version := self._run_transaction(lambda connection: migrate_step(connection, str(self._path)))
            ) is not None:
                taken.append(version)
            log_migration(str(self._path), taken)
            # SQLite opens what it may only read, and fails when it is written: better now than later.
            self._run_transaction(lambda connection: connection.exec_driver_sql("UPDATE sequence SET value = value"))
            self._lock = ProcessLock(self._locks, self._owner)

    def _make_private(self) -> None:
        """Let only this user read the database: a copy that was put in its place has the mode of the copy."""
        for path in (self._path, *(self._path.with_name(f"{self._path.name}{end}") for end in ("-wal", "-shm"))):
            with suppress(FileNotFoundError):
                found = path.stat()
                if not found.st_mode & 0o077:
                    continue
                mode = f"{found.st_mode & 0o777:o}"
                try:
                    path.chmod(0o600)
                except PermissionError as error:
                    if found.st_uid == os.geteuid():  # a disk that has no modes
                        logger.warning("%s may be used by other users (mode %s), which cannot be changed", path, mode)
                        continue
                    raise StorageError(
                        f"{path} belongs to another user, and others may use it (mode {mode}): make it yours and"
                        " private (chown, chmod 600), or name a database of your own"
                    ) from error
                logger.warning("%s could be used by other users (mode %s); now only by you (600)", path, mode)

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: a file that vanished must not come back empty.
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=rw",
            uri=True,
            timeout=self.place.patience,
            isolation_level=None,
            check_same_thread=False,  # closing happens elsewhere
            cached_statements=256,
        )
        try:
            for pragma in ("synchronous = NORMAL", "foreign_keys = ON", "journal_size_limit = 67108864"):
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _writing_connection(self) -> Connection:
        if self._writing is None:
            self._writing = self._engine.connect()
        return self._writing

    def _run_transaction(self, work: Callable[[Connection], T]) -> T:
        connection = self._writing_connection()
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            outcome = work(connection)
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise
        # What went into a file that cannot be found any more is not kept: check before reporting that it is.
        self._check_file()
        return outcome

    def _roll_back(self, connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        try:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
        except sqlite3.Error as error:
            logger.warning("%s: a connection that cannot roll back is replaced: %s", self._path, error)
            self._writing = None
            connection.invalidate()
            connection.close()

    def _read(self, work: Callable[[Connection], T]) -> T:
        self._check_file()
        connection: Connection | None = getattr(self._reading, "connection", None)
        if connection is None:
            connection = self._engine.connect()
            connection.exec_driver_sql("PRAGMA query_only = ON")
            self._reading.connection = connection
            self._connections.append(connection)
        return work(connection)

    def _check_file(self) -> None:
        if self._file_identity() != self._identity:
            error = StorageError(
                f"{self._path} was removed or replaced while it was in use;"
                " put the file back if you can, then start this process again"
            )
            error.is_away = True
            raise error

    def _file_identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        for connection in filter(None, (*self._connections, self._writing)):
            connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
