"""The real Codex at bad moments: what is shared, broken off, told too late, or told in half characters."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.codex_stage import CODEX, PATIENCE
from tests.e2e.model_stage import Play, Stage, playing
from toolstead import Ask, Hooks, Plugin, PluginContext, Tool, ToolMeta
from toolstead.orchestrator.request import RunRequest

pytestmark = pytest.mark.requires("codex")


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def open_stage(script: str, **more: Any) -> Any:
        return playing(CODEX, script, tmp_path, **more)

    return open_stage


def _tool(name: str, handler: Any, *, description: str = "Does it.") -> Tool:
    return Tool(name=name, description=description, schema={"type": "object"}, handler=handler)


async def _fine(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
    return "fine"


async def _conversation(stage: Stage, thread_id: str) -> str:
    """Codex's own id of a thread's conversation."""
    stored = (await (await stage.stead.conversations()).store.read_thread(thread_id)).session_id
    assert stored is not None
    return stored.removeprefix("codex:")


@pytest.mark.promise("S6")
async def test_what_was_used_before_a_reload_is_not_counted_again(play: Play) -> None:
    settings = {"runtime": {"codex": {"max_turns": 1}}}
    script = "- {when: hello, say: Hello., usage: {inputTokens: 10, outputTokens: 3}}"
    async with play(script, tools=[_tool("late", _fine)], settings=settings) as stage:
        for description in ("one", "two", "three"):
            stage.stead.registry.unregister("late")
            stage.stead.registry.register(_tool("late", _fine, description=description))
            run = await stage.ask("hello", thread_id="t1")
            assert run.status == "completed", run.error
            assert (run.usage.input_tokens, run.usage.output_tokens) == (10, 3)
        assert len(stage.view.spoken(stage.requests[-1])) == 3  # it is one conversation


@pytest.mark.promise("P4")
@pytest.mark.promise("S7")
async def test_a_conversation_that_another_thread_goes_on_with_calls_tools_for_that_thread(play: Play) -> None:
    seen: list[str] = []

    async def note(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        seen.append(meta.thread_id)
        return "noted"

    async with play("- {when: use, call: [{tool: note, input: {}}], say: Done.}", tools=[_tool("note", note)]) as stage:
        assert (await stage.ask("use", thread_id="a")).result == "Done."
        shared = await _conversation(stage, "a")
        for thread_id in ("b", "a", "c", "b"):
            run = await stage.ask("use", thread_id=thread_id, session_id=shared)
            assert (run.status, run.result) == ("completed", "Done."), run.error
        assert seen == ["a", "b", "a", "c", "b"]
        assert len(stage.view.spoken(stage.requests[-1])) == 5


async def test_a_conversation_that_is_in_use_is_refused_to_another_thread(play: Play) -> None:
    inside, leave = asyncio.Event(), asyncio.Event()

    async def wait(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        inside.set()
        await asyncio.wait_for(leave.wait(), PATIENCE)
        return "waited"

    script = """
- {when: hello, say: Hello.}
- {when: wait, call: [{tool: wait, input: {}}], say: "{{result}}"}
"""
    async with play(script, tools=[_tool("wait", wait)]) as stage:
        assert (await stage.ask("hello", thread_id="a")).result == "Hello."
        shared = await _conversation(stage, "a")
        running = asyncio.create_task(stage.ask("wait", thread_id="a"))
        await asyncio.wait_for(inside.wait(), PATIENCE)
        refused = await stage.ask("hello", thread_id="b", session_id=shared)
        assert refused.status == "failed"
        assert refused.error is not None
        assert "is in use by another thread" in refused.error.message
        leave.set()
        run = await running
        assert run.status == "completed", run.error
        assert stage.view.plain(run.result) == "waited"
        assert (await stage.ask("hello", thread_id="b", session_id=shared)).result == "Hello."


async def test_half_a_character_in_a_message_is_told_as_such_and_ends_no_process(play: Play) -> None:
    async with play("- {when: hello, say: Hello.}") as stage:
        assert (await stage.ask("hello", thread_id="t1")).result == "Hello."
        before = stage.program
        run = await stage.ask("hello \ud83d\ude00 \ud800!", thread_id="t1")
        assert (run.status, run.result) == ("completed", "Hello."), run.error
        assert stage.view.spoken(stage.requests[-1])[-1] == "hello \U0001f600 \ufffd!"
        assert stage.program == before


@pytest.mark.promise("B10")
@pytest.mark.parametrize("how", ["cancelled", "timeout"])
async def test_what_a_person_is_asked_is_withdrawn_with_the_turn_and_the_use_is_told(play: Play, how: str) -> None:
    async def on_before_tool(call: Any) -> Any:
        return Ask("may it?")

    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(on_before_tool=on_before_tool)

    script = """
- {when: look, call: [{tool: exec_command, input: {cmd: "echo found"}}], say: Done.}
- {when: hello, say: Hello.}
"""
    gate = Plugin(name="gate", version="1", register=register)
    async with play(script, plugins=[gate], own=["shell"]) as stage:
        assert (await stage.ask("hello", thread_id="t1")).result == "Hello."
        stage.events.clear()
        timeout = 3 if how == "timeout" else None
        running = asyncio.create_task(stage.ask("look", thread_id="t1", timeout=timeout))
        await stage.until(lambda: stage.told("approval.requested"))
        if how == "cancelled":
            run_id = stage.events[0].run_id
            assert run_id is not None
            await (await stage.stead.conversations()).cancel(run_id)
        assert (await running).status == how
        (resolved,), (result,) = stage.told("approval.resolved"), stage.told("tool_result")
        assert resolved["decision"] == "deny"
        assert "withdrawn" in resolved["reason"]
        assert (result["name"], result["isError"]) == ("Bash", True)


def _sleepers(seconds: int) -> list[int]:
    """The processes that sleep that long."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if words[:2] == [b"sleep", str(seconds).encode()]:
            found.append(int(path.parent.name))
    return found


@pytest.mark.promise("R7")
@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_command_of_codex_own_ends_with_the_turn_that_began_it(play: Play, cancelled: bool) -> None:
    seconds = os.getpid() * 10 + cancelled
    script = f"""
- when: go
  call: [{{tool: exec_command, input: {{cmd: "sleep {seconds}", yield_time_ms: 250}}}}]
- call: [{{tool: wait, input: {{}}}}]
  say: Done.
"""
    leave = asyncio.Event()

    async def wait(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        await stage.until(lambda: _sleepers(seconds))
        if not cancelled:
            return "it runs"
        leave.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with play(script, tools=[_tool("wait", wait)], own=["shell"]) as stage:
        running = asyncio.create_task(stage.ask("go", thread_id="t1"))
        if cancelled:
            await asyncio.wait_for(leave.wait(), PATIENCE)
            run_id = stage.events[0].run_id
            assert run_id is not None
            await (await stage.stead.conversations()).cancel(run_id)
        run = await running
        assert run.status == ("cancelled" if cancelled else "completed"), run.error
        await stage.until(lambda: not _sleepers(seconds))
        assert stage.programs  # it is still there, for the next message
        assert {data["name"] for data in stage.told("tool_result")} == {"Bash", "wait"}


async def test_a_long_answer_of_a_tool_is_shown_whole(play: Play) -> None:
    whole = "".join(f"line {number}\n" for number in range(25_000))[:250_000]

    async def tell(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        return whole

    async with play("- {when: go, call: [{tool: tell, input: {}}], say: Done.}", tools=[_tool("tell", tell)]) as stage:
        assert (await stage.ask("go")).result == "Done."
        (shown,) = stage.view.results(stage.requests[-1])
        assert shown.endswith(whole)


@pytest.mark.promise("R7")
async def test_a_message_that_is_taken_while_a_turn_ends_is_answered_all_the_same(play: Play) -> None:
    script = """
- {when: ^hello, say: Hello.}
- {when: ^more, say: More.}
"""
    async with play(script) as stage:
        assert (await stage.ask("hello", thread_id="t1")).result == "Hello."
        orchestrator = await stage.stead.conversations()
        for number in range(25):  # how near the end it comes differs each time
            stage.events.clear()
            running = asyncio.create_task(stage.ask("hello", thread_id="t1"))
            await stage.until(lambda: stage.told("usage"))
            said = RunRequest(prompt=f"more {number}", thread_id="t1", model=stage.player.model, runtime="codex")
            accepted = await orchestrator.steer(said)
            first, told = await running, await asyncio.wait_for(orchestrator.wait(accepted.run_id), PATIENCE)
            assert first.status == "completed", first.error
            assert (told.status, told.result) == ("completed", "More."), told.error
            assert sum(f"more {number}" in json.dumps(item) for item in stage.requests[-1].body["input"]) == 1
