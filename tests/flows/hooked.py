"""A stead with three plugins whose every hook notes that it was called, and misbehaves where a test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.surfaces.rest_server import Client, Reply
from tests.waiting import PATIENCE
from toolstead import Toolstead
from toolstead.app.server_file import ServerFile
from toolstead.orchestrator.feed import EventReader
from toolstead.plugins.contract import Hooks, Plugin, PluginContext, Tool
from toolstead.plugins.decorator import tool
from toolstead.types.event import Event

NAMES = ("alpha", "beta", "gamma")
SHORT = 0.05
"""Seconds that a hook may take which does not end in time anyway."""

SCRIPT = """
- when: ^fail
  fail: the model is tired
- when: lose
  lose: 1
  say: 'found again: {{prompt}}'
- when: ^hang
  say: Hm
  hang: 600
- when: ^use
  call: [{tool: echo, input: {text: from a run}}]
- say: "It says: {{result}}"
- when: .
  say: 'You said: {{prompt}}'
"""


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def raises(_: Any) -> Any:
    raise ValueError("boom")


async def hangs(_: Any) -> Any:
    await asyncio.get_running_loop().create_future()


async def is_deaf(_: Any) -> Any:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


async def is_slow(good: Any) -> Any:
    await asyncio.sleep(SHORT * 20)
    return good


async def answers_nonsense(_: Any) -> Any:
    return object()


MISBEHAVIOURS: Mapping[str, tuple[Callable[[Any], Awaitable[Any]], str]] = {
    "raises": (raises, "ValueError: boom"),
    "hangs": (hangs, "did not end within 0.05 seconds"),
    "is deaf": (is_deaf, "ignored its cancellation and was abandoned"),
    "is slow": (is_slow, "did not end within 0.05 seconds"),
    "answers nonsense": (answers_nonsense, "it must answer"),
}
"""What a hook may do instead, and what is said of it then."""


@dataclass(slots=True)
class Notes:
    """What the hooks of all three were called with, in order; and who misbehaves how."""

    called: list[tuple[str, str, tuple[Any, ...]]] = field(default_factory=list[tuple[str, str, tuple[Any, ...]]])
    bad: dict[str, Callable[[Any], Awaitable[Any]]] = field(default_factory=dict[str, Callable[[Any], Awaitable[Any]]])
    """Plugin → what the hook under test does instead."""
    good: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Hook → what it answers instead of None."""

    def of(self, hook: str) -> list[str]:
        """Which plugins' hooks were called, in order."""
        return [plugin for plugin, name, _ in self.called if name == hook]

    def given(self, hook: str, plugin: str = "alpha") -> list[tuple[Any, ...]]:
        """What they were called with."""
        return [given for who, name, given in self.called if (who, name) == (plugin, hook)]


def plugin(name: str, hook: str, notes: Notes, **more: Any) -> Plugin:
    """A plugin with this one hook; `on_before_invoke` puts its name before the prompt."""

    async def called(*given: Any) -> Any:
        notes.called.append((name, hook, given))
        good = f"{name}>{given[1]}" if hook == "on_before_invoke" else notes.good.get(hook)
        return await notes.bad[name](good) if name in notes.bad else good

    async def register(_: PluginContext) -> Hooks:
        hooks: dict[str, Any] = {hook: called}
        return Hooks(**hooks, timeout=SHORT if name in notes.bad else None)

    return Plugin(name=name, register=register, **more)


@dataclass(slots=True)
class World:
    """The stead, and its doors."""

    stead: Toolstead
    folder: Path
    notes: Notes
    statuses: EventReader

    def shown(self, name: str) -> dict[str, Any]:
        """A plugin as doors show it."""
        return next(one for one in self.stead.plugins.show_plugins() if one["name"] == name)

    async def status(self, name: str, state: str) -> Event:
        """The next event that says this of a plugin."""
        async with asyncio.timeout(PATIENCE):
            async for event in self.statuses:
                if (event.data["name"], event.data["state"]) == (name, state):
                    return event
        raise AssertionError

    def heard(self) -> list[str]:
        """What models were told, in the order of their conversations' files."""
        files = sorted((self.folder / "kept").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        said = [pair for path in files for pair in json.loads(path.read_text())["said"]]
        return [text for role, text in said if role == "user"]


@asynccontextmanager
async def hooked(
    folder: Path, *given: Plugin, notes: Notes | None = None, tools: tuple[Tool, ...] = (echo,), **settings: Any
) -> AsyncIterator[World]:
    """A stead with these plugins, a scripted model, and the tool `echo`."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    script = folder / "script.yaml"
    script.write_text(SCRIPT)
    runtime = {"runtime": {"scripted": {"script": str(script), "folder": str(folder / "kept")}}}
    async with Toolstead(project, settings={**runtime, **settings}, plugins=given, watch=False) as stead:
        stead.registry.register(*tools)
        with stead.events({"plugin.status"}) as statuses:
            yield World(stead, folder, notes or Notes(), statuses)


@asynccontextmanager
async def door(stead: Toolstead) -> AsyncIterator[PrivateClient]:
    """The stead behind HTTP, and a person who may change it."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(
        stead.serve_http(port=0, on_ready=lambda address: ready.set_result(address.url), stop=stop)
    )
    await asyncio.wait([task, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    server = ServerFile(stead.places.data).find_server(stead.places.project)
    assert server is not None
    client = PrivateClient(await ready, server.token)
    try:
        yield client
    finally:
        client.leave()
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


@dataclass(slots=True)
class PrivateClient(Client):
    """Somebody who has the private token."""

    token: str

    async def change(self, name: str, **what: Any) -> Reply:
        return await self.ask("PATCH", f"/api/plugins/{name}", what, {"Authorization": f"Bearer {self.token}"})
