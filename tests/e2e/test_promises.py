"""What every runtime promises, on real SDKs against scripted model APIs: one suite, each test on each of them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.captured import instructions_of, results_of, tools_of, user_texts
from tests.e2e.delegate_schema import DELEGATE_AGENT
from tests.e2e.model_stage import MODELS, Stage, playing
from toolyard import Annotations, Plugin, Tool, ToolError, ToolMeta, tool
from toolyard.orchestrator.request import RunRequest

Play = Callable[..., AbstractAsyncContextManager[Stage]]

READS = Annotations(read_only=True)


@pytest.fixture(params=sorted(MODELS))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Opens a stage on one API. What was captured is kept in the folder CAPTURED_REQUESTS, where one is named."""

    @asynccontextmanager
    async def open_stage(script: str, **more: Any) -> AsyncIterator[Stage]:
        async with playing(request.param, script, tmp_path, **more) as stage:
            yield stage
        if kept := os.environ.get("CAPTURED_REQUESTS"):
            shown = [{"path": one.path, "body": one.body} for one in stage.requests]
            Path(kept, f"{request.node.name}.json").write_text(json.dumps(shown, indent=1, ensure_ascii=False))

    return open_stage


@tool(annotations=READS)
async def add(a: int, b: int = 5) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


def delegate() -> Tool:
    """A tool with the schema of `delegate_agent`, which has a choice at its top level."""

    async def run(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        return f"delegated {json.dumps(input, sort_keys=True)}"

    return Tool(name="delegate_agent", description="Hand work on.", schema=DELEGATE_AGENT, handler=run)


@pytest.mark.promise("K8")
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
                "inputSchema": {
                    "type": "object",
                    "properties": {"who": {"type": "string"}},
                    "required": ["who"],
                },
                "handler": {"type": "shell", "command": "echo hello {{who}}"},
            }
        ],
    }
    plugin = Plugin(name="loud", version="1", tools=[shout])
    async with play(script, tools=[add], plugins=[plugin], files={"greetings.json": hello}) as stage:
        run = await stage.ask("do everything")
        assert (run.status, run.result) == ("completed", "At last: the sum is 7"), run.error
        first, second = stage.requests
        offered = tools_of(first)
        assert {"workspace-info", "say-hello", "loud__shout", "add", "update_plan", "git-status"} <= offered.keys()
        assert list(offered) == [info.name for info in stage.yard.registry.list_tools()]
        assert user_texts(first) == ["do everything"]
        assert str(stage.folder / "project") in instructions_of(first)
        place, greeting, loud, total = results_of(second)
        assert str(stage.folder / "project") in place
        assert "hello Ann" in greeting
        assert "QUIET" in loud
        assert "the sum is 7" in total
        assert [data["name"] for data in stage.told("tool_use")] == [
            "workspace-info",
            "say-hello",
            "loud__shout",
            "add",
        ]
        assert not any(data["isError"] for data in stage.told("tool_result"))
        assert run.usage.input_tokens > 0
        assert run.usage.cost > 0


@pytest.mark.promise("S1")
async def test_whole_schemas_arrive_and_each_difference_is_a_logged_adaptation(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolyard")
    nested = {
        "type": "object",
        "properties": {
            "where": {"$ref": "#/$defs/place"},
            "kind": {"enum": ["a", "b"]},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
        },
        "required": ["where"],
        "$defs": {"place": {"type": "object", "properties": {"street": {"type": "string"}}}},
    }

    async def answer(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        return "fine"

    rich = Tool(name="rich", description="Has a rich schema.", schema=nested, handler=answer)
    bare = Tool(name="bare", description="Has no schema at all.", handler=answer)
    script = """
- call: [{tool: delegate_agent, input: {batch: [{agent_id: a, prompt: p}]}}, {tool: rich, input: {where: {street: s}}}]
- say: ok
"""
    async with play(script, tools=[add, delegate(), rich, bare]) as stage:
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        arrived = tools_of(stage.requests[0])
        assert "delegate_agent" in arrived
        canonical = {info.name: dict(info.input_schema) for info in stage.yard.registry.list_tools()}
        assert arrived.keys() == canonical.keys()
        told = [record.getMessage() for record in caplog.records if "adapted" in record.getMessage()]
        for name, schema in canonical.items():
            lines = [line for line in told if f"the schema of {name!r} " in line]
            assert bool(lines) == (arrived[name] != schema), (name, arrived[name], lines)
        assert arrived["git-status"] == canonical["git-status"]  # what is plain arrives as it is
        handed = arrived["delegate_agent"]
        assert handed["type"] == "object"
        assert handed["properties"].keys() == DELEGATE_AGENT["properties"].keys()
        assert not {"anyOf", "oneOf", "allOf"} & handed.keys()  # each of them refuses it, or drops the whole tool
        assert "agent_id" in handed["description"]  # what the choice says is told in words
        assert "delegated" in results_of(stage.requests[1])[0]


@pytest.mark.promise("S1")
async def test_the_adapted_copy_loosens_nothing_the_original_decides(play: Play) -> None:
    script = """
- call: [{tool: delegate_agent, input: {agent_id: a}}]
- say: "{{result}}"
"""
    async with play(script, tools=[delegate()]) as stage:
        run = await stage.ask("go")
        assert run.status == "completed"
        (refused,) = results_of(stage.requests[1])
        assert "delegated" not in refused
        assert "prompt" in refused
        assert stage.told("tool_result")[0]["isError"] is True


@pytest.mark.promise("S1")
@pytest.mark.promise("S2")
async def test_bad_arguments_come_back_as_an_error_the_model_can_use_and_no_handler_ran(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @tool
    async def count(number: int) -> str:
        """Count."""
        ran.append(number)
        return "counted"

    script = """
- call: [{tool: count, input: {number: many}}]
- call: [{tool: count, input: {number: 3}}]
- say: "{{result}}"
"""
    async with play(script, tools=[count]) as stage:
        run = await stage.ask("count")
        assert (run.status, run.result) == ("completed", "counted"), run.error
        assert ran == [3]
        (error,) = results_of(stage.requests[1])
        assert "/number" in error
        assert "integer" in error
        assert [data["isError"] for data in stage.told("tool_result")] == [True, False]
        assert any("count failed (invalid_arguments)" in record.getMessage() for record in caplog.records)


@pytest.mark.promise("S2")
async def test_a_raising_and_a_hanging_handler_are_answers_like_any_other(play: Play) -> None:
    ended: list[str] = []

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
            ended.append("hang")
        return ""

    script = """
- call: [{tool: sulk, input: {}}, {tool: crash, input: {}}, {tool: hang, input: {}}]
- say: I see.
"""
    async with play(script, tools=[sulk, crash, hang]) as stage:
        run = await stage.ask("go on")
        assert (run.status, run.result) == ("completed", "I see."), run.error
        no, broken, late = results_of(stage.requests[1])
        assert "not today; try tomorrow" in no
        assert "crashed (id " in broken
        assert "secret" not in json.dumps(stage.requests[1].body)
        assert "did not finish within 0.2 seconds" in late
        assert ended == ["hang"]
        assert [data["isError"] for data in stage.told("tool_result")] == [True, True, True]


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
        results = results_of(stage.requests[1])
        met = [name for name in ("ann", "bob", "cem") if any(f"{name} met them" in text for text in results[:3])]
        assert met == ["ann", "bob", "cem"]
        assert ["ann" in results[0], "bob" in results[1], "cem" in results[2]] == [True, True, True]
        assert order == ["one begins", "one ends", "two begins", "two ends"]


@pytest.mark.promise("R7")
@pytest.mark.parametrize("where", ["streaming", "calling"])
async def test_an_interrupt_reaches_the_model_or_the_tool_and_the_thread_goes_on(play: Play, where: str) -> None:
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
- {when: streaming, say: One word after another, hang: 500}
- {when: calling, call: [{tool: dig, input: {}}]}
- {when: again, say: "I am here."}
"""
    async with play(script, tools=[dig]) as stage:
        running = asyncio.create_task(stage.ask(where, thread_id="t1"))
        if where == "calling":
            await asyncio.wait_for(began.wait(), 60)
        else:
            await stage.until(lambda: stage.told("message.delta"))
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await stage.until(lambda: stage.api.active == 0)
        assert ended.is_set() == (where == "calling")
        again = await stage.ask("again", thread_id="t1")
        assert (again.status, again.result) == ("completed", "I am here."), again.error
        last = stage.requests[-1]
        assert user_texts(last)[-1].endswith("again")
        assert where in json.dumps(last.body)  # what was begun before the interrupt is not forgotten
        if where == "calling":
            assert "interrupted" in results_of(last)[0]


@pytest.mark.promise("S7")
async def test_the_timeout_really_ends_the_invocation(play: Play) -> None:
    script = """
- {when: hello, say: quick}
- {when: slow, delay: 500, say: never}
"""
    async with play(script) as stage:
        run = await stage.ask("slow", thread_id="t1", timeout=0.5)
        assert (run.status, run.result) == ("timeout", None)
        assert run.error is not None
        assert "0.5 seconds" in run.error.message
        await stage.until(lambda: stage.api.active == 0)
        after = await stage.ask("hello", thread_id="t1")
        assert (after.status, after.result) == ("completed", "quick"), after.error


async def test_a_message_for_the_running_turn_is_in_the_next_request(play: Play) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        await go_on.wait()
        return "waited"

    script = """
- {when: rather, say: As you wish.}
- call: [{tool: wait, input: {}}]
- say: not this
"""
    async with play(script, tools=[wait]) as stage:
        running = asyncio.create_task(stage.ask("begin", thread_id="t1"))
        await asyncio.wait_for(began.wait(), 60)
        orchestrator = await stage.yard.conversations()
        await orchestrator.steer(RunRequest(prompt="rather do that", thread_id="t1"))
        go_on.set()
        run = await running
        assert (run.status, run.result) == ("completed", "As you wish."), run.error
        first, second = stage.requests
        assert user_texts(first) == ["begin"]
        assert user_texts(second) == ["begin", "rather do that"]
        assert "waited" in results_of(second)[0]


@pytest.mark.promise("R5")
async def test_a_tool_that_is_added_by_a_reload_is_in_the_next_request(play: Play) -> None:
    stages: list[Stage] = []

    @tool
    async def install() -> str:
        """Writes another tool's file, and loads it."""
        stage = stages[0]
        fresh = {
            "name": "more",
            "tools": [
                {
                    "name": "fresh-tool",
                    "description": "Is new.",
                    "inputSchema": {"type": "object", "properties": {}},
                    "handler": {"type": "shell", "command": "echo so fresh"},
                }
            ],
        }
        (stage.folder / "tool-files" / "more.json").write_text(json.dumps(fresh))
        await stage.yard.registry.reload_plugins()
        return "installed"

    script = """
- call: [{tool: install, input: {}}]
- call: [{tool: fresh-tool, input: {}}]
- say: "It says {{result}}"
"""
    async with play(script, tools=[install]) as stage:
        stages.append(stage)
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        assert "so fresh" in (run.result or "")
        first, second, third = stage.requests
        assert "fresh-tool" not in tools_of(first)
        assert "fresh-tool" in tools_of(second)
        assert "so fresh" in results_of(third)[-1]


@pytest.mark.promise("K8")
async def test_two_threads_at_once_never_see_each_others_context(play: Play) -> None:
    meeting = asyncio.Barrier(2)

    @tool(annotations=READS)
    async def whoami(meta: ToolMeta, word: str) -> str:
        """Says where it was called."""
        await meeting.wait()  # both threads are inside their tool at the same time
        return f"thread {meta.thread_id} of run {meta.run_id} said {word}"

    script = """
- {when: alpha, call: [{tool: whoami, input: {word: first}}]}
- say: "{{result}}"
- {when: omega, call: [{tool: whoami, input: {word: last}}]}
- say: "{{result}}"
"""
    async with play(script, tools=[whoami]) as stage:
        one, two = await asyncio.gather(
            stage.ask("alpha secret", thread_id="t-alpha"), stage.ask("omega secret", thread_id="t-omega")
        )
        assert one.result == f"thread t-alpha of run {one.id} said first"
        assert two.result == f"thread t-omega of run {two.id} said last"
        for request in stage.requests:
            text = json.dumps(request.body)
            assert ("alpha" in text) != ("omega" in text)
        used = [event for event in stage.events if event.type == "tool_use"]
        assert {(event.thread_id, event.data["input"]["word"]) for event in used} == {
            ("t-alpha", "first"),
            ("t-omega", "last"),
        }


@pytest.mark.promise("B9")
async def test_the_next_message_of_a_thread_goes_on_with_its_conversation(play: Play) -> None:
    script = """
- {when: first, call: [{tool: add, input: {a: 1}}]}
- say: "{{result}}"
- {when: second, say: I remember.}
"""
    async with play(script, tools=[add]) as stage:
        await stage.ask("first", thread_id="t1")
        await stage.ask("second", thread_id="t1")
        last = stage.requests[-1]
        assert user_texts(last) == ["first", "second"]
        assert "the sum is 6" in results_of(last)[0]
        usage = stage.told("usage")
        assert len(usage) == 3


@pytest.mark.promise("R7")
async def test_a_run_has_its_own_working_directory(play: Play) -> None:
    @tool(annotations=READS)
    async def here(meta: ToolMeta) -> str:
        """Says where it works."""
        return str(meta.cwd)

    script = """
- call: [{tool: here, input: {}}]
- say: "{{result}}"
"""
    async with play(script, tools=[here]) as stage:
        folder = stage.folder / "project"
        (folder / "inside").mkdir()
        orchestrator = await stage.yard.conversations()
        wanted = RunRequest(prompt="where?", model=MODELS[stage.name], runtime="kernel", cwd="inside")
        run = await orchestrator.wait((await orchestrator.submit(wanted)).run_id)
        assert run.result == str(folder / "inside"), run.error
        assert f"in the folder {folder / 'inside'}." in instructions_of(stage.requests[0])
        usual = await stage.ask("where?")
        assert usual.result == str(folder)
