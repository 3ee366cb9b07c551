"""Whatever a client sends, the server answers it clearly, stays small and goes on."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path

import pytest

from tests.surfaces.rest_server import SAY, nothing_left, request, running
from tests.waiting import PATIENCE
from toolstead.adapters.http import protocol

CALL = "/api/tools/say/call"
MEGABYTE = 1 << 20


def resident() -> int:
    """Bytes of memory this process holds, server and client together."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"{", 400, "truncated"),
        (b"no json", 400, "The body is not JSON: "),
        (b'{"input": {}} and more', 400, "trailing characters"),
        (b"{'input': {}}", 400, "The body is not JSON: "),
        (b'{"input": {"n": NaN}}', 400, "The body is not JSON: "),
        (b'{"input": {"n": Infinity}}', 400, "The body is not JSON: "),
        (b'{"input": {"n": 01}}', 400, "The body is not JSON: "),
        (b'{"input": {"text": "\xff\xfe"}}', 400, "not UTF-8"),
        (b'{"input": {"text": "\xed\xa0\x80"}}', 400, "not UTF-8"),
        (b'\xef\xbb\xbf{"input": {}}', 400, "The body is not JSON: "),
        ('{"input": {}}'.encode("utf-16"), 400, "The body is not JSON: "),
        (b'{"input": {"text": "\x01"}}', 400, "The body is not JSON: "),
        (b'{"input": {"text": "\\ud800"}}', 400, ""),
        (b'{"input": {"n": 1e999}}', 422, "out of range"),
        (b'{"input": {"n": ' + b"9" * 5_000 + b"}}", 422, "out of range"),
        (b"[" * 10_000 + b"]" * 10_000, 422, "expected `object`"),
        (b'{"input": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}", 400, "nested too deeply"),
        (b'{"input": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}", 400, "nested too deeply"),
        (b'{"input": {"a": ' + b"[" * 10_000, 400, "nested too deeply"),
        (b"null", 422, "expected `object`"),
        (b" ", 400, "truncated"),
        (b'{"text":', 400, "The body is not JSON: input data was truncated."),
        (b'{"text":}', 400, "The body is not JSON: invalid character (byte 8)."),
        (b'{"input": {"n": [1e400]}}', 422, "/input/…/0: the number is out of range; at most 1.8e+308 is possible."),
    ],
)
async def test_what_is_no_json_of_the_right_shape_is_refused_with_the_reason(
    body: bytes, status: int, detail: str
) -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        await connection.send(request("POST", CALL, body, host=connection.host))
        reply = await connection.reply()
        assert reply.status == status
        assert detail in reply.problem["detail"]
        await connection.send(request("POST", CALL, {}, host=connection.host))
        assert (await connection.reply()).status == 200, "the connection goes on"


async def test_json_nested_less_deeply_reaches_the_tool() -> None:
    async with running(SAY) as live:
        deep = b'{"input": {"text": "x", "a": ' + b"[" * 200 + b"]" * 200 + b"}}"
        assert (await live.ask("POST", CALL, deep)).json["content"][0]["text"] == "x"


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ('Application/JSON;charset="UTF-8"', True),
        ("application/json ", True),
        ("application/json; charset=latin-1", False),
        ("application/jsonx", False),
        ("application/json, text/plain", False),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=x", False),
        ("", False),
        (None, False),
    ],
)
async def test_a_body_must_say_that_it_is_json(given: str | None, passes: bool) -> None:
    async with running(SAY) as live:
        body = b'{"input": {"text": "x"}}'
        head = f"POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        kind = "" if given is None else f"Content-Type: {given}\r\n"
        reply = await live.raw(f"{head}{kind}\r\n".encode() + body)
        assert reply.status == (200 if passes else 415)
        if not passes:
            assert reply.headers["accept"] == "application/json"
            assert "application/json" in reply.problem["detail"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS greeting
        b"FOO / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nBad Name: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x00" * 100,
    ],
)
async def test_what_is_no_http_is_refused_and_the_connection_ends(data: bytes) -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        await connection.send(data)
        reply = await connection.reply()
        assert reply.status == 400
        assert reply.problem["type"] == "/docs#bad-http"
        assert await connection.is_closed()
        assert (await live.get("/api/health")).status == 200


async def test_a_chunk_that_is_none_ends_the_connection_and_nothing_else() -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        head = f"POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        await connection.send(head.encode() + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n")
        assert await connection.is_closed()
        assert (await live.get("/api/health")).status == 200


async def test_a_head_without_end_is_refused_in_bounded_memory() -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        await connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        line = b"X-Filler: " + b"x" * 1_000 + b"\r\n"

        async def fill() -> None:
            try:
                while True:
                    await connection.send(line * 16)
            except ConnectionError:
                return

        filling = asyncio.create_task(fill())
        reply = await connection.reply()
        assert reply.status == 431
        assert reply.problem["type"] == "/docs#head-too-large"
        await asyncio.wait_for(filling, PATIENCE)
        assert (await live.get("/api/health")).status == 200


async def test_a_body_declared_too_large_is_refused_before_it_is_read() -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        head = f"POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        await connection.send(f"{head}Content-Length: 4194305\r\nExpect: 100-continue\r\n\r\n".encode())
        reply = await connection.reply()
        assert reply.status == 413
        assert reply.headers["connection"] == "close"
        assert reply.problem["maxBody"] == 4_194_304
        assert "4,194,305 bytes; at most 4,194,304" in reply.problem["detail"]
        await connection.close()


@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 413)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_may_have_exactly_the_allowed_size(extra: int, status: int, chunked: bool) -> None:
    async with running(SAY, max_body=100_000) as live:
        body = b'{"input": {"text": "'
        body += b"x" * (100_000 + extra - len(body) - 3) + b'"}}'
        if not chunked:
            assert (await live.ask("POST", CALL, body)).status == status
            return
        head = f"POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        pieces = [body[at : at + 999] for at in range(0, len(body), 999)]
        data = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        reply = await live.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + data)
        assert reply.status == status


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_of_100_megabytes_is_refused_in_bounded_memory_and_its_sender_reads_why(chunked: bool) -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        head = f"POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        kind = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {100 * MEGABYTE}"
        await connection.send(f"{head}{kind}\r\n\r\n".encode())
        before, most = resident(), 0
        block = b" " * MEGABYTE
        data = b"%x\r\n%s\r\n" % (MEGABYTE, block) if chunked else block

        async def pour() -> None:
            nonlocal most
            try:
                for _ in range(100):
                    await connection.send(data)
                    most = max(most, resident())
            except ConnectionError:
                return

        pouring = asyncio.create_task(pour())
        reply = await connection.reply()
        assert reply.status == 413
        assert reply.problem["type"] == "/docs#too-large"
        assert await connection.is_closed()
        await asyncio.wait_for(pouring, PATIENCE)
        assert most - before < 64 * MEGABYTE
        assert (await live.get("/api/health")).status == 200


def _send_all_then_read(port: int, head: bytes, body: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(head)
        client.sendall(body)
        return client.recv(65_536)


async def test_a_sender_who_writes_everything_before_it_reads_still_learns_why_it_was_refused() -> None:
    async with running(SAY) as live:
        head = f"POST {CALL} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {16 * MEGABYTE}\r\n\r\n".encode()
        answer = await asyncio.to_thread(_send_all_then_read, live.port, head, b" " * 16 * MEGABYTE)
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_refused_sender_that_never_stops_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolstead.adapters.http.body.LINGER", 0.05)
    async with nothing_left(), running(SAY) as live:
        connection = await live.connect()
        await connection.send(b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await connection.reply()).status == 421
        assert await connection.is_closed()
        await connection.close()


async def test_half_requests_do_not_block_others_and_are_sent_away_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with nothing_left(), running(SAY) as live:
        halves = [
            b"",
            b"GET",
            b"POST /api/tools/say/call HTTP/1.1\r\nHost: localhost\r\n",
            b"POST /api/tools/say/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
        ]
        waiting = []
        for half in halves * 10:
            connection = await live.connect()
            await connection.send(half)
            waiting.append(connection)
        for _ in range(20):
            assert (await live.call("say")).status == 200
        monkeypatch.setattr(protocol, "ARRIVAL", 0.0)
        for connection in waiting:
            assert await connection.is_closed()
            await connection.close()
        assert (await live.get("/api/health")).status == 200


async def test_a_request_that_does_not_arrive_in_time_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "ARRIVAL", 0.0)
    async with running(SAY) as live:
        connection = await live.connect()
        await connection.send(b"GET /api/health HTTP/1.1\r\nHost: loc")
        reply = await connection.reply()
        assert reply.status == 408
        assert reply.problem["type"] == "/docs#too-slow"


async def test_an_idle_connection_and_a_call_that_takes_long_are_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what has not arrived is late; two looks of the clock pass while both wait."""
    async with running(SAY) as live:
        idle = await live.connect()
        await idle.send(request("POST", CALL, {}, host=idle.host))
        assert (await idle.reply()).status == 200
        monkeypatch.setattr(protocol, "ARRIVAL", 0.0)
        for _ in range(2):
            late = await live.connect()
            assert await late.is_closed()
        await idle.send(request("POST", CALL, {}, host=idle.host))
        assert (await idle.reply()).status == 200


async def test_requests_sent_one_behind_the_other_are_answered_in_order() -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        texts = [f"number {n}" for n in range(20)]
        await connection.send(
            b"".join(request("POST", CALL, {"input": {"text": text}}, host=connection.host) for text in texts)
        )
        assert [(await connection.reply()).json["content"][0]["text"] for _ in texts] == texts


async def test_an_upgrade_that_is_not_offered_is_answered_as_a_plain_request() -> None:
    async with running(SAY) as live:
        head = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        reply = await live.raw(
            head + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert reply.status == 200
