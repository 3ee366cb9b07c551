"""The database of a stead, opened when something first needs it.

Nothing heavy is imported before.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolstead.errors import StorageError
from toolstead.orchestrator.store import Store

if TYPE_CHECKING:
    from toolstead.app.places import Places
    from toolstead.orchestrator.event_log import EventLog

FILE = "toolstead.db"
OpenStore = Callable[..., Awaitable[Store]]


class StoreOpener:
    """Opens the store once, lets the event log write into it, and closes it."""

    def __init__(self, places: Places, *, environ: Mapping[str, str], log: EventLog) -> None:
        self._locks = places.data / "locks"
        self._url: str | Path = environ.get("TOOLSTEAD_DATABASE_URL") or places.data / FILE
        self._log = log
        self._opening = asyncio.Lock()
        self._listeners: list[Callable[[Store], object]] = []
        self._store: Store | None = None
        self._closed = False

    @property
    def is_shared(self) -> bool:
        """Whether other machines may use it too."""
        return not isinstance(self._url, Path)

    def on_open(self, listener: Callable[[Store], object]) -> None:
        """Add a listener that is called once, when the database is open. It must not block."""
        self._listeners.append(listener)

    async def open(self) -> Store:
        """The store; the first call opens it.

        Raises:
            StorageError: It cannot be opened, or was closed.
        """
        if self._store is not None and not self._closed:
            return self._store
        async with self._opening:
            if self._closed:
                raise StorageError("the database is closed here; open the stead again")
            if self._store is None:
                storage = await asyncio.to_thread(importlib.import_module, "toolstead.adapters.storage.store")
                open_store: OpenStore = storage.open_store
                self._store = await open_store(self._url, locks=self._locks)
                self._log.attach_store(self._store)
                for listener in self._listeners:
                    listener(self._store)
            return self._store

    async def close(self) -> None:
        """Store pending events, and close it; it is not opened again."""
        async with self._opening:
            self._closed = True
            await self._log.detach_store()
            if self._store is not None:
                await self._store.close()
