"""What every runtime promises: one suite, each test on each of them, against scripted model APIs.

The kernel plays on the four APIs through their own clients; Claude Code and Codex are the real programs. What the
model was really sent is in the captured requests, and how each runtime shows it there is said by its `View`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from tests.e2e.conftest import PROGRAMS
from tests.e2e.delegate_schema import DELEGATE_AGENT
from tests.e2e.model_stage import Play, Stage
from tests.waiting import PATIENCE
from toolstead import Annotations, Plugin, Tool, ToolError, ToolMeta, tool

FOR_SUB_AGENTS = ("delegation__checkin", "signal_parent")
"""Tools that only a run which works on a delegated task is offered."""


READS = Annotations(read_only=True)


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
        view = stage.view
        run = await stage.ask("do everything")
        assert (run.status, view.plain(run.result)) == ("completed", "At last: the sum is 7"), run.error
        first, second = stage.requests
        offered = stage.offered(first)
        assert {"workspace-info", "say-hello", "loud__shout", "add", "update_plan", "git-status"} <= offered.keys()
        assert list(offered) == view.ordered(
            info.name for info in stage.stead.registry.list_tools() if info.name not in FOR_SUB_AGENTS
        )
        assert view.own_in(first) == view.own  # and nothing else
        assert view.spoken(first) == ["do everything"]
        assert str(stage.project) in view.instructions(first)
        place, greeting, loud, total = view.results(second)
        assert str(stage.project) in place
        assert "hello Ann" in greeting
        assert "QUIET" in loud
        assert "the sum is 7" in total
        used, answered = view.called(stage.told("tool_use")), view.called(stage.told("tool_result"))
        assert [data["name"] for data in used] == ["workspace-info", "say-hello", "loud__shout", "add"]
        assert [data["callId"] for data in answered] == [data["callId"] for data in used]  # each once
        assert [data["callId"] for data in used] == view.call_ids(second)  # by the model's own ids
        assert not any(data["isError"] for data in answered)
        assert "".join(data["text"] for data in stage.told("message.delta")) == run.result
        assert run.usage.input_tokens > 0
        assert (run.usage.cost > 0) == view.knows_prices
        told = stage.told("usage")
        assert len(told) == 2  # once for each reply
        assert view.used(told) == (run.usage.input_tokens, run.usage.output_tokens)


@pytest.mark.promise("S1")
async def test_whole_schemas_arrive_and_each_difference_is_a_logged_adaptation(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolstead")
    nested = {
        "type": "object",
        "properties": {
            "where": {"$ref": "#/$defs/place"},
            "kind": {"enum": ["a", "b"]},
            "always": {"const": "x"},
            "share": {"type": "number", "description": "How much", "minimum": 0, "maximum": 1, "default": 0.5},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "anything": True,
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
        },
        "required": ["where"],
        "$defs": {"place": {"type": "object", "properties": {"street": {"type": "string", "pattern": "^[a-z]"}}}},
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
        arrived = stage.offered(stage.requests[0])
        listed = [info for info in stage.stead.registry.list_tools() if info.name not in FOR_SUB_AGENTS]
        canonical = {info.name: dict(info.input_schema) for info in listed}
        assert arrived.keys() == canonical.keys()  # the one with a choice at its top level too
        told = [record.getMessage() for record in caplog.records if "adapted" in record.getMessage()]
        for name, schema in canonical.items():
            lines = [line for line in told if f"the schema of {name!r} " in line]
            assert len(lines) == (arrived[name] != schema), (name, arrived[name], lines)
        assert arrived["git-status"] == canonical["git-status"]  # what is plain arrives as it is
        handed = arrived["delegate_agent"]
        assert handed["type"] == "object"
        assert handed["properties"].keys() == DELEGATE_AGENT["properties"].keys()
        assert not {"anyOf", "oneOf", "allOf"} & handed.keys()  # each of them refuses it, or drops the whole tool
        assert "agent_id" in handed["description"]  # what the choice says is told in words
        delegated, fine = stage.view.results(stage.requests[1])
        assert 'delegated {"batch": [{"agent_id": "a", "prompt": "p"}]}' in delegated.replace('\\"', '"')
        assert "fine" in fine


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
- call:
    - {tool: count, input: {number: many}}
    - {tool: delegate_agent, input: {agent_id: a}}
    - {tool: delegate_agent, input: {batch: []}}
- call: [{tool: count, input: {number: 3}}]
- say: "{{result}}"
"""
    async with play(script, tools=[count, delegate()]) as stage:
        run = await stage.ask("count")
        assert (run.status, stage.view.plain(run.result)) == ("completed", "counted"), run.error
        assert ran == [3]
        wrong, lacking, empty = stage.view.results(stage.requests[1])
        assert "/number" in wrong
        assert "integer" in wrong
        assert "delegated" not in lacking + empty  # the original decides, whatever the adapted copy allows
        assert "prompt" in lacking
        assert "/batch" in empty
        told = stage.view.called(stage.told("tool_result"))
        assert [data["isError"] for data in told] == [True, True, True, False]
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
        no, broken, late = stage.view.results(stage.requests[1])
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
        await asyncio.sleep(0.02)  # whoever did not wait for its turn would come in between
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
        results = stage.view.results(stage.requests[1])
        said = ["ann met them", "bob met them", "cem met them", "written", "written"]
        assert [words in text for words, text in zip(said, results, strict=True)] == [True] * 5
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
- {when: again, say: "I am here."}
- {when: streaming, say: One word after another, hang: 500}
- {when: calling, call: [{tool: dig, input: {}}]}
"""
    async with play(script, tools=[dig]) as stage:
        running = asyncio.create_task(stage.ask(where, thread_id="t1"))
        await stage.until(lambda: began.is_set() or stage.told("message.delta"))
        programs = stage.programs
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await stage.until(lambda: stage.api.active == 0)
        assert ended.is_set() == (where == "calling")
        again = await stage.ask("again", thread_id="t1")
        assert (again.status, again.result) == ("completed", "I am here."), again.error
        assert stage.programs == programs  # interrupted, not killed
        last = stage.requests[-1]
        assert stage.view.spoken(last) == [where, "again"]  # what was begun before the interrupt is not forgotten
        if where == "calling":
            (answer,) = stage.view.results(last)
            assert any(words in answer for words in stage.view.interrupted), answer


@pytest.mark.promise("S7")
async def test_the_timeout_really_ends_the_invocation(play: Play) -> None:
    script = """
- {when: hello, say: quick}
- {when: slow, delay: 500, say: never}
"""
    async with play(script) as stage:
        assert (await stage.ask("hello", thread_id="t1")).result == "quick"
        programs = stage.programs
        run = await stage.ask("slow", thread_id="t1", timeout=0.5)
        assert (run.status, run.result) == ("timeout", None)
        assert run.error is not None
        assert "0.5 seconds" in run.error.message
        await stage.until(lambda: stage.api.active == 0)
        after = await stage.ask("hello", thread_id="t1")
        assert (after.status, after.result) == ("completed", "quick"), after.error
        assert stage.programs == programs


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
- {when: begin, call: [{tool: wait, input: {}}], say: As you wish.}
"""
    async with play(script, tools=[wait]) as stage:
        running = asyncio.create_task(stage.ask("begin", thread_id="t1"))
        await asyncio.wait_for(began.wait(), PATIENCE)
        steered = await stage.steer("rather do that", "t1")
        go_on.set()
        run = await running
        assert (run.status, run.result) == ("completed", "As you wish."), run.error
        assert steered == run.id
        first, second = stage.requests
        assert stage.view.spoken(first) == ["begin"]
        assert "rather do that" not in json.dumps(first.body)
        assert stage.view.spoken(second) == ["begin", "rather do that"]
        assert "waited" in stage.view.results(second)[0]


@pytest.mark.promise("R5")
async def test_a_tool_that_is_added_by_a_reload_is_in_the_next_request(play: Play) -> None:
    stages: list[Stage] = []

    @tool
    async def install() -> str:
        """Writes another tool's file, and loads it."""
        await stages[0].write_tool("fresh-tool", "so fresh")
        return "installed"

    script = """
- {when: go, call: [{tool: install, input: {}}]}
- {call: [{tool: fresh-tool, input: {}}], say: "{{result}}"}
- {when: use, call: [{tool: fresh-tool, input: {}}, {tool: later-tool, input: {}}], say: done}
- {when: look, say: I see.}
"""
    async with play(script, tools=[install]) as stage:
        stages.append(stage)
        view = stage.view
        run = await stage.ask("go", thread_id="t1")
        assert run.status == "completed", run.error
        assert ("so fresh" in view.plain(run.result)) == view.reloads_within_a_turn
        programs = stage.programs
        await stage.write_tool("later-tool", "so late")
        used = await stage.ask("use them", thread_id="t1")
        assert (used.status, used.result) == ("completed", "done"), used.error
        assert stage.programs == programs  # nothing was started anew for that
        fresh, late = (
            [name in stage.offered(request) for request in stage.requests] for name in ("fresh-tool", "later-tool")
        )
        assert fresh == [False, view.reloads_within_a_turn, view.reloads_within_a_turn, True, True]
        assert late == [False, False, False, True, True]
        *_, one, two = view.results(stage.requests[-1])
        assert ("so fresh" in one, "so late" in two) == (True, True)
        await stage.write_tool("later-tool", "so late", description="Says more now.")
        assert (await stage.ask("look", thread_id="t1")).status == "completed"
        assert "Says more now." in json.dumps(stage.requests[-1].body)
        await stage.drop_tool("later-tool")
        assert (await stage.ask("look again", thread_id="t1")).status == "completed"
        assert view.spelled("later-tool") not in view.offered(stage.requests[-1])
        assert "fresh-tool" in stage.offered(stage.requests[-1])
        assert view.spoken(stage.requests[-1]) == ["go", "use them", "look", "look again"]  # one conversation


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
        assert stage.view.plain(one.result) == f"thread t-alpha of run {one.id} said first"
        assert stage.view.plain(two.result) == f"thread t-omega of run {two.id} said last"
        assert len(stage.requests) == 4
        for request in stage.requests:
            text = json.dumps(request.body)
            assert ("alpha" in text) != ("omega" in text)
        used = [event for event in stage.events if event.type == "tool_use"]
        assert {(event.thread_id, event.data["input"]["word"]) for event in used} == {
            ("t-alpha", "first"),
            ("t-omega", "last"),
        }


@pytest.mark.promise("K8")
@pytest.mark.promise("P4")
@pytest.mark.parametrize("play", PROGRAMS, indirect=True)
async def test_ten_threads_at_once_each_have_their_own_session_and_handlers_know_which(play: Play) -> None:
    meeting = asyncio.Barrier(10)
    stages: list[Stage] = []
    alive: list[int] = []

    @tool(annotations=READS)
    async def whoami(meta: ToolMeta, word: str) -> str:
        """Says where it was called."""
        if await meeting.wait() == 0:  # all of them are inside their tool at the same time
            alive.extend(stages[0].programs)
        return f"thread {meta.thread_id} of run {meta.run_id} in {meta.session_id} said {word}"

    script = "".join(
        f"- {{when: word-{n}-, call: [{{tool: whoami, input: {{word: w{n}}}}}], say: '{{{{result}}}}'}}\n"
        for n in range(10)
    )
    async with play(script, tools=[whoami]) as stage:
        stages.append(stage)
        runs = await asyncio.gather(*(stage.ask(f"word-{n}-", thread_id=f"t{n}") for n in range(10)))
        orchestrator = await stage.stead.conversations()
        sessions = [(await orchestrator.store.read_thread(f"t{n}")).session_id or "" for n in range(10)]
        assert len(set(sessions)) == 10
        for n, run in enumerate(runs):
            session = sessions[n].rpartition(":")[2]
            assert stage.view.plain(run.result) == f"thread t{n} of run {run.id} in {session} said w{n}", run.error
        for request in stage.requests:
            words = [n for n in range(10) if f"word-{n}-" in json.dumps(request.body)]
            assert len(words) == 1
        used = [event for event in stage.events if event.type == "tool_use"]
        assert {(event.thread_id, event.data["input"]["word"]) for event in used} == {
            (f"t{n}", f"w{n}") for n in range(10)
        }
        assert len(alive) == (1 if stage.player.shares_its_program else 10)


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
        assert stage.view.spoken(last) == ["first", "second"]
        assert "the sum is 6" in stage.view.results(last)[0]
        assert len(stage.told("usage")) == 3


@pytest.mark.promise("P11")
async def test_what_looks_like_a_command_or_a_file_is_told_as_it_was_written(play: Play) -> None:
    async with play('- {say: "heard"}') as stage:
        (stage.project / "secret.txt").write_text("the secret of the file")
        for prompt in ("/clear", "@secret.txt what is in it?"):
            run = await stage.ask(prompt, thread_id="t1")
            assert (run.status, run.result) == ("completed", "heard"), run.error
        assert stage.view.spoken(stage.requests[-1]) == ["/clear", "@secret.txt what is in it?"]
        assert "the secret of the file" not in json.dumps(stage.requests[-1].body)


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
        inside = stage.project / "inside"
        inside.mkdir()
        run = await stage.ask_in("inside", "where?")
        assert stage.view.plain(run.result) == str(inside), run.error
        assert f"in the folder {inside}." in stage.view.instructions(stage.requests[0])
        usual = await stage.ask("where?")
        assert stage.view.plain(usual.result) == str(stage.project), usual.error
