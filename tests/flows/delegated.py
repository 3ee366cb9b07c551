"""A stead whose agents do as a test says, and what tests ask about the tasks that they delegate."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime
from tests.waiting import until
from toolstead import Plugin, Toolstead
from toolstead.delegation.task_store import TaskFilter
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.types.run import Run
from toolstead.types.task import Task

Act = Callable[[Turn], Awaitable[Answer]]
AGENTS = ("helper", "aide")


@dataclass(frozen=True)
class Stage:
    """A stead at work, and what is stored of it."""

    stead: Toolstead
    talk: Orchestrator
    runtime: BenchRuntime

    async def list_tasks(self, **wanted: Any) -> list[Task]:
        """The tasks, the oldest first."""
        return list(reversed(await self.talk.store.list_tasks(TaskFilter(**wanted), limit=10_000)))

    async def list_runs(self, **wanted: Any) -> list[Run]:
        """The runs, the oldest first."""
        return list(reversed(await self.talk.store.list_runs(limit=10_000, **wanted)))

    async def wait_for_task(self, task_id: str) -> Task:
        return await bounded((await self.stead.delegation()).delegation.wait_for_task(task_id))

    async def cancel(self, task_id: str) -> Task:
        return await bounded((await self.stead.delegation()).delegation.cancel(task_id))

    async def settle(self) -> list[Task]:
        """Wait until every task has ended and is delivered, and every run has ended; the tasks."""

        async def is_quiet() -> bool:
            tasks = await self.list_tasks()
            is_told = all(not task.is_open and task.delivered_at is not None for task in tasks)
            return is_told and not await self.talk.store.list_runs(unfinished=True)

        await until(is_quiet)
        return await self.list_tasks()


@asynccontextmanager
async def stage(
    folder: Path,
    act: Act,
    *,
    settings: Mapping[str, Any] | None = None,
    agents: Mapping[str, str] | None = None,
    plugins: Sequence[Plugin] = (),
) -> AsyncGenerator[Stage]:
    """A stead with agents whose frontmatter is given; each may delegate to each."""
    written = dict.fromkeys(AGENTS, "") | dict(agents or {})
    for name, frontmatter in written.items():
        write_agent(name, frontmatter)
    runtime = BenchRuntime(act=act, owns_process=False)
    given: dict[str, Any] = {**(settings or {})}
    given["multi_agent"] = {"agents": list(written), **given.get("multi_agent", {})}
    async with Toolstead(folder, plugins=list(plugins), runtimes=[runtime], settings=given, watch=False) as stead:
        yield Stage(stead, await stead.conversations(), runtime)


async def delegate(turn: Turn, prompt: str, agent: str = "helper", **more: Any) -> dict[str, Any]:
    """What `delegate_agent` answers."""
    return await send(turn, agent_id=agent, prompt=prompt, **more)


async def send(turn: Turn, **input: Any) -> dict[str, Any]:
    result = await turn.call_tool("delegate_agent", input)
    found: dict[str, Any] = json.loads(result.text)
    assert result.is_error == (found["status"] == "error")
    return found
