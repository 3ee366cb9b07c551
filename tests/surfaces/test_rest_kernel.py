"""Runs on the kernel over HTTP: the whole stream, cancelling, steering, refusals, and a key that is found nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.captured import instructions_of, results_of, user_texts
from tests.e2e.model_stage import MODELS
from tests.flows.tool_files import shell, write
from tests.surfaces.rest_stead import ENDS, SteadClient, ended, follow, serving
from tests.waiting import until
from toolstead.testing import ScriptedModels, scripted_models

KEY = "sk-never-shown-0123456789"
SCRIPT = """
- when: ^where
  call: [{tool: here, input: {}}]
- say: "It says {{result}} and that is all"
- when: ^environment
  call: [{tool: environment, input: {}}]
- say: "{{result}}"
- when: ^wait
  call: [{tool: waiting, input: {}}]
- say: I waited
- when: ^hang
  say: Hm
  hang: 600
- when: ^refuse me
  fault: {kind: bad_key, times: 99}
  say: never
- say: "You said: {{prompt}}"
"""


class Kernel(SteadClient):
    """A stead behind HTTP, and the model APIs behind the stead."""

    api: ScriptedModels

    async def start(self, prompt: str, **more: Any) -> Any:
        reply = await self.ask("POST", "/api/runs", {"prompt": prompt, "runtime": "kernel", **more})
        assert reply.status == 202, reply.body
        return reply.json


@asynccontextmanager
async def served(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[Kernel]:
    (folder / "project" / "inside").mkdir(parents=True)
    home = folder / "home"
    monkeypatch.setenv("TOOLSTEAD_HOME", str(home))
    (home / "tools").mkdir(parents=True)
    for name, command in {"here": "pwd", "environment": "env", "waiting": f"cat {folder / 'gate'}"}.items():
        write(home / "tools" / f"{name}.json", shell(name, command))
    async with scripted_models(SCRIPT) as api:
        for name, value in api.environ().items():
            monkeypatch.setenv(name, KEY if name.endswith("_KEY") else value)
        async with serving(folder, **{"runtime": {"default": "kernel"}, **settings}) as client:
            kernel = Kernel(client.url, client.stead, client.project, client.stop, client.task, made=client.made)
            kernel.api = api
            yield kernel
        await until(lambda: api.active == 0)


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kernel]:
    async with served(tmp_path, monkeypatch) as kernel:
        yield kernel


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.promise("R7")
@pytest.mark.promise("K8")
@pytest.mark.parametrize("name", sorted(MODELS))
async def test_a_run_tells_everything_in_order_and_ends_once(client: Kernel, name: str) -> None:
    run_id = (await client.start("where are we?", model=MODELS[name], cwd="inside"))["runId"]
    stream = await follow(client, f"/api/runs/{run_id}/events")
    told = await stream.rest()
    kinds = [event.type for event in told]
    pieces = [event.data["data"]["text"] for event in told if event.type == "message.delta"]
    expected = ["message", "run.started", "usage", "tool_use", "tool_result"]
    expected += ["message.delta"] * len(pieces) + ["usage", "message", "completed"]
    assert kinds == expected
    assert len(pieces) > 1
    run = (await client.get(f"/api/runs/{run_id}")).json
    assert "".join(pieces) == run["result"]
    assert (run["status"], run["runtime"], run["model"]) == ("completed", "kernel", MODELS[name])
    started = told[1].data["data"]
    assert (started["runtime"], started["model"]) == ("kernel", MODELS[name])
    assert f"in the folder {client.project / 'inside'}." in instructions_of(client.api.requests[0])
    where = told[4].data["data"]["content"]
    assert where == f"{client.project}\n", "a command runs where its file says: the project's root"
    assert where.strip() in results_of(client.api.requests[1])[0]
    counted = [event.data["data"] for event in told if event.type == "usage"]
    assert run["usage"]["inputTokens"] == sum(one["inputTokens"] for one in counted)
    assert run["usage"]["cost"] == pytest.approx(sum(one["cost"] for one in counted))
    again = await follow(client, f"/api/runs/{run_id}/events")
    stored = [event.type for event in await again.rest()]
    assert [kind for kind in stored if kind in ENDS] == ["completed"]


@pytest.mark.promise("R7")
@pytest.mark.parametrize("name", sorted(MODELS))
async def test_cancelling_a_run_ends_the_request_at_the_api(client: Kernel, name: str) -> None:
    run_id = (await client.start("hang", model=MODELS[name]))["runId"]
    stream = await follow(client, f"/api/runs/{run_id}/events")
    await stream.until("message.delta")
    assert client.api.active == 1
    assert (await client.ask("POST", f"/api/runs/{run_id}/cancel")).json["status"] == "cancelled"
    await until(lambda: client.api.active == 0)
    await stream.rest()
    assert [event.type for event in stream.seen if event.type in ENDS] == ["cancelled"]


@pytest.mark.promise("S7")
async def test_a_timeout_ends_the_request_at_the_api(client: Kernel) -> None:
    run = await ended(client, (await client.start("hang", timeout=2))["runId"])
    assert (run["status"], run["error"]["code"]) == ("timeout", "timeout")
    await until(lambda: client.api.active == 0)


async def test_a_steering_message_is_read_with_the_next_request_of_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with served(tmp_path, monkeypatch) as client:
        started = await client.start("wait for me", threadId="t")
        stream = await follow(client, f"/api/runs/{started['runId']}/events")
        await stream.until("tool_use")
        steered = await client.ask("POST", "/api/threads/t/messages", {"content": "and hurry", "steer": True})
        assert (steered.status, steered.json["runId"]) == (202, started["runId"])
        await asyncio.to_thread(gate.write_text, "open")
        run = await ended(client, started["runId"])
        assert (run["status"], run["result"]) == ("completed", "You said: and hurry")
        assert [user_texts(request)[-1] for request in client.api.requests] == ["wait for me", "and hurry"]
        assert "open" in results_of(client.api.requests[1])[0]
        thread = (await client.get("/api/threads/t")).json
        assert [message["role"] for message in thread["messages"]] == ["user", "user", "assistant"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"model": "antropic:x"}, "did you mean 'anthropic'?"),
        ({"model": "sonet", "threadId": "t"}, "did you mean 'sonnet'?"),
        ({"model": "openai"}, "is a provider; name one of its models too, such as openai:gpt-6.1-terra"),
        ({"runtime": "kernle"}, "The runtime 'kernle' is unknown; did you mean 'kernel'? The runtimes are kernel,"),
    ],
)
async def test_what_nobody_knows_is_a_problem_with_the_nearest_and_nothing_is_stored(
    client: Kernel, body: dict[str, str], says: str
) -> None:
    reply = await client.ask("POST", "/api/runs", {"prompt": "hi", "runtime": "kernel", **body})
    assert (reply.status, reply.problem["type"]) == (422, "/docs#no-runtime")
    assert says in reply.problem["detail"]
    assert (await client.get("/api/threads")).json == {"threads": []}
    assert client.api.requests == []


async def test_a_thread_with_a_model_that_nobody_knows_refuses_messages_and_keeps_none(client: Kernel) -> None:
    thread = (await client.ask("POST", "/api/threads", {"model": "sonet", "runtime": "kernel"})).json["id"]
    reply = await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "hi"})
    assert (reply.status, "did you mean 'sonnet'?" in reply.problem["detail"]) == (422, True)
    assert (await client.get(f"/api/threads/{thread}")).json["messages"] == []
    assert (await client.ask("PATCH", f"/api/threads/{thread}", {"model": "sonnet"})).status == 200
    accepted = (await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "hi"})).json
    assert (await ended(client, accepted["runId"]))["result"] == "You said: hi"


@pytest.mark.parametrize(
    ("lacking", "runtime", "why"),
    [
        ([], "claude", "ANTHROPIC_API_KEY is set, Claude Code is installed"),
        (["ANTHROPIC"], "codex", "OPENAI_API_KEY is set, Codex is installed"),
        (["ANTHROPIC", "OPENAI"], "kernel", "GOOGLE_API_KEY is set"),
    ],
)
async def test_health_names_the_runtime_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: list[str], runtime: str, why: str
) -> None:
    for name in {"ANTHROPIC", "OPENAI", "GOOGLE"} - set(lacking):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    async with serving(tmp_path, runtime={"default": "auto"}) as client:
        health = (await client.get("/api/health")).json
    assert (health["runtime"], health["runtimeReason"]) == (runtime, why)


async def test_health_says_what_is_needed_where_no_runtime_can_be_had(tmp_path: Path) -> None:
    async with serving(tmp_path, runtime={"default": "auto"}) as client:
        health = (await client.get("/api/health")).json
        assert health["runtime"] is None
        assert health["runtimeReason"].startswith("no model key is set (ANTHROPIC_API_KEY, ")
        refused = await client.ask("POST", "/api/runs", {"prompt": "hi"})
        assert (refused.status, refused.problem["type"]) == (422, "/docs#no-runtime")
        assert "toolstead doctor" in refused.problem["detail"]


async def test_a_thread_can_be_warmed_up_and_its_message_finds_the_session(client: Kernel) -> None:
    thread = (await client.ask("POST", "/api/threads", {"model": "gpt-6.1-terra"})).json["id"]
    warmed = await client.ask("POST", "/api/prewarm", {"threadId": thread})
    assert (warmed.status, warmed.json) == (202, {"warm": True, "runtime": "kernel"})
    assert client.api.requests == [], "nobody is asked for it"
    accepted = (await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "hi"})).json
    assert (await ended(client, accepted["runId"]))["model"] == "openai:gpt-6.1-terra"
    sessions = (await client.get("/api/health")).json["sessions"]
    assert (sessions["hits"], sessions["misses"]) == (1, 0)


@pytest.mark.parametrize("name", sorted(MODELS))
async def test_the_key_reaches_the_api_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    answers: list[bytes] = []
    with caplog.at_level(logging.DEBUG):
        async with served(tmp_path, monkeypatch) as client:
            for prompt in ("environment", "where are we?", "refuse me"):
                run_id = (await client.start(prompt, model=MODELS[name], threadId="t"))["runId"]
                run = await ended(client, run_id)
                assert run["status"] == ("failed" if prompt == "refuse me" else "completed"), run
                if prompt == "environment":
                    assert "PATH=" in run["result"], "the command did show its environment"
                    assert "_API_KEY" not in run["result"]
                    assert "_BASE_URL" not in run["result"]
                stream = await follow(client, f"/api/runs/{run_id}/events")
                answers += [json.dumps(event.data).encode() for event in await stream.rest()]
            for path in ("/api/health", "/api/threads/t", "/api/threads", "/api/tools", "/api/plugins"):
                answers.append((await client.get(path)).body)
            sent = client.api.requests
        files = files_with(tmp_path, KEY)
    assert sent
    assert all(KEY in " ".join(request.headers.values()) for request in sent)
    assert all(KEY not in json.dumps(dict(request.body)) for request in sent)
    assert all(KEY.encode() not in answer for answer in answers)
    assert KEY not in caplog.text
    assert files == []
    assert files_with(tmp_path, "where are we?"), "the database was looked into"
