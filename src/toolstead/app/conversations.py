"""Threads and runs of a stead: the sessions and the orchestrator, imported and opened when first needed."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.errors import InvocationError, StorageError

if TYPE_CHECKING:
    from toolstead.app.database import StoreOpener
    from toolstead.app.keys import Keys
    from toolstead.app.places import Places
    from toolstead.app.runtimes import Runtimes
    from toolstead.app.settings import Settings
    from toolstead.invoker.runtime import Runtime
    from toolstead.invoker.runtime_calls import OwnFor
    from toolstead.orchestrator.event_log import EventLog
    from toolstead.orchestrator.orchestrator import Orchestrator
    from toolstead.orchestrator.store import Store
    from toolstead.plugins.hook_runner import HookRunner
    from toolstead.tools.generation import ToolView
    from toolstead.tools.handlers.pinned import Pinned
    from toolstead.types.call import CallTool

logger = logging.getLogger(__name__)

_DAY = 86_400.0
EXPIRE_SECONDS = 3_600.0
_PARTS = ("toolstead.app.runtimes", "toolstead.orchestrator.orchestrator")


class ConversationParts(msgspec.Struct, frozen=True, kw_only=True):
    """What conversations are made of.

    Attributes:
        call_tool: Calls tools for runs.
        own_tools: Gates and logs a runtime's own tools.
        find_view: The tools that an agent may see and call.
        keys: Those of model APIs.
        pinned: Gives the approved copy of the project's folder.
        runtimes: Those of the program's own.
        hooks: Called for every message.
        recover: Ends what else dead processes left behind.
    """

    places: Places
    database: StoreOpener
    log: EventLog
    call_tool: CallTool
    own_tools: OwnFor
    find_view: Callable[[str | None], ToolView]
    keys: Keys
    pinned: Callable[[], Pinned | None]
    runtimes: Sequence[Runtime]
    hooks: HookRunner
    recover: Callable[[], Awaitable[None]]


class OrchestratorOpener:
    """Opens what conversations need, once, and closes it."""

    def __init__(self, parts: ConversationParts) -> None:
        self._parts = parts
        self._opening = asyncio.Lock()
        self._closing = False
        self._expiring: asyncio.Task[None] | None = None
        self._knows_keys = False
        self._orchestrator: Orchestrator | None = None
        self._runtimes: Runtimes | None = None

    async def open(self, settings: Settings) -> Orchestrator:
        """The orchestrator; the first call opens the database and ends runs that were lost.

        Raises:
            StorageError: The database cannot be opened.
        """
        if self._orchestrator is not None and self._knows_keys:
            return self._orchestrator
        orchestrator = await self._open_orchestrator(settings)
        async with self._opening:
            if not self._knows_keys:
                await self._look_for_keys(settings)
        return orchestrator

    async def _open_orchestrator(self, settings: Settings) -> Orchestrator:
        """Open without reading the keyring: a server that runs no agent needs no key."""
        async with self._opening:
            if self._closing:
                raise InvocationError("Toolstead is shutting down; try again after the restart")
            if self._orchestrator is None:
                self._orchestrator = await self._begin_orchestrator(await self._parts.database.open(), settings)
            return self._orchestrator

    async def _look_for_keys(self, settings: Settings) -> None:
        """Ask the keyring where the environment has no key; it may be slow, and may ask a person."""
        from toolstead.app.runtime_choice import lacking_keys

        if lacking := lacking_keys(settings.runtime, self._parts.keys):
            await asyncio.to_thread(self._parts.keys.load, lacking)
        self._knows_keys = True

    def open_early(self, settings: Settings, *, after: float = 0.0) -> Callable[[], Awaitable[None]]:
        """Open in the background, so that the first request does not wait for it; return what ends the opening.

        A failure is logged and raised to the next caller; each caller tries again.
        """
        task = asyncio.create_task(self._open_early(settings, after), name="toolstead-open-database")

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        return end

    def state(self, settings: Settings) -> Mapping[str, Any]:
        """The runtime in use, and the sessions' numbers; opens nothing."""
        from toolstead.app.runtime_choice import usual_runtime
        from toolstead.invoker.lease import PoolStats

        current = self._orchestrator
        stats = current.invoker.pool.stats() if current is not None else PoolStats()
        choice = usual_runtime(settings.runtime, self._parts.keys, self._parts.runtimes)
        return {"runtime": choice.name, "runtimeReason": choice.why, "sessions": asdict(stats)}

    async def close(self) -> None:
        """End the open runs, and store their ends; the database stays open for parts that close later."""
        self._closing = True
        async with self._opening:
            orchestrator, self._orchestrator = self._orchestrator, None
        if orchestrator is not None:
            await orchestrator.close()
        if self._runtimes is not None:
            await self._runtimes.aclose()
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.gather(self._expiring, return_exceptions=True)

    async def _open_early(self, settings: Settings, after: float) -> None:
        await asyncio.sleep(after)
        try:
            await self._open_orchestrator(settings)
        except StorageError as error:
            logger.warning("threads and runs are unavailable for now: %s", error)

    async def _begin_orchestrator(self, store: Store, settings: Settings) -> Orchestrator:
        for part in _PARTS:  # in a worker: calls go on meanwhile
            await asyncio.to_thread(importlib.import_module, part)
        from toolstead.app.runtimes import Runtimes
        from toolstead.invoker.invoker import Invoker
        from toolstead.invoker.pool import SessionPool
        from toolstead.orchestrator.orchestrator import Orchestrator
        from toolstead.orchestrator.request import RunDefaults

        sessions, find_view = settings.sessions, self._parts.find_view
        pool = SessionPool(ttl=sessions.ttl, most_idle=sessions.max, most_live=sessions.max_live)
        runtimes = self._runtimes = Runtimes(
            settings.runtime,
            settings.limits,
            project=self._parts.places.project,
            data=self._parts.places.data,
            keys=self._parts.keys,
            offered=lambda spec: find_view(spec.agent).infos,
            pinned=self._parts.pinned(),
            given=self._parts.runtimes,
        )
        orchestrator = Orchestrator(
            store=store,
            log=self._parts.log,
            invoker=Invoker(pool),
            call_tool=self._parts.call_tool,
            own_tools=self._parts.own_tools,
            hooks=self._parts.hooks,
            defaults=RunDefaults(
                agent=settings.runtime.agent,
                model=settings.runtime.model,
                cwd=self._parts.places.project,
                timeout=settings.limits.run_timeout,
                runtime=runtimes,
                tools=lambda agent: find_view(agent).names,
            ),
        )
        await orchestrator.open()
        await self._parts.recover()
        if settings.storage.retention_days:
            self._expiring = asyncio.create_task(
                self._expire_rows(store, settings.storage.retention_days * _DAY), name="toolstead-retention"
            )
        return orchestrator

    async def _expire_rows(self, store: Store, seconds: float) -> None:
        while True:
            try:
                if count := await store.expire_rows(time.time() - seconds):
                    logger.info(
                        "%s stored events and results were older than %.0f days: deleted", count, seconds / _DAY
                    )
            except Exception:
                logger.exception("old events could not be deleted")
            await asyncio.sleep(EXPIRE_SECONDS)
