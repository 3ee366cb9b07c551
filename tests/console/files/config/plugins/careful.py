"""A plugin that asks a person, has settings of several kinds, and holds calls at gates."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pydantic import BaseModel, Field

from toolstead import Ask, Hooks, Plugin, PluginContext, tool
from toolstead.plugins.contract import ToolCall


class Settings(BaseModel):
    targets: list[str] = Field(default=["production"], description="Targets that a person is asked about.")
    seconds: int = Field(default=600, ge=1, le=3600, description="How long a call waits for an answer.")
    dry: bool = False


@tool
async def deploy(target: str, version: str) -> str:
    """Deploy a version to a target.

    Args:
        target: Where to.
        version: What.
    """
    return f"{version} is on {target}"


@tool
async def count(number: int) -> int:
    """Count.

    Args:
        number: How far.
    """
    return number


@tool
async def hold(gate: str) -> str:
    """Wait until a gate is open.

    Args:
        gate: Its name.
    """
    while not Path(os.environ["STAGE_GATES"], gate).exists():
        await asyncio.sleep(0.02)
    return f"{gate} is open"


async def register(ctx: PluginContext) -> Hooks:
    async def on_before_tool(call: ToolCall) -> Ask | None:
        if call.name == "careful__deploy" and call.input["target"] in ctx.settings.targets:
            reason = f"deploy {call.input['version']} to {call.input['target']}?"
            return Ask(reason, timeout=ctx.settings.seconds)
        return None

    return Hooks(on_before_tool=on_before_tool)


plugin = Plugin(name="careful", version="1.2.0", register=register, settings=Settings, tools=[deploy, count, hold])
