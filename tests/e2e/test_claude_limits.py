"""What bounds the real programs: how often a model is asked, and how much of an answer it is shown."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.e2e.claude_stage import CLAUDE
from tests.e2e.codex_stage import CODEX
from tests.e2e.model_stage import Player, playing
from toolstead import ToolResult, tool
from toolstead.types.content import Image, Text

claude = pytest.param(CLAUDE, marks=pytest.mark.requires("claude"), id="claude")
codex = pytest.param(CODEX, marks=pytest.mark.requires("codex"), id="codex")
TURNS = 3
MOST_OUTPUT = 262_144
"""The usual `tools.max_output`."""
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""An image of one pixel."""


@tool
async def dig() -> str:
    """Digs a little."""
    return "deeper"


@pytest.mark.parametrize("player", [claude, codex])
async def test_a_run_that_goes_on_asking_is_stopped_and_the_thread_goes_on(player: Player, tmp_path: Path) -> None:
    script = "- {when: rest, say: Gladly.}\n" + "- {call: [{tool: dig, input: {}}]}\n" * (TURNS + 3)
    settings = {"runtime": {player.runtime: {"max_turns": TURNS}}}
    async with playing(player, script, tmp_path, tools=[dig], settings=settings) as stage:
        run = await stage.ask("dig", thread_id="t1")
        assert run.status == "failed"
        assert run.error is not None
        assert run.error.code == "limit"
        assert f"runtime.{player.runtime}.max_turns" in run.error.message
        assert str(TURNS) in run.error.message
        assert [data["isError"] for data in stage.told("tool_result")] == [False] * TURNS
        assert run.usage.output_tokens > 0  # what was answered before is counted
        after = await stage.ask("rest", thread_id="t1")
        assert (after.status, after.result) == ("completed", "Gladly."), after.error


@pytest.mark.parametrize("player", [claude, codex])
async def test_a_run_may_answer_with_its_last_turn(player: Player, tmp_path: Path) -> None:
    script = "- {call: [{tool: dig, input: {}}]}\n" * (TURNS - 1) + "- say: At last.\n"
    settings = {"runtime": {player.runtime: {"max_turns": TURNS}}}
    async with playing(player, script, tmp_path, tools=[dig], settings=settings) as stage:
        run = await stage.ask("dig")
        assert (run.status, run.result) == ("completed", "At last."), run.error
        assert len(stage.requests) == TURNS


@pytest.mark.requires("claude")
async def test_what_each_reply_used_is_told_before_the_run_ends_and_the_run_used_the_sum(tmp_path: Path) -> None:
    before: list[int] = []

    @tool
    async def look() -> str:
        """Looks at what was told so far."""
        await stage.until(lambda: stage.told("usage"))
        before.append(len(stage.told("usage")))
        return "seen"

    script = """
- call: [{tool: look, input: {}}]
  usage: {inputTokens: 4000, outputTokens: 200}
- {say: Done., usage: {inputTokens: 5000, outputTokens: 300}}
"""
    async with playing(CLAUDE, script, tmp_path, tools=[look]) as stage:
        run = await stage.ask("look")
        assert (run.status, run.result) == ("completed", "Done."), run.error
        assert before == [1]
        assert len(stage.requests) == 2
        kinds = [event.type for event in stage.events]
        assert kinds.index("completed") > max(place for place, kind in enumerate(kinds) if kind == "usage")
        told = stage.told("usage")
        assert [(data["inputTokens"], data["outputTokens"]) for data in told] == [(4000, 200), (5000, 300)]
        assert (run.usage.input_tokens, run.usage.output_tokens) == (9000, 500)
        assert run.usage.cost == pytest.approx(sum(data["cost"] for data in told))
        assert all(data["cost"] > 0 for data in told)


@pytest.mark.parametrize("player", [claude, codex])
async def test_a_key_that_is_refused_is_told_after_a_few_requests(player: Player, tmp_path: Path) -> None:
    """Left to itself Claude Code tries eleven times, which takes minutes."""
    async with playing(player, "- {say: never, fault: {kind: bad_key, times: 99}}", tmp_path) as stage:
        run = await stage.ask("hello", timeout=60)
        assert run.status == "failed", run.error
        assert run.error is not None
        assert {"claude": "ANTHROPIC_API_KEY", "codex": "401"}[player.runtime] in run.error.message
        assert len(stage.requests) <= 4


@pytest.mark.requires("claude")
async def test_the_largest_answer_that_the_stead_allows_is_shown_whole_beside_an_image_too(tmp_path: Path) -> None:
    @tool
    async def look() -> ToolResult:
        """Says a lot, and shows something."""
        words = "word " * (MOST_OUTPUT // 5 - 1_000)
        return ToolResult(content=(Text(f"begin {words}end"), Image(data=DOT, mime_type="image/png")))

    @tool
    async def tell() -> str:
        """Says as much as it may."""
        return "x" * MOST_OUTPUT

    script = "- call: [{tool: look, input: {}}, {tool: tell, input: {}}]\n- say: ok\n"
    async with playing(CLAUDE, script, tmp_path, tools=[look, tell]) as stage:
        assert (await stage.ask("look")).status == "completed"
        _, last = stage.requests  # and none besides to have its tokens counted
        contents = [message["content"] for message in last.body["messages"]]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        seen, told = (part["content"] for part in parts if part.get("type") == "tool_result")
        assert [part["type"] for part in seen][:2] == ["text", "image"]
        assert seen[0]["text"].startswith("begin word")
        assert seen[0]["text"].endswith("word end")
        assert seen[1]["source"]["data"] == base64.b64encode(DOT).decode()
        assert told == "x" * MOST_OUTPUT or told[0]["text"] == "x" * MOST_OUTPUT


@pytest.mark.requires("claude")
async def test_an_answer_larger_than_claude_code_shows_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def tell() -> str:
        """Says more."""
        return "x" * 500_001

    script = "- call: [{tool: tell, input: {}}]\n- say: ok\n"
    async with playing(CLAUDE, script, tmp_path, tools=[tell], settings={"tools": {"max_output": 1_000_000}}) as stage:
        assert (await stage.ask("tell")).status == "completed"
        (shown,) = stage.view.results(stage.requests[-1])
        assert len(shown) < 500_000
        assert any("tell answered with 500,001 characters" in record.getMessage() for record in caplog.records)
