"""A stead whose agent runs on a real runtime, over the real SDKs, against scripted model APIs on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.view import View
from tests.waiting import PATIENCE
from toolstead import Plugin, Tool, Toolstead
from toolstead.app.keys import Keys
from toolstead.app.runtimes import Models
from toolstead.invoker.kernel_runtime import KernelRuntime
from toolstead.kernel.activation import Limits
from toolstead.orchestrator.request import RunRequest
from toolstead.testing import Captured, ScriptedModels, scripted_models
from toolstead.types.event import Event
from toolstead.types.run import Run

MODELS = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai": "openai:gpt-6.1-terra",
    "openai-chat": "openai-chat:gpt-6.1-terra",
    "gemini": "google:gemini-3.8-flash",
}
"""The API, as a captured request names it → the model that is asked for."""


def _no_programs(kept: Path) -> list[int]:
    return []


async def freeze(pid: int) -> None:
    """Stop a process, all its threads: the signal reaches one of them, and on a busy machine the others go on."""
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE):
        while {_state(thread) for thread in Path(f"/proc/{pid}/task").iterdir()} != {"T"}:
            await asyncio.sleep(0.001)


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Who plays on a stage: a runtime and its model.

    Attributes:
        name: What tests call it; for the kernel, the API.
        programs: The processes that live in the runtime's private folder.
        shares_its_program: Whether one process serves all threads.
    """

    name: str
    runtime: str
    model: str
    view: View
    programs: Callable[[Path], list[int]] = _no_programs
    shares_its_program: bool = False


KERNELS = {
    name: Player(name=name, runtime="kernel", model=model, view=View()) for name, model in sorted(MODELS.items())
}


@dataclass(kw_only=True)
class Stage:
    """What a test has in its hands.

    Attributes:
        events: Of all runs, in order.
    """

    stead: Toolstead
    api: ScriptedModels
    player: Player
    folder: Path
    events: list[Event] = field(default_factory=list[Event])

    @property
    def name(self) -> str:
        return self.player.name

    @property
    def view(self) -> View:
        return self.player.view

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def kept(self) -> Path:
        """The private folder of a runtime that starts programs."""
        return self.stead.places.data / self.player.runtime

    @property
    def requests(self) -> list[Captured]:
        return self.api.requests

    @property
    def programs(self) -> list[int]:
        """The processes that run for this stage, and what they started; the kernel has none."""
        return self.player.programs(self.kept)

    @property
    def program(self) -> int:
        """The only one."""
        (only,) = self.programs
        return only

    async def ask(self, prompt: str, **more: Any) -> Run:
        given = {"model": self.player.model, "runtime": self.player.runtime, "on_message": self.events.append}
        return await asyncio.wait_for(self.stead.invoke(prompt, **{**given, **more}), PATIENCE)

    async def ask_in(self, cwd: str, prompt: str) -> Run:
        """Ask in a folder of the project."""
        orchestrator = await self.stead.conversations()
        wanted = RunRequest(prompt=prompt, model=self.player.model, runtime=self.player.runtime, cwd=cwd)
        run = await orchestrator.submit(wanted)
        return await asyncio.wait_for(orchestrator.wait(run.run_id), PATIENCE)

    async def steer(self, prompt: str, thread_id: str) -> str:
        """Say something to the turn that runs; gives the id of its run."""
        orchestrator = await self.stead.conversations()
        return (await orchestrator.steer(RunRequest(prompt=prompt, thread_id=thread_id))).run_id

    async def write_tool(self, name: str, words: str, *, description: str = "Is new.") -> None:
        """Write the file of a tool that says some words, and load it."""
        described = {"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}}
        file = {"name": name, "tools": [{**described, "handler": {"type": "shell", "command": f"echo {words}"}}]}
        self.tool_file(name).write_text(json.dumps(file))
        await self.stead.registry.reload_plugins()

    async def drop_tool(self, name: str) -> None:
        """Delete its file, and load what is left."""
        self.tool_file(name).unlink()
        await self.stead.registry.reload_plugins()

    def tool_file(self, name: str) -> Path:
        return self.folder / "tool-files" / f"{name}.json"

    def told(self, type: str) -> list[Mapping[str, Any]]:
        return [event.data for event in self.events if event.type == type]

    def offered(self, request: Captured) -> dict[str, dict[str, Any]]:
        """Our tools in a request: their names → the schemas that arrived."""
        known = {self.view.spelled(info.name): info.name for info in self.stead.registry.list_tools()}
        return {known.get(name, name): schema for name, schema in self.view.offered(request).items()}

    async def until(self, condition: Any) -> None:
        """Wait for something that only another task can bring about."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)


Play = Callable[..., AbstractAsyncContextManager[Stage]]
"""Opens a stage; what it takes is said at `playing`."""


@asynccontextmanager
async def playing(
    player: Player,
    script: str,
    folder: Path,
    *,
    tools: Sequence[Tool] = (),
    plugins: Sequence[Plugin] = (),
    files: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    own: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Stage]:
    """Open a stead on a scripted API; at its end no program may be left, and nothing at work there.

    Args:
        player: The runtime.
        script: What the model does.
        folder: For everything that is written.
        tools: Registered when the stead is open.
        plugins: Of the stead.
        files: Of its folder of tool files.
        settings: Of the stead.
        own: Tools of the runtime's own that it may use.
        environ: Of the stead, besides what leads to the API.
        limits: Of the kernel, instead of those of the settings.
    """
    project, tool_files = folder / "project", folder / "tool-files"
    for place in (project / ".git", tool_files):
        place.mkdir(parents=True)
    for file, content in (files or {}).items():
        (tool_files / file).write_text(json.dumps(content))
    if own:
        settings = {**(settings or {}), "runtime": {player.runtime: {"tools": list(own)}}}
    async with scripted_models(script) as api, AsyncExitStack() as opened:
        given = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "TOOLSTEAD_HOME": str(folder / "home")}
        given |= {**api.environ(), **(environ or {})}
        steads: list[Toolstead] = []
        runtimes: list[KernelRuntime] = []
        if limits is not None:
            models = Models(Keys(given))
            opened.push_async_callback(models.aclose)
            runtimes.append(
                KernelRuntime(
                    connect=models.connect,
                    resolve=models.resolve_model,
                    offered=lambda spec: steads[0].registry.list_tools(),
                    limits=limits,
                )
            )
        async with Toolstead(
            project, tools_dir=tool_files, environ=given, plugins=plugins, settings=settings, runtimes=runtimes
        ) as stead:
            steads.append(stead)
            for tool in tools:
                stead.registry.register(tool)
            stage = Stage(stead=stead, api=api, player=player, folder=folder)
            yield stage
        assert not stage.programs, "a program was left behind"
        await stage.until(lambda: api.active == 0)
