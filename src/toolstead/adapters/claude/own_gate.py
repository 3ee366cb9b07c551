"""Our gates and our log for Claude's built-in tools: each call is gated once and logged once.

Our own tools are gated and logged by the dispatcher alone, so nothing happens here for them.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from claude_agent_sdk import HookContext, HookInput, HookJSONOutput, ToolResultBlock, UserMessage

from toolstead.adapters.claude.launch import OUR_PREFIX
from toolstead.adapters.claude.turn_progress import TurnProgress
from toolstead.types.content import Content, Image, Text
from toolstead.types.result import Failure, ToolResult

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _OpenCall:
    """A gated call that is not logged yet.

    Attributes:
        of_agent: Whether a subagent made it.
    """

    progress: TurnProgress
    name: str
    arguments: Mapping[str, Any]
    of_agent: bool


class OwnGate:
    """Gates calls of Claude's built-in tools, and logs their results."""

    def __init__(self, running: Callable[[], TurnProgress | None]) -> None:
        self._running = running
        self._open: dict[str, _OpenCall] = {}

    async def before_tool(self, input: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        """The SDK's hook: returns the arguments to use, or a refusal for the model."""
        given: Mapping[str, Any] = {**input}
        name, arguments = str(given["tool_name"]), dict(given["tool_input"])
        call_id = tool_use_id or str(given["tool_use_id"])
        progress = self._running()
        agent_id: Any = given.get("agent_id")
        if progress is not None and agent_id in progress.agents:
            progress.parents[call_id] = progress.agents[agent_id]
        if name.startswith(OUR_PREFIX):
            return {}
        if progress is None:
            return _deny_output(f"{name} was refused: no turn is running")
        progress.calls.add(call_id)
        opened = _OpenCall(progress=progress, name=name, arguments=arguments, of_agent=agent_id is not None)
        self._open[call_id] = opened
        parent = progress.parents.get(call_id)
        decided = await progress.turn.own.ask_gates(name, arguments, call_id=call_id, parent_call_id=parent)
        if isinstance(decided, ToolResult):
            await self._report_result(call_id, decided)
            return _deny_output(decided.text or f"{name} was refused")
        if call_id not in self._open:  # its turn has ended, and it was logged as stopped
            return _deny_output(f"{name} was cancelled")
        progress.acted = True
        opened.arguments = decided
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "allow",
                "updatedInput": dict(decided),
            }
        }

    async def after_message(self, progress: TurnProgress, message: UserMessage) -> None:
        """Log the results of calls that the program reports."""
        of_agent = message.parent_tool_use_id is not None
        for block in [block for block in message.content if isinstance(block, ToolResultBlock)]:
            opened = self._open.get(block.tool_use_id)
            if opened is not None and opened.of_agent == of_agent:
                await self._report_result(block.tool_use_id, _read_result(block))
            elif block.is_error and block.tool_use_id not in progress.calls:
                logger.warning("Claude Code itself refused a call: %.500s", _read_result(block).text)

    async def end_turn(self, progress: TurnProgress) -> None:
        """End the turn: log calls without a result as stopped."""
        left = [(call_id, opened.name) for call_id, opened in self._open.items() if opened.progress is progress]
        for call_id, name in left:
            await self._report_result(call_id, ToolResult.error(f"{name} was cancelled", Failure.CANCELLED))

    async def _report_result(self, call_id: str, result: ToolResult) -> None:
        opened = self._open.pop(call_id, None)
        if opened is not None:
            parent = opened.progress.parents.get(call_id)
            await opened.progress.turn.own.report_result(
                opened.name, opened.arguments, result, call_id=call_id, parent_call_id=parent
            )


def _deny_output(reason: str) -> HookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def _read_result(block: ToolResultBlock) -> ToolResult:
    """The result of a call as the model sees it."""
    content = block.content
    parts = [Text(content)] if isinstance(content, str) else [_read_part(part) for part in content or []]
    failure = Failure.TOOL if block.is_error else None
    return ToolResult(content=tuple(parts), is_error=bool(block.is_error), failure=failure)


def _read_part(part: Mapping[str, Any]) -> Content:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image", "source": {"data": str(data), "media_type": str(kind)}}:
            try:
                return Image(data=base64.b64decode(data), mime_type=kind)
            except binascii.Error:
                return Text(f"[an unreadable {kind}]")
        case _:
            return Text(f"[{part.get('type', 'something')}]")
