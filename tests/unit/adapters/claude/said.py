"""Messages of Claude Code, as short as tests can write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, SystemMessage, TextBlock, UserMessage

from toolstead.invoker.runtime import NO_LIMITS, SessionSpec, Turn, TurnLimits
from toolstead.orchestrator.endings import read_usage
from toolstead.types.call import Caller
from toolstead.types.result import Failure, ToolResult
from toolstead.types.run import Usage


def delta(text: str, *, kind: str = "text", parent: str | None = None) -> StreamEvent:
    event = {"type": "content_block_delta", "delta": {"type": f"{kind}_delta", kind: text}}
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=parent)


def begins(message_id: str, **more: Any) -> StreamEvent:
    event = {"type": "message_start", "message": {"id": message_id, **more}}
    return StreamEvent(uuid="u", session_id="s", event=event)


def ends(written: int, reason: str = "end_turn") -> StreamEvent:
    event = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": written}}
    return StreamEvent(uuid="u", session_id="s", event=event)


def whole(text: str, message_id: str = "m1", **more: Any) -> AssistantMessage:
    return AssistantMessage(content=[TextBlock(text=text)], model="m", message_id=message_id, **more)


def taken(message_id: str) -> UserMessage:
    return UserMessage(content="said before", uuid=message_id)


def starts_agent(agent: str, call_id: str) -> SystemMessage:
    return SystemMessage(subtype="task_started", data={"task_id": agent, "tool_use_id": call_id})


def ends_agent(agent: str, **usage: int) -> UserMessage:
    return UserMessage(content=[], uuid="u", tool_use_result={"agentId": agent, "usage": usage})


def state(word: str) -> SystemMessage:
    return SystemMessage(subtype="session_state_changed", data={"state": word})


def retry(attempt: int, status: int | None, why: str = "so it is") -> SystemMessage:
    data = {"attempt": attempt, "max_retries": 10, "error_status": status, "error": why}
    return SystemMessage(subtype="api_retry", data=data)


def result(text: str | None = "done", **more: Any) -> ResultMessage:
    given: dict[str, Any] = {
        "subtype": "success",
        "duration_ms": 1,
        "duration_api_ms": 1,
        "is_error": False,
        "num_turns": 1,
        "session_id": "s",
        "result": text,
    }
    return ResultMessage(**{**given, **more})


SPEC = SessionSpec(agent="main", model="anthropic:claude-x", cwd=Path("/"))


@dataclass
class Listener:
    """Notes what a turn tells, calls and asks."""

    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    calls: list[tuple[str, Mapping[str, Any], str | None]] = field(default_factory=list)
    asked: list[tuple[str, Mapping[str, Any], str]] = field(default_factory=list)
    outcomes: list[tuple[str, Mapping[str, Any], ToolResult, str]] = field(default_factory=list)
    answer: Any = None
    """What a question is answered with; None goes on with the same arguments."""

    async def call_tool(
        self, name: str, input: Mapping[str, Any], *, call_id: str | None = None, **more: Any
    ) -> ToolResult:
        self.calls.append((name, input, call_id))
        return self.answer if isinstance(self.answer, ToolResult) else ToolResult.error("no", Failure.TOOL)

    async def ask_gates(
        self, name: str, input: Mapping[str, Any], *, call_id: str, **more: Any
    ) -> Mapping[str, Any] | ToolResult:
        self.asked.append((name, input, call_id))
        if callable(self.answer):
            return await self.answer()
        return input if self.answer is None else self.answer

    async def report_result(
        self, name: str, input: Mapping[str, Any], result: ToolResult, *, call_id: str, **more: Any
    ) -> None:
        self.outcomes.append((name, input, result, call_id))

    def used(self) -> list[Usage]:
        """What was told of usage."""
        return [read_usage(data) for kind, data in self.told if kind == "usage"]

    def turn(self, limits: TurnLimits = NO_LIMITS) -> Turn:
        return Turn(
            prompt="go",
            caller=Caller(thread_id="t"),
            tell=lambda kind, data: self.told.append((kind, data)),
            call_tool=self.call_tool,
            own=self,
            limits=limits,
        )
