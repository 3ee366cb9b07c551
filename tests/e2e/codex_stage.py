"""A yard whose agent runs on the real Codex program, against a scripted Responses API on loopback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolyard import Plugin, Tool, Toolyard
from toolyard.adapters.codex.runtime import CodexRuntime
from toolyard.invoker.runtime import SessionSpec
from toolyard.testing import Captured, ScriptedModels, scripted_models
from toolyard.types.event import Event
from toolyard.types.run import Run
from toolyard.types.tool import ToolInfo

PATIENCE = 60
"""Seconds that anything may take on a busy machine; nothing is measured by it."""
MODEL = "openai:gpt-6.1-terra"


@dataclass(kw_only=True)
class CodexStage:
    """What a test has in its hands.

    Attributes:
        home: The folder that Codex lives in.
        events: Of all runs, in order.
    """

    yard: Toolyard
    api: ScriptedModels
    runtime: CodexRuntime
    folder: Path
    home: Path
    events: list[Event] = field(default_factory=list[Event])

    @property
    def requests(self) -> list[Captured]:
        return self.api.requests

    @property
    def pid(self) -> int:
        """The process of this moment."""
        parts = self.runtime._parts
        assert parts is not None
        station = parts[0]._current
        assert station is not None
        return station.server.pid

    async def ask(self, prompt: str, **more: Any) -> Run:
        run = self.yard.invoke(prompt, model=MODEL, runtime="codex", on_message=self.events.append, **more)
        return await asyncio.wait_for(run, PATIENCE)

    def told(self, type: str) -> list[Mapping[str, Any]]:
        return [event.data for event in self.events if event.type == type]

    async def until(self, condition: Any) -> None:
        """Wait for something that only another task can bring about."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)


@asynccontextmanager
async def playing(
    script: str,
    folder: Path,
    *,
    tools: Sequence[Tool] = (),
    plugins: Sequence[Plugin] = (),
    own: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    **more: Any,
) -> AsyncIterator[CodexStage]:
    """Open a yard on Codex; at its end no process may be left, and nobody at work on the API."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True, exist_ok=True)
    yards: list[Toolyard] = []

    def offered(spec: SessionSpec) -> Sequence[ToolInfo]:
        return yards[0].registry.list_tools()

    async with scripted_models(script) as api:
        surroundings = {"PATH": os.environ["PATH"], "TOOLYARD_HOME": str(folder / "home"), **api.environ()}
        surroundings |= environ or {}
        home = folder / "codex"
        runtime = CodexRuntime(offered=offered, folder=home, lookup=surroundings.get, tools=own)
        async with Toolyard(
            project, environ=surroundings, plugins=plugins, runtimes=[runtime], installed_plugins=False, **more
        ) as yard:
            yards.append(yard)
            for tool in tools:
                yard.registry.register(tool)
            stage = CodexStage(yard=yard, api=api, runtime=runtime, folder=folder, home=home)
            yield stage
        assert not processes_of(home)
        await stage.until(lambda: api.active == 0)


def processes_of(home: Path) -> list[int]:
    """The processes that live in a Codex home, by what they were started with."""
    wanted = f"CODEX_HOME={home}".encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            surroundings = path.read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if wanted in surroundings:
            found.append(int(path.parent.name))
    return found


def offered_in(request: Captured) -> dict[str, dict[str, Any]]:
    """Our tools in a captured request: their name → what arrived of them."""
    spaces = [tool for tool in request.body["tools"] if tool.get("type") == "namespace"]
    assert [space["name"] for space in spaces] == ["mcp__toolyard"]
    return {tool["name"]: tool for tool in spaces[0]["tools"]}


def own_in(request: Captured) -> set[str]:
    """Codex's own tools in a captured request."""
    return {tool.get("name", tool["type"]) for tool in request.body["tools"] if tool.get("type") != "namespace"}


def results_in(request: Captured) -> list[str]:
    """The texts of all tool results, in order, without what Codex puts before each."""
    items = [item for item in request.body["input"] if item.get("type") == "function_call_output"]
    return [_text(item["output"]) for item in items]


def _text(output: Any) -> str:
    shown = output if isinstance(output, str) else "\n".join(part.get("text", "") for part in output)
    return shown.partition("Output:\n")[2] or shown
