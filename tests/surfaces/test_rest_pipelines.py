"""Several requests on one connection, sent ahead of their answers: each is answered in its turn, in bounded memory."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.surfaces.rest_server import SAY, Connection, request, running, tool
from tests.surfaces.test_rest_calls import Waiting
from tests.waiting import PATIENCE, until
from toolstead.adapters.http import protocol

CALL = "/api/tools/say/call"
LIMIT = protocol.LARGEST_HEAD
HEALTH = request("GET", "/api/health")


def saying(text: str) -> bytes:
    return request("POST", CALL, {"input": {"text": text}})


def head_of(size: int, *, in_url: bool = False) -> bytes:
    """A request with about this many bytes of headers, or of URL."""
    if in_url:
        return request("GET", "/" + "u" * size)
    return request("GET", "/api/health", headers={"x-filler": "x" * size})


def count_queued() -> int:
    return sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects())


async def _nap(_: dict[str, Any]) -> str:
    """Take a few turns of the loop, in which the server could read."""
    for _turn in range(5):
        await asyncio.sleep(0)
    return "rested"


async def hear(connection: Connection) -> str:
    return (await connection.reply()).json["content"][0]["text"]


async def test_a_read_that_ends_inside_the_next_head_loses_neither_request() -> None:
    long = "x" * 100_000
    for cut in (1, 20, len(HEALTH) - 1):
        async with running(SAY) as live:
            connection = await live.connect()
            await connection.send(saying(long) + HEALTH[:cut])
            assert await hear(connection) == long
            await connection.send(HEALTH[cut:])
            assert (await connection.reply()).status == 200


async def test_thousands_of_requests_in_one_write_are_answered_in_order() -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        sending = asyncio.create_task(connection.send(b"".join(saying(str(n)) for n in range(5_000))))
        assert [await hear(connection) for _ in range(5_000)] == [str(n) for n in range(5_000)]
        await sending


async def test_behind_a_call_that_takes_long_only_a_few_requests_are_parsed() -> None:
    waiting = Waiting()
    async with running(SAY, waiting.tool) as live:
        connection = await live.connect()
        await connection.send(request("POST", "/api/tools/wait/call", {}))
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        count = 10_000
        sending = asyncio.create_task(connection.send(HEALTH * count))
        await until(lambda: count_queued() >= protocol.MOST_QUEUED)
        for _ in range(20):
            assert (await live.get("/api/health")).status == 200
        assert count_queued() < protocol.MOST_QUEUED + 16_384 / len(HEALTH) + 10
        waiting.go.set()
        assert await hear(connection) == "finished"
        for _ in range(count):
            assert (await connection.reply()).status == 200
        await asyncio.wait_for(sending, PATIENCE)


async def test_requests_that_are_answered_let_no_more_be_read_while_others_wait() -> None:
    waiting = Waiting()
    nap, wait = (request("POST", f"/api/tools/{name}/call", {}) for name in ("nap", "wait"))
    async with running(SAY, waiting.tool, tool("nap", _nap)) as live:
        connection = await live.connect()
        rest = saying("x" * 4_000) * 5_000
        sending = asyncio.create_task(connection.send(nap * 150 + wait + rest))
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        for _ in range(20):
            assert (await live.get("/api/health")).status == 200
        assert connection.writer.transport.get_write_buffer_size() > len(rest) / 2, "the client still has it"
        waiting.go.set()
        for _ in range(151 + 5_000):
            assert (await connection.reply()).status == 200
        await asyncio.wait_for(sending, PATIENCE)


@pytest.mark.parametrize("in_url", [False, True])
@pytest.mark.parametrize("pieces", [1, 7, 100])
@pytest.mark.parametrize("ahead", [b"", HEALTH, saying("x" * 100_000)], ids=["first", "second", "after a body"])
async def test_the_size_of_a_head_is_what_counts_however_it_is_cut(in_url: bool, pieces: int, ahead: bytes) -> None:
    async with running(SAY) as live:
        for size, is_allowed in ((LIMIT - 1_000, True), (LIMIT + 1_000, False), (4 * LIMIT, False)):
            connection = await live.connect()
            data = ahead + head_of(size, in_url=in_url)
            step = len(data) // pieces + 1
            for start in range(0, len(data), step):
                await connection.send(data[start : start + step])
                await asyncio.sleep(0)
            if ahead:
                assert (await connection.reply()).status == 200
            reply = await connection.reply()
            if is_allowed:
                assert reply.status == (404 if in_url else 200)
            else:
                assert reply.status == 431
                assert reply.problem["type"] == "/docs#head-too-large"
                assert await connection.is_closed()


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (b"\0\1\2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", 400),
        (head_of(LIMIT + 1), 431),
    ],
)
async def test_what_is_refused_takes_its_turn_after_the_answers_to_earlier_requests(wrong: bytes, status: int) -> None:
    waiting = Waiting()
    async with running(SAY, waiting.tool) as live:
        connection = await live.connect()
        await connection.send(request("POST", "/api/tools/wait/call", {}) + saying("a") + saying("b") + wrong)
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        waiting.go.set()
        assert [await hear(connection) for _ in range(3)] == ["finished", "a", "b"]
        assert (await connection.reply()).status == status
        assert await connection.is_closed()


async def test_the_next_request_may_be_late_while_a_call_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    async with running(SAY, waiting.tool) as live:
        connection = await live.connect()
        await connection.send(request("POST", "/api/tools/wait/call", {}) + HEALTH[:20])
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        monkeypatch.setattr(protocol, "ARRIVAL", 0.0)
        late = await live.connect()
        assert await late.is_closed(), "the clock has looked"
        waiting.go.set()
        assert await hear(connection) == "finished"
        assert (await connection.reply()).status == 408, "but then it must come"


async def test_blank_lines_alone_do_not_keep_a_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        await connection.send(HEALTH)
        assert (await connection.reply()).status == 200
        monkeypatch.setattr(protocol, "ARRIVAL", 0.0)
        await connection.send(b"\r\n")
        assert (await connection.reply()).status == 408


async def test_a_client_that_disconnects_cancels_its_call_whatever_is_queued_behind_it() -> None:
    waiting = Waiting()
    async with running(SAY, waiting.tool, timeout=10 * PATIENCE) as live:
        connection = await live.connect()
        await connection.send(request("POST", "/api/tools/wait/call", {}) + HEALTH)
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        await connection.close()
        assert await asyncio.wait_for(waiting.ended, PATIENCE) == "cancelled"


async def test_a_request_for_another_protocol_is_answered_as_http_and_so_is_the_next() -> None:
    asks = {"connection": "Upgrade", "upgrade": "h2c"}
    async with running(SAY) as live:
        connection = await live.connect()
        await connection.send(request("GET", "/api/health", headers=asks) + saying("next"))
        assert (await connection.reply()).status == 200
        assert await hear(connection) == "next"
        await connection.send(request("POST", CALL, {"input": {"text": "x"}}, headers=asks) + HEALTH)
        reply = await connection.reply()
        assert reply.status == 400
        assert "without the header Upgrade" in reply.problem["detail"]
        assert await connection.is_closed(), "its body is never taken for a request"
