"""The `agents` plugin: hand work to agents by name, read what became of it, and reach whoever delegated.

`delegate_agent` has the schema of its document, with three fields more. The tools are thin: which agents an agent may
delegate to, limits, budgets, review and delivery are those of every delegated task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolstead.errors import ToolError
from toolstead.plugins.contract import Plugin, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.types.agent import DELEGATE_NAME
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations

LONGEST_WAIT = 604_800.0
"""The call that waits ends with its run, which has a limit of its own."""
MOST_ITEMS = 1_000
LONGEST_MESSAGE = 100_000

_ID = {"type": "string", "pattern": DELEGATE_NAME}
_CONTEXT = {
    "type": "object",
    "properties": {
        "working_directory": {"type": "string"},
        "hints": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": True,
}
_DELEGATE_AGENT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "agent_id": _ID,
        "prompt": {"type": "string"},
        "context": _CONTEXT,
        "batch": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["agent_id", "prompt"],
                "properties": {"agent_id": _ID, "prompt": {"type": "string"}, "context": _CONTEXT},
                "additionalProperties": False,
            },
        },
        "mode": {
            "type": "string",
            "enum": ["immediate", "detached"],
            "description": "immediate waits for the results; detached goes on, and the results come in a later turn.",
        },
        "conversation_id": {
            "type": "string",
            "description": "Ask the agent of an earlier run again, in the same conversation.",
        },
        "queue": {
            "type": "boolean",
            "description": "Wait for a free slot when the agent works on as many tasks as it may.",
        },
    },
    "anyOf": [
        {"required": ["agent_id", "prompt"]},
        {"required": ["batch"], "properties": {"batch": {"minItems": 1}}},
    ],
    "additionalProperties": False,
}
_STATUS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "action": {
            "type": "string",
            "enum": ["list", "read", "cancel"],
            "description": "list: your tasks; read: the result of one; cancel: end one.",
            "default": "list",
        },
        "run_id": {"type": "string", "description": "The task, for read and cancel."},
        "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Where to read on in the result."},
    },
    "additionalProperties": False,
}
_SPAWN: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "agent": {"type": "string", "description": "The name of an existing agent; or give `markdown`."},
        "markdown": {
            "type": "string",
            "description": (
                "A new agent as markdown: frontmatter between two lines of --- (name, description, model, tools, "
                "limits), then its instructions."
            ),
        },
        "prompt": {"type": "string", "description": "What the agent is to do."},
        "mode": {
            "type": "string",
            "enum": ["immediate", "detached"],
            "default": "detached",
            "description": "detached goes on, and the result comes in a later turn; immediate waits for it.",
        },
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
_SIGNAL: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "maxLength": LONGEST_MESSAGE, "description": "What to tell it."}
    },
    "required": ["message"],
    "additionalProperties": False,
}


async def _delegate_agent(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    items: list[Mapping[str, Any]] = list(input.get("batch") or ())
    if "agent_id" in input and "prompt" in input:
        own = {name: input[name] for name in ("agent_id", "prompt", "context", "conversation_id") if name in input}
        items.insert(0, own)
    elif "agent_id" in input or "prompt" in input:
        ctx.logger.warning("delegate_agent: `agent_id` and `prompt` count only together; the batch alone is delegated")
    elif "conversation_id" in input:
        return _render_error("InvalidRequest", "`conversation_id` goes with `agent_id` and `prompt`, not with `batch`")
    if len(items) > MOST_ITEMS:
        return _render_error("InvalidRequest", f"a batch has at most {MOST_ITEMS} items, and this one has {len(items)}")
    found = await ctx.tasks.delegate(
        items, meta=meta, mode=input.get("mode", "immediate"), queue=bool(input.get("queue"))
    )
    return _render_runs(found)


async def _show_status(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    action, run_id = input["action"], input.get("run_id")
    if action == "list":
        return _render_answer({"status": "ok", "runs": list(await ctx.tasks.list(meta=meta))})
    if run_id is None:
        return _render_error("InvalidRequest", f"`{action}` needs a `run_id`; the action `list` shows them")
    if action == "cancel":
        return _render_answer({"status": "ok", "runs": [await ctx.tasks.cancel_own(run_id, meta=meta)]})
    return _render_answer({"status": "ok", "runs": [await ctx.tasks.read(run_id, meta=meta, offset=input["offset"])]})


async def _spawn_agent(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    if ("agent" in input) == ("markdown" in input):
        raise ToolError("give either `agent`, the name of an existing one, or `markdown`, a new one")
    if "\n" in input.get("agent", ""):
        raise ToolError("`agent` is the name of an existing agent; give the text of a new one as `markdown`")
    item = {"prompt": input["prompt"]}
    item |= {"agent_id": input["agent"]} if "agent" in input else {"markdown": input["markdown"]}
    return _render_runs(await ctx.tasks.delegate([item], meta=meta, mode=input["mode"]))


async def _signal_parent(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    await ctx.tasks.signal(input["message"], meta=meta)
    return "Signal sent."


def _render_runs(found: Sequence[Mapping[str, Any]]) -> ToolResult:
    """The answer for every item; an error only when nothing was started."""
    refused = [entry for entry in found if entry["status"] == "refused"]
    if refused and len(refused) == len(found):
        answer = {"status": "error", "error": refused[0]["error"], "runs": list(found)}
        return ToolResult(content=(_write_json(answer),), is_error=True)
    return _render_answer({"status": "ok", "runs": list(found)})


def _render_error(code: str, message: str) -> ToolResult:
    answer: dict[str, Any] = {"status": "error", "error": {"code": code, "message": message}, "runs": []}
    return ToolResult(content=(_write_json(answer),), is_error=True)


def _render_answer(answer: Mapping[str, Any]) -> ToolResult:
    return ToolResult(content=(_write_json(answer),))


def _write_json(answer: Mapping[str, Any]) -> Text:
    return Text(msgspec.json.encode(answer).decode())


_STARTS = Annotations(read_only=False, destructive=False, open_world=True)

plugin = Plugin(
    name="agents",
    version="1.0.0",
    tools=(
        Tool(
            name="delegate_agent",
            title="Delegate to an agent",
            description=(
                "Hand work to one of the agents you may delegate to, or to several at once with `batch`: they work in "
                "parallel. Write everything the agent needs into the prompt; it does not see your conversation. "
                "Results come back as JSON, one entry for each item; read long ones on with delegate_status."
            ),
            schema=_DELEGATE_AGENT,
            handler=_delegate_agent,
            annotations=_STARTS,
            timeout=LONGEST_WAIT,
            spawns=True,
        ),
        Tool(
            name="delegate_status",
            title="Delegated tasks",
            description="List the tasks that you delegated, read the whole result of one, or cancel one.",
            schema=_STATUS,
            handler=_show_status,
            annotations=Annotations(read_only=False, destructive=True, open_world=False),
            audience="delegators",
        ),
        Tool(
            name="spawn_agent",
            title="Spawn an agent",
            description=(
                "Create and start a sub-agent: an existing one by name, or a new one that you define as markdown. It "
                "works on the prompt in a thread of its own, and its result comes back to you."
            ),
            schema=_SPAWN,
            handler=_spawn_agent,
            annotations=_STARTS,
            timeout=LONGEST_WAIT,
            spawns=True,
            audience="runs",
        ),
        Tool(
            name="signal_parent",
            title="Signal the parent",
            description=(
                "Send a message to the agent that delegated this task to you; it reads and answers it. For mere "
                "progress use a check-in instead."
            ),
            schema=_SIGNAL,
            handler=_signal_parent,
            annotations=Annotations(read_only=False, destructive=False, open_world=False),
            audience="tasks",
        ),
    ),
)
