"""A yard whose agent runs on a real runtime, over the real SDKs, against scripted model APIs on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolyard import Plugin, Tool, Toolyard
from toolyard.testing import Captured, ScriptedModels, scripted_models
from toolyard.types.event import Event
from toolyard.types.run import Run

PATIENCE = 60
"""Seconds that anything may take on a busy machine; nothing is measured by it."""

MODELS = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai": "openai:gpt-6.1-terra",
    "openai-chat": "openai-chat:gpt-6.1-terra",
    "gemini": "google:gemini-3.8-flash",
}
"""The API, as a captured request names it → the model that is asked for."""


@dataclass(kw_only=True)
class Stage:
    """What a test has in its hands.

    Attributes:
        events: Of all runs, in order.
    """

    yard: Toolyard
    api: ScriptedModels
    name: str
    folder: Path
    events: list[Event] = field(default_factory=list[Event])

    @property
    def requests(self) -> list[Captured]:
        return self.api.requests

    async def ask(self, prompt: str, **more: Any) -> Run:
        run = self.yard.invoke(prompt, model=MODELS[self.name], runtime="kernel", on_message=self.events.append, **more)
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
    name: str,
    script: str,
    folder: Path,
    *,
    tools: Sequence[Tool] = (),
    plugins: Sequence[Plugin] = (),
    files: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> AsyncIterator[Stage]:
    """Open a yard on a scripted API; at its end nothing may be left at work there."""
    project, tool_files = folder / "project", folder / "tool-files"
    (project / ".git").mkdir(parents=True)
    tool_files.mkdir()
    for file, content in (files or {}).items():
        (tool_files / file).write_text(json.dumps(content))
    async with scripted_models(script) as api:
        environ = {"PATH": os.environ["PATH"], "TOOLYARD_HOME": str(folder / "home"), **api.environ()}
        async with Toolyard(
            project, tools_dir=tool_files, environ=environ, plugins=plugins, settings=settings, installed_plugins=True
        ) as yard:
            for tool in tools:
                yard.registry.register(tool)
            stage = Stage(yard=yard, api=api, name=name, folder=folder)
            yield stage
        await stage.until(lambda: api.active == 0)
