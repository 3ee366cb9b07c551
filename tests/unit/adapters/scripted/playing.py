"""A turn that keeps what it was told and which tools it called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolstead.adapters.scripted.runtime import ScriptedRuntime, ScriptedSession
from toolstead.invoker.runtime import SessionSpec, Turn
from toolstead.types.call import Caller
from toolstead.types.content import Text
from toolstead.types.result import ToolResult

SPEC = SessionSpec(agent="main", model="m", cwd=Path("/project"))


@dataclass
class Listener:
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    called: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        self.told.append((kind, data))

    async def call_tool(self, name: str, input: Mapping[str, Any], *, call_id: str | None = None) -> ToolResult:
        self.called.append((name, input))
        return ToolResult(content=(Text(f"{name} says {dict(input)}"),))

    def turn(self, prompt: str) -> Turn:
        return Turn(prompt=prompt, caller=Caller(), tell=self.tell, call_tool=self.call_tool)

    @property
    def deltas(self) -> list[str]:
        return [data["text"] for kind, data in self.told if kind == "message.delta"]


async def opened(script: str, thread: str = "t", **options: Any) -> tuple[ScriptedRuntime, ScriptedSession]:
    runtime = ScriptedRuntime(script, **options)
    return runtime, await runtime.open(SPEC, thread_id=thread)


async def answers(script: str, *prompts: str) -> list[str]:
    """What one session answers, one prompt after another."""
    _, session = await opened(script)
    return [(await session.run(Listener().turn(prompt))).text for prompt in prompts]
