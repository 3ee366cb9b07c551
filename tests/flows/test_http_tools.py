"""HTTP tools end to end: requests, answers, limits, retries, secrets and cancellation, through the dispatcher."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import logging
import os
import socket
import subprocess
import sys
import zlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.http_internet import Names, Seen, handler_for, reply, serving, tool_for
from toolstead.errors import ToolError
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import Tool
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.handlers.http_answer import COUNTED
from toolstead.tools.handlers.http_client import GuardedClient, OutgoingRequest
from toolstead.tools.handlers.http_guard import AllowedHosts
from toolstead.tools.handlers.http_url import parse_url
from toolstead.tools.registry import Registry
from toolstead.types.content import Image
from toolstead.types.result import Failure, ToolResult

pytestmark = pytest.mark.promise("R2")

TOKEN = "s3cret-token"


@pytest.fixture
async def client() -> AsyncGenerator[GuardedClient]:
    async with GuardedClient() as client:
        await client._open_network()  # its half second is not what short timeouts are about
        yield client


def ok(seen: Seen) -> bytes:
    return reply(body="fine", content_type="text/plain")


def local(client: GuardedClient, port: int, path: str = "/", **options: Any) -> Any:
    return tool_for(client, f"http://127.0.0.1:{port}{path}", **{"allowed_hosts": ["127.0.0.1"]} | options)


# requests


async def test_the_documents_example_works_as_written(client: GuardedClient) -> None:
    async with serving(reply(body='{"status":"ok"}', content_type="application/json")) as server:
        origin = f"http://127.0.0.1:{server.port}"
        handler = handler_for(
            client, "{{url}}/health", properties=["url"], method="GET", timeout=5, hosts=[f"127.0.0.1:{server.port}"]
        )
        registry = Registry()
        schema = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
        registry.register(
            Tool(name="api-health", description="Check API health endpoint", handler=handler, schema=schema)
        )
        dispatcher = Dispatcher(registry, events=EventLog(), cwd=Path("/"))
        result = await dispatcher.call("api-health", {"url": origin})
        assert (result.text, result.structured) == ('{"status":"ok"}', {"status": "ok"})
        assert server.targets == ["GET /health"]
        invalid = await dispatcher.call("api-health", {})
        assert invalid.failure == Failure.INVALID_ARGUMENTS


async def test_arguments_outside_the_address_are_the_json_body(client: GuardedClient) -> None:
    async with serving(ok) as server:
        call = local(client, server.port, "/{{id}}", properties=["id"], headers={"X-Own": "1", "Accept": "text/plain"})
        assert (await call(id="a/b", text="ü", list=[1, None])).text == "fine"
    (seen,) = server.seen
    assert (seen.method, seen.target) == ("POST", "/a%2Fb")
    assert json.loads(seen.body) == {"text": "ü", "list": [1, None]}
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["x-own"] == "1"
    assert seen.headers["accept"] == "text/plain"
    assert seen.headers["host"] == f"127.0.0.1:{server.port}"
    assert "cookie" not in seen.headers


async def test_a_content_type_of_json_may_be_said(client: GuardedClient) -> None:
    async with serving(ok) as server:
        await local(client, server.port, headers={"Content-Type": "application/vnd.api+json"})()
    assert server.seen[0].headers["content-type"] == "application/vnd.api+json"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_arguments_outside_the_address_are_the_query_of_a_get(method: str, client: GuardedClient) -> None:
    async with serving(lambda _: reply(content_type="text/plain")) as server:
        call = local(client, server.port, "/x?fixed=1", method=method)
        assert not (await call(a=[1, 2], b={"c": True}, d="x&y")).is_error
    assert server.targets == [f"{method} /x?fixed=1&a=1&a=2&b=%7B%22c%22%3Atrue%7D&d=x%26y"]
    assert server.seen[0].body == b""
    assert "content-type" not in server.seen[0].headers


@pytest.mark.parametrize(("arguments", "body"), [({}, b""), ({"a": 1}, b'{"a":1}')])
async def test_a_delete_has_a_body_only_when_there_is_something_to_say(
    arguments: dict[str, Any], body: bytes, client: GuardedClient
) -> None:
    async with serving(ok) as server:
        await local(client, server.port, method="DELETE")(**arguments)
    assert server.seen[0].body == body
    assert ("content-length" in server.seen[0].headers) == bool(body)


@pytest.mark.promise("R8")
async def test_a_value_cannot_reach_another_path(client: GuardedClient) -> None:
    async with serving(ok) as server:
        call = local(client, server.port, "/files/{{name}}/meta", properties=["name"], method="GET")
        for value in ("..", "../../admin", "", "."):
            assert (await call(name=value)).failure == Failure.REFUSED
        assert (await call(name="a\0")).is_error
        assert (await call(name="x" * 10_001)).is_error
        assert (await call()).text.startswith("'name' is missing")
        assert server.seen == []
        await call(name="a/b?c#d%2e HTTP/1.1\r\nX-Evil: 1")
    assert server.targets == ["GET /files/a%2Fb%3Fc%23d%252e%20HTTP%2F1.1%0D%0AX-Evil%3A%201/meta"]
    assert "x-evil" not in server.seen[0].headers


async def test_an_address_that_grew_too_long_is_not_sent(client: GuardedClient) -> None:
    async with serving(ok) as server:
        result = await local(client, server.port, method="GET")(a=["ü" * 5_000] * 3)
        assert "characters long; at most 65,536" in result.text
        assert server.seen == []


async def test_cookies_are_not_kept(client: GuardedClient) -> None:
    async with serving(reply(body="x", content_type="text/plain", set_cookie="a=b; Path=/")) as server:
        call = local(client, server.port, method="GET")
        await call()
        await call()
    assert all("cookie" not in seen.headers for seen in server.seen)


# answers


async def test_an_error_status_is_an_error_with_the_bodys_beginning(client: GuardedClient) -> None:
    async with serving(reply("404 Nope", "x" * 50_000, content_type="text/plain")) as server:
        result = await local(client, server.port)()
    assert result.is_error
    assert result.text.startswith("HTTP 404 Not Found\nxxx")
    assert len(result.text) < 5_000


async def test_an_image_arrives_as_an_image(client: GuardedClient) -> None:
    data = bytes(range(256)) * 10
    async with serving(reply(body=data, content_type="image/png")) as server:
        result = await local(client, server.port, method="GET")()
    assert result.content == (Image(data=data, mime_type="image/png"),)


@pytest.mark.parametrize(
    ("name", "packed"), [("gzip", gzip.compress(b"hello " * 10, mtime=0)), ("deflate", zlib.compress(b"hello " * 10))]
)
async def test_a_compressed_answer_is_inflated(name: str, packed: bytes, client: GuardedClient) -> None:
    async with serving(reply(body=packed, content_type="text/plain", content_encoding=name)) as server:
        assert (await local(client, server.port, method="GET")()).text == "hello " * 10
    assert server.seen[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.promise("R8")
async def test_a_compressed_answer_is_cut_by_what_it_inflates_to(client: GuardedClient) -> None:
    bomb = gzip.compress(b"0" * 200_000_000, 6)
    assert len(bomb) < 400_000
    async with serving(reply(body=bomb, content_type="text/plain", content_encoding="gzip")) as server:
        result = await local(client, server.port, method="GET", max_output=10_000)()
        assert result.text.startswith("000")
        assert len(result.text) <= 10_000
        said = int(result.text.rpartition("at least ")[2].partition(" ")[0].replace(",", ""))
        assert said < COUNTED + 2 * 2**20 + 20_000
        assert client.connections == 0


@pytest.mark.promise("R8")
@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "gzip,gzip,gzip", "nonsense"])
async def test_an_encoding_nobody_asked_for_is_refused(encoding: str, client: GuardedClient) -> None:
    async with serving(reply(body=b"x", content_type="text/plain", content_encoding=encoding)) as server:
        result = await local(client, server.port, method="GET")()
        assert f"answered in the encoding {encoding!r}" in result.text
        assert client.connections == 0


async def test_a_body_that_is_not_what_it_says_is_a_sentence(client: GuardedClient) -> None:
    async with serving(reply(body=b"no gzip", content_type="text/plain", content_encoding="gzip")) as server:
        result = await local(client, server.port, method="GET")()
    assert (result.failure, "not encoded as it says" in result.text) == (Failure.TOOL, True)


async def test_an_endless_answer_is_cut_and_its_connection_closed(client: GuardedClient) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with serving(lambda _: endless) as server:
        result = await local(client, server.port, method="GET", max_output=1_000)()
        assert not result.is_error
        assert "at least" in result.text
        async with asyncio.timeout(10):
            await server.gone.wait()
        assert client.connections == 0


async def test_the_tools_own_limit_wins_over_the_settings(client: GuardedClient) -> None:
    async with serving(reply(body="x" * 5_000, content_type="text/plain")) as server:
        base = f"http://127.0.0.1:{server.port}/"
        handler = handler_for(client, base, hosts=["127.0.0.1"], max_output=1_000)
        assert len((await _run(handler)).text) <= 1_000
        own = handler_for(client, base, hosts=["127.0.0.1"])
        assert len((await _run(own)).text) == 5_000


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "gave no HTTP answer"),
        (b"nonsense\r\n\r\n", "gave no HTTP answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncontent-type: text/plain\r\n\r\nhalf", "broke off"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000, "gave no HTTP answer"),
    ],
)
async def test_a_server_that_talks_nonsense_is_a_sentence(raw: bytes, said: str, client: GuardedClient) -> None:
    async def nonsense(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()
        raise ConnectionResetError

    async with serving(lambda _: nonsense) as server:
        result = await local(client, server.port)()
    assert (result.failure, said in result.text) == (Failure.TOOL, True), result.text
    assert f"127.0.0.1:{server.port}" in result.text


async def test_a_closed_port_is_a_sentence(client: GuardedClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        result = await local(client, port)()
    assert result.text == f"no connection to 127.0.0.1:{port}: Connection refused"


async def test_a_name_that_does_not_exist_is_a_sentence() -> None:
    async with GuardedClient(resolver=Names()) as client:
        result = await tool_for(client, "http://nowhere.test/")()
    assert result.text == "the host 'nowhere.test' cannot be found: Name or service not known"


async def test_a_client_that_is_closed_sends_nothing() -> None:
    async with serving(ok) as server:
        client = GuardedClient()
        call = local(client, server.port)
        assert (await call()).text == "fine"
        await client.aclose()
        assert "is closing" in (await call()).text
        assert len(server.seen) == 1


# time


@pytest.mark.parametrize("early", [b"", b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nbegin"])
async def test_the_timeout_covers_the_whole_call(early: bytes, client: GuardedClient) -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(early)
        await writer.drain()

    async with serving(lambda _: slow) as server:
        result = await local(client, server.port, timeout=0.3)()
        assert result.failure == Failure.TIMEOUT
        assert result.text == f"127.0.0.1:{server.port} gave no complete answer within 0.3 seconds"
        async with asyncio.timeout(10):
            await server.gone.wait()
        assert client.connections == 0


async def test_a_name_that_resolves_slowly_is_given_up_in_time() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with GuardedClient(resolver=never) as client:
        result = await tool_for(client, "http://slow.test/", timeout=0.1)()
    assert result.failure == Failure.TIMEOUT


async def test_a_cancelled_call_closes_its_connection(client: GuardedClient) -> None:
    arrived = asyncio.Event()

    async def hang() -> bytes:
        arrived.set()
        await asyncio.Event().wait()
        return b""

    async with serving(lambda _: hang()) as server:
        running = asyncio.create_task(local(client, server.port)())
        async with asyncio.timeout(10):
            await arrived.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await server.gone.wait()
        assert client.connections == 0


# retries


def failing(times: int, status: str = "503 Service Unavailable", **headers: str) -> Any:
    left = [times]

    def script(seen: Seen) -> bytes:
        left[0] -= 1
        return reply(status, "busy", content_type="text/plain", **headers) if left[0] >= 0 else ok(seen)

    return script


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_retry_after_is_respected(status: str, method: str, client: GuardedClient) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with serving(failing(2, status, retry_after="3")) as server:
        call = local(client, server.port, method=method, sleep=sleep)
        assert (await call(a=1)).text == "fine"
    assert waited == [3, 3]
    assert len({(seen.method, seen.target, seen.body) for seen in server.seen}) == 1


async def test_there_are_two_retries_and_no_more(client: GuardedClient) -> None:
    async with serving(failing(9, retry_after="0")) as server:
        result = await local(client, server.port, method="GET")()
    assert result.text == "HTTP 503 Service Unavailable\nbusy"
    assert len(server.seen) == 3


async def test_a_date_that_has_passed_is_no_wait(client: GuardedClient) -> None:
    async with serving(failing(1, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")) as server:
        assert (await local(client, server.port, method="GET")()).text == "fine"


@pytest.mark.parametrize(
    ("method", "status", "after"),
    [
        ("POST", "503 Service Unavailable", "0"),
        ("PATCH", "429 Too Many Requests", "0"),
        ("GET", "500 Internal Server Error", "0"),
        ("GET", "503 Service Unavailable", ""),
        ("GET", "503 Service Unavailable", "soon"),
        ("GET", "503 Service Unavailable", "10"),
        ("GET", "503 Service Unavailable", "3600"),
        ("GET", "503 Service Unavailable", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ],
)
async def test_nothing_is_sent_twice_without_need_or_beyond_the_timeout(
    method: str, status: str, after: str, client: GuardedClient
) -> None:
    async with serving(failing(9, status, retry_after=after)) as server:
        result = await local(client, server.port, method=method)()
    assert result.is_error
    assert result.text.startswith(f"HTTP {status}")
    assert len(server.seen) == 1


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("PUT", 2), ("POST", 1), ("PATCH", 1)])
async def test_a_server_that_hangs_up_is_asked_once_more_where_that_is_safe(
    method: str, times: int, client: GuardedClient
) -> None:
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        raise ConnectionResetError

    async with serving(lambda seen: ok(seen) if len(server.seen) > 1 else hang_up) as server:
        result = await local(client, server.port, method=method)()
        assert result.is_error == (times == 1)
        assert len(server.seen) == times


# secrets


@pytest.mark.promise("R8")
async def test_a_secret_is_sent_and_shown_nowhere(client: GuardedClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(seen: Seen) -> bytes:
        got = seen.headers["authorization"]
        kind = "application/json" if seen.target == "/json" else "text/plain"
        status = "401 Unauthorized" if seen.target == "/no" else "200 OK"
        return reply(status, json.dumps({"got": got}), content_type=kind, x_echo=got)

    async with serving(echo) as server:
        for path in ("/json", "/text", "/no"):
            call = local(
                client, server.port, path, headers={"Authorization": "Bearer ${TOKEN}"}, environ={"TOKEN": TOKEN}
            )
            result = await call()
            assert '{"got": "Bearer ********"}' in result.text
            assert TOKEN not in repr(result)
        assert all(seen.headers["authorization"] == f"Bearer {TOKEN}" for seen in server.seen)
    assert TOKEN not in caplog.text


@pytest.mark.promise("R8")
async def test_a_secret_in_an_error_is_masked() -> None:
    async def resolver(host: str, port: int) -> list[str]:
        raise OSError(f"cannot ask for {TOKEN}")

    async with GuardedClient(resolver=resolver) as client:
        call = tool_for(client, "http://a.test/", headers={"X-A": "${TOKEN}"}, environ={"TOKEN": TOKEN})
        assert (await call()).text == "the host 'a.test' cannot be found: cannot ask for ********"


async def test_a_secret_that_is_not_set_is_named(client: GuardedClient) -> None:
    async with serving(ok) as server:
        result = await local(client, server.port, headers={"X-A": "${TOKEN}"})()
        assert "the environment variable TOKEN is not set" in result.text
        assert server.seen == []


async def test_a_secret_too_short_to_be_masked_is_warned_about(
    client: GuardedClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(ok) as server:
        await local(client, server.port, headers={"X-A": "${PIN}"}, environ={"PIN": "1234"})()
    assert "the secret PIN is too short to be masked" in caplog.text
    assert server.seen[0].headers["x-a"] == "1234"


# the log, the pool


async def test_each_request_is_one_line_in_the_log(client: GuardedClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "toolstead.tools.handlers")
    async with serving(ok) as server:
        await local(client, server.port, "/private/{{id}}", properties=["id"], method="GET")(id="hidden", q="hidden")
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("toolstead.tools.handlers")]
    assert line.startswith(f"GET 127.0.0.1:{server.port}: 200 in ")
    assert line.endswith(" ms")


async def test_connections_are_kept_and_used_again(client: GuardedClient) -> None:
    async with serving(ok) as server:
        call = local(client, server.port)
        for _ in range(5):
            await call()
        assert server.connections == 1


async def test_two_hundred_calls_at_once_stay_within_the_pool_and_leave_nothing() -> None:
    full = asyncio.Event()

    async def counted(seen: Seen) -> bytes:
        if len(server.seen) == 10:
            full.set()
        await full.wait()
        return ok(seen)

    before = asyncio.all_tasks()
    async with serving(counted) as server:
        async with GuardedClient(max_connections=10) as client:
            call = local(client, server.port)
            results = await asyncio.gather(*(call(number=number) for number in range(200)))
            assert [result.text for result in results] == ["fine"] * 200
            assert {json.loads(seen.body)["number"] for seen in server.seen} == set(range(200))
            assert (server.connections, client.connections) == (10, 10)
        assert client.connections == 0
        async with asyncio.timeout(10):
            while server.open:
                await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    gc.collect()


async def test_only_some_connections_are_kept() -> None:
    async with serving(ok) as server, GuardedClient(max_idle=2) as client:
        call = local(client, server.port)
        await asyncio.gather(*(call() for _ in range(20)))
        assert client.connections <= 2


async def test_two_hundred_calls_that_end_in_every_way_leave_nothing() -> None:
    hanging: asyncio.Queue[int] = asyncio.Queue()

    async def script(seen: Seen) -> bytes:
        number = int(seen.target.removeprefix("/"))
        if number % 4 == 1:
            hanging.put_nowait(number)
            await asyncio.Event().wait()
        if number % 4 == 2:
            raise ConnectionResetError
        return reply(body="x" * 3_000_000 if number % 4 == 3 else "fine", content_type="text/plain")

    before = asyncio.all_tasks()
    async with serving(script) as server, GuardedClient(max_connections=20, max_idle=1) as client:
        call = local(client, server.port, "/{{n}}", properties=["n"], timeout=60)
        running = [asyncio.create_task(call(n=number)) for number in range(200)]
        async with asyncio.timeout(60):
            for _ in range(50):
                running[await hanging.get()].cancel()
            ends = await asyncio.gather(*running, return_exceptions=True)
        assert [type(end) for end in ends[1::4]] == [asyncio.CancelledError] * 50
        kept: list[ToolResult] = [end for end in ends if isinstance(end, ToolResult)]
        assert sum(result.text == "fine" for result in kept) == 50
        assert sum("gave no HTTP answer" in result.text for result in kept) == 50
        assert sum("bytes more, left out]" in result.text for result in kept) == 50
        assert (await call(n=400)).text == "fine"
        assert client.connections == 1
    assert asyncio.all_tasks() == before
    gc.collect()


async def test_the_client_serves_others_than_http_tools(client: GuardedClient) -> None:
    async with serving(reply(body="page", content_type="text/html")) as server:
        url = parse_url(f"http://127.0.0.1:{server.port}/x")
        async with client.stream_response(
            OutgoingRequest(method="GET", url=url), allowed=AllowedHosts.parse_entries(["127.0.0.1"])
        ) as response:
            assert (response.status_code, await response.aread()) == (200, b"page")
            assert str(response.url) == str(url)
        with pytest.raises(ToolError):
            async with client.stream_response(OutgoingRequest(method="GET", url=url)):
                pytest.fail("it was let through")


def test_loading_an_http_tool_imports_no_http_library() -> None:
    program = (
        "import sys; from toolstead.tools.handlers import http, http_client, http_guard; "
        "http_guard.canonical_host('a.example'); http_client.GuardedClient(); "
        "print(sorted({'httpx2', 'httpcore2', 'anyio'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"


async def _run(handler: Any) -> ToolResult:
    registry = Registry()
    registry.register(Tool(name="t", description="A tool.", handler=handler))
    return await Dispatcher(registry, events=EventLog(), cwd=Path("/")).call("t", {})
