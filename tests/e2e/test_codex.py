"""What is particular to Codex as a runtime: the real program, against a scripted Responses API.

What it promises like every runtime is in `test_promises`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.codex_stage import CODEX, MODEL, PATIENCE, processes_of
from tests.e2e.model_stage import Play, playing
from toolstead import Deny, Hooks, Plugin, PluginContext, Tool, ToolMeta, tool
from toolstead.adapters.codex.runtime import CodexRuntime
from toolstead.errors import RuntimeFailureError
from toolstead.invoker.runtime import SessionSpec, Turn
from toolstead.testing import scripted_models
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult
from toolstead.types.thread import Thread

pytestmark = pytest.mark.requires("codex")

PROGRAM = Path(__file__).parent.parent / "programs" / "codex_thread.py"


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def open_stage(script: str, **more: Any) -> Any:
        return playing(CODEX, script, tmp_path, **more)

    return open_stage


async def _fine(_: Any, input: dict[str, Any], meta: ToolMeta) -> str:
    return f"fine {json.dumps(input, sort_keys=True)}"


def _tool(name: str, schema: dict[str, Any]) -> Tool:
    return Tool(name=name, description="Does it.", schema=schema, handler=_fine)


@pytest.mark.promise("P3")
async def test_every_model_that_codex_knows_is_offered_our_tools_and_no_agents_or_programs(play: Play) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    script = """
- {when: ^work, call: [{tool: dig, input: {a: 1}}], say: Done.}
"""
    async with play(script, tools=[_tool("dig", schema)]) as stage:
        assert (await stage.ask("work", model="openai:a-model-it-does-not-know")).result == "Done."
        (known,) = stage.kept.glob("models-*.json")
        models = [model["slug"] for model in json.loads(known.read_text())["models"]]
        assert len(models) > 5
        for model in ("", *models):
            run = await stage.ask("work", model=f"openai:{model}" if model else None)
            assert (run.status, run.result) == ("completed", "Done."), (model, run.error)
            request = stage.requests[-1]
            assert request.model in models
            assert stage.view.own_in(request) == stage.view.own, model
            assert stage.view.offered(request)["dig"]["properties"] == schema["properties"]
        used = stage.told("tool_use")
        assert [data["name"] for data in used] == ["dig"] * (len(models) + 2)


@pytest.mark.promise("S2")
@pytest.mark.parametrize("name", ["send_input", "exec", "apply_patch", "tool_search"])
async def test_what_a_model_calls_of_codex_own_although_it_is_not_offered_does_not_run(play: Play, name: str) -> None:
    script = f"- {{when: go, call: [{{tool: {name}, input: {{input: text(1)}}}}]}}\n- say: '{{{{result}}}}'\n"
    async with play(script) as stage:
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        assert "unsupported call" in (run.result or "")
        assert len(stage.requests) == 2  # and no other agent asks


@pytest.mark.promise("S1")
async def test_what_codex_drops_of_a_schema_is_told_in_words_and_logged(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolstead")
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
    async with play("- say: ok", tools=[_tool("rich", rich)]) as stage:
        run = await stage.ask("go")
        assert run.status == "completed", run.error
        arrived = stage.offered(stage.requests[0])["rich"]
        shown = arrived["properties"]
        assert shown["where"] == {"$ref": "#/$defs/place"}
        assert shown["kind"] == {"type": "integer", "enum": [1, 2]}
        assert shown["always"] == {"type": "string", "enum": ["x"]}
        assert shown["share"] == {"type": "number", "description": "How much. At least 0. At most 1. Default: 0.5."}
        assert shown["pair"]["items"] == {}
        assert "prefixItems" in shown["pair"]["description"]
        assert shown["anything"] == {}
        street = arrived["$defs"]["place"]["properties"]["street"]
        assert street == {"type": "string", "description": "Matches the regular expression ^[A-Z]"}
        told = [record.getMessage() for record in caplog.records if " adapted: " in record.getMessage()]
        assert any(line.startswith("the schema of 'rich' goes to Codex") and "minimum" in line for line in told)


async def test_a_tool_that_changes_needs_no_other_process_and_no_machine_is_shown_to_work_on(play: Play) -> None:
    async with play("- say: Hello.", tools=[_tool("late", {"type": "object", "properties": {}})]) as stage:
        assert (await stage.ask("hello", thread_id="t1")).status == "completed"
        before = stage.program
        stage.stead.registry.unregister("late")
        stage.stead.registry.register(_tool("late", {"type": "object", "properties": {"y": {"type": "string"}}}))
        assert (await stage.ask("hello", thread_id="t1")).status == "completed"
        assert stage.offered(stage.requests[-1])["late"]["properties"] == {"y": {"type": "string"}}
        assert stage.program == before
        assert not any("<cwd>" in json.dumps(request.body) for request in stage.requests)


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
        assert "remember the word blue" in stage.view.spoken(stage.requests[-1])
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
        first = stage.program
        os.kill(first, signal.SIGKILL)
        await stage.until(lambda: first not in stage.programs)
        again = await stage.ask("hello", thread_id="t1")
        assert (again.status, again.result) == ("completed", "Hello."), again.error
        assert stage.view.spoken(stage.requests[-1]).count("hello") == 2  # it was resumed
        second = stage.program
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
        orchestrator = await stage.stead.conversations()
        thread = Thread(id="t1", created_at=time.time(), runtime="codex", model=MODEL)
        await orchestrator.store.create_thread(thread)
        assert await orchestrator.prewarm(thread.id) == (True, "codex")
        assert not stage.requests
        before = stage.program
        assert (await stage.ask("hello", thread_id=thread.id)).result == "Hello."
        assert stage.program == before


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
        assert not (stage.project / "TRACE").exists()  # it may read, never write
        expected = "Read-only file system" if allowed else "not in this house"
        assert expected in json.dumps(answered["content"])
        assert expected in stage.view.results(stage.requests[-1])[0]  # the model reads it too


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
        project = stage.project
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
        assert not (stage.project / "TRACE").exists()


async def test_nothing_of_the_user_is_read_and_the_key_is_written_nowhere(play: Play, home: Path) -> None:
    theirs = home / ".codex"
    theirs.mkdir()
    (theirs / "config.toml").write_text('model = "theirs"\n')
    (theirs / "AGENTS.md").write_text("Words of the person at this machine.")
    secret = "sk-a-key-that-nobody-may-find"
    environ = {"HOME": str(home), "OPENAI_API_KEY": secret, "A_SECRET": "of the house"}
    async with play("- say: Hello.", environ=environ) as stage:
        project = stage.project
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
        assert request.model == "gpt-6.1-sol"
        inside = Path(f"/proc/{stage.program}/environ").read_bytes()
        assert b"A_SECRET" not in inside
        kept = [path for path in stage.kept.rglob("*") if path.is_file()]
        assert kept
        assert not [path for path in kept if secret.encode() in path.read_bytes()]
        assert sorted(path.name for path in theirs.iterdir()) == ["AGENTS.md", "config.toml"]


async def test_without_a_key_it_says_what_to_do(play: Play) -> None:
    async with play("- say: Hello.", environ={"OPENAI_API_KEY": ""}) as stage:
        with pytest.raises(RuntimeFailureError, match="toolstead keys set openai"):
            await stage.ask("hello")


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
        assert CODEX.view.own_in(request) == CODEX.view.own
        assert not trace.exists()
        assert (theirs / "sessions").is_dir()
        assert not processes_of(theirs)


def _turn(prompt: str) -> Turn:
    async def call(name: str, input: Any, *, call_id: str | None = None) -> ToolResult:
        return ToolResult.error("there are no tools here")

    return Turn(prompt=prompt, caller=Caller(thread_id="t"), tell=lambda kind, data: None, call_tool=call)
