"""Threads and runs of a yard: the store, the sessions and the orchestrator, opened when first needed.

Nothing heavy is imported before. Above: the yard. Below: the orchestrator, the storage adapter.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from toolyard.app.places import Places
from toolyard.app.runtimes import Runtimes
from toolyard.app.settings import Settings
from toolyard.invoker.invoker import Invoker
from toolyard.invoker.pool import SessionPool
from toolyard.orchestrator.event_log import EventLog
from toolyard.orchestrator.orchestrator import CallTool, Defaults, Orchestrator
from toolyard.orchestrator.store import Store

logger = logging.getLogger(__name__)

DATABASE = "toolyard.db"
_DAY = 86_400.0
EXPIRE_SECONDS = 3_600.0


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
    ) -> None:
        self._places = places
        self._url: str | Path = environ.get("TOOLYARD_DATABASE_URL") or places.data / DATABASE
        self._log = log
        self._call_tool = call_tool
        self._tools = tools
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

    async def _open(self, settings: Settings) -> Orchestrator:
        from toolyard.adapters.storage.store import open_store

        store = self._store = await open_store(self._url, locks=self._places.data / "locks")
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
                runtime=Runtimes(settings.runtime, project=self._places.project),
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
