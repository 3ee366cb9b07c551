"""The `delegation` plugin: hand a task to a sub-agent and go on; report progress to whoever delegated.

Both tools are thin: limits, budgets, review and delivery are those of every delegated task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.plugins.contract import Plugin, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.types.tool import Annotations

MOST_ATTEMPTS = 20
LONGEST_MESSAGE = 10_000

_DELEGATE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "Detailed task description for the sub-agent"},
        "model": {
            "type": "string",
            "description": "Model to use (e.g. claude-sonnet-4-6). Defaults to system default.",
        },
        "maxIterations": {
            "type": "number",
            "description": "Maximum validation retry attempts. Default 5.",
            "default": 5,
            "minimum": 1,
            "maximum": MOST_ATTEMPTS,
        },
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
_CHECKIN: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The progress update message", "maxLength": LONGEST_MESSAGE}
    },
    "required": ["message"],
    "additionalProperties": False,
}


async def _delegate(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    task_id = await ctx.tasks.start(
        input["prompt"], parent=meta, model=input.get("model"), max_attempts=int(input["maxIterations"])
    )
    return f"Task delegated. You will be notified when it completes. (task {task_id})"


async def _check_in(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    await ctx.tasks.checkin(input["message"], meta=meta)
    return "Check-in sent."


plugin = Plugin(
    name="delegation",
    version="1.0.0",
    tools=(
        Tool(
            name="delegate",
            title="Delegate a task",
            description=(
                "Spawn a sub-agent to work on a task in a separate thread. Use this when a task can be done "
                "independently without blocking the current conversation. The sub-agent will work autonomously and "
                "report results back."
            ),
            schema=_DELEGATE,
            handler=_delegate,
            annotations=Annotations(read_only=False, destructive=False, open_world=True),
            spawns=True,
            audience="runs",
        ),
        Tool(
            name="checkin",
            title="Check in",
            description=(
                "Send a progress update to the parent thread. Use this during long-running delegated tasks to keep the "
                "user informed."
            ),
            schema=_CHECKIN,
            handler=_check_in,
            annotations=Annotations(read_only=False, destructive=False, open_world=False),
            audience="tasks",
        ),
    ),
)
