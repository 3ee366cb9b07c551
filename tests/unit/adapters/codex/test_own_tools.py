from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstead.adapters.codex.own_tools import OwnUses
from toolstead.types.result import Failure, ToolResult

BEFORE = {"event": "PreToolUse", "name": "Bash", "input": {"command": "ls"}, "id": "c1"}
AFTER = {**BEFORE, "event": "PostToolUse", "response": "found"}
COMMAND = {"type": "commandExecution", "id": "c1", "command": "ls", "cwd": "/"}


@dataclass
class House:
    """Gates and a log that do as a test says."""

    verdict: Any = None
    asked: list[tuple[str, Mapping[str, Any], str]] = field(default_factory=list)
    told: list[tuple[str, Mapping[str, Any], str, bool, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def ask_gates(self, name: str, input: Mapping[str, Any], *, call_id: str) -> Any:
        self.asked.append((name, input, call_id))
        if isinstance(self.verdict, BaseException):
            raise self.verdict
        return input if self.verdict is None else self.verdict

    async def report_result(self, name: str, input: Mapping[str, Any], result: ToolResult, *, call_id: str) -> None:
        self.told.append((name, input, result.text, result.is_error, call_id))

    def uses(self) -> OwnUses:
        return OwnUses(self, refuse=self.refused.append)


async def test_what_the_gates_let_through_is_asked_and_told_once() -> None:
    house = House()
    uses = house.uses()
    assert await uses.on_hook(BEFORE) == {}
    uses.note_item(COMMAND)
    uses.note_item(COMMAND | {"status": "completed"})
    assert await uses.on_hook(AFTER) == {}
    await uses.end_turn()
    assert house.asked == [("Bash", {"command": "ls"}, "c1")]
    assert house.told == [("Bash", {"command": "ls"}, "found", False, "c1")]
    assert not house.refused


async def test_a_no_reaches_the_model_with_its_reason() -> None:
    house = House(verdict=ToolResult.error("not here", Failure.REFUSED))
    uses = house.uses()
    answer = await uses.on_hook(BEFORE)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "not here"
    await uses.end_turn()
    assert house.told == [("Bash", {"command": "ls"}, "not here", True, "c1")]


async def test_other_arguments_of_a_gate_are_what_is_run_and_told() -> None:
    house = House(verdict={"command": "pwd"})
    uses = house.uses()
    answer = await uses.on_hook(BEFORE)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert answer["hookSpecificOutput"]["updatedInput"] == {"command": "pwd"}
    await uses.on_hook(AFTER)
    assert house.told[0][1] == {"command": "pwd"}


@pytest.mark.parametrize("error", [ZeroDivisionError("broken"), asyncio.CancelledError()])
async def test_whatever_asking_meets_is_a_no_because_codex_would_read_an_error_as_a_yes(error: BaseException) -> None:
    answer = await House(verdict=error).uses().on_hook(BEFORE)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_a_use_that_nobody_asked_about_is_put_to_the_gates_and_told() -> None:
    house = House()
    uses = house.uses()
    uses.note_item(COMMAND)
    await uses.end_turn()
    assert [name for name, *_ in house.asked] == ["Bash"]
    assert len(house.told) == 1
    assert not house.refused


async def test_a_no_that_comes_late_ends_the_turn() -> None:
    house = House(verdict=ToolResult.error("not here", Failure.REFUSED))
    uses = house.uses()
    uses.note_item({"type": "webSearch", "id": "w1", "query": "x"})
    await uses.end_turn()
    assert house.refused == ["Codex used web_search without calling its hook, and it is refused: not here"]
    assert len(house.told) == 1


async def test_what_never_ended_is_told_with_the_turn() -> None:
    house = House()
    uses = house.uses()
    await uses.on_hook(BEFORE)
    await uses.end_turn()
    await uses.on_hook(AFTER)  # too late
    assert [(name, is_error) for name, _, _, is_error, _ in house.told] == [("Bash", True)]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "agentMessage", "id": "m1", "text": "hello"},
        {"type": "mcpToolCall", "id": "m2", "server": "toolstead", "tool": "add"},
    ],
)
async def test_words_and_our_own_tools_are_none_of_this(item: dict[str, Any]) -> None:
    house = House()
    uses = house.uses()
    uses.note_item(item)
    await uses.end_turn()
    assert not house.asked


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ({"type": "fileChange", "changes": []}, "apply_patch"),
        ({"type": "imageView", "path": "/x"}, "view_image"),
        ({"type": "imageGeneration"}, "imageGeneration"),
        ({"type": "collabAgentToolCall", "tool": "spawn"}, "agents_spawn"),
        ({"type": "mcpToolCall", "server": "theirs", "tool": "add"}, "mcp__theirs__add"),
        ({"type": "mcpToolCall", "server": "toolstead", "tool": "read_mcp_resource"}, "read_mcp_resource"),
    ],
)
async def test_every_kind_of_use_is_known_by_a_name(item: dict[str, Any], name: str) -> None:
    house = House()
    uses = house.uses()
    uses.note_item(item | {"id": "i1"})
    await uses.end_turn()
    assert [asked for asked, *_ in house.asked] == [name]


class Undecided(House):
    """Gates that never say anything."""

    async def ask_gates(self, name: str, input: Mapping[str, Any], *, call_id: str) -> Any:
        self.asked.append((name, input, call_id))
        try:
            await asyncio.Event().wait()
        finally:
            self.refused.append("withdrawn")


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


async def test_what_is_asked_when_the_turn_ends_is_withdrawn_refused_and_told() -> None:
    house = Undecided()
    uses = house.uses()
    asking = asyncio.create_task(uses.on_hook(BEFORE))
    await _until(lambda: bool(house.asked))
    await uses.end_turn()
    assert (await asking)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert house.refused == ["withdrawn"]
    assert [(name, is_error) for name, _, _, is_error, _ in house.told] == [("Bash", True)]


async def test_a_hook_that_is_broken_off_withdraws_what_it_asked() -> None:
    house = Undecided()
    asking = asyncio.create_task(house.uses().on_hook(BEFORE))
    await _until(lambda: bool(house.asked))
    asking.cancel()
    await asyncio.wait([asking])
    await _until(lambda: bool(house.refused))


async def test_what_nobody_decides_about_late_is_withdrawn_and_told_with_the_turn() -> None:
    house = Undecided()
    uses = house.uses()
    uses.note_item(COMMAND)
    await asyncio.wait_for(uses.end_turn(), 10)
    assert house.refused == ["withdrawn"]
    assert [(name, is_error) for name, _, _, is_error, _ in house.told] == [("Bash", True)]
