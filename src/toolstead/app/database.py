"""The database of a stead and what needs it: conversations, and the whole results behind handles.

Each part is imported and opened when something first needs it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import InvocationError, StorageError
from toolstead.types.result import KeptResult, handle_in

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.orchestrator.event_log import EventLog
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.orchestrator.store import Store
    from toolstead.types.call import Caller
    from toolstead.types.result import ToolResult

logger = logging.getLogger(__name__)

FILE = "toolstead.db"
LARGEST = 32 * 1024 * 1024
MOST_WAITING = 64 * 1024 * 1024
OPEN_SECONDS = 3.0
"""How long a server that starts waits for its database, to refuse one that can never be used."""
EXPIRE_SECONDS = 3_600.0
_DAY = 86_400.0


def find_database_file(places: Places, environ: Mapping[str, str] | None = None) -> Path | None:
    """The database file of the data folder, which may not be there yet; None where the environment names another."""
    environ = os.environ if environ is None else environ
    return None if environ.get("TOOLSTEAD_DATABASE_URL") else places.data / FILE


def describe_database(places: Places, environ: Mapping[str, str] | None = None) -> str:
    """Which database is used: its file, or its URL without the password."""
    environ = os.environ if environ is None else environ
    if (file := find_database_file(places, environ)) is not None:
        return str(file)
    from toolstead.adapters.storage.address import parse_address

    try:
        return parse_address(environ["TOOLSTEAD_DATABASE_URL"], 0).shown
    except StorageError as error:
        return str(error)


async def find_database_fault(environ: Mapping[str, str] | None = None) -> str:
    """Why the database does not answer; empty where it does. A file is not opened, and nothing is migrated."""
    environ = os.environ if environ is None else environ
    if not (url := environ.get("TOOLSTEAD_DATABASE_URL")):
        return ""
    from toolstead.adapters.storage.address import parse_address

    try:
        address = parse_address(url, 5)
        if address.path is None:
            storage = await asyncio.to_thread(importlib.import_module, "toolstead.adapters.storage.postgres")
            await storage.check_answer(address)
    except ModuleNotFoundError as error:
        from toolstead.adapters.installing import install_command

        return f"its driver is not installed ({error.name} is missing): {install_command('postgres')}"
    except StorageError as error:
        return str(error)
    return ""


class StoreOpener:
    """Opens the store once, lets the event log write into it, and closes it."""

    def __init__(
        self, places: Places, *, environ: Mapping[str, str], log: EventLog, on_open: Callable[[Store, bool], object]
    ) -> None:
        """Open nothing yet.

        Args:
            places: Where the data are.
            environ: May name another database.
            log: What writes its events there.
            on_open: Called once it is open, with whether other machines may use it too. It must not block.
        """
        self._locks = places.data / "locks"
        self._url: str | Path = environ.get("TOOLSTEAD_DATABASE_URL") or places.data / FILE
        self._log = log
        self._on_open = on_open
        self._opening = asyncio.Lock()
        self._store: Store | None = None
        self._closed = False

    async def open(self) -> Store:
        """The store; the first call opens it.

        Raises:
            StorageError: It cannot be opened, or was closed.
        """
        async with self._opening:
            if self._closed:
                raise StorageError("the database is closed here; open the stead again")
            if self._store is None:
                storage = await asyncio.to_thread(importlib.import_module, "toolstead.adapters.storage.store")
                opened: Store = await storage.open_store(self._url, locks=self._locks)
                self._store = opened
                self._log.attach_store(opened)
                self._on_open(opened, not isinstance(self._url, Path))
            return self._store

    async def close(self) -> None:
        """Store pending events, and close it; it is not opened again."""
        async with self._opening:
            self._closed = True
            await self._log.detach_store()
            if self._store is not None:
                await self._store.close()


class OrchestratorOpener:
    """Opens what conversations need, once, and closes it.

    Attributes:
        orchestrator: Threads and runs; None while they are not open.
    """

    def __init__(
        self, begin: Callable[[AsyncExitStack], Awaitable[Orchestrator]], load_keys: Callable[[], None]
    ) -> None:
        """Open nothing yet.

        Args:
            begin: Opens the database and ends runs that were lost. What it puts on the stack is closed at the end.
            load_keys: Asks the keyring where the environment has no key; it may be slow, and may ask a person.
        """
        self.orchestrator: Orchestrator | None = None
        self._begin = begin
        self._load_keys = load_keys
        self._opening = asyncio.Lock()
        self._opened = AsyncExitStack()
        self._tasks = OwnedTasks()
        self._closing = False
        self._knows_keys = False

    async def open(self) -> Orchestrator:
        """Threads and runs; the first call opens them.

        Raises:
            StorageError: The database cannot be opened.
        """
        orchestrator = await self._open_orchestrator()
        async with self._opening:
            if not self._knows_keys:
                await asyncio.to_thread(self._load_keys)
                self._knows_keys = True
        return orchestrator

    def forget_keys(self) -> None:
        """Read the keys again before the next run."""
        self._knows_keys = False

    def open_early(self, *, after: float = 0.0) -> None:
        """Open in the background, so that the first request does not wait for it.

        A failure is logged and raised to the next caller; each caller tries again.
        """
        self._tasks.start(self._open_early(after), name="toolstead-open-database")

    async def find_lasting_fault(self) -> StorageError | None:
        """Begin to open, and wait a little: why that can never work. None where it worked, or may work later."""
        opening = self._tasks.start(self._open_early(0, returns_lasting=True), name="toolstead-open-database")
        await asyncio.wait((opening,), timeout=OPEN_SECONDS)
        return opening.result() if opening.done() and not opening.cancelled() else None

    async def close(self) -> None:
        """End the open runs, and store their ends; the database stays open for parts that close later."""
        self._closing = True
        await self._tasks.end_all()
        async with self._opening:
            self.orchestrator = None
        await self._opened.aclose()

    async def _open_orchestrator(self) -> Orchestrator:
        """Open without reading the keyring: a server that runs no agent needs no key."""
        async with self._opening:
            if self._closing:
                raise InvocationError("Toolstead is shutting down; try again after the restart")
            if self.orchestrator is None:
                self.orchestrator = await self._begin(self._opened)
            return self.orchestrator

    async def _open_early(self, after: float, *, returns_lasting: bool = False) -> StorageError | None:
        """Open, and log a failure, or return it where no later try can succeed."""
        await asyncio.sleep(after)
        try:
            await self._open_orchestrator()
        except StorageError as error:
            if returns_lasting and error.is_lasting:
                return error
            lasting = "until that is changed" if error.is_lasting else "for now"
            logger.warning("threads and runs are unavailable %s: %s", lasting, error)
        return None


async def expire_rows(store: Store, days: int) -> None:
    """Delete stored events and results once they are this old, every hour, until cancelled."""
    while True:
        try:
            if count := await store.expire_rows(time.time() - days * _DAY):
                logger.info("%s stored events and results were older than %s days: deleted", count, days)
        except StorageError as error:
            logger.log(error.log_level, "old events could not be deleted: %s", error)
        except Exception:
            logger.exception("old events could not be deleted")
        await asyncio.sleep(EXPIRE_SECONDS)


class KeptResults:
    """Whole results behind handles, for callers that were shown only a part.

    They are written after the call, to the database, which is opened for the first one; what waits is bounded.
    """

    def __init__(self, open_store: Callable[[], Awaitable[Store]]) -> None:
        self._open_store = open_store
        self._waiting = 0
        self._writing: set[asyncio.Task[None]] = set()

    def __call__(self, result: ToolResult, tool: str, caller: Caller) -> str | None:
        """Store a tool's result; return its handle, or None when it is too large."""
        try:
            data = msgspec.json.encode(result.to_json())
        except (TypeError, UnicodeEncodeError):  # half characters and the like, which no file can hold
            return None
        if len(data) > LARGEST or self._waiting + len(data) > MOST_WAITING:
            logger.warning("a result of %s bytes is not kept: at most %s are", f"{len(data):,}", f"{LARGEST:,}")
            return None
        handle = f"res_{secrets.token_urlsafe(16)}"
        self._waiting += len(data)
        thread = caller.client_thread or (caller.thread_id if caller.run_id is not None else None)
        kept = KeptResult(content=data, tool=tool, thread_id=thread)
        task = asyncio.create_task(self._keep_result(handle, kept), name=f"toolstead-keep-{handle}")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return handle

    async def read(self, handle: str) -> Any:
        """A kept result, as JSON, by its handle or its address.

        Raises:
            NotFoundError: No such result.
            StorageError: It cannot be read.
        """
        return msgspec.json.decode((await self.find(handle_in(handle))).content)

    async def find(self, handle: str) -> KeptResult:
        """A kept result as it is stored; raises like `read`."""
        await self.wait_until_written()
        return await (await self._open_store()).read_result(handle)

    async def wait_until_written(self) -> None:
        """Wait until what is being written is written."""
        if self._writing:
            await asyncio.wait(tuple(self._writing))

    async def _keep_result(self, handle: str, kept: KeptResult) -> None:
        try:
            await (await self._open_store()).keep_result(handle, kept)
        except StorageError as error:
            logger.warning("the whole result %s could not be kept: %s", handle, error)
        finally:
            self._waiting -= len(kept.content)
