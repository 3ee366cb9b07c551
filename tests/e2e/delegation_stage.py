"""Delegated work on a stage: helpers in files, gates that they wait at, and what is stored of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.agent_folder import write_agent
from tests.e2e.model_stage import Player, Stage
from tests.waiting import PATIENCE
from toolstead import Tool
from toolstead.delegation.task_store import TaskFilter
from toolstead.types.task import Task

HELPERS = {"multi_agent": {"agents": ["helper", "aide"]}}


def write_helper(stage: Stage, player: Player | None = None, *, name: str = "helper", more: str = "") -> None:
    """Write the file of an agent that works on a runtime, the stage's own unless given."""
    player = player or stage.player
    given = f"runtime: {player.runtime}\nmodel: {player.model}\n{more}"
    write_agent(name, given.rstrip(), home=stage.folder / "home")


@dataclass(slots=True, eq=False)
class Gate:
    """A place where a script waits."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    let: asyncio.Event = field(default_factory=asyncio.Event)

    async def reached(self) -> None:
        await asyncio.wait_for(self.begun.wait(), PATIENCE)


def gates(*names: str) -> tuple[list[Tool], Mapping[str, Gate]]:
    """Tools that wait until a test lets them go on."""
    found = {name: Gate() for name in names}

    def make(name: str, gate: Gate) -> Tool:
        async def wait(_: Any, input: dict[str, Any], meta: Any) -> str:
            gate.begun.set()
            await gate.let.wait()
            return "go on"

        return Tool(name=name, description="Waits.", handler=wait)

    return [make(name, gate) for name, gate in found.items()], found


async def find_tasks(stage: Stage) -> list[Task]:
    """All tasks, the oldest first."""
    store = (await stage.stead.conversations()).store
    return list(reversed(await store.list_tasks(TaskFilter())))


async def settle(stage: Stage) -> list[Task]:
    """Wait until no task and no run is open and every result is delivered; gives the tasks, the oldest first."""
    store = (await stage.stead.conversations()).store
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await find_tasks(stage)
            is_over = bool(found) and not any(task.is_open or task.delivered_at is None for task in found)
            if is_over and not await store.list_runs(unfinished=True):
                return found
            await asyncio.sleep(0.01)
