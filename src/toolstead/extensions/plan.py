"""The `plan` plugin: `update_plan`, with which a model shows what it is going to do and how far it is.

It keeps nothing. A plan that fits the schema becomes the event `plan.updated`; clients draw the
checklist. One that does not fit never gets here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.plugins.contract import Plugin, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.types.tool import Annotations

_DESCRIPTION = """\
Updates the task plan. Provide a list of plan items, each with a step and a status, and optionally an explanation. \
Every call replaces the whole plan, so list finished steps too. Keep one step in_progress while you work on it."""

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string", "description": "Why the plan is what it is, or why it changed."},
        "plan": {
            "type": "array",
            "description": "The list of steps, in order.",
            "items": {
                "type": "object",
                "properties": {
                    "step": {"type": "string", "description": "What is to be done, in a few words."},
                    "status": {
                        "type": "string",
                        "enum": ["pending", "in_progress", "completed"],
                        "description": "One of: pending, in_progress, completed.",
                    },
                },
                "required": ["step", "status"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["plan"],
    "additionalProperties": False,
}


async def _update_plan(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    steps = [dict(item) for item in input["plan"]]  # a caller that goes on changing its list changes no event
    await ctx.threads.broadcast("plan.updated", {**input, "plan": steps}, meta=meta)
    return "Plan updated"


plugin = Plugin(
    name="plan",
    version="1.0.0",
    tools=(
        Tool(
            name="update_plan",
            title="Update the plan",
            description=_DESCRIPTION,
            schema=_SCHEMA,
            handler=_update_plan,
            annotations=Annotations(read_only=False, destructive=False, idempotent=True, open_world=False),
        ),
    ),
)
