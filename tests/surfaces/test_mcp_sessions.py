"""Sessions of the handshake versions over HTTP: as many as are allowed, as long as they are used, on a real server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.surfaces.http_wire import Header, HttpWire, head, json_of
from tests.surfaces.test_mcp_fast_path_attack import LANES, RIGHT, Tools, a_call, door, shaken
from tests.waiting import PATIENCE, until

PING = json_of({"jsonrpc": "2.0", "id": 5, "method": "ping"})


async def is_open(wire: HttpWire, session: list[Header]) -> bool:
    """Whether a session is answered; else it must be refused as the protocol says."""
    answers = [await wire.post(session, message) for message in (PING, a_call("colour"))]
    statuses = {answer.status for answer in answers}
    assert statuses in ({200}, {404})
    return statuses == {200}


@LANES
async def test_the_longest_idle_session_ends_when_there_are_too_many(
    fast_path: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        door(Tools(), tmp_path, "server.max_sessions=5", fast_path=fast_path) as address,
        HttpWire(address) as wire,
    ):
        opened = [await shaken(wire) for _ in range(6)]
        tasks = len(asyncio.all_tasks())
        opened += [await shaken(wire) for _ in range(94)]
        assert len(asyncio.all_tasks()) <= tasks + 8, "what ended is gone"
        assert [await is_open(wire, session) for session in opened] == [False] * 95 + [True] * 5
        assert caplog.text.count("more than 5 MCP sessions (server.max_sessions)") == 1, "a flood does not fill the log"


@LANES
async def test_a_session_with_a_call_or_an_open_stream_does_not_end(fast_path: bool, tmp_path: Path) -> None:
    tools = Tools()
    async with (
        door(tools, tmp_path, "server.max_sessions=3", fast_path=fast_path) as address,
        HttpWire(address) as wire,
        HttpWire(address) as second,
    ):
        calling, streaming = await shaken(wire), await shaken(wire)
        call = asyncio.create_task(second.post(calling, a_call("waits")))
        await asyncio.wait_for(tools.began.wait(), PATIENCE)
        host, port = address.removeprefix("http://").rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head("GET", host, streaming))
        assert b" 200 " in await asyncio.wait_for(reader.readline(), PATIENCE)
        others = [await shaken(wire) for _ in range(10)]
        assert not await is_open(wire, others[0])
        assert await is_open(wire, streaming)
        tools.may_end.set()
        assert b"waited" in (await asyncio.wait_for(call, PATIENCE)).body
        writer.close()


@LANES
async def test_there_is_no_room_for_another_session_while_all_are_in_use(fast_path: bool, tmp_path: Path) -> None:
    tools = Tools()
    async with (
        door(tools, tmp_path, "server.max_sessions=1", fast_path=fast_path) as address,
        HttpWire(address) as wire,
        HttpWire(address) as second,
    ):
        session = await shaken(wire)
        call = asyncio.create_task(second.post(session, a_call("waits")))
        await asyncio.wait_for(tools.began.wait(), PATIENCE)
        refused = await wire.post(RIGHT, json_of({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}))
        assert refused.status == 503
        assert refused.messages[0]["id"] is None
        assert "All 1 sessions are in use" in refused.messages[0]["error"]["message"]
        tools.may_end.set()
        assert b"waited" in (await asyncio.wait_for(call, PATIENCE)).body
        await shaken(wire)


@LANES
async def test_an_idle_session_ends_in_time_and_one_with_a_long_call_does_not(
    fast_path: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolstead.adapters.mcp.handshake_sessions")
    tools = Tools()
    async with (
        door(tools, tmp_path, "server.session_idle=0.5", fast_path=fast_path) as address,
        HttpWire(address) as wire,
        HttpWire(address) as second,
    ):
        idle, calling = await shaken(wire), await shaken(wire)
        call = asyncio.create_task(second.post(calling, a_call("waits")))
        await asyncio.wait_for(tools.began.wait(), PATIENCE)
        for _ in range(2):  # one after the other, so the call takes longer than both
            await until(lambda: "ended an MCP session of 127.0.0.1" in caplog.text)
            caplog.clear()
            assert not await is_open(wire, idle)
            idle = await shaken(wire)
        tools.may_end.set()
        assert b"waited" in (await asyncio.wait_for(call, PATIENCE)).body


async def test_idle_sessions_end_while_a_call_gets_its_time_to_finish(tmp_path: Path) -> None:
    tools = Tools()
    stop = asyncio.Event()
    async with door(tools, tmp_path, fast_path=True, stop=stop) as address, HttpWire(address) as wire:
        before = len(asyncio.all_tasks())
        session, *_ = [await shaken(wire) for _ in range(50)]
        full = len(asyncio.all_tasks())
        assert full >= before + 50
        async with HttpWire(address) as second:
            call = asyncio.create_task(second.post(session, a_call("waits")))
            await asyncio.wait_for(tools.began.wait(), PATIENCE)
            stop.set()
            await until(lambda: len(asyncio.all_tasks()) < full - 45)
            assert not call.done()
            tools.may_end.set()
            assert b"waited" in (await asyncio.wait_for(call, PATIENCE)).body
