"""Claude Code as a runtime: the real program, driven through a yard, against a scripted Messages API."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.captured import instructions_of, results_of
from tests.e2e.claude_stage import ClaudeStage, playing, spoken, tools_of
from tests.e2e.delegate_schema import DELEGATE_AGENT
from toolyard import Annotations, Plugin, Tool, ToolError, ToolMeta, tool
from toolyard.orchestrator.request import RunRequest

pytestmark = pytest.mark.requires("claude")

Play = Callable[..., AbstractAsyncContextManager[ClaudeStage]]
READS = Annotations(read_only=True)


@pytest.fixture
def play(tmp_path: Path) -> Play:
    @asynccontextmanager
    async def open_stage(script: str, **more: Any) -> AsyncIterator[ClaudeStage]:
        async with playing(script, tmp_path, **more) as stage:
            yield stage

    return open_stage


@tool(annotations=READS)
async def add(a: int, b: int = 5) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


@pytest.mark.promise("P3")
async def test_every_kind_of_tool_is_offered_called_and_answered(play: Play) -> None:
    @tool
    async def shout(text: str) -> str:
        """Say it loud."""
        return text.upper()

    script = """
- call:
    - {tool: workspace-info, input: {}}
    - {tool: say-hello, input: {who: Ann}}
    - {tool: loud__shout, input: {text: quiet}}
    - {tool: add, input: {a: 2}}
- say: "At last: {{result}}"
"""
    hello = {
        "name": "greetings",
        "tools": [
            {
                "name": "say-hello",
                "description": "Greets.",
                "inputSchema": {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]},
                "handler": {"type": "shell", "command": "echo hello {{who}}"},
            }
        ],
    }
    plugin = Plugin(name="loud", version="1", tools=[shout])
    async with play(script, tools=[add], plugins=[plugin], files={"greetings.json": hello}) as stage:
        run = await stage.ask("do everything")
        assert (run.status, run.result) == ("completed", "At last: the sum is 7"), run.error
        first, second = stage.requests
        assert tools_of(first).keys() == {info.name for info in stage.yard.registry.list_tools()}
        assert all(tool["name"].startswith("mcp__toolyard__") for tool in first.body["tools"])  # none of Claude's own
        assert spoken(first) == ["do everything"]
        assert str(stage.folder / "project") in instructions_of(first)
        place, greeting, loud, total = results_of(second)
        assert str(stage.folder / "project") in place
        assert "hello Ann" in greeting
        assert "QUIET" in loud
        assert "the sum is 7" in total
        used = stage.told("tool_use")
        assert sorted(data["name"] for data in used) == ["add", "loud__shout", "say-hello", "workspace-info"]
        asked = [part["id"] for message in second.body["messages"] for part in _parts(message) if "input" in part]
        assert sorted(data["callId"] for data in used) == sorted(asked)
        assert not any(data["isError"] for data in stage.told("tool_result"))
        assert "".join(data["text"] for data in stage.told("message.delta")) == run.result
        assert run.usage.input_tokens > 0
        assert run.usage.cost > 0
        assert len(stage.told("usage")) == 1


@pytest.mark.promise("S1")
async def test_whole_schemas_arrive_and_each_difference_is_a_logged_adaptation(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolyard")

    async def run_it(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        return f"delegated {json.dumps(input, sort_keys=True)}"

    delegate = Tool(name="delegate_agent", description="Hand work on.", schema=DELEGATE_AGENT, handler=run_it)
    script = """
- call: [{tool: delegate_agent, input: {batch: [{agent_id: a, prompt: p}]}}, {tool: delegate_agent, input: {batch: []}}]
- say: ok
"""
    async with play(script, tools=[add, delegate]) as stage:
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        arrived = tools_of(stage.requests[0])
        canonical = {info.name: dict(info.input_schema) for info in stage.yard.registry.list_tools()}
        assert arrived.keys() == canonical.keys()  # a choice at the top level would have dropped it without a word
        told = [record.getMessage() for record in caplog.records if "adapted" in record.getMessage()]
        for name, schema in canonical.items():
            lines = [line for line in told if f"the schema of {name!r} " in line]
            assert len(lines) == (arrived[name] != schema), (name, arrived[name], lines)
        handed = arrived["delegate_agent"]
        assert handed["properties"].keys() == DELEGATE_AGENT["properties"].keys()
        assert not {"anyOf", "oneOf", "allOf"} & handed.keys()
        good, bad = results_of(stage.requests[1])
        assert "delegated" in good
        assert "delegated" not in bad  # the original decides
        assert "/batch" in bad


@pytest.mark.promise("S2")
async def test_bad_arguments_crashes_and_deadlines_are_answers_the_model_can_use(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[Any] = []

    @tool
    async def count(number: int) -> str:
        """Count."""
        ran.append(number)
        return "counted"

    @tool
    async def sulk() -> str:
        """Says no."""
        raise ToolError("not today; try tomorrow")

    @tool
    async def crash() -> str:
        """Breaks."""
        raise ZeroDivisionError("a secret of the house")

    @tool(timeout=0.2)
    async def hang() -> str:
        """Never comes back."""
        try:
            await asyncio.Event().wait()
        finally:
            ran.append("hang ended")
        return ""

    script = """
- call:
    - {tool: count, input: {number: many}}
    - {tool: sulk, input: {}}
    - {tool: crash, input: {}}
    - {tool: hang, input: {}}
- say: I see.
"""
    async with play(script, tools=[count, sulk, crash, hang]) as stage:
        run = await stage.ask("count")
        assert (run.status, run.result) == ("completed", "I see."), run.error
        assert ran == ["hang ended"]
        wrong, no, broken, late = results_of(stage.requests[1])
        assert "/number" in wrong
        assert "integer" in wrong
        assert "not today; try tomorrow" in no
        assert "crashed (id " in broken
        assert "secret" not in json.dumps(stage.requests[1].body)
        assert "did not finish within 0.2 seconds" in late
        assert [data["isError"] for data in stage.told("tool_result")] == [True] * 4
        assert any("count failed (invalid_arguments)" in record.getMessage() for record in caplog.records)


@pytest.mark.promise("K8")
async def test_calls_that_only_read_run_at_the_same_time_and_others_in_order(play: Play) -> None:
    meeting = asyncio.Barrier(3)
    order: list[str] = []

    @tool(annotations=READS)
    async def meet(name: str) -> str:
        """Waits for the others."""
        await meeting.wait()
        return f"{name} met them"

    @tool
    async def write(text: str) -> str:
        """Changes something."""
        order.append(f"{text} begins")
        await asyncio.sleep(0)
        order.append(f"{text} ends")
        return "written"

    script = """
- call:
    - {tool: meet, input: {name: ann}}
    - {tool: meet, input: {name: bob}}
    - {tool: meet, input: {name: cem}}
    - {tool: write, input: {text: one}}
    - {tool: write, input: {text: two}}
- say: done
"""
    async with play(script, tools=[meet, write]) as stage:
        run = await stage.ask("meet")
        assert (run.status, run.result) == ("completed", "done"), run.error
        assert ["met them" in text for text in results_of(stage.requests[1])] == [True, True, True, False, False]
        assert order == ["one begins", "one ends", "two begins", "two ends"]


async def test_an_answer_longer_than_claude_code_would_keep_arrives_whole(play: Play) -> None:
    @tool
    async def read_all() -> str:
        """Says a lot."""
        return "begin " + "word " * 40_000 + "end"

    async with play("- {call: [{tool: read_all, input: {}}], say: ok}", tools=[read_all]) as stage:
        assert (await stage.ask("read")).status == "completed"
        (whole,) = results_of(stage.requests[1])
        assert len(whole) == len("begin " + "word " * 40_000 + "end")


async def test_what_looks_like_a_command_or_a_file_is_told_as_it_was_written(play: Play) -> None:
    async with play('- {say: "heard"}') as stage:
        (stage.folder / "project" / "secret.txt").write_text("the secret of the file")
        for prompt in ("/clear", "@secret.txt what is in it?"):
            run = await stage.ask(prompt, thread_id="t1")
            assert (run.status, run.result) == ("completed", "heard"), run.error
        assert spoken(stage.requests[-1]) == ["/clear", "@secret.txt what is in it?"]
        assert "the secret of the file" not in json.dumps(stage.requests[-1].body)


@pytest.mark.promise("R7")
@pytest.mark.parametrize("where", ["streaming", "calling"])
async def test_an_interrupt_reaches_the_model_or_the_tool_and_the_program_goes_on(play: Play, where: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def dig() -> str:
        """Digs for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    script = """
- {when: again, say: "I am here."}
- {when: streaming, say: One word after another, hang: 500}
- {when: calling, call: [{tool: dig, input: {}}]}
"""
    async with play(script, tools=[dig]) as stage:
        running = asyncio.create_task(stage.ask(where, thread_id="t1"))
        await stage.until(lambda: began.is_set() or stage.told("message.delta"))
        programs = stage.processes
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await stage.until(lambda: stage.api.active == 0)
        assert ended.is_set() == (where == "calling")
        again = await stage.ask("again", thread_id="t1")
        assert (again.status, again.result) == ("completed", "I am here."), again.error
        assert stage.processes == programs  # it was not started anew
        assert where in json.dumps(stage.requests[-1].body)  # what was begun is not forgotten


@pytest.mark.promise("S7")
async def test_the_timeout_really_ends_the_invocation_and_the_program_goes_on(play: Play) -> None:
    script = """
- {when: hello, say: quick}
- {when: slow, delay: 500, say: never}
"""
    async with play(script) as stage:
        assert (await stage.ask("hello", thread_id="t1")).result == "quick"
        programs = stage.processes
        run = await stage.ask("slow", thread_id="t1", timeout=1)
        assert (run.status, run.result) == ("timeout", None)
        await stage.until(lambda: stage.api.active == 0)
        after = await stage.ask("hello", thread_id="t1")
        assert (after.status, after.result) == ("completed", "quick"), after.error
        assert stage.processes == programs


async def test_a_message_for_a_turn_that_calls_is_read_beside_the_results(play: Play) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        await go_on.wait()
        return "waited"

    async with play("- {call: [{tool: wait, input: {}}], say: As you wish.}", tools=[wait]) as stage:
        running = asyncio.create_task(stage.ask("begin", thread_id="t1"))
        await stage.until(began.is_set)
        orchestrator = await stage.yard.conversations()
        steered = await orchestrator.steer(RunRequest(prompt="rather do that", thread_id="t1"))
        go_on.set()
        run = await running
        assert (run.status, run.result) == ("completed", "As you wish."), run.error
        assert steered.run_id == run.id
        first, second = stage.requests
        assert "rather do that" not in json.dumps(first.body)
        assert "rather do that" in json.dumps(second.body)


async def test_a_message_for_a_turn_that_answers_is_answered_before_the_turn_ends(play: Play) -> None:
    script = """
- {when: rather, say: As you wish.}
- {when: begin, say: One word after another, hang: 1}
"""
    async with play(script) as stage:
        running = asyncio.create_task(stage.ask("begin", thread_id="t1"))
        await stage.until(lambda: stage.told("message.delta"))
        orchestrator = await stage.yard.conversations()
        steered = await orchestrator.steer(RunRequest(prompt="rather do that", thread_id="t1"))
        run = await running
        assert (run.status, run.result) == ("completed", "As you wish."), run.error
        assert steered.run_id == run.id
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
        orchestrator = await stage.yard.conversations()
        await orchestrator.steer(RunRequest(prompt="rather do that", thread_id="t1"))
        running.cancel()
        await asyncio.wait([running])
        await stage.until(lambda: stage.api.active == 0)
        again = await stage.ask("again", thread_id="t1")
        assert (again.status, again.result) == ("completed", "I am here."), again.error


@pytest.mark.promise("R5")
async def test_a_reload_reaches_the_turn_that_runs_and_the_next_one(play: Play) -> None:
    stages: list[ClaudeStage] = []

    def write(name: str, words: str, description: str = "Is new.") -> None:
        described = {"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}}
        file = {"name": name, "tools": [{**described, "handler": {"type": "shell", "command": f"echo {words}"}}]}
        (stages[0].folder / "tool-files" / f"{name}.json").write_text(json.dumps(file))

    @tool
    async def install() -> str:
        """Writes another tool's file, and loads it."""
        write("fresh-tool", "so fresh")
        await stages[0].yard.registry.reload_plugins()
        return "installed"

    script = """
- when: go
  call: [{tool: install, input: {}}]
- call: [{tool: fresh-tool, input: {}}]
- say: "It says {{result}}"
- when: more
  call: [{tool: later-tool, input: {}}]
- say: "And it says {{result}}"
"""
    async with play(script, tools=[install]) as stage:
        stages.append(stage)
        run = await stage.ask("go", thread_id="t1")
        assert (run.status, run.result and run.result.strip()) == ("completed", "It says so fresh"), run.error
        assert ["fresh-tool" in tools_of(request) for request in stage.requests] == [False, True, True]
        programs = stage.processes
        write("later-tool", "so late")
        await stage.yard.registry.reload_plugins()
        run = await stage.ask("more", thread_id="t1")
        assert (run.status, run.result and run.result.strip()) == ("completed", "And it says so late"), run.error
        assert stage.processes == programs
        write("later-tool", "so late", description="Says more now.")
        await stage.yard.registry.reload_plugins()
        assert (await stage.ask("anything", thread_id="t1")).status == "completed"
        assert "Says more now." in json.dumps(stage.requests[-1].body["tools"])
        (stage.folder / "tool-files" / "later-tool.json").unlink()
        await stage.yard.registry.reload_plugins()
        last = await stage.ask("nothing", thread_id="t1")
        assert last.status == "completed", last.error
        assert "later-tool" not in tools_of(stage.requests[-1])
        assert spoken(stage.requests[-1]) == ["go", "more", "anything", "nothing"]


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [] if isinstance(content, str) else content
