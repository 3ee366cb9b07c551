"""Threads over HTTP: begin, list, show, change, delete, and say something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.rest_server import nothing_left
from tests.surfaces.rest_stead import ENDS, SCRIPT, SteadClient, ended, follow, serving
from toolstead.errors import StorageError
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.types.thread import Message


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[SteadClient]:
    async with serving(tmp_path) as client:
        yield client


async def begin(client: SteadClient, **body: Any) -> str:
    reply = await client.ask("POST", "/api/threads", body)
    assert reply.status == 201, reply.body
    thread_id: str = reply.json["id"]
    assert reply.headers["location"] == f"/api/threads/{thread_id}"
    return thread_id


async def say(client: SteadClient, thread_id: str, content: str, *, steer: bool = False, key: str | None = None) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"content": content, **({"steer": True} if steer else {})}
    reply = await client.ask("POST", f"/api/threads/{thread_id}/messages", body, headers)
    assert reply.status == 202, reply.body
    assert reply.json.keys() == {"messageId", "runId"}
    return reply.json


async def said(client: SteadClient, thread_id: str) -> list[tuple[str, str]]:
    thread = (await client.get(f"/api/threads/{thread_id}")).json
    return [(message["role"], message["content"]) for message in thread["messages"]]


async def test_a_thread_is_begun_shown_changed_listed_and_deleted(client: SteadClient) -> None:
    assert (await client.get("/api/threads")).json == {"threads": []}
    reply = await client.ask("POST", "/api/threads", {"title": "One", "agent": "main", "model": "haiku"})
    thread = reply.json
    assert (reply.status, thread["title"], thread["agent"], thread["model"]) == (201, "One", "main", "haiku")
    assert (thread["runtime"], thread["messages"]) == ("", [])
    place = f"/api/threads/{thread['id']}"
    assert (await client.get(place)).json == thread
    changed = (await client.ask("PATCH", place, {"title": "Two ✓", "model": None})).json
    assert changed == {**thread, "title": "Two ✓", "model": ""}
    assert (await client.ask("PATCH", place, {})).json == changed
    second = await begin(client)
    listed = (await client.get("/api/threads")).json["threads"]
    assert [found["id"] for found in listed] == [second, thread["id"]]
    assert "messages" not in listed[0]
    assert [found["id"] for found in (await client.get("/api/threads?limit=1")).json["threads"]] == [second]
    older = (await client.get(f"/api/threads?before={second}&limit=9")).json["threads"]
    assert [found["id"] for found in older] == [thread["id"]]
    gone = await client.ask("DELETE", place)
    assert (gone.status, gone.body) == (204, b"")
    for method, path in [("GET", place), ("PATCH", place), ("DELETE", place), ("GET", f"{place}/events")]:
        found = (await client.ask(method, path)).problem
        assert (found["status"], found["type"]) == (404, "/docs#unknown-thread")


async def test_messages_come_in_pages_that_are_bounded_in_number_and_bytes(client: SteadClient) -> None:
    thread = await begin(client)
    store = (await client.conversations()).store
    texts = [str(number) for number in range(250)] + ["x" * 3_900_000] * 7 + ["y" * 9_000_000, "last"]
    for number, text in enumerate(texts):
        await store.add_message(
            Message(id=f"m{number}", thread_id=thread, role="user", content=text, created_at=float(number))
        )

    async def pages(query: str = "") -> list[list[str]]:
        found: list[list[str]] = []
        after = ""
        while True:
            reply = await client.get(f"/api/threads/{thread}?{query}{after}")
            assert len(reply.body) < 12_000_000
            found.append([message["content"] for message in reply.json["messages"]])
            if "next" not in reply.json:
                return found
            after = f"&after={reply.json['next']}"

    usual = await pages()
    assert [text for page in usual for text in page] == texts
    assert [len(page) for page in usual] == [200, 52, 2, 2, 1, 1, 1]
    assert [text for page in await pages("limit=1000") for text in page] == texts
    assert [len(page) for page in await pages("limit=100")][:3] == [100, 100, 52]

    last: list[list[str]] = []
    before = "end"
    while before:
        reply = await client.get(f"/api/threads/{thread}?before={before}&limit=100")
        assert len(reply.body) < 12_000_000
        last.insert(0, [message["content"] for message in reply.json["messages"]])
        before = reply.json.get("before")
        assert "next" not in reply.json
    assert [text for page in last for text in page] == texts
    assert [len(page) for page in last] == [51, 100, 100, 2, 2, 2, 1, 1]
    changed = (await client.ask("PATCH", f"/api/threads/{thread}", {"title": "New"})).json
    assert (len(changed["messages"]), changed["next"]) == (200, "m199")


@pytest.mark.promise("P11")
async def test_a_message_is_answered_and_a_command_in_it_is_only_text(client: SteadClient) -> None:
    thread = await begin(client)
    sent = await say(client, thread, "/delegate x")
    run = await ended(client, sent["runId"])
    assert (run["status"], run["threadId"], run["result"]) == ("completed", thread, "You said: /delegate x")
    assert await said(client, thread) == [("user", "/delegate x"), ("assistant", "You said: /delegate x")]
    stream = await follow(client, f"/api/runs/{sent['runId']}/events")
    assert {told.type for told in await stream.rest()} == {"message", "run.started", "message.delta", "completed"}


async def test_twenty_messages_at_once_are_answered_one_at_a_time_in_the_order_of_their_arrival(
    client: SteadClient,
) -> None:
    thread = await begin(client)
    sent = await asyncio.gather(*(say(client, thread, f"n{number}") for number in range(20)))
    runs = [await ended(client, one["runId"]) for one in sent]
    order = [content for role, content in await said(client, thread) if role == "user"]
    assert sorted(order) == sorted(f"n{number}" for number in range(20))
    by_start = [run["result"].removeprefix("You said: ") for run in sorted(runs, key=lambda run: run["startedAt"])]
    assert by_start == order
    stream = await follow(client, f"/api/threads/{thread}/events?type=run.started,completed")
    kinds = [(await stream.until(kind)).data["runId"] for _ in range(20) for kind in ("run.started", "completed")]
    assert kinds[::2] == kinds[1::2], "one began before the other had ended"
    await stream.close()


async def test_many_threads_answer_at_once(client: SteadClient) -> None:
    threads = await asyncio.gather(*(begin(client) for _ in range(30)))
    hanging = await say(client, threads[0], "hang")
    sent = await asyncio.gather(*(say(client, thread, f"for {thread}") for thread in threads[1:]))
    runs = await asyncio.gather(*(ended(client, one["runId"]) for one in sent))
    assert [run["result"] for run in runs] == [f"You said: for {thread}" for thread in threads[1:]]
    assert (await client.get(f"/api/runs/{hanging['runId']}")).json["status"] == "running"


async def test_a_repeated_post_with_the_same_key_counts_once_in_its_thread(client: SteadClient) -> None:
    thread, other = await begin(client), await begin(client)
    answers = await asyncio.gather(*(say(client, thread, "hello", key="k1") for _ in range(10)))
    assert all(answer == answers[0] for answer in answers)
    assert (await ended(client, answers[0]["runId"]))["status"] == "completed"
    assert await say(client, thread, "hello", key="k1") == answers[0]
    assert await say(client, thread, "hello", key="k2") != answers[0]
    elsewhere = await say(client, other, "hello", key="k1")
    await ended(client, elsewhere["runId"])
    assert len(await said(client, other)) == 2
    assert [content for role, content in await said(client, thread) if role == "user"] == ["hello", "hello"]


async def test_a_key_is_remembered_over_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as first:
        thread = await begin(first)
        answer = await say(first, thread, "hello", key="k1")
        await ended(first, answer["runId"])
    async with serving(tmp_path) as second:
        assert await say(second, thread, "hello", key="k1") == answer
        assert len(await said(second, thread)) == 2


async def test_a_steering_message_goes_to_the_run_that_is_under_way_once_for_each_key(client: SteadClient) -> None:
    thread = await begin(client)
    running = await say(client, thread, "hang", key="first", steer=True)
    stream = await follow(client, f"/api/threads/{thread}/events")
    await stream.until("message.delta")
    # What began a run is not given to that very run when its post is repeated.
    assert await say(client, thread, "hang", key="first", steer=True) == running
    steered = await say(client, thread, "go on", key="second", steer=True)
    assert steered["runId"] == running["runId"]
    assert await say(client, thread, "go on", key="second", steer=True) == steered
    done = await ended(client, running["runId"])
    assert (done["status"], done["result"]) == ("completed", "Going")
    assert await said(client, thread) == [("user", "hang"), ("user", "go on"), ("assistant", "Going")]
    alone = await say(client, thread, "hello", steer=True)
    assert alone["runId"] != running["runId"]
    assert (await ended(client, alone["runId"]))["result"] == "You said: hello"


async def test_deleting_a_thread_ends_what_runs_in_it(client: SteadClient) -> None:
    thread = await begin(client)
    sent = [await say(client, thread, "hang"), await say(client, thread, "hello")]
    streams = [await follow(client, f"/api/runs/{one['runId']}/events") for one in sent]
    await streams[0].until("run.started")
    assert (await client.ask("DELETE", f"/api/threads/{thread}")).status == 204
    for stream in streams:
        await stream.rest()
        assert [told.type for told in stream.seen if told.type in ENDS] == ["cancelled"]
    assert (await client.get(f"/api/runs/{sent[0]['runId']}")).problem["type"] == "/docs#unknown-run"


REFUSED: list[tuple[str, Any, str, str]] = [
    ("POST /api/threads", {"titel": "x"}, "bad-body", "did you mean 'title'?"),
    ("POST /api/threads", {"title": 5}, "bad-body", "/title"),
    ("POST /api/threads", {"title": "x" * 201}, "bad-body", "/title"),
    ("POST /api/threads", {"title": "a\nb"}, "bad-body", "/title"),
    ("POST /api/threads", {"runtime": "x" * 201}, "bad-body", "/runtime"),
    ("POST /api/threads", [], "bad-body", "expected `object`"),
    ("POST /api/threads", b"{", "bad-json", ""),
    ("POST /api/threads/{id}/messages", {}, "bad-body", "content"),
    ("POST /api/threads/{id}/messages", {"content": ""}, "bad-body", "/content"),
    ("POST /api/threads/{id}/messages", {"content": "x", "steer": "yes"}, "bad-body", "/steer"),
    ("POST /api/threads/nobody/messages", {"content": "x"}, "unknown-thread", "'nobody'"),
    ("POST /api/threads/%00/messages", {"content": "x"}, "not-found", "null character"),
    ("GET /api/threads/{id}?limit=0", None, "bad-query", "from 1 to 1000"),
    ("GET /api/threads/{id}?limit=1001", None, "bad-query", "from 1 to 1000"),
    ("GET /api/threads/{id}?after=nobody", None, "bad-query", "there is no message 'nobody' in this thread"),
    ("GET /api/threads/{id}?before=x", None, "bad-query", "before: there is no message 'x' in this thread"),
    ("GET /api/threads/{id}?before=end&after=x", None, "bad-query", "give one of them"),
    ("GET /api/threads/{id}?until=x", None, "bad-query", "'limit' and 'after' and 'before'"),
    ("GET /api/threads?limit=0", None, "bad-query", "from 1 to 500"),
    ("GET /api/threads?limit=501", None, "bad-query", "from 1 to 500"),
    ("GET /api/threads?limit=%C2%B2", None, "bad-query", "from 1 to 500"),
    ("GET /api/threads?before=nobody", None, "bad-query", "'nobody'"),
    ("GET /api/threads?limt=1", None, "bad-query", "did you mean 'limit'?"),
    ("GET /api/threads?limit=1&limit=2", None, "bad-query", "2 times"),
]


async def test_what_does_not_fit_is_refused_with_a_reason(client: SteadClient) -> None:
    thread = await begin(client)
    for asked, body, kind, words in REFUSED:
        method, _, path = asked.replace("{id}", thread).partition(" ")
        found = (await client.ask(method, path, body)).problem
        assert found["type"] == f"/docs#{kind}", asked
        assert words in found["detail"], asked
        assert found["instance"] in (path.partition("?")[0], "/api/threads/�/messages"), asked
    assert await said(client, thread) == []


async def test_a_key_that_cannot_be_one_is_refused(client: SteadClient) -> None:
    place = f"/api/threads/{await begin(client)}/messages"
    for key in ("", "x" * 201, "a b", "ä"):
        reply = await client.ask("POST", place, {"content": "x"}, {"idempotency-key": key})
        assert reply.problem["type"] == "/docs#bad-query", key
        assert "visible ASCII" in reply.problem["detail"]


async def test_a_runtime_that_cannot_be_had_is_said_and_nothing_is_stored(client: SteadClient) -> None:
    thread = await begin(client, runtime="kernal")
    reply = await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "hello"})
    assert (reply.status, reply.problem["type"]) == (422, "/docs#no-runtime")
    assert "'kernal' is unknown" in reply.problem["detail"]
    assert await said(client, thread) == []


async def test_a_script_that_cannot_be_read_is_a_runtime_that_cannot_be_had(tmp_path: Path) -> None:
    async with serving(tmp_path, "- sai: oops") as client:
        reply = await client.ask("POST", f"/api/threads/{await begin(client)}/messages", {"content": "hello"})
        assert (reply.status, reply.problem["type"]) == (422, "/docs#no-runtime")
        assert "script.yaml:1" in reply.problem["detail"]


async def test_a_database_that_cannot_be_opened_is_said_each_time_and_tools_go_on(
    tmp_path: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = home / ".config" / "toolstead" / "data" / "toolstead.db"
    database.mkdir(parents=True)
    async with serving(tmp_path, SCRIPT) as client:
        for _ in range(2):
            reply = await client.get("/api/threads")
            assert (reply.status, reply.problem["type"]) == (503, "/docs#storage")
            assert "toolstead.db" in reply.problem["detail"]
        assert (await client.get("/api/health")).status == 200
        assert (await client.ask("POST", "/api/tools/workspace-info/call", {})).status == 200
        assert "threads and runs are unavailable for now" in caplog.text
        database.rmdir()
        assert (await client.get("/api/threads")).json == {"threads": []}


async def test_a_stead_that_is_being_closed_takes_no_more_messages(client: SteadClient) -> None:
    thread = await begin(client)
    conversations = await client.conversations()
    conversations._performer.is_closing = True
    reply = await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "hello"})
    assert (reply.status, reply.problem["type"]) == (503, "/docs#stopping")
    assert "retry-after" in reply.headers
    assert await said(client, thread) == []


async def test_a_database_that_opens_only_half_is_closed_again_and_the_next_request_tries_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nothing_left():
        with monkeypatch.context() as patch:

            async def fail(_: Any) -> None:
                raise StorageError("the runs cannot be read")

            patch.setattr(Orchestrator, "open", fail)
            context = serving(tmp_path)
            client = await context.__aenter__()
            for _ in range(3):
                assert (await client.get("/api/threads")).problem["detail"] == "The runs cannot be read."
        try:
            assert (await client.get("/api/threads")).json == {"threads": []}
            journals = [task for task in asyncio.all_tasks() if task.get_name() == "toolstead-journal"]
            assert len(journals) == 1
        finally:
            await context.__aexit__(None, None, None)


async def test_the_failure_of_a_server_database_begins_with_its_url_and_has_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSTEAD_DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:1/nothing")
    async with serving(tmp_path) as client:
        reply = await client.get("/api/threads")
        assert (reply.status, reply.problem["type"]) == (503, "/docs#storage")
        assert reply.problem["detail"].startswith("Postgres at 127.0.0.1:1 (database nothing, user me) ")
        assert "s3cret" not in reply.body.decode()
