"""An orchestrator with everything real around it: a database in a file, a pool, a dispatcher; and a watchful store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE
from toolstead.adapters.storage.store import open_store
from toolstead.errors import StorageError
from toolstead.invoker.clock import REAL_CLOCK, Clock
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.pool import SessionPool
from toolstead.invoker.runtime import Runtime, SessionSpec, TurnLimits
from toolstead.orchestrator.event_log import EventLog
from toolstead.orchestrator.ids import Ids
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.orchestrator import LAST_EVENTS, Orchestrator
from toolstead.orchestrator.request import RunConfig, RunRequest
from toolstead.orchestrator.store import Store
from toolstead.plugins.decorator import tool
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.types.event import Event
from toolstead.types.run import Invoking, Run, TreeLimits
from toolstead.types.thread import Role

Noted = list[tuple[str, ...]]


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class WatchedStore:
    """A real store that notes what is asked of it, and fails where a test says so."""

    def __init__(self, store: Store, noted: Noted) -> None:
        self._store = store
        self._noted = noted
        self.fail: Counter[str] = Counter()
        """Method → how many times it raises from now on."""
        self.asked: Counter[str] = Counter()
        """Method → how many times the database was asked for it."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def ask(*given: Any, **named: Any) -> Any:
            if self.fail[name]:
                self.fail[name] -= 1
                raise StorageError(f"the disk says no to {name}")
            self.asked[name] += 1
            outcome = await found(*given, **named)
            self._noted.append(("store", name))
            return outcome

        return ask


class Recording:
    """Hooks that note when they are called, and raise where a test says so."""

    def __init__(self, noted: Noted, fail: str = "") -> None:
        self._noted = noted
        self._fail = fail
        self.warmth: list[str] = []
        self.change: Callable[[str], str] = lambda prompt: prompt

    async def on_message(self, thread_id: str, role: Role, content: str) -> None:
        self._note(f"on_message {role}", content)

    async def on_before_invoke(self, thread_id: str, prompt: str, invocation: Invoking) -> str:
        self.warmth.append(invocation.session)
        self._note("on_before_invoke", prompt)
        return self.change(prompt)

    async def on_after_invoke(self, thread_id: str, result: Any) -> None:
        self._note("on_after_invoke", result.result or result.status)

    async def on_broadcast(self, event: str, data: Mapping[str, Any]) -> None:
        self._note("on_broadcast", event)

    def _note(self, name: str, text: str) -> None:
        self._noted.append((name, text))
        if self._fail == name:
            raise RuntimeError(f"{name} is broken")


@dataclass(kw_only=True)
class World:
    orchestrator: Orchestrator
    store: WatchedStore
    hooks: Recording
    log: EventLog
    noted: Noted = field(default_factory=list)

    async def ask(self, prompt: str, thread_id: str = "t", **more: Any) -> Run:
        """Submit, and wait for the end."""
        accepted = await self.orchestrator.submit(RunRequest(prompt=prompt, thread_id=thread_id, **more))
        return await self.end_of(accepted.run_id)

    async def post(self, prompt: str, thread_id: str = "t", **more: Any) -> str:
        """Submit; the run's id."""
        return (await self.orchestrator.submit(RunRequest(prompt=prompt, thread_id=thread_id, **more))).run_id

    async def end_of(self, run_id: str) -> Run:
        return await bounded(self.orchestrator.wait(run_id))

    async def events_of(self, run_id: str) -> list[Event]:
        return await self.store.list_events(EventFilter(run_id=run_id), limit=10_000)

    async def check_end(self, run_id: str) -> Run:
        """The run as it is stored, which has exactly one end, and nothing after it."""
        told = [event.type for event in await self.events_of(run_id)]
        assert [kind for kind in told if kind in LAST_EVENTS] == told[-1:], told
        run: Run = await self.store.read_run(run_id)
        assert run.has_ended
        assert run.ended_at is not None
        expected = {"completed": "completed", "cancelled": "cancelled"}.get(run.status, "error")
        assert told[-1] == expected
        return run


@dataclass(frozen=True, slots=True)
class OneRuntime:
    """Configures every agent alike, on one runtime."""

    cwd: Path
    runtime: Runtime
    timeout: float
    registry: Registry

    def resolve_agent(self, agent: str, *, model: str = "", runtime: str = "", is_child: bool = False) -> RunConfig:
        return RunConfig(
            agent=agent or "main",
            runtime=self.runtime,
            model=self.runtime.resolve_model(model),
            timeout=self.timeout,
            tree=TreeLimits(),
            turn=TurnLimits(),
        )

    def choose_runtime(self, preferred: str, model: str) -> Runtime:
        return self.runtime

    async def check_agent(self, agent: str, *, model: str = "", runtime: str = "") -> None:
        """Every agent can be asked."""

    def build_spec(
        self, config: RunConfig, *, cwd: Path, may_spawn: bool, has_task: bool = False, profile: str | None = None
    ) -> SessionSpec:
        view = self.registry.find_view(config.agent, may_spawn=may_spawn, has_task=has_task)
        return SessionSpec(agent=config.agent, model=config.model, cwd=cwd, tools=view.names, may_spawn=may_spawn)


async def bounded(waiting: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(waiting, PATIENCE)


@asynccontextmanager
async def talking(
    folder: Path,
    runtime: Runtime,
    *,
    fail: str = "",
    hooks: Any = None,
    timeout: float = 60,
    pool: SessionPool | None = None,
    clock: Clock = REAL_CLOCK,
    ids: Ids | None = None,
) -> AsyncIterator[World]:
    """A world around a runtime; in the end it is closed, and so is every session."""
    noted: Noted = []
    store: Any = WatchedStore(await open_store(folder / "toolstead.db"), noted)
    log = EventLog()
    log.attach_store(store)
    registry = Registry([])
    await registry.reload()
    registry.register(add)
    dispatcher = Dispatcher(registry, events=log, cwd=folder, timeout=60)
    recording = Recording(noted, fail)
    orchestrator = Orchestrator(
        store=store,
        log=log,
        invoker=Invoker(pool or SessionPool()),
        call_tool=dispatcher.call,
        agents=OneRuntime(folder, runtime, timeout, registry),
        hooks=hooks or recording,
        clock=clock,
        ids=ids,
    )
    await orchestrator.open()
    try:
        yield World(orchestrator=orchestrator, store=store, hooks=recording, log=log, noted=noted)
    finally:
        await bounded(orchestrator.close())
        await bounded(log.detach_store())
        await bounded(store.close())
