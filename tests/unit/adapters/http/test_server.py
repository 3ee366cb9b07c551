"""A server inside somebody else's program: it listens while its block is open, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from tests.surfaces.rest_server import nothing_left
from tests.waiting import PATIENCE
from toolstead.adapters.http import server
from toolstead.adapters.http.asgi import HttpResponse, Receive, Scope, Send
from toolstead.adapters.http.server import serve_on_loopback


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    await HttpResponse(200, b"hello", ()).send(send)


async def test_it_listens_on_loopback_while_its_block_is_open() -> None:
    async with nothing_left():
        async with serve_on_loopback(greet) as port, httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).content == b"hello"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_the_end_breaks_requests_off_at_once() -> None:
    begun, ended = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.set_result("the client has gone")

    async with nothing_left():
        async with serve_on_loopback(hang) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(begun.wait(), PATIENCE)
        assert await asyncio.wait_for(ended, PATIENCE) == "the client has gone"
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()


async def test_a_request_that_does_not_notice_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_UNWIND", 0.05)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with nothing_left():
        async with serve_on_loopback(hang) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(begun.wait(), PATIENCE)
        assert ended.is_set()
        writer.close()


async def test_an_application_that_crashes_ends_one_request_and_not_the_server() -> None:
    async def crash(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/crash":
            raise RuntimeError("crash")
        await greet(scope, receive, send)

    async with serve_on_loopback(crash) as port, httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/crash")).status_code == 500
        assert (await client.get(f"http://127.0.0.1:{port}/")).content == b"hello"
