"""Agents that the real Claude Code starts by itself: what they say, what they use, and how long they go on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claude_stage import CLAUDE
from tests.e2e.model_stage import playing
from toolstead import Deny, Hooks, Plugin, PluginContext, tool

pytestmark = pytest.mark.requires("claude")

START = "{tool: Agent, input: {description: digs, prompt: dig for me, subagent_type: general-purpose}}"


@tool
async def dig() -> str:
    """Digs a little."""
    return "deeper"


@pytest.mark.parametrize("name", ["Agent", "Task"])
async def test_what_such_an_agent_says_is_not_the_answer_and_what_it_uses_is_gated_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.WARNING, logger="toolstead")
    asked: list[str] = []

    async def gate(call: Any) -> Any:
        asked.append(call.name)
        return Deny("not that one") if "forbidden" in str(call.input) else None

    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(on_before_tool=gate)

    script = f"""
- {{when: hello, say: Hello.}}
- when: dig for me
  call:
    - {{tool: dig, input: {{}}}}
    - {{tool: Bash, input: {{command: echo found}}}}
    - {{tool: Bash, input: {{command: echo forbidden > trace}}}}
- say: "Said by the other: {{{{result}}}}"
- when: begin
  call: [{START}]
- say: The answer.
"""
    plugin = Plugin(name="careful", version="1", register=register)
    settings = {"runtime": {"claude": {"tools": [name, "Bash"]}}}
    async with playing(CLAUDE, script, tmp_path, tools=[dig], plugins=[plugin], settings=settings) as stage:
        assert (await stage.ask("hello", thread_id="t1")).result == "Hello."
        stage.events.clear()
        run = await stage.ask("begin", thread_id="t1")
        assert (run.status, run.result) == ("completed", "The answer."), run.error
        assert "".join(data["text"] for data in stage.told("message.delta")) == "The answer."
        assert sorted(asked) == ["Agent", "Bash", "Bash", "dig"]
        used = {data["callId"]: data["name"] for data in stage.told("tool_use")}
        assert sorted(used.values()) == sorted(asked)
        results = stage.told("tool_result")
        (start,) = [call_id for call_id, tool_name in used.items() if tool_name == "Agent"]
        for data in (*stage.told("tool_use"), *results):  # whose each of them is can be seen
            assert data.get("parentCallId") == (None if data["name"] == "Agent" else start)
        assert {data["callId"]: data["name"] for data in results} == used
        assert len(results) == len(used)  # each once
        told = {data["name"]: data["content"] for data in results if not data["isError"]}
        assert told["dig"] == "deeper"
        assert told["Bash"] == "found"
        assert "Said by the other" in told["Agent"]
        (refused,) = [data["content"] for data in results if data["isError"]]
        assert "not that one" in refused
        assert not (stage.project / "trace").exists()
        assert "not that one" in str(stage.requests[-2].body)  # the other one read why
        assert not [record for record in caplog.records if "no tool called" in record.getMessage()]


async def test_such_an_agent_that_goes_on_asking_is_stopped_with_the_run(tmp_path: Path) -> None:
    script = (
        f"""
- {{when: rest, say: Gladly.}}
- when: begin
  call: [{START}]
- say: The answer.
- when: dig for me
  call: [{{tool: dig, input: {{}}}}]
"""
        + "- {call: [{tool: dig, input: {}}]}\n" * 10
    )
    settings = {"runtime": {"claude": {"tools": ["Agent"], "max_turns": 4}}}
    async with playing(CLAUDE, script, tmp_path, tools=[dig], settings=settings) as stage:
        run = await stage.ask("begin", thread_id="t1")
        assert run.status == "failed"
        assert run.error is not None
        assert run.error.code == "limit"
        assert "runtime.claude.max_turns" in run.error.message
        assert len(stage.requests) < 10  # the one under way was broken off
        after = await stage.ask("rest", thread_id="t1")
        assert (after.status, after.result) == ("completed", "Gladly."), after.error


async def test_what_such_an_agent_used_is_part_of_what_the_run_used(tmp_path: Path) -> None:
    script = f"""
- {{when: hello, say: Hello., usage: {{inputTokens: 10, outputTokens: 5}}}}
- when: dig for me
  say: Said by the other.
  usage: {{inputTokens: 7000, outputTokens: 700}}
- when: begin
  call: [{START}]
  usage: {{inputTokens: 20, outputTokens: 2}}
- {{say: The answer., usage: {{inputTokens: 30, outputTokens: 3}}}}
"""
    settings = {"runtime": {"claude": {"tools": ["Agent"]}}}
    async with playing(CLAUDE, script, tmp_path, settings=settings) as stage:
        for prompt, used in (("hello", (10, 5)), ("begin", (7050, 705)), ("hello", (10, 5))):
            run = await stage.ask(prompt, thread_id="t1")
            assert run.status == "completed", run.error
            assert (run.usage.input_tokens, run.usage.output_tokens) == used
        told = [(data["inputTokens"], data["outputTokens"]) for data in stage.told("usage")]
        assert told == [(10, 5), (20, 2), (7000, 700), (30, 3), (10, 5)]  # each when it was finished
