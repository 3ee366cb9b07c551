"""Calls over HTTP that go wrong, go away or go on while everything changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.surfaces.rest_server import SAY, Live, nothing_left, request, running, tool
from tests.waiting import PATIENCE, until
from toolstead.adapters.http.disconnect import DisconnectWatch
from toolstead.plugins.contract import Tool


class Waiting:
    """A tool that waits until it is let go, and tells what became of it."""

    def __init__(self, name: str = "wait") -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.tool = tool(name, self._handle)

    async def _handle(self, _: dict[str, Any]) -> str:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.ended.set_result("cancelled")
            raise
        self.ended.set_result("finished")
        return "finished"


@asynccontextmanager
async def calling(live: Live, name: str) -> AsyncIterator[Any]:
    """A call under way on a connection of its own."""
    connection = await live.connect()
    await connection.send(request("POST", f"/api/tools/{name}/call", {}, host=connection.host))
    try:
        yield connection
    finally:
        await connection.close()


async def _crash(_: dict[str, Any]) -> str:
    raise KeyError("the inside of a tool")


async def _hang(_: dict[str, Any]) -> str:
    await asyncio.Event().wait()
    return "never"


async def _nonsense(_: dict[str, Any]) -> Any:
    return object()


async def _gigabyte(_: dict[str, Any]) -> str:
    return "x" * (1 << 30)


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (tool("bad", _crash), "bad crashed (id call_"),
        (tool("bad", _hang, timeout=0.05), "bad did not finish within 0.05 seconds"),
        (tool("bad", _nonsense), "bad returned an object"),
    ],
)
async def test_a_tool_that_fails_is_an_answer_a_log_line_and_an_event_and_the_server_goes_on(
    bad: Tool, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with nothing_left(), running(SAY, bad) as live:
        for _ in range(3):
            reply = await live.call("bad")
            assert (reply.status, reply.json["isError"]) == (200, True)
            assert text in reply.json["content"][0]["text"]
            assert "the inside of a tool" not in reply.body.decode()
        assert caplog.text.count("bad failed (") == 3
        assert [event.data["isError"] for event in live.events.recent_events] == [True] * 3
        assert (await live.call("say")).status == 200


async def test_an_answer_of_a_gigabyte_is_cut_to_what_is_allowed_and_the_server_goes_on() -> None:
    async with running(SAY, tool("much", _gigabyte)) as live:
        reply = await live.call("much")
        assert reply.status == 200
        assert len(reply.body) < 300_000
        assert "bytes left out here" in reply.json["content"][0]["text"]
        assert (await live.call("say")).status == 200


@pytest.mark.parametrize("reset", [False, True])
async def test_a_client_that_goes_away_cancels_its_call_and_nobody_elses(
    reset: bool, caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = Waiting("mine"), Waiting("other")
    async with nothing_left(), running(mine.tool, other.tool) as live:
        async with calling(live, "other") as staying:
            async with calling(live, "mine") as leaving:
                await asyncio.wait_for(mine.begun.wait(), PATIENCE)
                await asyncio.wait_for(other.begun.wait(), PATIENCE)
                if reset:
                    leaving.writer.transport.abort()
            assert await asyncio.wait_for(mine.ended, PATIENCE) == "cancelled"
            assert not other.ended.done()
            other.go.set()
            assert (await staying.reply()).json["content"][0]["text"] == "finished"
        assert "mine was cancelled" in caplog.text
        assert "Exception in ASGI" not in caplog.text
        (event,) = live.events.recent_events
        assert (event.data["name"], event.data["isError"]) == ("mine", True)


async def test_a_tool_that_ignores_its_cancellation_does_not_hurt_the_server(caplog: pytest.LogCaptureFixture) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def stubborn(_: dict[str, Any]) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
        await asyncio.sleep(0)
        return "went on"

    async with nothing_left(), running(SAY, tool("stubborn", stubborn)) as live:
        async with calling(live, "stubborn"):
            await asyncio.wait_for(begun.wait(), PATIENCE)
        await asyncio.wait_for(cancelled.wait(), PATIENCE)
        assert (await live.call("say")).status == 200
    assert "Exception in ASGI" not in caplog.text


async def test_a_call_that_finishes_at_once_costs_no_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[DisconnectWatch] = []
    begin = DisconnectWatch._start_waiting

    def counted(self: DisconnectWatch) -> None:
        watched.append(self)
        begin(self)

    monkeypatch.setattr(DisconnectWatch, "_start_waiting", counted)
    waiting = Waiting()
    async with running(SAY, waiting.tool) as live:
        for _ in range(5):
            assert (await live.call("say")).status == 200
        assert not watched
        async with calling(live, "wait"):
            await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        assert await asyncio.wait_for(waiting.ended, PATIENCE) == "cancelled"
        assert len(watched) == 1


async def test_a_watch_ends_with_its_call_although_the_client_stays() -> None:
    async def stays() -> Any:
        await asyncio.Event().wait()

    async with nothing_left():
        with DisconnectWatch(stays) as watch:
            while not isinstance(watch._pending, asyncio.Task):
                await asyncio.sleep(0)
        assert not watch.gone


async def test_a_client_that_goes_away_before_its_body_is_complete_calls_nothing() -> None:
    called: list[Any] = []

    async def remember(input: dict[str, Any]) -> str:
        called.append(input)
        return "called"

    async with nothing_left(), running(tool("remember", remember)) as live:
        for half in (b"", b"{}", b'{"input": {}'):
            connection = await live.connect()
            head = "POST /api/tools/remember/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            await connection.send(f"{head}Content-Length: 20\r\n\r\n".encode() + half)
            await until(lambda: live.app.stopping.in_flight == 1)
            await connection.close()
            await until(lambda: live.app.stopping.in_flight == 0)
        assert not called


@pytest.mark.parametrize("length", [5, 200_000])
async def test_head_and_body_arrive_together_unless_the_body_is_large(length: int) -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        body = {"input": {"text": "x" * length}}
        await connection.send(request("POST", "/api/tools/say/call", body, host=connection.host))
        first = await asyncio.wait_for(connection.reader.read(65_536), PATIENCE)
        assert first.endswith(b"}") is (length == 5)
        whole = first
        while not whole.endswith(b"}"):
            whole += await asyncio.wait_for(connection.reader.read(65_536), PATIENCE)
        assert whole.count(b"x" * length) == 1


async def test_a_call_is_never_answered_with_the_refusal_of_what_was_sent_behind_it() -> None:
    waiting = Waiting()
    async with nothing_left(), running(waiting.tool) as live, calling(live, "wait") as connection:
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        await connection.send(b"no HTTP at all\r\n\r\n")
        assert (await live.get("/api/health")).status == 200
        waiting.go.set()
        assert (await connection.reply()).json["content"][0]["text"] == "finished"
        assert (await connection.reply()).problem["type"] == "/docs#bad-http", "and in its turn the refusal"
        assert await asyncio.wait_for(connection.reader.read(), PATIENCE) == b""


async def test_a_connection_serves_more_calls_after_one_that_was_watched() -> None:
    waiting = Waiting()
    async with nothing_left(), running(SAY, waiting.tool) as live, calling(live, "wait") as connection:
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        waiting.go.set()
        assert (await connection.reply()).json["content"][0]["text"] == "finished"
        for _ in range(3):
            await connection.send(request("POST", "/api/tools/say/call", {}, host=connection.host))
            assert (await connection.reply()).status == 200


class Changing:
    """A registry whose tool `versioned` is always another one."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.version = 0
        self.done = False
        self._renew()

    async def run(self) -> None:
        while not self.done:
            self.live.registry.unregister("versioned")
            self._renew()
            await asyncio.sleep(0)

    def _renew(self) -> None:
        self.version += 1
        number = self.version

        async def answer(input: dict[str, Any]) -> dict[str, Any]:
            current = self.version
            await asyncio.sleep(0.001 * (input["n"] % 5))
            return {"n": input["n"], "mine": number, "current": current, "later": self.version}

        self.live.registry.register(tool("versioned", answer))


@pytest.mark.promise("R5")
async def test_200_clients_at_once_while_generations_follow_each_other_lose_nothing_and_leave_nothing() -> None:
    async with nothing_left(), running(SAY) as live:
        changing = Changing(live)
        answers: list[dict[str, int]] = []

        async def client(n: int) -> None:
            connection = await live.connect()
            for turn in range(5):
                body = {"input": {"n": n * 5 + turn}}
                await connection.send(request("POST", "/api/tools/versioned/call", body, host=connection.host))
                reply = await connection.reply()
                assert reply.status == 200, reply.body
                answers.append(reply.json["structuredContent"])
            await connection.close()

        background = asyncio.create_task(changing.run())
        await asyncio.wait_for(asyncio.gather(*(client(n) for n in range(200))), PATIENCE)
        changing.done = True
        await background
        assert sorted(answer["n"] for answer in answers) == list(range(1_000)), "none is lost, none is there twice"
        assert all(answer["mine"] == answer["current"] for answer in answers), "each began with the current one"
        assert any(answer["mine"] < answer["later"] for answer in answers), "and ended with it while others followed"
        assert len({answer["mine"] for answer in answers}) > 1
        assert live.app.stopping.in_flight == 0


@pytest.mark.promise("R5")
async def test_a_call_in_flight_ends_on_the_generation_it_began_with() -> None:
    waiting = Waiting()
    async with running(waiting.tool) as live, calling(live, "wait") as connection:
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        live.registry.unregister("wait")
        assert (await live.ask("POST", "/api/tools/reload")).json["toolCount"] == 0
        assert (await live.call("wait")).status == 404
        waiting.go.set()
        assert (await connection.reply()).json["content"][0]["text"] == "finished"
