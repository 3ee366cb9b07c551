"""Codex's built-in tools in one turn: each call is gated once and logged once.

A hook of Codex calls our endpoint before and after each call: the model gets a gate's denial with its reason, and
arguments that a gate rewrites are used. Commands always run in a read-only sandbox without network. A call that no
hook announced is gated late, and a denial then ends the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from toolstead.invoker.runtime import OwnTools
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

SERVER = "toolstead"
"""The name of our MCP server in Codex."""
GATE = "own-tool-gate"
"""The name that hooks call at our endpoint; not listed for models."""
_LONG = 365 * 24 * 3600
"""Seconds that a hook waits, because a person may have to decide; a hook that times out lets the call pass."""
_OTHERS = "^([^m]|m[^c]|mc[^p]|mcp[^_]).*"
"""Every tool that is not from an MCP server: only the dispatcher gates and logs ours."""
_RESOURCES = ("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource")
"""Codex offers them when any MCP server is configured; ours has no resources."""
_USES: Mapping[str, tuple[str, Sequence[str]]] = {
    "commandExecution": ("Bash", ("command", "cwd")),
    "fileChange": ("apply_patch", ("changes",)),
    "webSearch": ("web_search", ("query", "action")),
    "imageView": ("view_image", ("path",)),
    "imageGeneration": ("imageGeneration", ()),
    "sleep": ("sleep", ()),
    "collabAgentToolCall": ("agents_{tool}", ("prompt", "model")),
    "mcpToolCall": ("mcp__{server}__{tool}", ("arguments",)),
}
"""Items that are tool calls: by type the tool's name, and the members that are its arguments."""
_MOST_TEXT = 65_536
_DECIDE = 0.5
"""Seconds that gates get after a turn to decide about unannounced calls."""

_INPUT = {"name": "${tool_name}", "input": "${tool_input}", "id": "${tool_use_id}", "event": "${hook_event_name}"}
HOOKS: Mapping[str, Any] = {
    event: [
        {
            "matcher": _OTHERS,
            "hooks": [{"type": "mcp_tool", "server": SERVER, "tool": GATE, "input": _INPUT | more, "timeout": _LONG}],
        }
    ]
    for event, more in (("PreToolUse", {}), ("PostToolUse", {"response": "${tool_response}"}))
}
"""The configuration that makes Codex call our MCP server as its hook."""


class OwnUses:
    """The calls of Codex's built-in tools in one turn."""

    def __init__(self, own: OwnTools, *, refuse: Callable[[str], None]) -> None:
        """Watch a turn.

        Args:
            own: The gates and the log.
            refuse: Ends the turn when a call that is already running is refused.
        """
        self._own = own
        self._refuse = refuse
        self._asked: set[str] = set()
        self._open: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._asking: set[asyncio.Future[Mapping[str, Any] | ToolResult]] = set()
        self._late: set[asyncio.Task[None]] = set()

    @property
    def was_used(self) -> bool:
        """Whether it used any, or tried to."""
        return bool(self._asked)

    async def on_hook(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Handle a hook's request, and return the answer for Codex."""
        name, call_id = str(payload.get("name")), str(payload.get("id"))
        given: Any = payload.get("input")
        arguments = cast("dict[str, Any]", given) if isinstance(given, dict) else {"input": given}
        if payload.get("event") == "PostToolUse":
            await self._report_result(call_id, ToolResult(content=(Text(str(payload.get("response"))[:_MOST_TEXT]),)))
            return {}
        # In a separate task: every failure must become a denial, because Codex treats an error as consent.
        asking = await run_in_task(self._ask_gates(name, arguments, call_id), self._asking)
        if asking.cancelled():
            return hook_refusal(name, "the turn ended before a decision")
        if (why := asking.exception()) is not None:
            logger.error("call %s: the gates failed for %s", call_id, name, exc_info=why)
            return hook_refusal(name, "its gates failed")
        return _hook_decision(name, asking.result(), original=arguments)

    def note_item(self, item: Mapping[str, Any]) -> None:
        """Process an item of the turn; a tool call that was not gated yet is gated now."""
        call_id, described = str(item.get("id")), _describe_use(item)
        if described is None or call_id in self._asked:
            return
        task = asyncio.create_task(self._ask_late(*described, call_id))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def withdraw_questions(self) -> None:
        """Cancel the pending decisions."""
        for task in self._asking:
            task.cancel()

    async def end_turn(self) -> None:
        """End the turn: log the calls that have no result."""
        self.withdraw_questions()
        if working := {*self._asking, *self._late}:
            _, undecided = await asyncio.wait(working, timeout=_DECIDE)
            for task in undecided:
                task.cancel()
            if undecided:
                await asyncio.wait(undecided)
        for call_id in list(self._open):
            await self._report_result(call_id, ToolResult.error("it failed, or was ended with the turn", Failure.TOOL))

    async def _ask_gates(self, name: str, input: Mapping[str, Any], call_id: str) -> Mapping[str, Any] | ToolResult:
        self._asked.add(call_id)
        self._open[call_id] = (name, input)  # logged with the turn, if it ends before the decision
        decided = await self._own.ask_gates(name, input, call_id=call_id)
        self._open[call_id] = (name, input if isinstance(decided, ToolResult) else decided)
        if isinstance(decided, ToolResult):
            await self._report_result(call_id, decided)
        return decided

    async def _ask_late(self, name: str, input: Mapping[str, Any], call_id: str) -> None:
        logger.warning("Codex used %s without calling its hook", name)
        decided = await self._ask_gates(name, input, call_id)
        if isinstance(decided, ToolResult):
            self._refuse(f"Codex used {name} without calling its hook, and it is refused: {decided.text}")
        else:
            await self._report_result(call_id, ToolResult(content=(Text("it was used; its result is not known"),)))

    async def _report_result(self, call_id: str, result: ToolResult) -> None:
        used = self._open.pop(call_id, None)
        if used is not None:
            await self._own.report_result(*used, result, call_id=call_id)


async def run_in_task(work: Awaitable[_T], tasks: set[asyncio.Future[_T]]) -> asyncio.Future[_T]:
    """Run work in its own task, which is in `tasks` while it runs, and wait for its end.

    A caller that is cancelled, because Codex no longer waits, cancels the work.
    """
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        raise
    return task


def hook_refusal(name: str, why: str) -> Mapping[str, Any]:
    """A hook's denial."""
    return _hook_decision(name, ToolResult.error(f"{name} was refused: {why}", Failure.REFUSED))


def _hook_decision(
    name: str, decided: Mapping[str, Any] | ToolResult, *, original: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """What a hook answers."""
    about: dict[str, Any] = {"hookEventName": "PreToolUse"}
    if isinstance(decided, ToolResult):
        about |= {"permissionDecision": "deny", "permissionDecisionReason": decided.text or f"{name} was refused"}
    elif original is not None and dict(decided) != dict(original):
        about |= {"permissionDecision": "allow", "updatedInput": dict(decided)}
    else:
        return {}
    return {"hookSpecificOutput": about}


def _describe_use(item: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Name and arguments of a built-in tool; None for anything else."""
    kind, tool, server = str(item.get("type")), item.get("tool"), item.get("server")
    if kind not in _USES or (server == SERVER and tool not in _RESOURCES):
        return None
    name, members = _USES[kind]
    arguments = {key: item[key] for key in members if item.get(key) is not None}
    return (str(tool) if tool in _RESOURCES else name.format(server=server, tool=tool)), arguments
