"""What a run sent to its model, over HTTP: as the model's API got it, in pages, without secrets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.e2e.captured import call_ids, instructions_of, results_of, tools_of, user_texts
from tests.e2e.model_stage import MODELS
from tests.flows.tool_files import shell, write
from tests.surfaces.rest_stead import SteadClient, ended, follow, serving
from tests.waiting import until
from toolstead.errors import StorageError
from toolstead.orchestrator import step_reading
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.testing import ScriptedModels, scripted_models

KEY = "sk-never-stored-0123456789"
SCRIPT = """
- when: ^look
  call: [{tool: here, input: {}}, {tool: greet, input: {name: Ada}}]
- call: [{tool: nosuch, input: {}}]
- call: [{tool: here, input: {}}]
- say: "Done"
- when: ^wait
  call: [{tool: waiting, input: {}}]
- say: I waited
- when: ^refuse
  fault: {kind: bad_key, times: 99}
  say: never
- when: ^hang
  say: Hm
  hang: 600
- say: "You said: {{prompt}}"
"""


class Kernel(SteadClient):
    """A stead behind HTTP, and the model APIs behind the stead."""

    api: ScriptedModels

    async def run(self, prompt: str, **more: Any) -> str:
        """Start a run; its id."""
        reply = await self.ask("POST", "/api/runs", {"prompt": prompt, "runtime": "kernel", **more})
        assert reply.status == 202, reply.body
        return reply.json["runId"]

    async def steps(self, run_id: str, query: str = "") -> Any:
        reply = await self.get(f"/api/runs/{run_id}/steps{query}")
        assert reply.status == 200, reply.body
        return reply.json


@asynccontextmanager
async def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kernel]:
    home = folder / "home"
    monkeypatch.setenv("TOOLSTEAD_HOME", str(home))
    (home / "tools").mkdir(parents=True)
    for name, command in {"here": "pwd", "waiting": f"cat {folder / 'gate'}"}.items():
        write(home / "tools" / f"{name}.json", shell(name, command))
    write(home / "tools" / "greet.json", shell("greet", "echo Hello {{name}}", "name"))
    async with scripted_models(SCRIPT) as api:
        for name, value in api.environ().items():
            monkeypatch.setenv(name, KEY if name.endswith("_KEY") else value)
        async with serving(folder, runtime={"default": "kernel"}) as client:
            kernel = Kernel(client.url, client.stead, client.project, client.stop, client.task, made=client.made)
            kernel.api = api
            yield kernel
        await until(lambda: api.active == 0)


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kernel]:
    async with served(tmp_path, monkeypatch) as kernel:
        yield kernel


def texts_of(step: Any, role: str) -> list[str]:
    messages = [message for message in step["request"]["messages"] if message["role"] == role]
    if role != "tool":
        return [message["text"] for message in messages]
    return ["\n".join(part["text"] for part in message["content"]) for message in messages]


@pytest.mark.parametrize("name", sorted(MODELS))
async def test_the_steps_of_a_run_are_what_the_models_api_was_sent(client: Kernel, name: str) -> None:
    first = await client.run("You there", model=MODELS[name], threadId="t")
    await ended(client, first)
    run_id = await client.run("look around", model=MODELS[name], threadId="t")
    run = await ended(client, run_id)
    assert run["status"] == "completed", run
    found = await client.steps(run_id)
    steps, sent = found["steps"], client.api.requests[1:]
    assert found["next"] is None
    assert [step["number"] for step in steps] == [1, 2, 3, 4]
    assert len(sent) == 4
    for step, request in zip(steps, sent, strict=True):
        made = step["request"]
        assert (step["runId"], step["kind"], step["model"]) == (run_id, "model", MODELS[name])
        assert made["instructions"] == instructions_of(request).strip()
        assert made["tools"] == list(tools_of(request))
        assert texts_of(step, "user") == user_texts(request) == ["You there", "look around"]
        results = results_of(request)
        for ours, theirs in zip(texts_of(step, "tool"), results, strict=True):
            assert ours.strip() in theirs
        called = [call["id"] for message in made["messages"] for call in message.get("calls", ())]
        assert called == call_ids(request)
        assert (step["error"], step["durationMs"] > 0) == (None, True)
    assert [len(step["request"]["messages"]) for step in steps] == [3, 6, 8, 10]
    assert texts_of(steps[0], "assistant") == ["You said: You there"]
    here, greet = steps[0]["reply"]["calls"]
    assert (here["name"], here["input"], greet["input"]) == ("here", {}, {"name": "Ada"})
    assert texts_of(steps[3], "tool")[:2] == [f"{client.project}\n", "Hello Ada\n"]
    assert "there is no tool 'nosuch'" in texts_of(steps[3], "tool")[2]
    assert [message["isError"] for message in steps[3]["request"]["messages"] if message["role"] == "tool"] == [
        False,
        False,
        True,
        False,
    ]
    adapted = [step["reply"].pop("adapted", {}) for step in steps]
    assert all(one == adapted[0] for one in adapted)
    assert ("delegate_status" in adapted[0]) == (name == "gemini")
    assert steps[3]["reply"] == {"text": run["result"], "calls": [], "cut": False}
    assert sum(step["usage"]["inputTokens"] for step in steps) == run["usage"]["inputTokens"]


async def test_steps_come_in_pages_and_every_page_has_whole_requests(
    client: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await client.run("look around")
    await ended(client, run_id)
    whole = (await client.steps(run_id))["steps"]
    first = await client.steps(run_id, "?limit=2")
    second = await client.steps(run_id, f"?limit=2&after={first['next']}")
    assert (first["next"], second["next"]) == (2, None)
    assert first["steps"] + second["steps"] == whole
    assert await client.steps(run_id, "?after=4") == {"steps": [], "next": None}
    assert (await client.steps(run_id, "?after=0&limit=200"))["steps"] == whole
    monkeypatch.setattr(step_reading.read_steps, "__kwdefaults__", {"after": 0, "limit": 50, "max_bytes": 1})
    alone = await client.steps(run_id, "?after=1")
    assert (alone["steps"], alone["next"]) == ([whole[1]], 2), "one at least, however large it is"


async def test_a_run_that_goes_on_shows_the_steps_it_has_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with served(tmp_path, monkeypatch) as client:
        run_id = await client.run("wait for me")
        stream = await follow(client, f"/api/runs/{run_id}/events")
        await stream.until("tool_use")
        (step,) = (await client.steps(run_id))["steps"]
        assert step["reply"]["calls"][0]["name"] == "waiting"
        await asyncio.to_thread(gate.write_text, "open")
        await stream.rest()
        assert [step["number"] for step in (await client.steps(run_id))["steps"]] == [1, 2]


async def test_a_request_that_fails_or_is_interrupted_is_a_step_with_the_reason(client: Kernel) -> None:
    refused = await client.run("refuse me")
    run = await ended(client, refused)
    (step,) = (await client.steps(refused))["steps"]
    assert (step["reply"], step["error"]["code"]) == (None, run["error"]["code"])
    assert texts_of(step, "user") == ["refuse me"]
    run_id = await client.run("hang")
    stream = await follow(client, f"/api/runs/{run_id}/events")
    await stream.until("message.delta")
    assert (await client.steps(run_id))["steps"] == []
    await client.ask("POST", f"/api/runs/{run_id}/cancel")
    (step,) = (await client.steps(run_id))["steps"]
    assert (step["reply"], step["error"]) == (None, {"code": "cancelled", "message": "it was interrupted"})


async def test_no_key_is_in_a_step_also_when_somebody_sends_it(client: Kernel, tmp_path: Path) -> None:
    run_id = await client.run(f"keep {KEY} for me, or {KEY.replace('-', '%2D')}")
    assert (await ended(client, run_id))["status"] == "completed"
    reply = await client.get(f"/api/runs/{run_id}/steps")
    assert KEY.encode() not in reply.body
    assert b"0123456789" not in reply.body
    (step,) = reply.json["steps"]
    assert texts_of(step, "user") == ["keep ******** for me, or ********"]
    assert step["reply"]["text"] == "You said: keep ******** for me, or ********"


async def test_steps_are_deleted_with_their_thread(client: Kernel) -> None:
    run_id = await client.run("hello", threadId="t")
    await ended(client, run_id)
    assert len((await client.steps(run_id))["steps"]) == 1
    assert (await client.ask("DELETE", "/api/threads/t")).status == 204
    assert (await client.get(f"/api/runs/{run_id}/steps")).problem["type"] == "/docs#unknown-run"
    store = (await client.conversations()).store
    assert await store.list_steps(run_id) == []


async def test_a_run_of_another_runtime_has_one_step_for_its_turn(tmp_path: Path) -> None:
    async with serving(tmp_path, script="- say: 'You said: {{prompt}}'\n  usage: {inputTokens: 7}\n") as client:
        started = (await client.ask("POST", "/api/runs", {"prompt": "hello"})).json
        run = await ended(client, started["runId"])
        again = (await client.ask("POST", "/api/runs", {"prompt": "more", "threadId": started["threadId"]})).json
        await ended(client, again["runId"])
        reply = await client.get(f"/api/runs/{started['runId']}/steps")
        (step,) = reply.json["steps"]
        tools = [tool["name"] for tool in (await client.get("/api/tools")).json["tools"]]
        tools = [name for name in tools if name not in ("delegation__checkin", "signal_parent")]  # for sub-agents
        assert step == {
            "runId": started["runId"],
            "number": 1,
            "kind": "turn",
            "createdAt": step["createdAt"],
            "model": run["model"],
            "request": {
                "prompt": "hello",
                "session": "cold",
                "cwd": str(client.project),
                "permissions": [],
                "instructions": step["request"]["instructions"],
                "tools": step["request"]["tools"],
            },
            "reply": {"text": run["result"]},
            "usage": run["usage"],
            "durationMs": step["durationMs"],
            "error": None,
        }
        assert run["startedAt"] <= step["createdAt"] <= run["endedAt"]
        assert str(client.project) in step["request"]["instructions"]
        assert sorted(step["request"]["tools"]) == sorted(tools)
        (step,) = (await client.get(f"/api/runs/{again['runId']}/steps")).json["steps"]
        assert (step["request"]["session"], step["request"]["prompt"]) == ("warm", "more")


async def test_a_store_that_fails_meanwhile_loses_no_step(client: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    conversations: Orchestrator = await client.conversations()
    store: Any = conversations.store
    write, failures = store.writer.write, [1]

    async def fail(operation: Any) -> Any:
        if failures[0] and operation.apply.__qualname__.startswith("append_events"):
            failures[0] -= 1
            raise StorageError("the disk says no")
        return await write(operation)

    monkeypatch.setattr(store.writer, "write", fail)
    run_id = await client.run("look around")
    await ended(client, run_id)
    assert failures == [0]
    assert [step["number"] for step in (await client.steps(run_id))["steps"]] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("/api/runs/nobody/steps", "unknown-run", "'nobody'"),
        ("/api/runs/nobody/steps?after=-1", "bad-query", "after: must be the number of a step"),
        ("/api/runs/nobody/steps?after=x", "bad-query", "after: must be the number of a step"),
        ("/api/runs/nobody/steps?after=9999999999", "bad-query", "after: must be the number of a step"),
        ("/api/runs/nobody/steps?limit=0", "bad-query", "limit: must be a whole number from 1 to 200"),
        ("/api/runs/nobody/steps?limit=201", "bad-query", "limit: must be a whole number from 1 to 200"),
        ("/api/runs/nobody/steps?raw=1", "bad-query", "'raw'"),
    ],
)
async def test_what_does_not_fit_is_refused_with_a_reason(tmp_path: Path, path: str, kind: str, words: str) -> None:
    async with serving(tmp_path) as client:
        reply = await client.get(path)
        assert reply.problem["type"] == f"/docs#{kind}"
        assert words in reply.problem["detail"]


async def test_an_answer_has_the_shape_that_the_document_shows(client: Kernel) -> None:
    document = (await client.get("/openapi.json")).json
    schema = {"$ref": "#/components/schemas/StepList", "components": document["components"]}
    run_id = await client.run("look around")
    await ended(client, run_id)
    shown = document["paths"]["/api/runs/{id}/steps"]["get"]["responses"]["200"]["content"]["application/json"]
    for value in (await client.steps(run_id), shown["example"]):
        assert [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(value)] == []
