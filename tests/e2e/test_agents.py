"""Agents in files on every runtime, against scripted model APIs: what reached the model is in the captured requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.e2e.model_stage import Play, Stage
from tests.e2e.view import View
from toolstead import Annotations, tool
from toolstead.types.run import Run

DOCUMENT = """\
---
name: research-agent
tools:
  - name: summarize
    description: Summarize a document into key points
    model: gemini-2.0-flash-lite          # Optional model override
    parameters:
      text:
        type: string
        description: The text to summarize
    result_schema:                         # Optional output schema
      type: object
      properties:
        bullets:
          type: array
          items: { type: string }
    prompt: "Return JSON {bullets:[...]}. Summarize:\\n\\n{{text}}"
---
"""
"""An agent with a tool that is a prompt, as the first design of such tools has it."""


KERNEL = View()


@tool(annotations=Annotations(read_only=True))
async def add(a: int, b: int = 5) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


def write_document(stage: Stage) -> None:
    folder = stage.folder / "home" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "research.md").write_text(DOCUMENT)


async def children(stage: Stage, run: Run) -> list[Run]:
    store = (await stage.stead.conversations()).store
    return [one for one in reversed(await store.list_runs()) if one.parent_run_id == run.id]


@pytest.mark.promise("K5")
async def test_a_tool_that_is_a_prompt_asks_its_own_model_and_a_wrong_answer_is_repaired_once(play: Play) -> None:
    script = """
- when: ^begin$
  call: [{tool: summarize, input: {text: "one {{text}} two"}}]
- say: "It says {{result}}"
- when: Your result was reviewed and rejected
  say: "Of course:\\n```json\\n{\\"bullets\\": [\\"one\\", \\"two\\"]}\\n```"
- when: Summarize
  say: '{"bullets": [1]}'
"""
    async with play(script) as stage:
        write_document(stage)
        run = await stage.ask("begin", agent="research-agent", thread_id="t")
        assert (run.status, stage.view.plain(run.result)) == ("completed", 'It says {"bullets":["one","two"]}'), (
            run.error
        )
        asked = [one for one in stage.requests if one.model == "gemini-2.0-flash-lite"]
        assert [one.api for one in asked] == ["gemini", "gemini"]
        first, second = asked
        (text,) = KERNEL.spoken(first)
        assert text.startswith(
            "Return JSON {bullets:[...]}. Summarize:\n\none {{text}} two\n\nAnswer with one JSON value"
        )
        assert "/bullets/0: expected string, got number 1" in KERNEL.spoken(second)[-1]
        assert "summarize" not in KERNEL.offered(first)
        assert "git-status" in KERNEL.offered(first)  # it sees what its agent may see
        parents = [one for one in stage.requests if one not in asked]
        assert len(parents) == 2
        properties = {"text": {"type": "string", "description": "The text to summarize"}}
        assert stage.offered(parents[0])["summarize"]["properties"] == properties
        assert "- summarize: Summarize a document into key points" in stage.view.instructions(parents[0])
        tries = await children(stage, run)
        assert [(one.agent, one.depth, one.attempt, one.status) for one in tries] == [
            ("research-agent/summarize", 1, 1, "completed"),
            ("research-agent/summarize", 1, 2, "completed"),
        ]
        assert {one.root_run_id for one in tries} == {run.id}
        thread = await (await stage.stead.conversations()).store.read_thread(tries[0].thread_id)
        assert thread.parent_thread_id == "t"


@pytest.mark.promise("K5")
async def test_a_second_wrong_answer_is_an_error_with_pointers(play: Play) -> None:
    script = """
- when: ^begin$
  call: [{tool: summarize, input: {text: hello}}]
- say: "It says {{result}}"
- when: .
  say: '{"bullets": ["good", 2]}'
"""
    async with play(script) as stage:
        write_document(stage)
        run = await stage.ask("begin", agent="research-agent")
        assert run.status == "completed", run.error
        (told,) = [data for data in stage.told("tool_result") if data["name"] == "summarize"]
        assert told["isError"]
        assert "/bullets/1: expected string, got number 2" in told["content"]
        assert "/bullets/1" in stage.view.results(stage.requests[-1])[-1]
        assert len(await children(stage, run)) == 2


EVERY_FIELD = """\
model: {model}
runtime: {runtime}
tools:
  - add
  - "git-*"
  - {{name: ask-twice, description: Asks., prompt: "Say {{{{word}}}}", parameters: {{word: {{type: string}}}}}}
disallowed_tools: [git-diff-summary]
agents: []
max_turns: {turns}
limits: {{max_depth: 1, max_fanout: 2, max_descendants: 3, run_timeout: 50, token_budget: {tokens}, cost_budget: 1.5}}
"""


def every_field(stage: Stage, *, turns: int = 6, tokens: int = 100_000, body: str = "You are careful.") -> Path:
    given = EVERY_FIELD.format(model=stage.player.model, runtime=stage.player.runtime, turns=turns, tokens=tokens)
    return write_agent(
        "careful", given if stage.player.model else given.partition("\n")[2], body, stage.folder / "home"
    )


async def ask_agent(stage: Stage, prompt: str, **more: Any) -> Run:
    """Ask without naming a model or a runtime: the file does."""
    return await stage.ask(prompt, agent="careful", model=None, runtime=None, **more)


@pytest.mark.promise("K7")
async def test_every_field_of_a_file_reaches_the_model_and_a_forbidden_tool_that_it_guesses_is_unknown(
    play: Play,
) -> None:
    script = """
- when: guess
  call: [{tool: workspace-info, input: {}}]
- call: [{tool: add, input: {a: 2}}]
- say: "At last: {{result}}"
"""
    async with play(script, tools=[add]) as stage:
        every_field(stage)
        run = await ask_agent(stage, "guess")
        assert (run.agent, run.runtime, run.model) == ("careful", stage.player.runtime, stage.player.model)
        first = stage.requests[0]
        assert "You are careful.\n\n## Tools" in stage.view.instructions(first)
        assert "- ask-twice: Asks." in stage.view.instructions(first)
        offered = sorted(name.replace("_", "-") for name in stage.offered(first))  # Codex spells it so
        assert offered == ["add", "ask-twice", "git-status"]
        assert stage.view.own_in(first) == stage.view.own
        if stage.player.model:
            assert first.model == stage.player.model.partition(":")[2]
        assert run.status == "completed", run.error
        assert stage.view.plain(run.result) == "At last: the sum is 7"
        (refusal, _) = stage.view.results(stage.requests[2])
        assert any(words in refusal.lower() for words in ("no tool", "no such tool", "unknown", "unsupported")), refusal


@pytest.mark.promise("K7")
async def test_the_turns_and_the_budget_of_a_file_end_a_run(play: Play) -> None:
    script = (
        "- call: [{tool: add, input: {a: 2}}]\n  usage: {inputTokens: 400, outputTokens: 200}\n" * 9 + "- say: never\n"
    )
    async with play(script, tools=[add]) as stage:
        path = every_field(stage, turns=3)
        run = await ask_agent(stage, "go")
        assert run.error is not None, run
        assert (run.status, run.error.code) == ("failed", "limit")
        assert "stopped after 3 turns" in run.error.message
        assert "max_turns of the agent 'careful'" in run.error.message
        before = len(stage.requests)
        assert before in (3, 4)  # Codex may have begun another, which is broken off
        path.unlink()
        every_field(stage, turns=9, tokens=1000)
        await (await stage.stead._parts.open_agents()).reload()
        run = await ask_agent(stage, "go")
        assert run.error is not None, run
        assert (run.status, run.error.code) == ("failed", "budget")
        assert "limits.token_budget is 1,000" in run.error.message
        assert len(stage.requests) - before in (2, 3)  # at most one reply late


@pytest.mark.promise("K7")
async def test_a_changed_file_reaches_the_next_turn_of_a_session_that_is_open(play: Play) -> None:
    script = "- when: more\n  say: 'Again'\n- say: 'Hello'\n"
    async with play(script, tools=[add]) as stage:
        every_field(stage)
        assert (await ask_agent(stage, "begin", thread_id="t")).result == "Hello"
        every_field(stage, body="You are bold.")
        agents = await stage.stead._parts.open_agents()
        assert (await agents.reload()).changed == ("careful",)
        run = await ask_agent(stage, "more", thread_id="t")
        assert run.result == "Again", run.error
        last = stage.requests[-1]
        assert "You are bold." in stage.view.instructions(last)
        assert "careful" not in stage.view.instructions(last)
        assert stage.view.spoken(last)[-1] == "more"
        assert "begin" in json.dumps(last.body)  # the conversation went on
        assert stage.stead.state()["sessions"]["rebuilt"] == 1


@pytest.mark.promise("K5")
async def test_a_run_at_the_depth_limit_is_not_offered_what_starts_agents(play: Play) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    script = (
        "- when: guess\n  call: [{tool: ask-twice, input: {word: x}}]\n- say: 'It says {{result}}'\n- say: 'Hello'\n"
    )
    async with play(script, tools=[add, look]) as stage:
        path = every_field(stage)
        path.write_text(path.read_text().replace("max_depth: 1", "max_depth: 0"))
        run = await ask_agent(stage, "guess")
        assert sorted(stage.offered(stage.requests[0])) == ["add", "git-status"]
        assert "ask-twice" not in stage.view.instructions(stage.requests[0])
        assert await children(stage, run) == []
