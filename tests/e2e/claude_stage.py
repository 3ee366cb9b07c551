"""A yard whose agent is the real Claude Code, against a scripted Messages API on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import captured
from tests.e2e.model_stage import PATIENCE, Stage
from toolyard import Plugin, Tool, Toolyard
from toolyard.adapters.claude.runtime import ClaudeRuntime
from toolyard.testing import Captured, scripted_models
from toolyard.types.run import Run

PREFIX = "mcp__toolyard__"


@dataclass(kw_only=True)
class ClaudeStage(Stage):
    """What a test has in its hands.

    Attributes:
        kept: The private folder of the runtime.
    """

    kept: Path

    async def ask(self, prompt: str, **more: Any) -> Run:
        run = self.yard.invoke(prompt, runtime="claude", on_message=self.events.append, **more)
        return await asyncio.wait_for(run, PATIENCE)

    @property
    def processes(self) -> list[int]:
        """The programs that run for this stage, and what they started."""
        return processes_of(self.kept)


@asynccontextmanager
async def playing(
    script: str,
    folder: Path,
    *,
    tools: Sequence[Tool] = (),
    plugins: Sequence[Plugin] = (),
    files: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    own: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[ClaudeStage]:
    """Open a yard on Claude Code; at its end no program may be left, and nothing at work at the API."""
    project, tool_files, kept = folder / "project", folder / "tool-files", folder / "claude"
    for place in (project / ".git", tool_files):
        place.mkdir(parents=True, exist_ok=True)
    for file, content in (files or {}).items():
        (tool_files / file).write_text(json.dumps(content))
    async with scripted_models(script) as api:
        given = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "TOOLYARD_HOME": str(folder / "home")}
        given |= {**api.environ(), **(environ or {})}
        yards: list[Toolyard] = []
        runtime = ClaudeRuntime(
            environ=given,
            lookup=given.get,
            offered=lambda spec: yards[0].registry.list_tools(),
            folder=kept,
            tools=own,
        )
        async with Toolyard(
            project, tools_dir=tool_files, environ=given, plugins=plugins, settings=settings, runtimes=[runtime]
        ) as yard:
            yards.append(yard)
            for tool in tools:
                yard.registry.register(tool)
            stage = ClaudeStage(yard=yard, api=api, name="anthropic", folder=folder, kept=kept)
            yield stage
        assert not stage.processes, "a program was left behind"
        await stage.until(lambda: api.active == 0)


def tools_of(request: Captured) -> dict[str, dict[str, Any]]:
    """The name of each of our tools → the schema that arrived."""
    found = captured.tools_of(request)
    return {name.removeprefix(PREFIX): schema for name, schema in found.items() if name.startswith(PREFIX)}


def spoken(request: Captured) -> list[str]:
    """What the user said, without what Claude Code writes beside it."""
    return [text.strip() for text in captured.user_texts(request) if not text.startswith("<system-reminder>")]


def processes_of(kept: Path) -> list[int]:
    """The programs that keep their temporary files in this folder, and what they started; the dead ones not."""
    mark = f"CLAUDE_CODE_TMPDIR={kept / 'tmp'}".encode()
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and mark in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return sorted(found)
