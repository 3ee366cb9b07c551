"""MCP over HTTP, said word for word: sessions, streams, cancellation, odd bodies, and the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.programs.clients import Ear, connected, names_with, text_of
from tests.programs.running import HANDSHAKE, MODERN, TOOL_SERVER, Program, modern_meta, served, text_in
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("B6")]

BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
LIMIT = 1 << 20


class Mcp:
    """A client that says exactly what it is told to."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.session: dict[str, str] = {}

    async def shake_hands(self) -> None:
        me = {"name": "test", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": me}
        answer = await self.post("initialize", params)
        self.session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
        assert (await self.post("notifications/initialized", id=None)).status_code == 202

    async def post(self, method: str, params: Any = None, *, id: Any = 1) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        return await self.http.post("/mcp", json=message | ({} if id is None else {"id": id}), headers=self.session)

    async def modern(self, method: str, params: Any = None, headers: dict[str, str] | None = None) -> httpx2.Response:
        return await self.http.post(
            "/mcp", json=modern_request(method, params), headers=modern_headers(method, params) | (headers or {})
        )

    @asynccontextmanager
    async def streaming(self, method: str, message: Any, headers: dict[str, str]) -> AsyncIterator[httpx2.Response]:
        async with self.http.stream(method, "/mcp", json=message, headers=headers) as answer:
            assert answer.status_code == 200
            yield answer


def modern_request(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": modern_meta()}}


def modern_headers(method: str, params: Any = None) -> dict[str, str]:
    name = {"mcp-name": params["name"]} if params and "name" in params else {}
    return {"mcp-protocol-version": MODERN, "mcp-method": method, **name}


def message_in(answer: httpx2.Response) -> Any:
    """The message of an answer, be it JSON or a stream of one event."""
    if answer.headers["content-type"].startswith("application/json"):
        return answer.json()
    return next(json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:"))


@asynccontextmanager
async def mcp_at(address: str) -> AsyncIterator[Mcp]:
    async with httpx2.AsyncClient(base_url=address, headers=BOTH, timeout=PATIENCE, trust_env=False) as http:
        yield Mcp(http)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Program, str]]:
    """One server for all: what one test does, the next one must survive."""
    folder = tmp_path_factory.mktemp("http")
    async with served([*TOOL_SERVER, "http", f"server.max_body={LIMIT}"], folder) as (program, address):
        yield program, address
        program.process.terminate()
        assert await program.ended() == 0
        assert "Traceback" not in program.stderr


@pytest_asyncio.fixture(loop_scope="module")
async def mcp(server: tuple[Program, str]) -> AsyncIterator[Mcp]:
    async with mcp_at(server[1]) as mcp:
        yield mcp


def waiting_in(folder: Path) -> dict[str, Any]:
    return {"name": "wait", "arguments": {"began": str(folder / "began"), "ended": str(folder / "ended")}}


async def test_a_modern_client_that_hangs_up_cancels_its_call(mcp: Mcp, tmp_path: Path) -> None:
    calling = asyncio.create_task(mcp.modern("tools/call", waiting_in(tmp_path)))
    await text_in(tmp_path / "began")
    calling.cancel()
    assert await text_in(tmp_path / "ended") == "cancelled"
    answer = await mcp.modern("tools/call", {"name": "echo", "arguments": {"text": "next"}})
    assert message_in(answer)["result"]["content"][0]["text"] == "next"


async def test_a_handshake_call_ends_by_a_notice_and_not_by_hanging_up(mcp: Mcp, tmp_path: Path) -> None:
    await mcp.shake_hands()
    calling = asyncio.create_task(mcp.post("tools/call", waiting_in(tmp_path), id="long"))
    await text_in(tmp_path / "began")
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    assert message_in(await mcp.post("ping"))["result"] == {}
    assert not (tmp_path / "ended").exists()
    assert (await mcp.post("notifications/cancelled", {"requestId": "long"}, id=None)).status_code == 202
    assert await text_in(tmp_path / "ended") == "cancelled"


async def test_a_cancelled_handshake_call_ends_its_stream(mcp: Mcp, tmp_path: Path) -> None:
    await mcp.shake_hands()
    calling = asyncio.create_task(mcp.post("tools/call", waiting_in(tmp_path), id="long"))
    await text_in(tmp_path / "began")
    await mcp.post("notifications/cancelled", {"requestId": "long"}, id=None)
    assert await text_in(tmp_path / "ended") == "cancelled"
    assert message_in(await asyncio.wait_for(calling, PATIENCE))["error"]["code"] == -32800


async def test_a_deleted_session_ends_its_calls_and_is_unknown_afterwards(mcp: Mcp, tmp_path: Path) -> None:
    await mcp.shake_hands()
    calling = asyncio.create_task(mcp.post("tools/call", waiting_in(tmp_path), id="long"))
    await text_in(tmp_path / "began")
    assert (await mcp.http.delete("/mcp", headers=mcp.session)).status_code == 200
    assert await text_in(tmp_path / "ended") == "cancelled"
    await asyncio.gather(calling, return_exceptions=True)
    assert (await mcp.post("ping")).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{bad", 400),
        (b"", 400),
        (b"\xff\xfe", 400),
        (b"[" * 10_000 + b"]" * 10_000, 400),
        (b"[]", 400),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', 400),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', 400),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}', 400),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}', 400),
        (b'{"x": "' + b"y" * LIMIT + b'"}', 413),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, bytes) else str(value),
)
@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
async def test_an_odd_body_is_refused_and_the_next_is_served(mcp: Mcp, version: str, body: bytes, status: int) -> None:
    headers = {"mcp-protocol-version": version, "mcp-method": "tools/list"}
    answer = await mcp.http.post("/mcp", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text
    described = (await mcp.http.get("/openapi.json")).json()["paths"]["/mcp"]["post"]["responses"]["4XX"]["content"]
    assert answer.headers["content-type"] in described
    if status == 400:
        assert answer.json()["error"]["code"] in (-32700, -32600, -32602), "what an MCP client understands"
    assert message_in(await mcp.modern("tools/list"))["result"]["tools"]


async def test_what_is_no_message_is_refused_without_the_words_of_a_validator(mcp: Mcp) -> None:
    await mcp.shake_hands()
    for headers in ({}, mcp.session):
        for body in (b"[]", b"1", b'{"jsonrpc": "2.0", "id": {}, "method": 1}', b'{"jsonrpc": "2.0", "id": 1}'):
            answer = await mcp.http.post("/mcp", content=body, headers=headers)
            assert answer.status_code == 400
            assert answer.headers["content-type"] == "application/json"
            error = {"code": -32600, "message": "Invalid request: not a JSON-RPC 2.0 message"}
            assert answer.json() == {"jsonrpc": "2.0", "id": None, "error": error}
    assert (await mcp.post("ping")).status_code == 200
    for params in ({"name": 5}, {"name": "echo", "arguments": []}, {"name": "echo", "arguments": {"text": 5}}):
        assert "pydantic" not in (await mcp.post("tools/call", params)).text


async def test_blanks_around_a_header_are_no_part_of_it(server: tuple[Program, str]) -> None:
    params = {"name": "echo", "arguments": {"text": "x"}}
    body = json.dumps(modern_request("tools/call", params)).encode()
    host, _, port = server[1].rpartition("/")[2].rpartition(":")
    for name, status in (("echo", b"200"), ("  echo \t ", b"200"), ("ec ho", b"400")):
        headers = {**BOTH, **modern_headers("tools/call", params), "mcp-name": name, "host": f"{host}:{port}"}
        headers |= {"mcp-method": "tools/call  ", "content-length": str(len(body)), "connection": "close"}
        head = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        await writer.wait_closed()
        assert answer.split()[1] == status, answer


async def test_half_a_character_goes_in_and_comes_out_mended(mcp: Mcp) -> None:
    params = {"name": "echo", "arguments": {"text": "\ud800"}}
    body = json.dumps(modern_request("tools/call", params)).encode()
    answer = await mcp.http.post("/mcp", content=body, headers=modern_headers("tools/call", params))
    assert message_in(answer)["result"]["content"][0]["text"] == "�"
    unknown = json.dumps(modern_request("tools/call", {"name": "echo", "arguments": {"\ud800": 1}})).encode()
    answer = await mcp.http.post("/mcp", content=unknown, headers=modern_headers("tools/call", params))
    assert message_in(answer)["result"]["isError"] is True
    await mcp.shake_hands()
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).encode()
    assert (await mcp.http.post("/mcp", content=body, headers=mcp.session)).status_code == 400
    assert message_in(await mcp.post("ping"))["result"] == {}


async def test_a_client_that_stopped_reading_holds_up_nobody(server: tuple[Program, str], mcp: Mcp) -> None:
    await mcp.shake_hands()
    ear = Ear()
    async with (
        mcp.streaming("GET", None, mcp.session),  # opened, and never read
        mcp.streaming("POST", listen_to_tools(), modern_headers("subscriptions/listen")),  # likewise
        connected(f"{server[1]}/mcp", "handshake", message_handler=ear.message) as client,
    ):
        for number in range(40):
            await client.call_tool("grow", {"name": f"unread-{number}"})
            await names_with(client, ear, lambda names, name=f"unread-{number}": name in names)
        await client.call_tool("shrink", {"name": "unread-"})


def listen_to_tools() -> dict[str, Any]:
    return modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


async def test_a_signal_ends_streams_and_idle_sessions_at_once(tmp_path: Path) -> None:
    async with served([*TOOL_SERVER, "http"], tmp_path) as (program, address), mcp_at(address) as mcp:
        await mcp.shake_hands()
        async with (
            mcp.streaming("GET", None, mcp.session) as old,
            mcp.streaming("POST", listen_to_tools(), modern_headers("subscriptions/listen")) as new,
            connected(f"{address}/mcp", "modern") as client,
        ):
            assert text_of(await client.call_tool("echo", {"text": "x"})) == "x"
            program.process.terminate()
            for stream in (old, new):
                async for _ in stream.aiter_bytes():
                    pass
            assert await program.ended() == 0
        assert "Traceback" not in program.stderr
        assert "did not finish in time" not in program.stderr


async def test_a_second_signal_cancels_the_calls_that_still_run(tmp_path: Path) -> None:
    async with served([*TOOL_SERVER, "http"], tmp_path) as (program, address), mcp_at(address) as mcp:
        await mcp.shake_hands()
        (tmp_path / "old").mkdir()
        (tmp_path / "new").mkdir()
        calling = [
            asyncio.create_task(mcp.post("tools/call", waiting_in(tmp_path / "old"))),
            asyncio.create_task(mcp.modern("tools/call", waiting_in(tmp_path / "new"))),
        ]
        for era in ("old", "new"):
            await text_in(tmp_path / era / "began")
        program.process.terminate()
        await refuses_connections(address)
        program.process.terminate()
        assert await program.ended() == 0
        for era in ("old", "new"):
            assert await text_in(tmp_path / era / "ended") == "cancelled"
        assert "Traceback" not in program.stderr
        await asyncio.gather(*calling, return_exceptions=True)


async def refuses_connections(address: str) -> None:
    """Wait until nobody listens any more: the first signal was heard."""
    host, _, port = address.rpartition("/")[2].rpartition(":")

    async def refused() -> bool:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return True
        writer.close()
        return False

    async with asyncio.timeout(PATIENCE):
        while not await refused():
            pass
