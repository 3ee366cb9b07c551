"""Runs over HTTP: start, look, cancel, warm up, and what is kept behind a handle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from tests.agent_folder import write_agent
from tests.surfaces.rest_stead import ENDS, SteadClient, ended, follow, joined, readers, served_elsewhere, serving
from toolstead.adapters.rest import sse


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SteadClient]:
    monkeypatch.setattr(sse, "HEARTBEAT", 600.0)  # no end is found by looking: it must come by itself
    async with serving(tmp_path) as client:
        yield client


async def start(client: Any, prompt: str, **more: Any) -> Any:
    reply = await client.ask("POST", "/api/runs", {"prompt": prompt, **more})
    assert reply.status == 202, reply.body
    assert reply.json.keys() == {"runId", "threadId"}
    return reply.json


@pytest.mark.promise("R7")
async def test_a_run_is_started_followed_and_read_afterwards(client: SteadClient) -> None:
    started = await start(client, "read the file")
    stream = await follow(client, f"/api/runs/{started['runId']}/events")
    told = await stream.rest()
    assert [event.type for event in told if event.type != "message.delta"] == [
        "message",
        "run.started",
        "tool_use",
        "tool_result",
        "message",
        "completed",
    ]
    result = next(event.data["data"] for event in told if event.type == "tool_result")
    assert result["isError"] is True
    assert {event.data["threadId"] for event in told} == {started["threadId"]}
    run = (await client.get(f"/api/runs/{started['runId']}")).json
    assert run == {
        "id": started["runId"],
        "threadId": started["threadId"],
        "parentRunId": None,
        "agent": "main",
        "runtime": "scripted",
        "model": run["model"],
        "status": "completed",
        "result": run["result"],
        "error": None,
        "usage": {"inputTokens": 0, "outputTokens": 0, "cost": 0.0},
        "startedAt": run["startedAt"],
        "endedAt": run["endedAt"],
    }
    assert "missing.txt" in run["result"]
    assert run["startedAt"] <= run["endedAt"]
    thread = (await client.get(f"/api/threads/{started['threadId']}")).json
    assert (thread["title"], len(thread["messages"])) == ("read the file", 2)


@pytest.mark.promise("R7")
@pytest.mark.parametrize(
    ("body", "status", "end", "code"),
    [
        ({"prompt": "hello"}, "completed", "completed", None),
        ({"prompt": "fail"}, "failed", "error", "runtime"),
        ({"prompt": "hang", "timeout": 0.05}, "timeout", "error", "timeout"),
        ({"prompt": "hang"}, "cancelled", "cancelled", "cancelled"),
    ],
)
async def test_a_runs_stream_has_exactly_one_end_also_when_it_is_read_again(
    client: SteadClient, body: dict[str, Any], status: str, end: str, code: str | None
) -> None:
    run_id = (await start(client, **body))["runId"]
    live = await follow(client, f"/api/runs/{run_id}/events")
    live_without_the_end = await follow(client, f"/api/runs/{run_id}/events?type=run.started")
    if status == "cancelled":
        await live.until("message.delta")
        assert (await client.ask("POST", f"/api/runs/{run_id}/cancel")).json["status"] == "cancelled"
    await live.rest()
    run = (await client.get(f"/api/runs/{run_id}")).json
    assert (run["status"], (run["error"] or {}).get("code")) == (status, code)
    ends = [told for told in live.seen if told.type in ENDS]
    assert [told.type for told in ends] == [end]
    assert live.seen[-1] == ends[0]
    if code is not None:
        assert ends[0].data["data"] == run["error"]
    again = await follow(client, f"/api/runs/{run_id}/events")
    assert await again.rest() == joined(live.seen)
    after_the_end = await follow(client, f"/api/runs/{run_id}/events", {"Last-Event-ID": str(ends[0].id)})
    assert await after_the_end.rest() == []
    without_the_end = await follow(client, f"/api/runs/{run_id}/events?type=run.started")
    assert [told.type for told in await without_the_end.rest()] == ["run.started"]
    assert [told.type for told in await live_without_the_end.rest()] == ["run.started"]
    await readers(client, 0)


async def test_a_queued_run_that_is_cancelled_never_begins_and_the_next_one_does(client: SteadClient) -> None:
    first = await start(client, "hang")
    thread = first["threadId"]
    second, third = [await start(client, prompt, threadId=thread) for prompt in ("two", "three")]
    assert (await client.get(f"/api/runs/{second['runId']}")).json["status"] == "queued"
    cancelled = (await client.ask("POST", f"/api/runs/{second['runId']}/cancel", {})).json
    assert (cancelled["status"], cancelled["startedAt"]) == ("cancelled", None)
    assert (await client.ask("POST", f"/api/runs/{first['runId']}/cancel")).json["status"] == "cancelled"
    assert (await ended(client, third["runId"]))["result"] == "You said: three"
    again = (await client.ask("POST", f"/api/runs/{third['runId']}/cancel")).json
    assert again["status"] == "completed", "a run that has ended stays as it is"
    stream = await follow(client, f"/api/runs/{second['runId']}/events")
    assert [told.type for told in await stream.rest()] == ["message", "cancelled"]


async def test_two_who_cancel_at_once_read_the_same_end(client: SteadClient) -> None:
    run = (await start(client, "hang"))["runId"]
    replies = await asyncio.gather(*(client.ask("POST", f"/api/runs/{run}/cancel") for _ in range(5)))
    assert [reply.status for reply in replies] == [200] * 5
    assert all(reply.json == replies[0].json for reply in replies)


async def test_a_run_of_another_process_can_be_seen_followed_and_cancelled_here(
    client: SteadClient, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with served_elsewhere(elsewhere) as (_, other):
        run = (await start(other, "hang"))["runId"]
        stream = await follow(client, f"/api/runs/{run}/events")
        await stream.until("message.delta")
        assert (await client.get(f"/api/runs/{run}")).json["status"] == "running"
        cancelled = await client.ask("POST", f"/api/runs/{run}/cancel")
        assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        assert (await other.get(f"/api/runs/{run}")).json == cancelled.json
        assert [told.type for told in await stream.rest()] == ["cancelled"]


async def test_a_run_of_another_process_is_steered_from_here(client: SteadClient, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with served_elsewhere(elsewhere) as (_, other):
        started = await start(other, "hang")
        stream = await follow(client, f"/api/runs/{started['runId']}/events")
        await stream.until("message.delta")
        body = {"content": "go on", "steer": True}
        reply = await client.ask("POST", f"/api/threads/{started['threadId']}/messages", body)
        assert (reply.status, reply.json["runId"]) == (202, started["runId"])
        assert (await ended(client, started["runId"]))["result"] == "Going"
        shown = (await other.get(f"/api/threads/{started['threadId']}")).json["messages"]
        assert [one["content"] for one in shown] == ["hang", "go on", "Going"]
        assert shown[1]["id"] == reply.json["messageId"]


async def test_a_run_takes_a_thread_of_its_own_choice_and_a_key_with_it(client: SteadClient) -> None:
    write_agent("other")
    await (await client.stead._parts.open_agents()).reload()
    headers = {"Idempotency-Key": "k"}
    body = {"prompt": "hello", "threadId": "my-thread", "agent": "other", "model": "small", "runtime": "scripted"}
    replies = [await client.ask("POST", "/api/runs", body, headers) for _ in range(3)]
    assert [reply.json for reply in replies] == [replies[0].json] * 3
    assert replies[0].json["threadId"] == "my-thread"
    run = await ended(client, replies[0].json["runId"])
    assert (run["agent"], run["model"]) == ("other", "small")
    assert len((await client.get("/api/threads/my-thread")).json["messages"]) == 2
    refused = await client.ask("POST", "/api/runs", {"prompt": "hello"}, headers)
    assert refused.problem["type"] == "/docs#bad-query"


@pytest.mark.promise("R7")
async def test_a_run_works_in_a_folder_inside_the_project(client: SteadClient) -> None:
    inner = client.project / "src" / "deep"
    inner.mkdir(parents=True)
    (client.project / "link").symlink_to(inner)
    seen: set[str] = set()
    for cwd in ("src/deep", "link", "src/../src/deep/.", str(inner)):
        started = await start(client, "hang", cwd=cwd)
        stream = await follow(client, f"/api/runs/{started['runId']}/events")
        await stream.until("message.delta")
        conversations = await client.conversations()
        runtime: Any = conversations.agents.runtimes("scripted")
        seen.add(str(runtime.received[-1].spec.cwd))
        await client.ask("POST", f"/api/runs/{started['runId']}/cancel")
    assert seen == {str(inner)}


@pytest.mark.promise("R7")
async def test_a_folder_outside_the_project_or_none_at_all_is_refused(client: SteadClient) -> None:
    twin = client.project.with_name("project-twin")
    (twin / "inside").mkdir(parents=True)
    (client.project / "src").mkdir()
    (client.project / "out").symlink_to(twin)
    (client.project / "loop").symlink_to("loop")
    (client.project / "file.txt").write_text("x")
    outside = ("..", "../project-twin", str(twin), "/", "src/../../project-twin", "out", "out/inside", "src/../out")
    for cwd in (*outside, "missing", "file.txt", "a\0b", "x" * 5_000, "loop", "~"):
        reply = await client.ask("POST", "/api/runs", {"prompt": "hello", "cwd": cwd})
        assert (reply.status, reply.problem["type"]) == (422, "/docs#bad-body"), cwd
        assert reply.problem["detail"].startswith("/cwd: ")
        assert cwd not in outside or "outside the project" in reply.problem["detail"], cwd
    assert (await client.get("/api/threads")).json == {"threads": []}


REFUSED: list[tuple[str, Any, str, str]] = [
    ("POST /api/runs", None, "bad-body", "prompt"),
    ("POST /api/runs", {"prompt": ""}, "bad-body", "/prompt"),
    ("POST /api/runs", {"prompt": "x", "promt": "x"}, "bad-body", "did you mean 'prompt'?"),
    ("POST /api/runs", {"prompt": "x", "timeout": 0}, "bad-body", "/timeout"),
    ("POST /api/runs", {"prompt": "x", "timeout": 10**9}, "bad-body", "/timeout"),
    ("POST /api/runs", {"prompt": "x", "timeout": True}, "bad-body", "/timeout"),
    ("POST /api/runs", {"prompt": "x", "threadId": "a/b"}, "bad-body", "/threadId"),
    ("POST /api/runs", {"prompt": "x", "threadId": ".."}, "bad-body", "/threadId"),
    ("POST /api/runs", {"prompt": "x", "threadId": "a b"}, "bad-body", "/threadId"),
    ("POST /api/runs", {"prompt": "x", "threadId": "x" * 201}, "bad-body", "/threadId"),
    ("POST /api/runs", {"prompt": "x", "runtime": "nonsense"}, "no-runtime", "'nonsense' is unknown"),
    ("POST /api/runs", {"prompt": "x", "runtime": "demo"}, "no-runtime", "'demo' is unknown"),
    ("GET /api/runs/nobody", None, "unknown-run", "'nobody'"),
    ("POST /api/runs/nobody/cancel", None, "unknown-run", "'nobody'"),
    ("POST /api/runs/nobody/cancel", {"why": "x"}, "bad-body", "'why'"),
    ("GET /api/runs/nobody/events", None, "unknown-run", "'nobody'"),
    ("HEAD /api/runs/nobody/events", None, "", ""),
    ("POST /api/prewarm", {}, "bad-body", "threadId"),
    ("POST /api/prewarm", {"threadId": "a\0b"}, "bad-body", "/threadId"),
    ("POST /api/prewarm", {"threadId": "nobody"}, "unknown-thread", "'nobody'"),
    ("GET /api/results/nobody", None, "unknown-result", "'nobody'"),
]


async def test_what_does_not_fit_is_refused_with_a_reason(client: SteadClient) -> None:
    for asked, body, kind, words in REFUSED:
        method, _, path = asked.partition(" ")
        reply = await client.ask(method, path, body)
        if method == "HEAD":
            assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")
        else:
            assert reply.problem["type"] == f"/docs#{kind}", (asked, body)
            assert words in reply.problem["detail"], (asked, body)
    assert (await client.get("/api/threads")).json["threads"] == []
    await readers(client, 0)


@pytest.mark.promise("S5")
async def test_a_prewarmed_thread_answers_its_next_message_warm_and_health_counts_it(client: SteadClient) -> None:
    thread = (await client.ask("POST", "/api/threads", {})).json["id"]
    nothing = {"idle": 0, "live": 0, "hits": 0, "misses": 0, "rebuilt": 0, "evicted": 0}
    health = (await client.get("/api/health")).json
    assert (health["runtime"], health["sessions"]) == ("scripted", nothing)
    reply = await client.ask("POST", "/api/prewarm", {"threadId": thread})
    assert (reply.status, reply.json) == (202, {"warm": True, "runtime": "scripted"})
    assert (await client.get("/api/health")).json["sessions"] == {**nothing, "idle": 1, "live": 1}
    sent = await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "hello"})
    await ended(client, sent.json["runId"])
    assert (await client.get("/api/health")).json["sessions"]["hits"] == 1


async def test_health_does_not_open_the_database_and_says_when_no_runtime_can_be_had(
    tmp_path: Path, home: Path
) -> None:
    (home / ".config" / "toolstead" / "data" / "toolstead.db").mkdir(parents=True)
    async with serving(tmp_path, runtime={}) as client:
        health = await client.get("/api/health")
        assert health.status == 200
        assert (health.json["runtime"], set(health.json["sessions"].values())) == (None, {0})


async def test_the_whole_of_an_answer_that_was_shown_in_part_is_behind_its_handle(tmp_path: Path) -> None:
    async with serving(tmp_path, tools={"max_output": 2_000}) as client:
        text = "".join(f"line {number} ✓\n" for number in range(5_000))
        (client.project / "long.txt").write_text(text)
        reply = await client.ask("POST", "/api/tools/file-reader/call", {"input": {"path": "long.txt"}})
        assert len(reply.body) < 5_000
        whole = await client.get(f"/api/results/{reply.json['handle']}")
        assert (whole.status, whole.headers["content-type"]) == (200, "application/json")
        assert whole.json == {"content": [{"type": "text", "text": text}], "isError": False}
        address = reply.json["content"][-1]["text"].rpartition(" kept as ")[2].removesuffix("]")
        assert address == f"toolstead://results/{reply.json['handle']}"
        for written in (address, quote(address, safe="")):
            assert (await client.get(f"/api/results/{written}")).body == whole.body


async def test_a_server_that_stops_leaves_its_runs_stopped_and_their_end_is_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        run = (await start(client, "hang"))["runId"]
        stream = await follow(client, f"/api/runs/{run}/events")
        await stream.until("message.delta")
    async with serving(tmp_path) as client:
        shown = await ended(client, run)
        assert (shown["status"], shown["error"]["code"]) == ("stopped", "stopped")


async def test_every_answer_has_the_shape_that_the_document_shows(client: SteadClient) -> None:
    document = (await client.get("/openapi.json")).json

    def check(shape: str, value: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{shape}", "components": document["components"]}
        problems = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(value)]
        assert not problems, (shape, problems)

    thread = await client.ask("POST", "/api/threads", {"title": "One"})
    check("Thread", thread.json)
    place = f"/api/threads/{thread.json['id']}"
    sent = await client.ask("POST", f"{place}/messages", {"content": "read"})
    check("MessageAccepted", sent.json)
    stream = await follow(client, f"/api/runs/{sent.json['runId']}/events")
    for told in await stream.rest():
        check("Event", told.data)
    check("Run", (await client.get(f"/api/runs/{sent.json['runId']}")).json)
    check("Thread", (await client.get(place)).json)
    check("Thread", (await client.ask("PATCH", place, {"title": None})).json)
    check("ThreadList", (await client.get("/api/threads")).json)
    started = await client.ask("POST", "/api/runs", {"prompt": "hang"})
    check("RunAccepted", started.json)
    check("Run", (await client.get(f"/api/runs/{started.json['runId']}")).json)
    check("Run", (await client.ask("POST", f"/api/runs/{started.json['runId']}/cancel")).json)
    check("Prewarmed", (await client.ask("POST", "/api/prewarm", {"threadId": thread.json["id"]})).json)
    check("Health", (await client.get("/api/health")).json)
    check("Problem", (await client.get("/api/runs/nobody")).problem)
