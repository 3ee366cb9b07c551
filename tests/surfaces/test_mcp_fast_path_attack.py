"""The fast path under attack: odd tools, odd moments and odd headers, each answered as the SDK alone answers it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import HANDSHAKE, MODERN, TOOL_SERVER, ModernWire, Wire, modern_meta, running
from tests.surfaces.compared import normal
from tests.surfaces.http_wire import Answer, Header, HttpWire, json_of
from tests.surfaces.message_parts import ME
from tests.waiting import PATIENCE, until
from toolstead import PluginContext, Tool, ToolMeta, Toolstead
from toolstead.adapters.mcp.descriptors import Lines, TooLongError
from toolstead.adapters.mcp.fast_path import http as fast_path_http
from toolstead.adapters.mcp.handshake_sessions import HandshakeSessions
from toolstead.app.server_file import ServerAddress

pytestmark = [pytest.mark.promise("B6")]

RIGHT: list[Header] = [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")]
LANES = pytest.mark.parametrize("fast_path", [True, False], ids=["the fast path", "the SDK"])
Act = Callable[[HttpWire, list[Header]], Awaitable[Answer]]
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])


class Colour(str):
    """Text, and of a kind of its own."""

    __slots__ = ()


class Tools:
    """Tools that do what well-behaved ones do not, and what is seen of them."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    def all(self) -> list[Tool]:
        handlers = [self.gives_up, self.colour, self.takes_no_notice, self.waits, self.ends_with_the_first_sign]
        return [Tool(name=one.__name__, description="Odd.", handler=one) for one in handlers]

    async def gives_up(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        work = asyncio.ensure_future(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(work.cancel)
        await work
        return "never"

    async def colour(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        return Colour("red")

    async def takes_no_notice(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all the same"
        return "never"

    async def waits(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        self.began.set()
        await self.may_end.wait()
        return "waited"

    async def ends_with_the_first_sign(self, ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        await asyncio.sleep(fast_path_http.PING)  # a timer that is due in the same turn of the loop as the fast path's
        return "in time"


@asynccontextmanager
async def door(
    tools: Tools, folder: Path, *overrides: str, fast_path: bool, stop: asyncio.Event | None = None
) -> AsyncIterator[str]:
    """A stead with these tools, served over HTTP; its address."""
    ready: asyncio.Future[ServerAddress] = asyncio.get_running_loop().create_future()
    stop = stop or asyncio.Event()
    async with Toolstead(folder, overrides=overrides) as stead, asyncio.TaskGroup() as tasks:
        stead.registry.register(*tools.all())
        tasks.create_task(stead.serve_http(port=0, on_ready=ready.set_result, stop=stop, fast_path=fast_path))
        try:
            yield (await asyncio.wait_for(ready, PATIENCE)).url
        finally:
            tools.may_end.set()
            stop.set()


async def shaken(wire: HttpWire) -> list[Header]:
    """The headers of a session that is open."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": ME}
    answer = await wire.post(RIGHT, json_of({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    headers = [*RIGHT, ("Mcp-Session-Id", answer.header("mcp-session-id") or "")]
    assert (await wire.post(headers, json_of({"jsonrpc": "2.0", "method": "notifications/initialized"}))).status == 202
    return headers


def a_call(tool: str, *, modern: bool = False) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": {}}
    if modern:
        params["_meta"] = modern_meta()
    return json_of({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})


async def called(wire: HttpWire, tool: str, *, modern: bool) -> Any:
    """What is answered to a call; there must be nothing else."""
    about = [("Mcp-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)]
    answer = await wire.post([*RIGHT, *about] if modern else await shaken(wire), a_call(tool, modern=modern))
    assert answer.status == 200, answer.body
    text = next(line for line in answer.body.decode().splitlines() if "jsonrpc" in line)
    return json.loads(text.removeprefix("data: "))


@LANES
@ERAS
async def test_a_tool_whose_own_work_was_cancelled_has_crashed_and_nothing_else_has(
    modern: bool, fast_path: bool, tmp_path: Path
) -> None:
    async with door(Tools(), tmp_path, fast_path=fast_path) as address, HttpWire(address) as wire:
        result = (await called(wire, "gives_up", modern=modern))["result"]
        assert result["isError"] is True
        assert "crashed" in result["content"][0]["text"]
        assert (await called(wire, "colour", modern=modern))["result"]["isError"] is False


@LANES
@ERAS
async def test_text_of_a_kind_of_its_own_is_text(modern: bool, fast_path: bool, tmp_path: Path) -> None:
    async with door(Tools(), tmp_path, fast_path=fast_path) as address, HttpWire(address) as wire:
        result = (await called(wire, "colour", modern=modern))["result"]
        assert result["content"] == [{"type": "text", "text": "red"}]


@ERAS
async def test_a_call_that_ends_with_the_first_sign_of_life_is_answered(
    modern: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path_http, "PING", 0.05)
    async with door(Tools(), tmp_path, fast_path=True) as address, HttpWire(address) as wire:
        for _ in range(5):
            answer = await called(wire, "ends_with_the_first_sign", modern=modern)
            assert answer["result"]["content"][0]["text"] == "in time"


async def meanwhile(address: str, tools: Tools, tool: str, act: Act, *, goes_on: bool) -> list[Any]:
    """A call that runs while something else is posted: all that is heard of both."""
    async with HttpWire(address) as wire, HttpWire(address) as other, asyncio.TaskGroup() as tasks:
        headers = await shaken(other)
        calling = tasks.create_task(wire.post(headers, a_call(tool)))
        await asyncio.wait_for(tools.began.wait(), PATIENCE)
        acted = await act(other, headers)
        if goes_on:
            tools.may_end.set()
        return [normal(answer.shown(0)) for answer in (acted, await calling)]


CANCEL = json_of({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})


async def cancel(wire: HttpWire, headers: list[Header]) -> Answer:
    return await wire.post(headers, CANCEL)


async def cancel_and_accept_nothing(wire: HttpWire, headers: list[Header]) -> Answer:
    return await wire.post([("Accept", "text/html"), *headers[1:]], CANCEL)


async def cancel_with_blanks(wire: HttpWire, headers: list[Header]) -> Answer:
    name, session = headers[-1]
    return await wire.post([*headers[:-1], (name, f"{session} \t")], CANCEL)


async def cancel_with_another_session_behind(wire: HttpWire, headers: list[Header]) -> Answer:
    return await wire.post([*headers, ("Mcp-Session-Id", "another")], CANCEL)


async def cancel_in_the_other_era(wire: HttpWire, headers: list[Header]) -> Answer:
    return await wire.post([*headers, ("Mcp-Protocol-Version", MODERN)], CANCEL)


async def delete(wire: HttpWire, headers: list[Header]) -> Answer:
    return await wire.post(headers, b"", method="DELETE")


async def delete_in_the_other_era(wire: HttpWire, headers: list[Header]) -> Answer:
    return await wire.post([*headers, ("Mcp-Protocol-Version", MODERN)], b"", method="DELETE")


ACTS = [
    ("takes_no_notice", cancel, False),
    ("waits", cancel, False),
    ("waits", cancel_and_accept_nothing, True),
    ("waits", cancel_with_blanks, False),
    ("waits", cancel_with_another_session_behind, False),
    ("waits", cancel_in_the_other_era, True),
    ("waits", delete, False),
    ("waits", delete_in_the_other_era, True),
]


@pytest.mark.parametrize(("tool", "act", "goes_on"), ACTS)
async def test_what_ends_a_call_of_the_sdk_ends_one_of_the_lane_and_nothing_else_does(
    tool: str, act: Act, goes_on: bool, tmp_path: Path
) -> None:
    heard: list[Any] = []
    for fast_path in (True, False):
        tools = Tools()
        (folder := tmp_path / str(fast_path)).mkdir()
        async with door(tools, folder, fast_path=fast_path) as address:
            heard.append(await meanwhile(address, tools, tool, act, goes_on=goes_on))
    assert heard[0] == heard[1]


@pytest.mark.parametrize("odd", ["1e999", "-1e999", "1e-999", "9" * 40, '"\\ud83d\\ude00"', '{"a":1,"a":2}'])
@ERAS
async def test_an_opening_that_the_lane_has_answered_is_said_to_the_sdk_word_for_word(
    modern: bool, odd: str, tmp_path: Path
) -> None:
    async with running([*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        wire = ModernWire(program) if modern else Wire(program)
        params: dict[str, Any] = {"protocolVersion": HANDSHAKE, "capabilities": {"unknown": "ODD"}, "clientInfo": ME}
        if modern:
            params = {"_meta": {**modern_meta(), "com.example/odd": "ODD", "progressToken": 1}}
        method = "tools/list" if modern else "initialize"
        opening = json.dumps({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})
        await wire.write(opening.replace('"ODD"', odd).encode() + b"\n")
        assert "result" in await wire.answer(0)
        refused = await wire.request(1, "no/such/method", wire.params({}))
        assert refused["error"]["code"] == -32601
        wire.close()
        assert await program.ended() == 0


async def test_a_session_that_says_often_that_it_is_initialized_is_learned_of_once(tmp_path: Path) -> None:
    learned: list[str] = []

    class Counting(HandshakeSessions):
        def learn_session(self, id: str, client: str | None) -> Callable[[], None] | None:
            forget = super().learn_session(id, client)
            learned.extend([id] if forget is not None else [])
            return forget

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolstead.adapters.mcp.http.HandshakeSessions", Counting)
        async with door(Tools(), tmp_path, fast_path=True) as address, HttpWire(address) as wire:
            headers = await shaken(wire)
            for _ in range(5):
                await wire.post(headers, json_of({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            await until(lambda: learned)
            assert (await wire.post(headers, a_call("colour"))).status == 200
            assert len(learned) == 1


async def test_lines_that_were_read_already_wait_as_well_for_a_client_that_does_not_read() -> None:
    taken: list[bytes | TooLongError] = []
    ended = asyncio.Event()

    def take(line: bytes | TooLongError) -> None:
        taken.append(line)
        lines.pause_reading("enough")

    source, sink = os.pipe()
    try:
        os.write(sink, b"one\ntwo\nthree\nhal")
        lines = Lines(source, 100, take, ended.set)
        async with lines:
            for count, line in enumerate([b"one", b"two", b"three"], start=1):
                await until(lambda count=count: len(taken) >= count)
                assert taken[count - 1 :] == [line]
                lines.go_on("enough")
            os.write(sink, b"f\nend")
            os.close(sink)
            await until(lambda: len(taken) >= 4)
            assert not ended.is_set()
            lines.go_on("enough")
            await asyncio.wait_for(ended.wait(), PATIENCE)
    finally:
        os.close(source)
    assert taken == [b"one", b"two", b"three", b"half", b"end"]
