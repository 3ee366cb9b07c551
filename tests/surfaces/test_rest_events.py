"""Events over HTTP: streams that can be left and taken up again, slow readers, and how a stream ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.rest_server import nothing_left, request
from tests.surfaces.rest_stead import (
    ENDS,
    SteadClient,
    Stream,
    ended,
    follow,
    joined,
    readers,
    served_elsewhere,
    serving,
)
from tests.waiting import PATIENCE
from toolstead.adapters.http import server
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.port import open_sockets
from toolstead.adapters.rest import sse
from toolstead.errors import StorageError
from toolstead.orchestrator import feed
from toolstead.types.call import Caller

SLOW = 500


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[SteadClient]:
    async with serving(tmp_path) as client:
        yield client


async def start(client: Any, prompt: str, **more: Any) -> Any:
    reply = await client.ask("POST", "/api/runs", {"prompt": prompt, **more})
    assert reply.status == 202, reply.body
    return reply.json


async def tell(client: SteadClient, count: int, size: int = 0) -> None:
    """Emit stored events of a run that nobody started; each carries its number."""
    log = (await client.conversations()).log
    for number in range(count):
        log.emit("usage", {"number": number, "padding": "x" * size}, Caller(thread_id="t", run_id="r"))
        if number % 10 == 9:
            await asyncio.sleep(0)


async def numbers(stream: Stream, count: int) -> list[int]:
    return [(await stream.until("usage")).data["data"]["number"] for _ in range(count)]


async def test_the_head_of_a_stream_says_what_it_is_and_a_head_request_opens_none(client: SteadClient) -> None:
    stream = await follow(client, "/api/events")
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["cache-control"] == "no-store"
    assert "content-length" not in stream.headers
    await stream.close()
    run = await start(client, "hang")
    for path in ("/api/events", f"/api/threads/{run['threadId']}/events", f"/api/runs/{run['runId']}/events"):
        connection = await client.connect()
        await connection.send(request("HEAD", path, host=connection.host))
        reply = await connection.reply(has_body=False)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream")
        assert "content-length" not in reply.headers
        await connection.send(request("GET", "/api/health", host=connection.host))
        assert (await connection.reply()).status == 200, "the connection is free again"
        await readers(client, 0)
        await connection.close()


async def test_all_events_begin_now_and_a_threads_and_a_runs_with_the_first(client: SteadClient) -> None:
    before = await start(client, "before")
    await ended(client, before["runId"])
    now = await follow(client, "/api/events?thread=&run=&task=&type=")
    after = await start(client, "after", threadId=before["threadId"])
    await now.until("completed")
    assert {told.data["runId"] for told in now.seen} == {after["runId"]}
    thread = await follow(client, f"/api/threads/{before['threadId']}/events")
    await thread.until("completed")
    await thread.until("completed")
    assert [told.data["runId"] for told in thread.seen if told.type in ENDS] == [before["runId"], after["runId"]]
    run = await follow(client, f"/api/runs/{after['runId']}/events")
    assert await run.rest() == joined(now.seen)
    everything = await follow(client, "/api/events?after=0")
    await everything.until("completed")
    await everything.until("completed")
    assert [told for told in everything.seen if told.type not in ("tools.changed", "plugin.status")] == thread.seen


async def test_a_stream_shows_only_what_was_asked_for(client: SteadClient) -> None:
    one, two = await start(client, "one"), await start(client, "two")
    for run in (one, two):
        await ended(client, run["runId"])
    for query, wanted in [
        ("type=message,completed", ["message", "message", "completed", "message", "message", "completed"]),
        ("type=completed&type=run.started", ["run.started", "completed", "run.started", "completed"]),
        (f"thread={one['threadId']}&type=completed", ["completed"]),
        (f"run={two['runId']}&type=completed", ["completed"]),
    ]:
        stream = await follow(client, f"/api/events?after=0&{query}")
        assert sorted([str((await stream.next()).type) for _ in wanted]) == sorted(wanted)
        await stream.close()


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("/api/events?after=12", {}, "'12' is not an event id"),
    ("/api/events?after=nonsense", {}, "not an event id"),
    ("/api/events?after=%C2%B2222222222222222", {}, "not an event id"),
    ("/api/events?after=-000000000000001", {}, "not an event id"),
    ("/api/events", {"Last-Event-ID": "x" * 300}, "not an event id"),
    ("/api/events?typ=message", {}, "did you mean 'type'?"),
    ("/api/events?run=a&run=b", {}, "2 times"),
    ("/api/events?run=" + "x" * 201, {}, "at most 200"),
    ("/api/events?run=%00", {}, "null"),
    ("/api/events?run=%FF", {}, "UTF-8"),
    (
        "/api/events?type=" + ",".join(f"t{n}" for n in range(30)) + "&type=" + ",".join("abcdefghijklmnopqrstu"),
        {},
        "at most 50",
    ),
    ("/api/threads/nobody/events?thread=x", {}, "does not accept"),
]


async def test_a_bad_id_or_parameter_is_refused(client: SteadClient) -> None:
    for path, headers, words in REFUSED:
        reply = await client.ask("GET", path, headers=headers)
        assert (reply.status, reply.problem["type"]) == (422, "/docs#bad-query"), path
        assert words in reply.problem["detail"], path
        assert (await client.ask("HEAD", path, headers=headers)).status == 422


async def test_a_client_that_drops_and_returns_misses_nothing_and_sees_nothing_twice(client: SteadClient) -> None:
    feeling = asyncio.create_task(tell(client, 3_000))
    seen: list[int] = []
    last = "0"
    while len(seen) < 3_000:
        # The address says 0 each time; the header is newer, and counts.
        headers = {} if last == "0" else {"Last-Event-ID": last}
        stream = await follow(client, "/api/events?run=r&after=0", headers)
        seen += await numbers(stream, min(271, 3_000 - len(seen)))
        last = str(stream.seen[-1].id)
        await stream.close()
    await feeling
    assert seen == list(range(3_000))


async def test_an_id_above_all_others_is_taken_up_where_the_events_go_on(client: SteadClient) -> None:
    """The newest events may have been deleted with their thread; who saw them comes back with their id."""
    stream = await follow(client, "/api/events?after=999999999999999999&type=usage")
    await tell(client, 3)
    assert await numbers(stream, 3) == [0, 1, 2]


async def test_the_last_event_id_is_good_over_a_restart(tmp_path: Path) -> None:
    script = "- say: one two three four five six\n"
    seen: list[Any] = []
    async with served_elsewhere(tmp_path, script) as (program, client):
        first_process = program.pid
        thread = (await client.ask("POST", "/api/threads", {})).json["id"]
        run = (await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "first"})).json["runId"]
        await ended(client, run)
        stream = await follow(client, f"/api/threads/{thread}/events")
        seen += [await stream.next() for _ in range(3)]
        os.kill(first_process, signal.SIGKILL)
    async with served_elsewhere(tmp_path, script) as (program, client):
        print(f"the first server was process {first_process}, the second is {program.pid}")
        assert program.pid != first_process
        headers = {"Last-Event-ID": str(seen[-1].id)}
        stream = await follow(client, f"/api/threads/{thread}/events", headers)
        await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "second"})
        await stream.until("completed")
        await stream.until("completed")
        seen += stream.seen
        whole = await follow(client, f"/api/threads/{thread}/events")
        await whole.until("completed")
        await whole.until("completed")
        assert joined(seen) == whole.seen
        assert [told.type for told in seen if told.type in ENDS] == ["completed", "completed"]
        ids = [told.id for told in seen]
        assert ids == sorted(set(ids))


async def test_a_run_that_died_with_its_process_has_its_one_end_after_the_restart(tmp_path: Path) -> None:
    async with served_elsewhere(tmp_path) as (program, client):
        run = (await start(client, "hang"))["runId"]
        stream = await follow(client, f"/api/runs/{run}/events")
        await stream.until("message.delta")
        last = str(stream.seen[-1].id)
        os.kill(program.pid, signal.SIGKILL)
    async with serving(tmp_path) as second:
        stream = await follow(second, f"/api/runs/{run}/events", {"Last-Event-ID": last})
        told = await stream.rest()
        assert [(event.type, event.data["data"]["code"]) for event in told] == [("error", "lost")]


async def test_a_failing_call_outside_a_run_is_stored_and_a_good_one_is_only_told_live(client: SteadClient) -> None:
    await client.ask("POST", "/api/tools/file-reader/call", {"input": {"path": "early.txt"}})
    await client.conversations()
    # What was kept until the database was open is stored behind the opening: from here on it is.
    await (await follow(client, "/api/events?after=0&type=tool_result")).until("tool_result")
    live = await follow(client, "/api/events?type=tool_result")
    for path in ("missing.txt", "there.txt"):
        (client.project / "there.txt").write_text("here")
        await client.ask("POST", "/api/tools/file-reader/call", {"input": {"path": path}, "threadId": "t9"})
    heard = [await live.until("tool_result") for _ in range(2)]
    assert {(told.id is None, told.data["data"]["isError"]) for told in heard} == {(True, False), (False, True)}
    replay = await follow(client, "/api/events?after=0&type=tool_result")
    stored = [await replay.until("tool_result") for _ in range(2)]
    assert all(told.id and told.data["data"]["isError"] for told in stored)
    assert [told.data["threadId"] for told in stored] == ["default", "t9"]
    assert "early.txt" in stored[0].data["data"]["content"]


async def test_silence_is_broken_by_a_comment_and_a_deleted_threads_stream_ends(
    client: SteadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT", 0.05)
    thread = (await client.ask("POST", "/api/threads", {})).json["id"]
    stream = await follow(client, f"/api/threads/{thread}/events")
    everything = await follow(client, "/api/events")
    waiting = asyncio.create_task(stream.rest())
    async with asyncio.timeout(PATIENCE):
        while len(stream.comments) < 2:
            await asyncio.sleep(0.01)
    assert not waiting.done()
    await client.ask("DELETE", f"/api/threads/{thread}")
    assert await asyncio.wait_for(waiting, PATIENCE) == []
    await start(client, "hello")
    await everything.until("completed")


async def test_a_runs_stream_tells_the_end_that_was_only_found_in_silence(
    client: SteadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever kept the news from the feed: the store has the end, and the stream tells it."""
    monkeypatch.setattr(sse, "HEARTBEAT", 0.05)
    run = (await start(client, "hang"))["runId"]
    stream = await follow(client, f"/api/runs/{run}/events")
    await stream.until("message.delta")
    monkeypatch.setattr(feed.Feed, "_hand_out", lambda *_: None)
    await client.ask("POST", f"/api/runs/{run}/cancel")
    assert [told.type for told in await stream.rest()] == ["cancelled"]


async def test_a_stream_whose_database_fails_ends_and_can_be_taken_up_again(
    client: SteadClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store: Any = (await client.conversations()).store

    async def fail(*_: Any, **__: Any) -> Any:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "list_events", fail)
        stream = await follow(client, "/api/events?after=0")
        assert await stream.rest() == []
        assert "the database does not answer" in stream.comments[-1]
        assert "the disk is gone" in caplog.text
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "event_position", fail)
        refused = await client.get("/api/events")
        assert (refused.status, refused.problem["detail"]) == (503, "The disk is gone.")
    await tell(client, 2)
    stream = await follow(client, "/api/events?after=0&type=usage")
    assert await numbers(stream, 2) == [0, 1]


async def test_a_client_that_goes_away_leaves_nothing_behind(client: SteadClient) -> None:
    log = (await client.conversations()).log
    run = await start(client, "hang")
    for _ in range(2):  # the first ones leave open what everybody needs
        stream = await follow(client, f"/api/runs/{run['runId']}/events")
        await stream.until("message.delta")
        await stream.close()
    await readers(client, 0)
    async with nothing_left():
        for path in ("/api/events", f"/api/threads/{run['threadId']}/events", f"/api/runs/{run['runId']}/events"):
            streams = [await follow(client, path) for _ in range(5)]
            assert log.listening
            for stream in streams:
                await stream.close()
        await readers(client, 0)


async def test_streams_end_in_order_when_the_server_stops(tmp_path: Path) -> None:
    async with nothing_left(), serving(tmp_path) as client:
        run = await start(client, "hang")
        paths = ("/api/events", f"/api/threads/{run['threadId']}/events", f"/api/runs/{run['runId']}/events")
        streams = [await follow(client, path) for path in paths]
        await streams[2].until("message.delta")
        client.stop.set()
        async with asyncio.timeout(server.GRACE - 2):  # calls get a grace, streams do not need one
            for stream in streams:
                await stream.rest()
        await asyncio.wait_for(client.task, PATIENCE)


async def stuck(client: SteadClient, path: str) -> socket.socket:
    """A client that asks for a stream and never reads it."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, ("127.0.0.1", client.port))
    await loop.sock_sendall(made, request("GET", path, host=f"127.0.0.1:{client.port}"))
    return made


@pytest.fixture
async def narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SteadClient]:
    """A server whose connections hold little on the way: a client that does not read is noticed early."""

    @asynccontextmanager
    async def narrow_sockets(options: ServerOptions) -> AsyncIterator[list[socket.socket]]:
        async with open_sockets(options) as sockets:
            for bound in sockets:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            yield sockets

    monkeypatch.setattr(server, "open_sockets", narrow_sockets)
    async with serving(tmp_path) as client:
        yield client


async def test_many_slow_clients_do_not_hold_up_a_fast_one_and_are_cut_off(
    narrow: SteadClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = narrow
    caplog.set_level(logging.WARNING, "toolstead.adapters.http.protocol")
    slow = [await stuck(client, "/api/events?type=usage") for _ in range(SLOW)]
    try:
        fast = await follow(client, "/api/events?type=usage")
        await readers(client, SLOW + 1)
        telling = asyncio.create_task(tell(client, 12, size=16_384))
        assert await numbers(fast, 12) == list(range(12))
        await telling
        assert (await client.get("/api/health")).status == 200
        monkeypatch.setattr(server, "STALLED", 0.5)
        await readers(client, 1)
        assert "read nothing" in caplog.text
        await tell(client, 1)
        assert await numbers(fast, 1) == [0]
    finally:
        for made in slow:
            made.close()


async def test_a_stuck_client_does_not_hold_up_the_end_of_the_server(narrow: SteadClient) -> None:
    made = await stuck(narrow, "/api/events?type=usage")
    fast = await follow(narrow, "/api/events?type=usage")
    try:
        await readers(narrow, 2)
        await tell(narrow, 20, size=16_384)
        await numbers(fast, 20)
        narrow.stop.set()
        done, _ = await asyncio.wait([narrow.task], timeout=server.GRACE - 2)
        assert done, "it waited for a client that does not read"
        assert await fast.rest() == []
    finally:
        made.close()


async def test_a_reader_that_falls_behind_is_bounded_and_misses_nothing(
    client: SteadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_WAITING", 20)
    stream = await follow(client, "/api/events?run=r")
    await tell(client, 2_000, size=2_000)
    assert await numbers(stream, 2_000) == list(range(2_000))


async def test_a_client_that_resumes_in_the_middle_of_an_answer_gets_the_rest_of_it_once(tmp_path: Path) -> None:
    async with serving(tmp_path, "- say: one two three four five six\n") as client:
        stream = await follow(client, "/api/events")
        run = (await start(client, "speak"))["runId"]
        await stream.until("completed")
        live = [told for told in stream.seen if told.type == "message.delta"]
        assert len(live) == 6
        after_end = await follow(client, f"/api/runs/{run}/events")
        kinds = [told.type for told in await after_end.rest()]
        assert kinds.count("message.delta") == 1
        for index in range(6):
            for resumed in (
                await follow(client, f"/api/runs/{run}/events", {"Last-Event-ID": str(live[index].id)}),
                await follow(client, f"/api/runs/{run}/events?after={live[index].id}"),
            ):
                told = await resumed.rest()
                deltas = [one for one in told if one.type == "message.delta"]
                rest = "".join(one.data["data"]["text"] for one in live[index + 1 :])
                assert [(one.id, one.data["data"]["text"]) for one in deltas] == ([(live[-1].id, rest)] if rest else [])
                assert told[-1].type == "completed"
                await resumed.close()


async def test_a_slow_client_is_told_how_many_events_that_are_not_stored_it_missed(
    client: SteadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_WAITING", 20)
    stream = await follow(client, "/api/events?type=tool_use,usage")
    await readers(client, 1)
    log = (await client.conversations()).log
    for number in range(50):  # it cannot read in between
        log.emit("tool_use", {"number": number}, Caller(thread_id="t"))
    await tell(client, 1)
    await stream.until("usage")
    missed = sum(int(comment.split()[1]) for comment in stream.comments if "were missed" in comment)
    assert missed + len([told for told in stream.seen if told.type == "tool_use"]) == 50
    assert missed >= 20
