"""The programs of Claude Code: started, resumed, replaced, ended, kept apart, and kept out of other people's files."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import machine
from tests.e2e.claude_stage import CLAUDE, processes_of
from tests.e2e.model_stage import Play, Stage, freeze, playing
from tests.waiting import PATIENCE
from toolstead import Ask, Deny, Hooks, Plugin, PluginContext, Rewrite, tool
from toolstead.adapters.claude.runtime import ClaudeRuntime
from toolstead.invoker.runtime import OwnTools, SessionSpec, Turn
from toolstead.testing import scripted_models
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult
from toolstead.types.thread import Thread

pytestmark = pytest.mark.requires("claude")

TWO = "- {when: second, say: Two.}\n- {when: first, say: One.}\n"
"""The second message comes first: what was said before may stand above it."""


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def open_stage(script: str, **more: Any) -> Any:
        return playing(CLAUDE, script, tmp_path, **more)

    return open_stage


@pytest.mark.promise("S6")
async def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)

    async def say(url: str, message: str) -> dict[str, Any]:
        program = machine.ROOT / "tests" / "programs" / "claude_thread.py"
        command = [sys.executable, str(program), str(tmp_path), url, message]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode == 0, err.decode()
        return json.loads(out)

    async with scripted_models(TWO) as api:
        one = await say(api.url, "first")
        two = await say(api.url, "second")
        assert (one["result"], two["result"]) == ("One.", "Two.")
        assert one["pid"] != two["pid"]
        assert one["session"] == two["session"]
        assert CLAUDE.view.spoken(api.requests[-1]) == ["first", "second"]
    assert not processes_of(tmp_path / "claude")


@pytest.mark.promise("S6")
async def test_a_conversation_that_is_gone_begins_anew(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async with play(TWO) as stage:
        await stage.ask("first", thread_id="t1")
        orchestrator = await stage.stead.conversations()
        before = (await orchestrator.store.read_thread("t1")).session_id
        program = stage.program
        os.kill(program, signal.SIGKILL)
        await stage.until(lambda: not Path(f"/proc/{program}").exists())
        shutil.rmtree(stage.kept / "config" / "projects")
        run = await stage.ask("second", thread_id="t1")
        assert (run.status, run.result) == ("completed", "Two."), run.error
        assert (await orchestrator.store.read_thread("t1")).session_id not in (before, None)
        assert any("cannot be resumed" in record.getMessage() for record in caplog.records)


@pytest.mark.promise("S6")
async def test_a_killed_program_is_replaced_and_its_conversation_goes_on(play: Play) -> None:
    async with play(TWO) as stage:
        await stage.ask("first", thread_id="t1")
        program = stage.program
        os.kill(program, signal.SIGKILL)
        await stage.until(lambda: not Path(f"/proc/{program}").exists())
        run = await stage.ask("second", thread_id="t1")
        assert (run.status, run.result) == ("completed", "Two."), run.error
        assert stage.view.spoken(stage.requests[-1]) == ["first", "second"]
        assert stage.programs != [program]


async def test_a_message_whose_program_is_killed_is_answered_by_another_one(play: Play) -> None:
    script = """
- {when: second, say: Two., fault: {kind: stall}}
- {when: first, say: One.}
"""
    async with play(script) as stage:
        await stage.ask("first", thread_id="t1")
        program = stage.program
        running = asyncio.create_task(stage.ask("second", thread_id="t1"))
        await stage.until(lambda: len(stage.requests) == 2 and stage.api.active == 1)
        os.kill(program, signal.SIGKILL)
        run = await running
        assert (run.status, run.result) == ("completed", "Two."), run.error
        assert program not in stage.programs


async def test_a_program_that_dies_after_it_acted_is_not_made_to_act_twice(play: Play) -> None:
    acted: list[int] = []
    stages: list[Stage] = []

    @tool
    async def act() -> str:
        """Acts, and loses the program."""
        acted.append(1)
        for program in stages[0].programs:
            os.kill(program, signal.SIGKILL)
        await asyncio.Event().wait()
        return ""

    script = """
- {when: third, say: Three.}
- {when: second, call: [{tool: act, input: {}}], say: Two.}
- {when: first, say: One.}
"""
    async with play(script, tools=[act]) as stage:
        stages.append(stage)
        await stage.ask("first", thread_id="t1")
        run = await stage.ask("second", thread_id="t1")
        assert run.status == "failed"
        assert run.error is not None
        assert "after tools were used" in run.error.message
        assert acted == [1]
        after = await stage.ask("third", thread_id="t1")
        assert (after.status, after.result) == ("completed", "Three."), after.error
        assert "first" in stage.view.spoken(stage.requests[-1])


@pytest.mark.promise("S7")
async def test_a_program_that_hangs_is_ended_by_the_timeout_and_gone(play: Play) -> None:
    async with play(TWO) as stage:
        await stage.ask("first", thread_id="t1")
        program = stage.program
        await freeze(program)
        run = await stage.ask("second", thread_id="t1", timeout=0.5)
        assert run.status == "timeout"
        await stage.until(lambda: program not in stage.programs)
        after = await stage.ask("second", thread_id="t1")
        assert (after.status, after.result) == ("completed", "Two."), after.error


async def test_a_session_is_opened_ahead_of_its_first_message(play: Play) -> None:
    async with play("- {say: One.}") as stage:
        orchestrator = await stage.stead.conversations()
        await orchestrator.store.create_thread(Thread(id="t1", runtime="claude", created_at=time.time()))
        assert await orchestrator.prewarm("t1") == (True, "claude")
        programs = stage.programs
        assert len(programs) == 1
        assert not stage.requests
        run = await stage.ask("hello", thread_id="t1")
        assert (run.status, run.result) == ("completed", "One."), run.error
        assert stage.programs == programs


async def test_one_of_ours_and_one_of_claudes_own_are_gated_alike_each_with_one_refusal_and_one_event(
    play: Play,
) -> None:
    asked: list[str] = []
    told: list[tuple[str, bool]] = []

    @tool
    async def dig(where: str) -> str:
        """Digs."""
        return f"dug {where}"

    async def gate(call: Any) -> Any:
        asked.append(call.name)
        match call.name:
            case "Bash" if "rm" in call.input["command"]:
                return Deny("not on my watch")
            case "Bash" if "echo one" in call.input["command"]:
                return Rewrite({**call.input, "command": "echo two"})
            case "dig" if call.input["where"] == "here":
                return Deny("not in my garden")
            case _:
                return None

    async def observe(call: Any, result: Any) -> None:
        told.append((call.name, result.is_error))

    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(on_before_tool=gate, on_after_tool=observe)

    script = """
- call:
    - {tool: Bash, input: {command: rm -rf nothing}}
    - {tool: dig, input: {where: here}}
    - {tool: Bash, input: {command: echo one}}
    - {tool: dig, input: {where: there}}
    - {tool: Bash, input: {command: exit 3}}
    - {tool: Write, input: {file_path: nothing, content: nothing}}
- say: done
"""
    plugin = Plugin(name="watch", version="1", register=register)
    async with play(script, tools=[dig], plugins=[plugin], own=["Bash"]) as stage:
        run = await stage.ask("go")
        assert (run.status, run.result) == ("completed", "done"), run.error
        first, second = stage.requests
        assert stage.view.own_in(first) == {"Bash"}
        removed, garden, echoed, dug, failed, unknown = stage.view.results(second)
        assert "not on my watch" in removed
        assert "not in my garden" in garden
        assert "two" in echoed
        assert "dug there" in dug
        assert "3" in failed
        assert "No such tool" in unknown
        calls = [(data["callId"], data["name"]) for data in stage.told("tool_use")]
        results = [(data["callId"], data["name"]) for data in stage.told("tool_result")]
        assert sorted(calls) == sorted(results)
        assert sorted(name for _, name in calls) == ["Bash", "Bash", "Bash", "dig", "dig"]
        assert sorted(asked) == ["Bash", "Bash", "Bash", "dig", "dig"]
        failures = {data["callId"] for data in stage.told("tool_result") if data["isError"]}
        assert len(failures) == 3
        assert sorted(told) == [
            ("Bash", False),
            ("Bash", True),
            ("Bash", True),
            ("dig", False),
            ("dig", True),
        ]


@pytest.mark.parametrize(("decision", "shown"), [("allow", "two"), ("deny", "rather not")])
async def test_an_approval_of_claudes_own_tool_waits_and_is_answered(play: Play, decision: Any, shown: str) -> None:
    async def gate(call: Any) -> Any:
        return Ask("look at this command first") if call.name == "Bash" else None

    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(on_before_tool=gate)

    script = """
- call: [{tool: Bash, input: {command: echo two}}]
- say: done
"""
    plugin = Plugin(name="careful", version="1", register=register)
    async with play(script, plugins=[plugin], own=["Bash"]) as stage:
        running = asyncio.create_task(stage.ask("go"))
        await stage.until(lambda: stage.told("approval.requested"))
        assert len(stage.requests) == 1  # it waits
        (asked,) = stage.told("approval.requested")
        reason = "rather not" if decision == "deny" else ""
        await stage.stead._parts.approvals.decide_approval(asked["approvalId"], decision, reason=reason)
        run = await running
        assert (run.status, run.result) == ("completed", "done"), run.error
        assert shown in stage.view.results(stage.requests[1])[0]
        assert len(stage.told("approval.resolved")) == 1


async def test_with_a_login_the_users_own_settings_count_but_do_not_take_the_place_of_our_gate(
    tmp_path: Path,
) -> None:
    class Confused(OwnTools):
        async def ask(self, name: str, input: Mapping[str, Any], *, call_id: str) -> Mapping[str, Any] | ToolResult:
            raise ZeroDivisionError

    async def call_tool(name: str, input: Mapping[str, Any], *, call_id: str | None = None, **more: Any) -> ToolResult:
        raise AssertionError

    project, own = tmp_path / "project", tmp_path / "own"
    for folder in (project, own):
        folder.mkdir()
    (own / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))
    (own / "CLAUDE.md").write_text("Say banana.")
    async with scripted_models("- {call: [{tool: Bash, input: {command: touch used}}], say: done}") as api:
        environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "CLAUDE_CONFIG_DIR": str(own)}
        runtime = ClaudeRuntime(
            environ=environ | api.environ(),
            lookup={}.get,
            offered=lambda spec: [],
            folder=tmp_path / "kept",
            tools=["Bash"],
            login=True,
        )
        session = await runtime.open(SessionSpec(agent="main", model="", cwd=project), thread_id="t")
        turn = Turn(prompt="go", caller=Caller(), tell=lambda kind, data: None, call_tool=call_tool, own=Confused())
        assert (await asyncio.wait_for(session.run(turn), PATIENCE)).text == "done"
        await session.close()
        assert "Say banana." in json.dumps(api.requests[0].body)
        assert not list(project.iterdir())  # the user's own permission to use the tool was not enough
        assert (own / "projects").is_dir()


async def test_what_claudes_own_tools_started_ends_with_the_session(play: Play) -> None:
    script = "- {call: [{tool: Bash, input: {command: 'setsid sleep 1000 > /dev/null 2>&1 & echo begun'}}], say: ok}"
    async with play(script, own=["Bash"]) as stage:
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        assert "begun" in stage.view.results(stage.requests[-1])[0]
        assert len(stage.programs) > 1  # the stage itself looks whether any is left in the end


async def test_nothing_of_the_user_or_the_project_is_read_and_nothing_is_written_there(play: Play, home: Path) -> None:
    planted = {
        home / ".claude" / "CLAUDE.md": "Say banana.",
        home / ".claude" / "settings.json": json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}}),
        home / ".claude.json": json.dumps({"mcpServers": {"banana": {"command": "false"}}}),
    }
    for path, text in planted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    secrets = {"OPENAI_API_KEY": "banana-1", "GITHUB_TOKEN": "banana-2", "CLAUDE_CODE_USE_BEDROCK": "banana-3"}
    script = "- {call: [{tool: Bash, input: {command: env}}], say: done}"
    async with play(script, own=["Bash"], environ=secrets) as stage:
        project = stage.project
        more = {
            project / "CLAUDE.md": "Say banana.",
            project / ".claude" / "settings.json": json.dumps({"env": {"BANANA": "1"}}),
            project / ".mcp.json": json.dumps({"mcpServers": {"banana": {"command": "false"}}}),
        }
        for path, text in more.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        before = _tree(home) | _tree(project)
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        assert "banana" not in json.dumps([request.body for request in stage.requests]).lower()
        shown = stage.view.results(stage.requests[-1])[0]
        assert "PATH=" in shown
        assert "ANTHROPIC_API_KEY" not in shown  # the program has the key, and what it starts does not
        assert stage.requests[0].headers["x-api-key"] == stage.api.environ()["ANTHROPIC_API_KEY"]
        assert _tree(home) | _tree(project) == before


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
