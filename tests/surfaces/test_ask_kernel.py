"""`toolstead ask` on the kernel: a real process, real SDKs, and model APIs that play a script."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.talking_project import Finished, Project, without_address
from tests.surfaces.typed_terminal import at_terminal
from tests.waiting import PATIENCE, until
from toolstead.testing import ScriptedModels, scripted_models

both_ways = pytest.mark.parametrize("server", [False, True], ids=["alone", "server"])

KEY = "sk-never-shown-0123456789"
MODELS = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai": "openai:gpt-6.1-terra",
    "openai-chat": "openai-chat:gpt-6.1-terra",
    "gemini": "google:gemini-3.8-flash",
}
SCRIPT = """
- when: ^where
  call: [{tool: workspace-info, input: {}}]
- say: "It says {{result}}"
- when: break
  fault: {kind: broken}
  say: here I am after all and glad of it
- when: refuse me
  fault: {kind: bad_key, times: 99}
  say: never
- when: hang
  say: "I begin"
  hang: 1000
- say: "Hello {{prompt}}"
"""


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    folder, user = tmp_path / "project", home / ".config" / "toolstead"
    (folder / ".toolstead").mkdir(parents=True)
    user.mkdir(parents=True)
    return Project(folder, user)


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedModels]:
    """The APIs, and the environment of every program that the test starts leads to them."""
    async with scripted_models(SCRIPT) as api:
        for name, value in api.environ().items():
            monkeypatch.setenv(name, KEY if name.endswith("_KEY") else value)
        monkeypatch.setenv("TOOLSTEAD_RUNTIME__DEFAULT", "kernel")
        yield api


async def ask(project: Project, *arguments: str, **environ: str) -> Finished:
    done = await asyncio.to_thread(project.command, "ask", *arguments, **environ)
    assert "Traceback" not in done.stderr
    assert KEY not in done.stderr + done.stdout
    return done


def stored(project: Project) -> list[int]:
    """How many threads, messages and runs there are."""
    database = sqlite3.connect(project.home / "data" / "toolstead.db")
    try:
        return [
            database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("threads", "messages", "runs")
        ]
    finally:
        database.close()


@both_ways
@pytest.mark.promise("R7")
async def test_without_a_word_about_it_the_key_chooses_and_the_first_line_says_so(
    project: Project, api: ScriptedModels, server: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOOLSTEAD_RUNTIME__DEFAULT", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    async with project.served(server=server):
        done = await ask(project, "where are we?")
        first, call, spent = without_address(done.stderr).splitlines()
        assert first == "main answers on kernel (GOOGLE_API_KEY is set), google:gemini-3.8-flash"
        assert call == "· workspace-info {}"
        assert spent.endswith(f"; thread {project.last_thread()}")
        assert " tokens in, " in spent
        assert ", $0.00" in spent
        assert done.returncode == 0
        assert json.loads(done.stdout.removeprefix("It says "))["projectPath"] == str(project.folder)
        assert all(len(line) <= 80 for line in done.stderr.splitlines())
        again = await ask(project, "-c", "and now?")
        assert again.stdout.startswith("Hello ")
        assert again.stdout.endswith("and now?\n")
        assert "<earlier_messages>" not in again.stdout  # a new process has the conversation, too
    assert {request.api for request in api.requests} == {"gemini"}
    assert all(KEY in request.headers["x-goog-api-key"] for request in api.requests)


@pytest.mark.parametrize("name", sorted(MODELS))
async def test_another_process_goes_on_with_the_real_messages_calls_and_results(
    project: Project, api: ScriptedModels, name: str
) -> None:
    options = ("--runtime", "kernel", "--model", MODELS[name])
    assert (await ask(project, "where are we?", *options)).returncode == 0
    done = await ask(project, "-c", "and now?", *options)
    assert (done.returncode, done.stdout) == (0, "Hello and now?\n")
    before, after = (_find_messages(request.body) for request in api.requests[1:])
    assert len(before) == 3  # the question, the call and its result
    assert after[:3] == before
    assert "It says " in json.dumps(after[3])
    assert "and now?" in json.dumps(after[4])
    assert len(after) == 5


async def test_a_conversation_whose_steps_are_gone_is_quoted_and_the_log_says_so(
    project: Project, api: ScriptedModels
) -> None:
    options = ("--runtime", "kernel", "--model", MODELS["openai-chat"])
    assert (await ask(project, "where are we?", *options)).returncode == 0
    database = sqlite3.connect(project.home / "data" / "toolstead.db")
    with database:
        database.execute("DELETE FROM run_steps")
    database.close()
    done = await ask(project, "-v", "-c", "and now?", *options)
    assert "<earlier_messages>" in done.stdout
    assert re.search(
        r"cannot be resumed \(the steps of run_\w+ are not stored, or not any more\); it begins anew", done.stderr
    )


def _find_messages(body: dict[str, Any]) -> list[Any]:
    """The messages of a request, whichever API it is for, less what Anthropic's cache is told, and OpenAI's own ids."""
    found = body.get("messages") or body.get("input") or body["contents"]
    text = json.dumps([one for one in found if one.get("role") not in ("system", "developer")])
    return json.loads(re.sub(r', "cache_control": \{[^}]*\}|, "id": "fc_\w+"', "", text))


@pytest.mark.promise("K8")
@pytest.mark.parametrize("name", sorted(MODELS))
async def test_each_api_answers_under_its_full_name(project: Project, api: ScriptedModels, name: str) -> None:
    model = MODELS[name]
    done = await ask(project, "where are we?", "--runtime", "kernel", "--model", model)
    assert (done.returncode, done.stdout[:8]) == (0, "It says "), done.stderr
    lines = done.stderr.splitlines()
    assert lines[:2] == [f"main answers on kernel, {model}", "· workspace-info {}"]
    assert ", $0.0" in lines[2]
    assert [(request.api, request.model) for request in api.requests] == [(name, model.partition(":")[2])] * 2


@both_ways
async def test_a_model_that_is_named_is_not_said_to_be_chosen_for_another_ones_key(
    project: Project, api: ScriptedModels, server: bool
) -> None:
    async with project.served(server=server):
        done = await ask(project, "hi", "--model", "gemini-3.8-flash")
    assert done.stderr.splitlines()[0] == "main answers on kernel, google:gemini-3.8-flash"
    assert done.stdout == "Hello hi\n"


@both_ways
async def test_an_answer_that_breaks_off_is_given_once_more_with_a_note(
    project: Project, api: ScriptedModels, server: bool
) -> None:
    async with project.served(server=server):
        done = await ask(project, "break it")
    assert done.stdout == "here I am after all and glad of it\n"  # nothing of the half one
    notice = without_address(done.stderr).splitlines()[1]
    assert notice.startswith(
        "· the answer of Anthropic broke off: the connection was closed before its end; try 2 of 6"
    )
    assert notice.endswith("; its answer begins anew")
    assert (done.returncode, len(api.requests)) == (0, 2)


@both_ways
async def test_without_any_key_it_exits_with_2_and_the_shortest_command(project: Project, server: bool) -> None:
    async with project.served(server=server):
        for arguments in (["hi"], ["hi", "--runtime", "kernel"]):
            done = await ask(project, *arguments)
            assert (done.returncode, done.stdout) == (2, "")
            first, *commands, last = done.stderr.splitlines()
            assert first.lower().endswith("no model is set up yet; nothing was asked. do this:")
            assert commands == ["  toolstead keys set anthropic  # or openai, google"]
            assert last.startswith("More: toolstead doctor")
    assert stored(project) == [0, 0, 0]


@both_ways
async def test_a_name_that_nobody_knows_is_refused_with_the_nearest_and_nothing_is_stored(
    project: Project, api: ScriptedModels, server: bool
) -> None:
    async with project.served(server=server):
        for model, nearest in {"antropic:x": "'anthropic'", "sonet": "'sonnet'"}.items():
            done = await ask(project, "hi", "--model", model)
            assert (done.returncode, done.stdout) == (2, "")
            assert f"did you mean {nearest}?" in done.stderr
            assert done.stderr.count("\n") == 1
    assert stored(project) == [0, 0, 0]
    assert api.requests == []


async def test_a_model_whose_key_is_missing_is_refused_with_what_to_type_and_nothing_is_stored(
    project: Project, api: ScriptedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    done = await ask(project, "hi", "--model", "google:gemini-3.8-flash")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:2] == [
        "toolstead: google:gemini-3.8-flash needs a key of Google; nothing was asked. Do this:",
        "  toolstead keys set google",
    ]
    assert stored(project) == [0, 0, 0]
    assert api.requests == []


@both_ways
async def test_a_key_that_is_refused_is_a_clear_failure(project: Project, api: ScriptedModels, server: bool) -> None:
    async with project.served(server=server):
        done = await ask(project, "refuse me")
        assert (done.returncode, done.stdout) == (1, "")
        said = "toolstead: failed: Anthropic refuses the key in ANTHROPIC_API_KEY, from the environment (401): invalid"
        steps = (
            "To use another one, set ANTHROPIC_API_KEY to it, or unset ANTHROPIC_API_KEY and run `toolstead keys set"
        )
        _, why, thread = without_address(done.stderr).splitlines()
        assert why.startswith(said)
        assert steps in why
        assert thread == f"thread {project.last_thread()}"
        assert len(api.requests) == 1  # a refused key is not tried again


@both_ways
@pytest.mark.promise("S7")
async def test_json_is_the_whole_run_with_the_models_full_name(
    project: Project, api: ScriptedModels, server: bool
) -> None:
    async with project.served(server=server):
        done = await ask(project, "hi", "--json", "--model", "sonnet")
    run = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    shown = {name: run[name] for name in ("status", "result", "runtime", "model", "error")}
    assert shown == {
        "status": "completed",
        "result": "Hello hi",
        "runtime": "kernel",
        "model": "anthropic:claude-sonnet-5-5",
        "error": None,
    }
    assert run["usage"]["inputTokens"] > 0
    assert run["usage"]["cost"] > 0


@both_ways
async def test_interrupting_it_ends_the_request_at_the_api_too(
    project: Project, api: ScriptedModels, server: bool
) -> None:
    async with project.served(server=server):
        async with project.started("ask", "hang") as asking:
            await until(lambda: api.active == 1)
            asking.process.send_signal(signal.SIGINT)
            assert await asking.ended() == 130
            assert "Traceback" not in asking.stderr
        await until(lambda: api.active == 0)
        assert project.runs() == [("hang", "cancelled")]


@pytest.mark.promise("S7")
async def test_a_timeout_ends_the_request_at_the_api_too(project: Project, api: ScriptedModels) -> None:
    done = await ask(project, "hang", "--timeout", "3")
    assert done.returncode == 1
    assert "toolstead: timeout: not finished after 3 seconds, so it was ended\n" in done.stderr
    await until(lambda: api.active == 0)


# A server of one's own, whose replies the test writes piece by piece.


class ChatServer:
    """Speaks Chat Completions; an event among the pieces is waited for."""

    def __init__(self, replies: Sequence[Sequence[dict[str, Any] | asyncio.Event]]) -> None:
        self.replies = list(replies)
        self.heard: list[dict[str, Any]] = []
        self.authorization: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
        self.heard.append(json.loads(await reader.readexactly(int(headers["content-length"]))))
        self.authorization.append(headers.get("authorization", ""))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for piece in self.replies.pop(0):
            if isinstance(piece, asyncio.Event):
                await asyncio.wait_for(piece.wait(), PATIENCE)
            else:
                writer.write(f"data: {json.dumps(piece)}\n\n".encode())
                await writer.drain()
        writer.write(b"data: [DONE]\n\n")
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def chat_server(*replies: Sequence[dict[str, Any] | asyncio.Event]) -> AsyncIterator[tuple[ChatServer, str]]:
    chat = ChatServer(replies)
    async with await asyncio.start_server(chat.answer, "127.0.0.1", 0) as listening:
        yield chat, f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


def piece(*, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


def calling(*names: str) -> dict[str, Any]:
    calls = [{"function": {"name": name, "arguments": "{}"}, "type": "function", "id": name} for name in names]
    return piece(tool_calls=[{"index": at, **call} for at, call in enumerate(calls)])


@pytest.mark.promise("K8")
async def test_a_server_of_ones_own_needs_no_key_and_what_it_says_before_a_call_is_shown_once(project: Project) -> None:
    calls = calling("workspace-info", "time__current_time")
    looking = [piece(content="Let me "), piece(content="look."), calls, piece(finish="tool_calls")]
    async with chat_server(looking, [piece(content="Here."), piece(finish="stop")]) as (chat, url):
        done = await ask(project, "where?", "--model", "ollama:tiny", OLLAMA_BASE_URL=url)
    assert (done.returncode, done.stdout) == (0, "Here.\n")
    first, *calls_shown, last = done.stderr.splitlines()
    assert first == "main answers on kernel, ollama:tiny"
    assert calls_shown == ["Let me look.", "· workspace-info {}", "· time__current_time {}"]
    assert last.startswith("thread thread_"), "nothing was counted, so nothing is said of it"
    assert [request["model"] for request in chat.heard] == ["tiny", "tiny"]
    assert all("sk-" not in sent for sent in chat.authorization)


async def test_an_answer_after_a_steering_message_is_a_message_of_its_own(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    steered = asyncio.Event()
    first = [piece(content="One."), steered, piece(finish="stop")]
    async with chat_server(first, [piece(content="Two."), piece(finish="stop")]) as (chat, url):
        monkeypatch.setenv("OLLAMA_BASE_URL", url)
        said = await asked_and_steered(project, "One.", steered, "--model", "ollama:x")
    assert "\nOne.\nTwo.\n" in said
    assert "go on" in json.dumps(chat.heard[1]["messages"][-1])


async def test_a_runtime_that_counts_nothing_does_not_make_an_answer_appear_twice(project: Project) -> None:
    script = project.folder.parent / "script.yaml"
    script.write_text("- {when: first, say: One., hang: 1000}\n- say: Two.\n", encoding="utf-8")
    (project.home / "config.toml").write_text(f'[runtime.scripted]\nscript = "{script}"\n', encoding="utf-8")
    assert "\nOne.Two.\n" in await asked_and_steered(project, "One.", asyncio.Event())


async def asked_and_steered(project: Project, begins: str, steered: asyncio.Event, *options: str) -> str:
    """All that a terminal gets of a question that is steered from elsewhere once its answer has begun so."""
    terminal = at_terminal(project.folder, "ask", "first", *options, TERM="dumb")
    async with project.served(server=True), terminal as asking:
        await asking.sees(begins)
        address = (project.folder.parent / "stderr-serve.txt").read_text().split("http://")[1].split()[0]
        assert await steer(address, project.last_thread(), "go on") == 202
        steered.set()
        assert await asking.ended() == 0, asking.shown
        return asking.shown


async def steer(address: str, thread: str, text: str) -> int:
    host, _, port = address.strip("/").partition("/")[0].partition(":")
    body = json.dumps({"content": text, "steer": True}).encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /api/threads/{thread}/messages HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
    status = int((await asyncio.wait_for(reader.readline(), PATIENCE)).split()[1])
    writer.close()
    await writer.wait_closed()
    return status
