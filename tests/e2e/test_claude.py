"""What is particular to Claude Code as a runtime: the real program, against a scripted Messages API.

What it promises like every runtime is in `test_promises`, how its programs live and end in `test_claude_programs`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claude_stage import CLAUDE
from tests.e2e.model_stage import Play, playing
from toolstead import tool

pytestmark = pytest.mark.requires("claude")


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def open_stage(script: str, **more: Any) -> Any:
        return playing(CLAUDE, script, tmp_path, **more)

    return open_stage


async def test_an_answer_longer_than_claude_code_would_keep_arrives_whole(play: Play) -> None:
    @tool
    async def read_all() -> str:
        """Says a lot."""
        return "begin " + "word " * 40_000 + "end"

    async with play("- {call: [{tool: read_all, input: {}}], say: ok}", tools=[read_all]) as stage:
        assert (await stage.ask("read")).status == "completed"
        (whole,) = stage.view.results(stage.requests[1])
        assert len(whole) == len("begin " + "word " * 40_000 + "end")


async def test_a_message_for_a_turn_that_answers_is_answered_before_the_turn_ends(play: Play) -> None:
    script = """
- {when: rather, say: As you wish.}
- {when: begin, say: One word after another, hang: 1}
"""
    async with play(script) as stage:
        running = asyncio.create_task(stage.ask("begin", thread_id="t1"))
        await stage.until(lambda: stage.told("message.delta"))
        steered = await stage.steer("rather do that", "t1")
        run = await running
        assert (run.status, run.result) == ("completed", "As you wish."), run.error
        assert steered == run.id
        used = stage.told("usage")
        assert len(used) == 2
        assert run.usage.input_tokens == sum(data["inputTokens"] for data in used)
        assert run.usage.cost == pytest.approx(sum(data["cost"] for data in used))


async def test_a_cancelled_turn_leaves_no_waiting_message_behind(play: Play) -> None:
    script = """
- {when: again, say: "I am here."}
- {when: begin, say: One word after another, hang: 500}
- {when: rather, say: Never, hang: 500}
"""
    async with play(script) as stage:
        running = asyncio.create_task(stage.ask("begin", thread_id="t1"))
        await stage.until(lambda: stage.told("message.delta"))
        await stage.steer("rather do that", "t1")
        running.cancel()
        await asyncio.wait([running])
        await stage.until(lambda: stage.api.active == 0)
        again = await stage.ask("again", thread_id="t1")
        assert (again.status, again.result) == ("completed", "I am here."), again.error
