from __future__ import annotations

import asyncio
import base64
import logging
from typing import Any

import pytest
from claude_agent_sdk import ToolResultBlock, UserMessage

from tests.unit.adapters.claude.said import SPEC, Listener
from toolstead.adapters.claude.own_gate import OwnGate
from toolstead.adapters.claude.turn_progress import TurnProgress
from toolstead.adapters.claude.usage import ClaudeUsage
from toolstead.types.content import Image, Text
from toolstead.types.result import Failure, ToolResult

pytestmark = pytest.mark.requires("claude")


def staged(listener: Listener) -> tuple[OwnGate, TurnProgress]:
    progress = TurnProgress(listener.turn(), SPEC, ClaudeUsage(resumed=False), max_turns=100)
    return OwnGate(lambda: progress), progress


def used(name: str = "Bash", **input: Any) -> Any:
    return {"tool_name": name, "tool_input": input, "tool_use_id": "c1", "hook_event_name": "PreToolUse"}


def came(content: Any, *, call_id: str = "c1", is_error: bool | None = None) -> UserMessage:
    return UserMessage(content=[ToolResultBlock(tool_use_id=call_id, content=content, is_error=is_error)])


def decision(answer: Any) -> tuple[str, Any]:
    said = answer["hookSpecificOutput"]
    return said["permissionDecision"], said.get("updatedInput") or said.get("permissionDecisionReason")


async def test_a_tool_that_may_be_used_goes_on_with_the_arguments_as_decided_and_is_told_once() -> None:
    listener = Listener(answer={"command": "echo two"})
    gate, progress = staged(listener)
    assert decision(await gate.before_tool(used(command="echo one"), "c1", {"signal": None})) == (
        "allow",
        {"command": "echo two"},
    )
    assert listener.asked == [("Bash", {"command": "echo one"}, "c1")]
    assert progress.acted
    for _ in range(2):
        await gate.after_message(progress, came("two"))
    await gate.end_turn(progress)
    ((name, given, result, call_id),) = listener.outcomes
    assert (name, given, result.text, result.is_error, call_id) == ("Bash", {"command": "echo two"}, "two", False, "c1")


async def test_a_refusal_is_what_the_model_reads_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(answer=ToolResult.error("not today", Failure.REFUSED))
    gate, progress = staged(listener)
    assert decision(await gate.before_tool(used(command="rm"), "c1", {"signal": None})) == ("deny", "not today")
    await gate.after_message(progress, came("hook error: not today", is_error=True))
    await gate.end_turn(progress)
    ((_, _, result, _),) = listener.outcomes
    assert (result.text, result.failure) == ("not today", Failure.REFUSED)
    assert not progress.acted
    assert not caplog.records  # the dispatcher has logged it


async def test_nobody_is_asked_about_one_of_ours() -> None:
    listener = Listener()
    gate, _ = staged(listener)
    assert await gate.before_tool(used("mcp__toolstead__probe"), "c1", {"signal": None}) == {}
    assert not listener.asked


async def test_what_an_agent_of_claudes_own_uses_is_asked_about_and_not_mistaken_for_the_turns_own() -> None:
    listener = Listener()
    gate, progress = staged(listener)
    await gate.before_tool(used("Agent", prompt="dig"), "c1", {"signal": None})
    theirs = came("theirs")
    theirs.parent_tool_use_id = "c1"
    await gate.after_message(progress, theirs)  # of one of our tools, which by chance has the same id
    assert not listener.outcomes
    await gate.before_tool({**used(command="ls"), "agent_id": "a1"}, "c2", {"signal": None})
    assert [name for name, _, _ in listener.asked] == ["Agent", "Bash"]
    await gate.after_message(progress, came("not theirs", call_id="c2"))
    theirs = came("listed", call_id="c2")
    theirs.parent_tool_use_id = "c1"
    await gate.after_message(progress, theirs)
    await gate.after_message(progress, came("dug"))
    assert [(name, result.text) for name, _, result, _ in listener.outcomes] == [("Bash", "listed"), ("Agent", "dug")]


async def test_without_a_turn_nothing_is_used() -> None:
    gate = OwnGate(lambda: None)
    assert decision(await gate.before_tool(used(), "c1", {"signal": None}))[0] == "deny"


async def test_a_tool_that_was_running_when_the_turn_ended_is_told_as_cancelled() -> None:
    listener = Listener()
    gate, progress = staged(listener)
    await gate.before_tool(used(), "c1", {"signal": None})
    await gate.end_turn(progress)
    await gate.after_message(progress, came("late"))
    ((_, _, result, _),) = listener.outcomes
    assert result.failure is Failure.CANCELLED


async def test_a_decision_that_comes_after_the_turn_is_a_no() -> None:
    decide = asyncio.Event()

    async def answer() -> dict[str, Any]:
        await decide.wait()
        return {}

    listener = Listener(answer=answer)
    gate, progress = staged(listener)
    asking = asyncio.create_task(gate.before_tool(used(), "c1", {"signal": None}))
    await asyncio.sleep(0)
    await gate.end_turn(progress)
    decide.set()
    assert decision(await asking)[0] == "deny"
    assert len(listener.outcomes) == 1


async def test_a_failure_a_picture_and_what_is_unknown_are_told_as_they_are() -> None:
    listener = Listener()
    gate, progress = staged(listener)
    picture = {"type": "image", "source": {"data": base64.b64encode(b"pixels").decode(), "media_type": "image/png"}}
    parts = [{"type": "text", "text": "look"}, picture, {"type": "other"}]
    parts.append({"type": "image", "source": {"data": "a", "media_type": "image/png"}})
    await gate.before_tool(used(), "c1", {"signal": None})
    await gate.after_message(progress, came(parts, is_error=True))
    ((_, _, result, _),) = listener.outcomes
    assert (result.is_error, result.failure) == (True, Failure.TOOL)
    assert result.content == (
        Text("look"),
        Image(data=b"pixels", mime_type="image/png"),
        Text("[other]"),
        Text("[an unreadable image/png]"),
    )


async def test_what_claude_code_refuses_by_itself_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    gate, progress = staged(listener)
    caplog.set_level(logging.WARNING)
    progress.calls.add("ours")
    await gate.after_message(progress, came("a failure of ours, logged elsewhere", call_id="ours", is_error=True))
    await gate.after_message(progress, came("No such tool: Write", call_id="c9", is_error=True))
    assert [record.getMessage() for record in caplog.records] == [
        "Claude Code itself refused a call: No such tool: Write"
    ]
    assert not listener.outcomes
