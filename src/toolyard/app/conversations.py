"""Threads and runs of a yard: the store, the sessions and the orchestrator, opened when first needed.

Nothing heavy is imported before. Above: the yard. Below: the orchestrator, the storage adapter.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolyard.app.places import Places
from toolyard.app.runtimes import Runtimes, usual_runtime
from toolyard.app.settings import Settings
from toolyard.errors import StorageError
from toolyard.invoker.invoker import Invoker
from toolyard.invoker.lease import PoolStats
from toolyard.invoker.pool import SessionPool
from toolyard.orchestrator.event_log import EventLog
from toolyard.orchestrator.orchestrator import CallTool, Defaults, Orchestrator
from toolyard.orchestrator.store import Store
from toolyard.tools.handlers.pinned import Pinned

logger = logging.getLogger(__name__)

DATABASE = "toolyard.db"
OpenStore = Callable[..., Awaitable[Store]]
_DAY = 86_400.0
EXPIRE_SECONDS = 3_600.0
_NO_SESSIONS = PoolStats(idle=0, live=0, hits=0, misses=0, rebuilt=0, evicted=0)


class Conversations:
    """Opens what conversations need, once, and closes it."""

    def __init__(
        self,
        places: Places,
        *,
        environ: Mapping[str, str],
        log: EventLog,
        call_tool: CallTool,
        tools: Callable[[], tuple[str, ...]],
        pinned: Pinned | None = None,
    ) -> None:
        self._places = places
        self._url: str | Path = environ.get("TOOLYARD_DATABASE_URL") or places.data / DATABASE
        self._log = log
        self._call_tool = call_tool
        self._tools = tools
        self._pinned = pinned
        self._opening = asyncio.Lock()
        self._store: Store | None = None
        self._expiring: asyncio.Task[None] | None = None
        self._orchestrator: Orchestrator | None = None

    @property
    def current(self) -> Orchestrator | None:
        """The orchestrator, if it is open."""
        return self._orchestrator

    async def open(self, settings: Settings) -> Orchestrator:
        """The orchestrator; the first call opens the database and ends runs that were lost.

        Raises:
            StorageError: The database cannot be opened.
        """
        if self._orchestrator is not None:
            return self._orchestrator
        async with self._opening:
            if self._orchestrator is None:
                self._orchestrator = await self._open(settings)
            return self._orchestrator

    def open_early(self, settings: Settings, *, after: float = 0.0) -> Callable[[], Awaitable[None]]:
        """Open in the background, so that the first request does not wait for it; gives what ends the opening.

        A failure is logged, and told to whoever asks next: each asks again.
        """
        task = asyncio.create_task(self._open_early(settings, after), name="toolyard-open-database")

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        return end

    def state(self, settings: Settings) -> Mapping[str, Any]:
        """The runtime in use, and the sessions' numbers; nothing is opened for it."""
        current = self._orchestrator
        stats = current.invoker.pool.stats() if current is not None else _NO_SESSIONS
        return {"runtime": usual_runtime(settings.runtime), "sessions": asdict(stats)}

    async def close(self) -> None:
        """End what runs, store what waits, close the database."""
        orchestrator, self._orchestrator = self._orchestrator, None
        if orchestrator is not None:
            await orchestrator.close()
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.gather(self._expiring, return_exceptions=True)
        await self._log.detach()
        if self._store is not None:
            await self._store.close()

    async def _open_early(self, settings: Settings, after: float) -> None:
        await asyncio.sleep(after)
        try:
            await self.open(settings)
        except StorageError as error:
            logger.warning("there are no threads and runs for now: %s", error)

    async def _open(self, settings: Settings) -> Orchestrator:
        storage = await asyncio.to_thread(importlib.import_module, "toolyard.adapters.storage.store")
        open_store: OpenStore = storage.open_store
        store = self._store = await open_store(self._url, locks=self._places.data / "locks")
        try:
            return await self._begin(store, settings)
        except BaseException:
            await self._log.detach()
            await store.close()
            self._store = None
            raise

    async def _begin(self, store: Store, settings: Settings) -> Orchestrator:
        self._log.attach(store)
        sessions = settings.sessions
        pool = SessionPool(ttl=sessions.ttl, most_idle=sessions.max, most_live=sessions.max_live)
        orchestrator = Orchestrator(
            store=store,
            log=self._log,
            invoker=Invoker(pool),
            call_tool=self._call_tool,
            defaults=Defaults(
                agent=settings.runtime.agent,
                model=settings.runtime.model,
                cwd=self._places.project,
                timeout=settings.limits.run_timeout,
                runtime=Runtimes(settings.runtime, project=self._places.project, pinned=self._pinned),
                tools=self._tools,
            ),
        )
        await orchestrator.open()
        if settings.storage.retention_days:
            self._expiring = asyncio.create_task(
                self._expire(store, settings.storage.retention_days * _DAY), name="toolyard-retention"
            )
        return orchestrator

    async def _expire(self, store: Store, seconds: float) -> None:
        while True:
            try:
                if count := await store.expire(time.time() - seconds):
                    logger.info(
                        "%s stored events and results were older than %.0f days: deleted", count, seconds / _DAY
                    )
            except Exception:
                logger.exception("old events could not be deleted")
            await asyncio.sleep(EXPIRE_SECONDS)
