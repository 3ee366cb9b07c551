"""Delegated tasks over HTTP: listed, shown with their trees, followed, cancelled, started again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.agent_folder import write_agent
from tests.surfaces.rest_server import Client
from tests.surfaces.rest_stead import SteadClient, ended, follow, serving
from tests.waiting import until

LONG = "x" * 20_000 + "é" * 20_000
SCRIPT = f"""
- when: ^build
  call: [{{tool: delegate_agent, input: {{agent_id: helper, prompt: "first, hang", mode: detached}}}}]
  say: Handed on
- when: ^write
  call: [{{tool: delegate_agent, input: {{agent_id: helper, prompt: essay}}}}]
  say: Written
- when: ^first
  call:
    - {{tool: delegation__checkin, input: {{message: I begin}}}}
    - {{tool: delegate_agent, input: {{agent_id: scout, prompt: second}}}}
  say: First done
- when: ^second
  call: [{{tool: delegate_agent, input: {{agent_id: helper, prompt: third}}}}]
  say: Second done
- when: ^third
  say: Hm
  hang: 600
- when: ^essay
  say: {LONG}
  usage: {{inputTokens: 1200, outputTokens: 300, cost: 0.25}}
- when: .
  say: Fine
"""
AGENTS = ["helper", "scout"]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[SteadClient]:
    write_agent("helper", "agents: [scout]")
    write_agent("scout", "agents: [helper]")
    async with serving(tmp_path, SCRIPT, multi_agent={"agents": AGENTS}) as client:
        yield client


async def start(client: Client, prompt: str) -> Any:
    reply = await client.ask("POST", "/api/runs", {"prompt": prompt})
    assert reply.status == 202, reply.body
    return reply.json


async def tasks(client: Client, query: str = "") -> list[Any]:
    reply = await client.get(f"/api/tasks{query}")
    assert reply.status == 200, reply.body
    return reply.json["tasks"]


async def built_tree(client: Client) -> list[Any]:
    """A tree of three tasks, the innermost of which hangs; the outermost first."""
    run = await start(client, "build")
    await ended(client, run["runId"])

    async def three() -> list[Any] | None:
        found = await tasks(client, f"?root={run['runId']}")
        return found[::-1] if len(found) == 3 else None

    found = await until(three)
    assert found is not None
    return found


async def check_shape(client: Client, value: Any, shape: str) -> None:
    document = await client.document()
    schema = {"$ref": f"#/components/schemas/{shape}", "components": document["components"]}
    assert [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(value)] == []


async def test_a_tree_is_listed_shown_and_cancelled_with_all_that_runs_in_it(client: SteadClient) -> None:
    outer, middle, inner = await built_tree(client)
    assert [task["agent"] for task in (outer, middle, inner)] == ["helper", "scout", "helper"]
    assert [task["id"] for task in await tasks(client)] == [inner["id"], middle["id"], outer["id"]]
    assert [task["id"] for task in await tasks(client, "?limit=1")] == [inner["id"]]
    assert [task["id"] for task in await tasks(client, f"?thread={middle['threadId']}")] == [inner["id"]]
    assert len(await tasks(client, "?open=true")) == 3
    assert await tasks(client, "?open=false") == []

    shown = (await client.get(f"/api/tasks/{outer['id']}")).json
    await check_shape(client, shown, "TaskDetails")
    assert shown == {**outer, **{key: shown[key] for key in ("attempts", "children", "budget", "evidence", "tree")}}
    assert [child["id"] for child in shown["children"]] == [middle["id"]]
    assert shown["tree"] == [{**middle, "children": [{**inner, "children": []}]}]
    assert shown["evidence"]["calls"][0]["name"] == "delegation__checkin"
    budget = shown["budget"]
    assert budget["reservedTokens"] > 0
    for what in ("Tokens", "Cost"):
        whole = budget[f"{what.lower().removesuffix('s')}Budget"]
        assert sum(budget[f"{word}{what}"] for word in ("spent", "reserved", "left")) == whole

    reply = await client.ask("POST", f"/api/tasks/{outer['id']}/cancel")
    assert (reply.status, reply.json["outcome"]) == (200, "cancelled")
    await check_shape(client, reply.json, "Task")
    assert await tasks(client, "?open=true") == []
    store = (await client.conversations()).store
    for task in (outer, middle, inner):
        assert (await store.list_runs(thread_id=task["threadId"]))[0].status == "cancelled"
    assert (await client.ask("POST", f"/api/tasks/{outer['id']}/cancel")).json == reply.json  # it stays as it is


async def test_an_ended_task_is_started_again_as_a_new_one_and_an_open_one_is_not(client: SteadClient) -> None:
    _, _, inner = await built_tree(client)
    refused = await client.ask("POST", f"/api/tasks/{inner['id']}/retry")
    assert (refused.status, refused.problem["type"]) == (409, "/docs#retry-refused")
    assert "cancel it first" in refused.problem["detail"]
    await ended(client, (await start(client, "write"))["runId"])
    (done, *_) = await tasks(client)
    assert (done["outcome"], done["usage"]["inputTokens"], done["resultSize"]) == ("completed", 1200, len(LONG))
    again = await client.ask("POST", f"/api/tasks/{done['id']}/retry", {})
    assert (again.status, again.json["retryOf"], again.json["outcome"]) == (201, done["id"], None)
    assert again.headers["location"] == f"/api/tasks/{again.json['id']}"
    assert again.json["prompt"] == done["prompt"]

    async def repeated() -> Any:
        found = (await client.get(again.headers["location"])).json
        return found if found["outcome"] is not None else None

    found = await until(repeated)
    assert (found["outcome"], found["rootRunId"], found["budget"]["spentTokens"]) == ("completed", found["id"], 1500)


async def test_a_long_result_is_read_in_parts(client: SteadClient) -> None:
    await ended(client, (await start(client, "write"))["runId"])
    (done,) = await tasks(client)
    path, offset, text = f"/api/tasks/{done['id']}/result", 0, ""
    while True:
        part = (await client.get(f"{path}?offset={offset}&limit=15000")).json
        await check_shape(client, part, "TaskResultPart")
        assert (part["offset"], part["size"]) == (offset, len(LONG))
        text += part["text"]
        if "next" not in part:
            break
        offset = part["next"]
    assert (text, offset) == (LONG, 30_000)
    assert (await client.get(f"{path}?offset=50000")).json == {"text": "", "offset": 50_000, "size": len(LONG)}
    for query in ("?offset=-1", "?limit=0", "?limit=1000001", "?start=1"):
        assert (await client.get(path + query)).problem["type"] == "/docs#bad-query"
    assert (await client.get("/api/tasks?open=maybe")).problem["detail"] == "open: must be `true` or `false`."


async def test_the_events_of_a_task_are_its_own_and_those_of_its_runs(client: SteadClient) -> None:
    outer, middle, _ = await built_tree(client)
    stream = await follow(client, f"/api/events?task={outer['id']}&after=0")
    await client.ask("POST", f"/api/tasks/{outer['id']}/cancel")
    await stream.until("task.failed")
    assert {told.data["taskId"] for told in stream.seen} == {outer["id"]}
    types = [told.type for told in stream.seen]
    assert types[0] == "task.created"
    assert {"run.started", "tool_use", "tool_result", "task.checkin", "delegate.started"} <= set(types)
    assert stream.seen[-1].data["data"]["outcome"] == "cancelled"
    assert stream.seen[-1].data["threadId"] == outer["parentThreadId"]
    await stream.close()
    only = await follow(client, f"/api/events?task={middle['id']}&after=0&type=task.created,task.failed")
    await only.until("task.failed")
    assert [told.type for told in only.seen] == ["task.created", "task.failed"]
    await only.close()


async def test_unknown_tasks_and_those_of_other_projects_are_not_found(client: SteadClient, tmp_path: Path) -> None:
    await ended(client, (await start(client, "write"))["runId"])
    (theirs,) = await tasks(client)
    other = tmp_path / "other"
    other.mkdir()
    async with serving(other, SCRIPT) as stranger:
        assert await tasks(stranger) == []
        for unknown in ("nope", "%00", theirs["id"]):
            for method, route in (("GET", ""), ("GET", "/result"), ("POST", "/cancel"), ("POST", "/retry")):
                reply = await stranger.ask(method, f"/api/tasks/{unknown}{route}")
                assert (reply.status, reply.problem["type"]) == (404, "/docs#unknown-task")


@pytest.mark.promise("T10")
@pytest.mark.parametrize(
    ("name", "input"),
    [
        ("delegation__delegate", {"prompt": "x"}),
        ("delegation__checkin", {"message": "x"}),
        ("delegate_agent", {"agent_id": "helper", "prompt": "x"}),
        ("spawn_agent", {"agent": "helper", "prompt": "x"}),
        ("signal_parent", {"message": "x"}),
    ],
)
async def test_a_tool_that_delegates_refuses_whoever_is_no_agent(client: SteadClient, name: str, input: Any) -> None:
    reply = await client.call(name, input)
    assert (reply.status, reply.json["isError"]) == (200, True), reply.body
    assert "talk to an agent instead" in reply.json["content"][0]["text"]
    assert await tasks(client) == []


async def test_lists_and_trees_have_the_beginning_of_long_prompts(client: SteadClient) -> None:
    prompt = "third " + "ü" * 5_000
    script = {"tool": "delegate_agent", "input": {"agent_id": "helper", "prompt": prompt, "mode": "detached"}}
    file = client.project.parent / "script.yaml"
    file.write_text(f"- when: ^long\n  call: [{json.dumps(script)}]\n  say: Done\n{SCRIPT}", encoding="utf-8")
    await ended(client, (await start(client, "long"))["runId"])
    (listed,) = await tasks(client)
    assert listed["prompt"] == f"{prompt[:1000]}…"
    assert (await client.get(f"/api/tasks/{listed['id']}")).json["prompt"] == prompt
