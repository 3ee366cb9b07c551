"""The server: opening the port, saying why it cannot, and ending without leaving anything behind."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.rest_server import SAY, Live, nothing_left, request, running, tool
from tests.surfaces.test_rest_calls import Waiting, calling
from tests.waiting import PATIENCE
from toolstead.adapters.http import port
from toolstead.adapters.http.asgi import Receive, Scope, Send
from toolstead.adapters.http.options import ProfileOptions, ServerOptions
from toolstead.errors import ServeError

PROGRAM = """
import asyncio, sys
from pathlib import Path
from toolstead.adapters.http.options import ProfileOptions, ServerOptions
from toolstead.adapters.rest.app import create_app
from toolstead.adapters.http.server import serve
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import Tool
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry

async def hang(ctx, input, meta):
    print("hangs", flush=True)
    await asyncio.Event().wait()

async def main():
    registry = Registry()
    await registry.reload()
    registry.register(Tool(name="hang", description="Hang.", handler=hang))
    dispatcher = Dispatcher(registry, events=EventLog(), cwd=Path.cwd())
    options = ServerOptions(port=0)
    app = create_app(registry=registry, dispatcher=dispatcher, options=options, version="1.2.3")
    await serve(app, options, on_ready=lambda url: print(url, flush=True), grace=float(sys.argv[1]))
    print("tasks left:", len(asyncio.all_tasks()) - 1, flush=True)

if sys.argv[2] == "uvloop":
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
"""


@asynccontextmanager
async def program(
    grace: float, loop: str = "uvloop"
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader, str]]:
    """A server in a process of its own, with real signals."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(PROGRAM), str(grace), loop, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
        yield process, process.stdout, url
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def call_of(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(request("POST", "/api/tools/hang/call", {}))
    return reader, writer


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_idle_server_well(number: signal.Signals, loop: str) -> None:
    async with program(grace=10, loop=loop) as (process, output, url):
        assert url.startswith("http://127.0.0.1:")
        process.send_signal(number)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        assert (await output.read()).decode() == "tasks left: 0\n"


async def test_a_second_signal_ends_a_server_at_once_that_would_wait_for_a_call() -> None:
    async with program(grace=1_000) as (process, output, url):
        reader, writer = await call_of(url)
        assert await asyncio.wait_for(output.readline(), PATIENCE) == b"hangs\n"
        process.send_signal(signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.5)
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        assert (await output.read()).decode() == "tasks left: 0\n"
        assert b"503" in await asyncio.wait_for(reader.readline(), PATIENCE)
        writer.close()


async def test_a_server_says_its_real_address_and_leaves_nothing_behind() -> None:
    async with nothing_left(), running(SAY) as live:
        assert live.port > 0
        assert (await live.get("/api/health")).status == 200


async def test_localhost_is_every_address_of_that_name_under_one_port() -> None:
    async with nothing_left(), running(SAY, host="localhost") as live:
        assert live.url == f"http://localhost:{live.port}"
        for found in socket.getaddrinfo("localhost", live.port, type=socket.SOCK_STREAM):
            reader, writer = await asyncio.open_connection(found[4][0], live.port)
            writer.write(request("GET", "/api/health", host=f"localhost:{live.port}"))
            assert b"200" in await reader.readline()
            writer.close()


GOOD_TOKEN = "a-token-of-many-letters"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
async def test_a_bind_that_lets_others_in_needs_a_token(host: str) -> None:
    with pytest.raises(ServeError, match=r'a token is needed: set token = "auto"'):
        async with running(SAY, host=host):
            pytest.fail("the port must not open")


@pytest.mark.parametrize(
    ("weak", "why"),
    [
        ("s3cret", "has fewer than 16 characters"),
        ("a" * 24, "has fewer than 8 different characters"),
        ("changemechangeme", "has fewer than 8 different characters"),
        ("swordfish1swordfish1", "repeats itself"),
        ("1234567890123456", "counts up or down"),
        ("zyxwvutsrqponmlk", "counts up or down"),
    ],
)
@pytest.mark.parametrize("profile", [False, True])
async def test_a_bind_that_lets_others_in_takes_no_token_that_can_be_guessed(
    weak: str, why: str, profile: bool
) -> None:
    given: dict[str, Any] = {"token": weak}
    if profile:
        given = {"token": GOOD_TOKEN, "profiles": {"readers": ProfileOptions(token=weak)}}
    name = "profiles.readers.token" if profile else "server.token"
    advice = f"set {name} to the output of `openssl rand -hex 24`"
    with pytest.raises(ServeError, match=f"{name} {why}, which can be guessed: .*{advice}"):
        async with running(SAY, host="0.0.0.0", **given):
            pytest.fail("the port must not open")
    async with running(SAY, **given) as live:
        assert (await live.get("/api/health", authorization=f"Bearer {given['token']}")).status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
async def test_with_a_token_a_wildcard_bind_opens_and_is_told_by_an_address_one_can_open(host: str) -> None:
    async with running(SAY, host=host, token="a-token-of-many-letters") as live:
        assert live.url == f"http://127.0.0.1:{live.port}"
        assert (await live.get("/api/health", authorization="Bearer a-token-of-many-letters")).status == 200


@pytest.mark.parametrize("token", ["", "s3cret"])
async def test_a_port_held_by_another_toolstead_says_so(token: str, caplog: pytest.LogCaptureFixture) -> None:
    async with running(SAY, token=token) as live:
        whom = "a toolstead server"
        with pytest.raises(ServeError, match=f"port {live.port} of '127.0.0.1' is taken by {whom}; .*port=0"):
            async with running(SAY, port=live.port):
                pytest.fail("the port must not open twice")
        assert "refused" not in caplog.text, "the question is no refusal in the other's log"
        assert (await live.get("/api/health", authorization="Bearer s3cret")).status == 200


async def test_a_port_is_held_from_the_moment_it_is_opened() -> None:
    async with port.open_sockets(ServerOptions(port=0)) as (first,):
        with pytest.raises(ServeError, match="is taken by"):
            async with port.open_sockets(ServerOptions(port=first.getsockname()[1])):
                pass


@pytest.mark.parametrize("answers", [False, True])
async def test_a_port_held_by_another_program_names_it(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_PROBE", 0.1)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answers:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await reader.read()
        writer.close()

    holder = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with holder:
        taken = holder.sockets[0].getsockname()[1]
        with pytest.raises(ServeError, match=f"port {taken} of '127.0.0.1' is taken by") as refused:
            async with running(SAY, port=taken):
                pytest.fail("the port must not open twice")
        if sys.platform == "linux":
            assert f"process {os.getpid()} ({_command()}" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"host": "no.such.host.invalid"}, "neither an address nor a name"),
        ({"host": "192.0.2.1", "token": GOOD_TOKEN}, "not an address of this machine"),
        ({"host": "127.0.0.1", "port": 70_000}, "70000 is not a port"),
        ({"host": "x" * 300}, "neither an address nor a name"),
    ],
)
async def test_an_address_that_cannot_be_used_is_a_sentence(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ServeError, match=text):
        async with running(SAY, **given):
            pytest.fail("the port must not open")


async def test_a_port_that_needs_rights_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(port, "_bind_socket", refuse)
    with pytest.raises(ServeError, match=r"port 80 needs privileges .* above 1023"):
        async with port.open_sockets(ServerOptions(port=80)):
            pass


async def test_calls_in_flight_finish_when_the_server_ends() -> None:
    waiting = Waiting()
    async with nothing_left(), running(waiting.tool) as live, calling(live, "wait") as connection:
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        live.stop.set()
        await _refuses_connections(live)
        waiting.go.set()
        reply = await connection.reply()
        assert reply.json["content"][0]["text"] == "finished"
        assert reply.headers["connection"] == "close"
        await asyncio.wait_for(live.task, PATIENCE)


async def test_calls_that_take_longer_than_the_grace_are_cancelled_and_told_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = Waiting()
    async with nothing_left(), running(waiting.tool, grace=0.05) as live, calling(live, "wait") as connection:
        await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
        live.stop.set()
        reply = await connection.reply()
        assert reply.status == 503
        assert reply.headers["retry-after"] == "5"
        assert "stopped before it answered this request" in reply.problem["detail"]
        assert await asyncio.wait_for(waiting.ended, PATIENCE) == "cancelled"
        await asyncio.wait_for(live.task, PATIENCE)
        assert "the server stops with 1 unanswered requests; cancelling them" in caplog.text


async def test_a_call_that_ignores_its_cancellation_does_not_keep_the_server_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("toolstead.adapters.http.server._UNWIND", 0.05)
    begun, go = asyncio.Event(), asyncio.Event()

    async def stubborn(_: dict[str, Any]) -> str:
        begun.set()
        for _ in range(3):
            try:
                await go.wait()
                break
            except asyncio.CancelledError:
                continue
        return "at last"

    deaf = tool("stubborn", stubborn)
    async with nothing_left(), running(deaf, grace=0.05) as live, calling(live, "stubborn") as connection:
        await asyncio.wait_for(begun.wait(), PATIENCE)
        live.stop.set()
        await asyncio.wait_for(live.task, PATIENCE)
        assert await connection.is_closed()
        assert "ignored their cancellation" in caplog.text
        go.set()


async def test_new_requests_during_the_end_are_refused_with_a_hint_when_to_come_back() -> None:
    async with running(SAY) as live:
        connection = await live.connect()
        live.app.stopping.begin_stop()
        await connection.send(request("POST", "/api/tools/say/call", {}, host=connection.host))
        reply = await connection.reply()
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")
        assert reply.problem["type"] == "/docs#stopping"
        assert reply.headers["connection"] == "close"


@pytest.mark.parametrize(
    "opening",
    [
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Method: subscriptions/listen\r\n\r\n",
    ],
)
async def test_streams_end_at_once_and_properly_when_the_server_ends(opening: bytes) -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        await asyncio.Event().wait()

    async with nothing_left(), running(SAY, mcp=stream, grace=1_000) as live:
        connection = await live.connect()
        await connection.send(opening)
        assert b"hello" in await asyncio.wait_for(connection.reader.readuntil(b"hello\n\n"), PATIENCE)
        live.stop.set()
        await asyncio.wait_for(live.task, PATIENCE)
        assert (await connection.reader.read()).endswith(b"0\r\n\r\n")


async def test_idle_and_half_open_connections_do_not_keep_the_server_up() -> None:
    async with nothing_left(), running(SAY, grace=1_000) as live:
        idle, silent, half = await live.connect(), await live.connect(), await live.connect()
        await idle.send(request("GET", "/api/health", host=idle.host))
        assert (await idle.reply()).status == 200
        await half.send(b"GET /api/health HTTP/1.1\r\nHo")
        assert (await live.get("/api/health")).status == 200
        live.stop.set()
        await asyncio.wait_for(live.task, PATIENCE)
        for connection in (idle, silent, half):
            assert await connection.is_closed()


async def test_a_body_that_is_still_arriving_does_not_outlast_the_grace() -> None:
    async with nothing_left(), running(SAY, grace=0.05) as live:
        connection = await live.connect()
        head = b"POST /api/tools/say/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        await connection.send(head + b"Content-Length: 10\r\n\r\n{")
        assert (await live.get("/api/health")).status == 200
        live.stop.set()
        assert (await connection.reply()).status == 503
        await asyncio.wait_for(live.task, PATIENCE)


async def test_a_server_whose_task_is_cancelled_ends_at_once_and_closes_everything() -> None:
    waiting = Waiting()
    async with nothing_left(), running(waiting.tool, grace=1_000) as live:
        async with calling(live, "wait") as connection:
            await asyncio.wait_for(waiting.begun.wait(), PATIENCE)
            live.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(live.task), PATIENCE)
            assert await asyncio.wait_for(waiting.ended, PATIENCE) == "cancelled"
            assert (await connection.reply()).status == 503
        await _refuses_connections(live)
        live.task = asyncio.create_task(asyncio.sleep(0))


def _command() -> str:
    return Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()


async def _refuses_connections(live: Live) -> None:
    """The port closes."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                connection = await live.connect()
            except ConnectionRefusedError:
                return
            await connection.close()
            await asyncio.sleep(0.01)
