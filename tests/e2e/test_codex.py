"""What Codex as a runtime promises, on the real program against a scripted Responses API."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.captured import instructions_of, user_texts
from tests.e2e.codex_stage import MODEL, PATIENCE, CodexStage, offered_in, own_in, playing, processes_of, results_in
from tests.e2e.delegate_schema import DELEGATE_AGENT
from toolyard import Annotations, Deny, Hooks, Plugin, PluginContext, Tool, ToolError, ToolMeta, tool
from toolyard.adapters.codex.runtime import CodexRuntime
from toolyard.invoker.runtime import SessionSpec, Turn
from toolyard.orchestrator.request import RunRequest
from toolyard.testing import scripted_models
from toolyard.types.call import Caller
from toolyard.types.result import ToolResult
from toolyard.types.thread import Thread

pytestmark = pytest.mark.requires("codex")

Play = Callable[..., AbstractAsyncContextManager[CodexStage]]
READS = Annotations(read_only=True)
PROGRAM = Path(__file__).parent.parent / "programs" / "codex_thread.py"


@pytest.fixture
def play(tmp_path: Path) -> Play:
    @asynccontextmanager
    async def open_stage(script: str, **more: Any) -> AsyncIterator[CodexStage]:
        async with playing(script, tmp_path, **more) as stage:
            yield stage

    return open_stage


@tool(annotations=READS)
async def add(a: int, b: int = 5) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


async def _fine(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
    return f"fine {json.dumps(input, sort_keys=True)}"


def _tool(name: str, schema: dict[str, Any]) -> Tool:
    return Tool(name=name, description="Does it.", schema=schema, handler=_fine)


async def test_tools_are_offered_called_and_answered_and_hardly_any_of_codex_own(play: Play) -> None:
    script = """
- call: [{tool: workspace_info, input: {}}, {tool: add, input: {a: 2}}]
- say: "At last: {{result}}"
"""
    async with play(script, tools=[add]) as stage:
        run = await stage.ask("do everything")
        assert run.status == "completed", run.error
        assert run.result is not None
        assert run.result.startswith("At last: ")
        assert run.result.endswith("the sum is 7")
        first, second = stage.requests
        names = [info.name for info in stage.yard.registry.list_tools()]
        assert set(offered_in(first)) == {name.replace("-", "_") for name in names}  # so Codex spells them
        assert own_in(first) == {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"}
        assert user_texts(first)[-1] == "do everything"
        assert str(stage.folder / "project") in instructions_of(first)
        place, total = results_in(second)
        assert str(stage.folder / "project") in place
        assert total == "the sum is 7"
        used, answered = stage.told("tool_use"), stage.told("tool_result")
        told = sorted((data["callId"], data["name"]) for data in used)  # the model's own ids
        assert told == [("call_1_1_0", "workspace-info"), ("call_1_1_1", "add")]
        assert sorted(data["callId"] for data in answered) == ["call_1_1_0", "call_1_1_1"]  # and each once
        assert "".join(data["text"] for data in stage.told("message.delta")) == run.result
        assert run.usage.input_tokens > 0
        assert stage.told("usage")[-1]["inputTokens"] == run.usage.input_tokens


@pytest.mark.promise("S1")
async def test_schemas_arrive_and_what_codex_drops_is_told_in_words_and_logged(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolyard")
    rich: dict[str, Any] = {
        "type": "object",
        "properties": {
            "where": {"$ref": "#/$defs/place"},
            "kind": {"enum": [1, 2]},
            "always": {"const": "x"},
            "share": {"type": "number", "description": "How much", "minimum": 0, "maximum": 1, "default": 0.5},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "anything": True,
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["where"],
        "$defs": {"place": {"type": "object", "properties": {"street": {"type": "string", "pattern": "^[A-Z]"}}}},
    }
    plain: dict[str, Any] = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where."}},
        "required": ["path"],
        "additionalProperties": False,
    }
    script = """
- call: [{tool: delegate_agent, input: {batch: [{agent_id: a, prompt: p}]}}]
- say: ok
"""
    tools = [_tool("delegate_agent", DELEGATE_AGENT), _tool("rich", rich), _tool("plain", plain)]
    async with play(script, tools=tools) as stage:
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        arrived = {name: tool["parameters"] for name, tool in offered_in(stage.requests[0]).items()}
        assert arrived["plain"] == plain  # what is plain arrives as it is
        shown = arrived["rich"]["properties"]
        assert shown["where"] == {"$ref": "#/$defs/place"}
        assert shown["kind"] == {"type": "integer", "enum": [1, 2]}
        assert shown["always"] == {"type": "string", "enum": ["x"]}
        assert shown["share"] == {"type": "number", "description": "How much. At least 0. At most 1. Default: 0.5."}
        assert shown["pair"]["items"] == {}
        assert "prefixItems" in shown["pair"]["description"]
        assert shown["anything"] == {}
        street = arrived["rich"]["$defs"]["place"]["properties"]["street"]
        assert street == {"type": "string", "description": "Matches the regular expression ^[A-Z]"}
        handed = arrived["delegate_agent"]
        assert handed["properties"].keys() == DELEGATE_AGENT["properties"].keys()
        assert not {"anyOf", "oneOf", "allOf"} & handed.keys()  # OpenAI refuses it at the top level
        assert "agent_id" in handed["description"]
        assert "fine" in results_in(stage.requests[1])[0]
        told = [record.getMessage() for record in caplog.records if " adapted: " in record.getMessage()]
        assert any(line.startswith("the schema of 'rich' goes to Codex") and "minimum" in line for line in told)
        assert any(line.startswith("the schema of 'delegate_agent' goes to Codex") for line in told)
        assert not any(line.startswith("the schema of 'plain' goes to Codex") for line in told)


@pytest.mark.promise("S1")
async def test_the_copy_loosens_nothing_and_bad_arguments_are_an_error_the_model_can_use(play: Play) -> None:
    script = """
- call: [{tool: delegate_agent, input: {agent_id: a}}, {tool: add, input: {a: many}}]
- say: ok
"""
    async with play(script, tools=[_tool("delegate_agent", DELEGATE_AGENT), add]) as stage:
        assert (await stage.ask("go")).status == "completed"
        refused, wrong = results_in(stage.requests[1])
        assert "fine" not in refused
        assert "prompt" in refused
        assert "/a" in wrong
        assert "integer" in wrong
        assert [data["isError"] for data in stage.told("tool_result")] == [True, True]


@pytest.mark.promise("S2")
async def test_a_raising_and_a_hanging_handler_are_answers_like_any_other(play: Play) -> None:
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
        await asyncio.Event().wait()
        return ""

    script = """
- call: [{tool: sulk, input: {}}, {tool: crash, input: {}}, {tool: hang, input: {}}]
- say: I see.
"""
    async with play(script, tools=[sulk, crash, hang]) as stage:
        run = await stage.ask("go on")
        assert (run.status, run.result) == ("completed", "I see."), run.error
        no, broken, late = results_in(stage.requests[1])
        assert "not today; try tomorrow" in no
        assert "crashed (id " in broken
        assert "secret" not in json.dumps(stage.requests[1].body)
        assert "did not finish within 0.2 seconds" in late


async def test_calls_that_only_read_run_at_the_same_time_and_others_in_order(play: Play) -> None:
    meeting = asyncio.Barrier(2)
    order: list[str] = []

    @tool(annotations=READS)
    async def meet(name: str) -> str:
        """Waits for the other."""
        await meeting.wait()
        return f"{name} met them"

    @tool
    async def write(text: str) -> str:
        """Changes something."""
        order.append(f"{text} begins")
        await asyncio.sleep(0.02)
        order.append(f"{text} ends")
        return "written"

    script = """
- call:
    - {tool: meet, input: {name: ann}}
    - {tool: meet, input: {name: bob}}
    - {tool: write, input: {text: one}}
    - {tool: write, input: {text: two}}
- say: done
"""
    async with play(script, tools=[meet, write]) as stage:
        run = await stage.ask("meet")
        assert (run.status, run.result) == ("completed", "done"), run.error
        assert results_in(stage.requests[1])[:2] == ["ann met them", "bob met them"]
        assert order == ["one begins", "one ends", "two begins", "two ends"]


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
- {when: ^streaming, say: One word after another, hang: 500}
- {when: ^calling, call: [{tool: dig, input: {}}]}
- {when: ^again, say: "I am here."}
"""
    async with play(script, tools=[dig]) as stage:
        running = asyncio.create_task(stage.ask(where, thread_id="t1"))
        if where == "calling":
            await asyncio.wait_for(began.wait(), PATIENCE)
        else:
            await stage.until(lambda: stage.told("message.delta"))
        before = stage.pid
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await stage.until(lambda: stage.api.active == 0)
        assert ended.is_set() == (where == "calling")
        again = await stage.ask("again", thread_id="t1")
        assert (again.status, again.result) == ("completed", "I am here."), again.error
        assert stage.pid == before  # interrupted, not killed
        assert any(text.startswith(where) for text in user_texts(stage.requests[-1]))  # and nothing is forgotten


@pytest.mark.promise("S7")
async def test_the_timeout_really_ends_the_invocation(play: Play) -> None:
    script = """
- {when: ^slow, delay: 500, say: never}
- {when: ^hello, say: quick}
"""
    async with play(script) as stage:
        run = await stage.ask("slow", thread_id="t1", timeout=2)
        assert (run.status, run.result) == ("timeout", None)
        await stage.until(lambda: stage.api.active == 0)
        again = await stage.ask("hello", thread_id="t1")
        assert (again.status, again.result) == ("completed", "quick"), again.error


async def test_a_message_can_be_given_to_the_turn_that_is_running(play: Play) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def ponder() -> str:
        """Takes its time."""
        began.set()
        await go_on.wait()
        return "pondered"

    script = """
- {when: ^think, call: [{tool: ponder, input: {}}], say: I thought.}
- {when: ^hurry, say: I hurried.}
"""
    async with play(script, tools=[ponder]) as stage:
        running = asyncio.create_task(stage.ask("think", thread_id="t1"))
        await asyncio.wait_for(began.wait(), PATIENCE)
        orchestrator = await stage.yard.conversations()
        await orchestrator.steer(RunRequest(prompt="hurry", thread_id="t1"))
        go_on.set()
        run = await running
        assert (run.status, run.result) == ("completed", "I hurried."), run.error
        assert user_texts(stage.requests[-1])[-1] == "hurry"


async def test_a_tool_that_was_added_or_changed_is_in_the_next_turn_of_a_live_thread(play: Play) -> None:
    script = """
- {when: ^hello, say: Hello.}
- {when: ^use it, call: [{tool: late, input: {x: 1}}], say: "{{result}}"}
"""
    async with play(script) as stage:
        first = await stage.ask("hello", thread_id="t1")
        before = stage.pid
        stage.yard.registry.register(_tool("late", {"type": "object", "properties": {"x": {"type": "integer"}}}))
        used = await stage.ask("use it", thread_id="t1")
        assert used.status == "completed", used.error
        assert used.result is not None
        assert used.result.endswith('fine {"x": 1}')
        assert "late" not in offered_in(stage.requests[0])
        assert "late" in offered_in(stage.requests[1])
        assert "hello" in user_texts(stage.requests[1])  # the conversation stays
        stage.yard.registry.unregister("late")
        stage.yard.registry.register(_tool("late", {"type": "object", "properties": {"y": {"type": "string"}}}))
        assert (await stage.ask("hello", thread_id="t1")).status == "completed"
        assert offered_in(stage.requests[-1])["late"]["parameters"]["properties"] == {"y": {"type": "string"}}
        assert stage.pid == before
        assert first.status == "completed"
        assert not any("<cwd>" in json.dumps(request.body) for request in stage.requests)  # no machine to work on


async def test_two_threads_at_once_are_never_mixed(play: Play) -> None:
    meeting = asyncio.Barrier(2)
    seen: list[tuple[str, str, str | None]] = []

    async def handler(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
        await meeting.wait()
        seen.append((input["who"], meta.thread_id, meta.session_id))
        return f"for {meta.thread_id}"

    schema = {"type": "object", "properties": {"who": {"type": "string"}}}
    who = Tool(name="who", description="Tells whose it is.", schema=schema, handler=handler)
    script = """
- {when: ^ann, call: [{tool: who, input: {who: ann}}], say: "ann: {{result}}"}
- {when: ^bob, call: [{tool: who, input: {who: bob}}], say: "bob: {{result}}"}
"""
    async with play(script, tools=[who]) as stage:
        runs = await asyncio.gather(stage.ask("ann", thread_id="ann"), stage.ask("bob", thread_id="bob"))
        for run, name in zip(runs, ("ann", "bob"), strict=True):
            assert run.status == "completed", run.error
            assert run.result is not None
            assert run.result.startswith(f"{name}: ")
            assert run.result.endswith(f"for {name}")
        assert {(who, thread) for who, thread, _ in seen} == {("ann", "ann"), ("bob", "bob")}
        sessions = {session for _, _, session in seen}
        assert len(sessions) == 2
        assert None not in sessions
        assert len(processes_of(stage.home)) == 1  # one process for both


async def test_a_conversation_goes_on_in_another_process(play: Play, tmp_path: Path) -> None:
    script = """
- {when: ^remember, say: I will.}
- {when: ^what, say: The word was blue.}
"""
    async with play(script) as stage:
        environ = {**os.environ, **stage.api.environ()}

        async def elsewhere(prompt: str, resume: str) -> dict[str, Any]:
            command = [sys.executable, str(PROGRAM), str(tmp_path / "shared"), prompt, resume]
            done = await asyncio.to_thread(
                subprocess.run, command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            assert done.returncode == 0, done.stderr
            told: dict[str, Any] = json.loads(done.stdout)
            return told

        first = await elsewhere("remember the word blue", "")
        second = await elsewhere("what was it?", first["id"])
        assert first["text"] == "I will."
        assert second["text"] == "The word was blue."
        assert second["id"] == first["id"]
        assert second["resumed"]
        assert second["pid"] != first["pid"]
        assert "remember the word blue" in user_texts(stage.requests[-1])
        lost = await elsewhere("what was it?", "01a1e2b6-fa45-7d11-8f97-f608b409207b")
        assert lost["lost"]
        assert not processes_of(tmp_path / "shared")


async def test_a_killed_process_is_replaced_and_the_message_is_answered(play: Play) -> None:
    began = asyncio.Event()

    @tool
    async def wait(n: int) -> str:
        """Waits, the first time."""
        if not began.is_set():
            began.set()
            await asyncio.Event().wait()
        return "waited"

    script = """
- {when: ^hello, say: Hello.}
- {when: wait$, call: [{tool: wait, input: {n: 1}}], say: Done.}
"""
    async with play(script, tools=[wait]) as stage:
        assert (await stage.ask("hello", thread_id="t1")).result == "Hello."
        first = stage.pid
        os.kill(first, signal.SIGKILL)
        await stage.until(lambda: first not in processes_of(stage.home))
        again = await stage.ask("hello", thread_id="t1")
        assert (again.status, again.result) == ("completed", "Hello."), again.error
        assert user_texts(stage.requests[-1]).count("hello") == 2  # it was resumed
        second = stage.pid
        assert second != first
        running = asyncio.create_task(stage.ask("wait", thread_id="t1"))
        await asyncio.wait_for(began.wait(), PATIENCE)
        os.kill(second, signal.SIGKILL)
        run = await running
        assert (run.status, run.result) == ("completed", "Done."), run.error


async def test_a_failure_is_told_in_the_words_of_the_api_and_the_next_message_is_answered(play: Play) -> None:
    script = """
- {when: ^fail, fail: this model is not for you}
- {when: ^hello, say: Hello.}
"""
    async with play(script) as stage:
        failed = await stage.ask("fail", thread_id="t1")
        assert failed.status == "failed"
        assert failed.error is not None
        assert failed.error.message == "Codex: this model is not for you"
        assert (await stage.ask("hello", thread_id="t1")).result == "Hello."


async def test_a_prewarmed_thread_asks_nobody_and_answers_the_first_message(play: Play) -> None:
    async with play("- say: Hello.") as stage:
        orchestrator = await stage.yard.conversations()
        thread = Thread(id="t1", created_at=time.time(), runtime="codex", model=MODEL)
        await orchestrator.store.create_thread(thread)
        assert await orchestrator.prewarm(thread.id) == (True, "codex")
        assert not stage.requests
        before = stage.pid
        assert (await stage.ask("hello", thread_id=thread.id)).result == "Hello."
        assert stage.pid == before


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_command_of_codex_own_stands_behind_our_gates_and_in_our_log_once(play: Play, allowed: bool) -> None:
    asked: list[tuple[str, Any]] = []

    async def on_before_tool(call: Any) -> Any:
        asked.append((call.name, call.input))
        return None if allowed else Deny("not in this house")

    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(on_before_tool=on_before_tool)

    script = """
- {when: ^look, call: [{tool: exec_command, input: {cmd: "echo found; touch TRACE"}}], say: "{{result}}"}
"""
    plugin = Plugin(name="gate", version="1", register=register)
    async with play(script, plugins=[plugin], own=["shell"]) as stage:
        run = await stage.ask("look")
        assert run.status == "completed", run.error
        ((name, given),) = asked
        assert name == "Bash"
        assert given == {"command": "echo found; touch TRACE"}
        (used,), (answered,) = stage.told("tool_use"), stage.told("tool_result")
        assert used["callId"] == answered["callId"] == "call_1_1_0"
        assert not (stage.folder / "project" / "TRACE").exists()  # it may read, never write
        expected = "Read-only file system" if allowed else "not in this house"
        assert expected in json.dumps(answered["content"])
        assert expected in results_in(stage.requests[-1])[0]  # the model reads it too


async def test_what_would_leave_the_sandbox_is_never_granted(play: Play) -> None:
    patch = "apply_patch <<'EOF'\\n*** Begin Patch\\n*** Add File: new.txt\\n+hi\\n*** End Patch\\nEOF"
    script = f"""
- when: ^escape
  call:
    - tool: exec_command
      input: {{cmd: touch TRACE, sandbox_permissions: require_escalated, justification: please}}
- say: ok
- when: ^patch
  call: [{{tool: exec_command, input: {{cmd: "{patch}"}}}}]
- say: ok
"""
    async with play(script, own=["shell"]) as stage:
        for prompt in ("escape", "patch"):
            run = await stage.ask(prompt, thread_id="t1")
            assert run.status == "completed", run.error
        answered = stage.told("tool_result")
        assert [data["name"] for data in answered] == ["Bash", "Bash"]
        assert all(data["isError"] for data in answered)
        project = stage.folder / "project"
        assert not (project / "TRACE").exists()
        assert not (project / "new.txt").exists()


async def test_a_command_is_no_tool_at_all_unless_it_is_permitted(play: Play) -> None:
    script = """
- call: [{tool: exec_command, input: {cmd: "touch TRACE"}}]
- say: "{{result}}"
"""
    async with play(script) as stage:
        run = await stage.ask("go")
        assert (run.status, run.result) == ("completed", "unsupported call: exec_command"), run.error
        assert not (stage.folder / "project" / "TRACE").exists()


async def test_nothing_of_the_user_is_read_and_the_key_is_written_nowhere(play: Play, home: Path) -> None:
    theirs = home / ".codex"
    theirs.mkdir()
    (theirs / "config.toml").write_text('model = "theirs"\n')
    (theirs / "AGENTS.md").write_text("Words of the person at this machine.")
    secret = "sk-a-key-that-nobody-may-find"
    environ = {"HOME": str(home), "OPENAI_API_KEY": secret, "A_SECRET": "of the house"}
    async with play("- say: Hello.", environ=environ) as stage:
        project = stage.folder / "project"
        (project / "AGENTS.md").write_text("Words of the project.")
        (project / ".codex").mkdir()
        (project / ".codex" / "config.toml").write_text('developer_instructions = "Words of a config."\n')
        hook = {"hooks": [{"type": "command", "command": f"touch {stage.folder / 'TRACE'}"}]}
        hooks = {"hooks": {"UserPromptSubmit": [hook], "SessionStart": [hook]}}
        (project / ".codex" / "hooks.json").write_text(json.dumps(hooks))
        assert (await stage.ask("hello")).result == "Hello."
        (request,) = stage.requests
        assert request.headers["authorization"] == f"Bearer {secret}"
        assert "Words of" not in json.dumps(request.body)
        assert not (stage.folder / "TRACE").exists()
        assert request.model == "gpt-6.1-terra"
        inside = Path(f"/proc/{stage.pid}/environ").read_bytes()
        assert b"A_SECRET" not in inside
        kept = [path for path in stage.home.rglob("*") if path.is_file()]
        assert kept
        assert not [path for path in kept if secret.encode() in path.read_bytes()]
        assert sorted(path.name for path in theirs.iterdir()) == ["AGENTS.md", "config.toml"]


async def test_without_a_key_it_says_what_to_do(play: Play) -> None:
    async with play("- say: Hello.", environ={"OPENAI_API_KEY": ""}) as stage:
        run = await stage.ask("hello")
        assert run.status == "failed"
        assert run.error is not None
        assert "set OPENAI_API_KEY" in run.error.message


async def test_with_a_login_their_own_home_is_used_and_their_own_servers_are_not(home: Path, tmp_path: Path) -> None:
    theirs, trace = home / ".codex", tmp_path / "TRACE"
    theirs.mkdir()
    async with scripted_models("- say: Hello.") as api:
        (theirs / "config.toml").write_text(f"""
model_provider = "theirs"
model = "their-model"
[model_providers.theirs]
name = "Theirs"
base_url = "{api.url}/v1"
wire_api = "responses"
[mcp_servers.their-server]
command = "touch"
args = ["{trace}"]
""")
        environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
        folder = tmp_path / "codex"
        runtime = CodexRuntime(offered=lambda spec: [], folder=folder, lookup=environ.get, login=True)
        session = await runtime.open(SessionSpec(agent="main", model="", cwd=tmp_path), thread_id="t")
        try:
            answer = await asyncio.wait_for(session.run(_turn("hello")), PATIENCE)
        finally:
            await session.close()
        assert answer.text == "Hello."
        (request,) = api.requests
        assert request.model == "their-model"
        assert own_in(request) == {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"}
        assert not trace.exists()
        assert (theirs / "sessions").is_dir()
        assert not processes_of(theirs)


def _turn(prompt: str) -> Turn:
    async def call(name: str, input: Any, *, call_id: str | None = None) -> ToolResult:
        return ToolResult.error("there are no tools here")

    return Turn(prompt=prompt, caller=Caller(thread_id="t"), tell=lambda kind, data: None, call_tool=call)
