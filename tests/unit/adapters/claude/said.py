"""Messages of Claude Code, as short as tests can write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, SystemMessage, TextBlock, UserMessage

from toolstead.invoker.runtime import SessionSpec, Turn
from toolstead.types.call import Caller
from toolstead.types.result import Failure, ToolResult


def delta(text: str, *, kind: str = "text", parent: str | None = None) -> StreamEvent:
    event = {"type": "content_block_delta", "delta": {"type": f"{kind}_delta", kind: text}}
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=parent)


def begins(message_id: str) -> StreamEvent:
    return StreamEvent(uuid="u", session_id="s", event={"type": "message_start", "message": {"id": message_id}})


def whole(text: str, message_id: str = "m1", **more: Any) -> AssistantMessage:
    return AssistantMessage(content=[TextBlock(text=text)], model="m", message_id=message_id, **more)


def taken(message_id: str) -> UserMessage:
    return UserMessage(content="said before", uuid=message_id)


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

    def turn(self) -> Turn:
        return Turn(
            prompt="go",
            caller=Caller(thread_id="t"),
            tell=lambda kind, data: self.told.append((kind, data)),
            call_tool=self.call_tool,
            own=self,
        )
