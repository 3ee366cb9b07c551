"""The fast path over HTTP, beside the SDK: whatever is posted in whatever order, both answer the same."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from tests.programs.clients import Era
from tests.programs.running import HANDSHAKE, MODERN, TOOL_SERVER, modern_meta, served
from tests.surfaces.compared import Comparison
from tests.surfaces.http_wire import HttpWire, head, json_of
from tests.surfaces.message_parts import CLAUDE_CODE, ME, tour
from tests.surfaces.mixed_messages import Mixer
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.port import open_sockets

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("B6")]

CONVERSATIONS, LENGTH = 25, 60
RIGHT = [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def addresses(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[str, str]]:
    """The fast path in front of the SDK, and the SDK alone."""
    async with AsyncExitStack() as stack:
        found: list[str] = []
        for name, arguments in (("fast path", []), ("sdk", ["--no-fast-path"])):
            folder = tmp_path_factory.mktemp(name)
            _, address = await stack.enter_async_context(served([*TOOL_SERVER, "http", *arguments], folder))
            found.append(address)
        yield found[0], found[1]


async def shake_hands(wire: HttpWire, client: Mapping[str, str] = ME, *, completely: bool = True) -> str:
    """Open a session; its id."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client}
    answer = await wire.post(RIGHT, json_of({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    session = answer.header("mcp-session-id")
    assert session is not None
    if completely:
        notice = json_of({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (await wire.post([*RIGHT, ("Mcp-Session-Id", session)], notice)).status == 202
    return session


async def talk_to(address: str, seed: int | None, era: Era) -> list[Any]:
    """A conversation, and all answers; without a seed it is the tour, in the right headers."""
    mixer = Mixer(seed or 0, era, duplex=False)
    heard: list[Any] = []
    async with HttpWire(address) as wire:
        session = None
        if era == "handshake":
            client = CLAUDE_CODE if seed is not None and seed % 2 else ME
            session = await shake_hands(wire, client, completely=seed is None or seed % 5 > 0)
        for number, said in enumerate(tour(era) if seed is None else mixer.conversation(LENGTH)):
            if said.line or not said.settle:
                headers = mixer.headers(said, session, odd=seed is not None)
                answer = await wire.post(headers, said.line)
                heard.append(answer.shown(f"{number} {said.line[:300]!r}"))
        if session is not None:
            gone = await wire.post([*RIGHT, ("Mcp-Session-Id", session)], b"", method="DELETE")
            heard.append(gone.shown("the end"))
    return heard


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_the_fast_path_and_the_sdk_say_the_same(era: Era, addresses: tuple[str, str]) -> None:
    comparison = Comparison("http", era)
    for seed in (None, *range(CONVERSATIONS)):
        fast_path, sdk = await asyncio.gather(*(talk_to(address, seed, era) for address in addresses))
        comparison.compare(f"seed {seed}", fast_path, sdk)
        comparison.check()
    comparison.check_table()


CANCELLING: dict[str, Any] = {
    "as the protocol says": {"requestId": "long"},
    "with a reason": {"requestId": "long", "reason": "enough"},
    "with a reason that is no text": {"requestId": "long", "reason": 5},
    "with something unknown": {"requestId": "long", "unknown": 1},
    "with a malformed _meta": {"requestId": "long", "_meta": None},
}


@pytest.mark.parametrize("cancelling", CANCELLING.values(), ids=CANCELLING)
async def test_a_call_that_is_cancelled_ends_alike(cancelling: Any, addresses: tuple[str, str]) -> None:
    fast_path, sdk = await asyncio.gather(*(cancelled_call(address, cancelling) for address in addresses))
    comparison = Comparison("http", "handshake")
    comparison.compare("a cancelled call", fast_path, sdk)
    comparison.check()


async def cancelled_call(address: str, cancelling: Any) -> list[Any]:
    """Everything that is heard of a call that is cancelled, and of the notice that cancels it."""
    async with HttpWire(address) as wire, HttpWire(address) as other, asyncio.TaskGroup() as tasks:
        headers = [*RIGHT, ("Mcp-Session-Id", await shake_hands(wire))]
        tag = str(cancelling)
        calling = tasks.create_task(wire.post(headers, a_call("long", "forever", {"tag": tag})))
        began = await other.post(headers, a_call(1, "forever_began", {"tag": tag}))
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelling}
        told = await other.post(headers, json_of(notice))
        ended = await other.post(headers, a_call(2, "forever_ended", {"tag": tag}))
        return [answer.shown(number) for number, answer in enumerate([await calling, began, told, ended])]


def a_call(id: Any, tool: str, arguments: Any) -> bytes:
    return json_of(
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    )


PIECES: dict[str, list[bytes]] = {
    "in two halves": [b'{"jsonrpc":"2.0","id":1,"method":"too', b'ls/list","params":{}}'],
    "a message, and then what is none": [b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}', b" no more"],
    "a message, and then another": [b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'] * 2,
    "a message, and then blanks": [b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}', b"  \n"],
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_body_in_pieces_is_read_to_its_end(era: Era, pieces: list[bytes], addresses: tuple[str, str]) -> None:
    fast_path, sdk = await asyncio.gather(*(in_pieces(address, era, pieces) for address in addresses))
    assert fast_path == sdk


async def in_pieces(address: str, era: Era, pieces: list[bytes]) -> Any:
    async with HttpWire(address) as wire:
        headers = [*RIGHT, ("Transfer-Encoding", "chunked")]
        if era == "handshake":
            headers.append(("Mcp-Session-Id", await shake_hands(wire)))
        else:
            headers += [("Mcp-Protocol-Version", MODERN), ("Mcp-Method", "tools/list")]
            meta = json_of({"_meta": modern_meta()})
            pieces = [piece.replace(b'"params":{}', b'"params":' + meta) for piece in pieces]
        chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
        answer = await wire.say(head("POST", "127.0.0.1", headers), *chunks, b"0\r\n\r\n")
        return answer.shown(1)


async def test_a_session_that_was_deleted_is_as_unknown_to_the_lane_as_to_the_sdk(addresses: tuple[str, str]) -> None:
    fast_path, sdk = await asyncio.gather(*(after_the_end(address) for address in addresses))
    assert fast_path == sdk
    assert fast_path[-1]["status"] == 404


async def after_the_end(address: str) -> list[Any]:
    async with HttpWire(address) as wire:
        headers = [*RIGHT, ("Mcp-Session-Id", await shake_hands(wire))]
        before = await wire.post(headers, a_call(1, "echo", {"text": "here"}))
        gone = await wire.post(headers, b"", method="DELETE")
        after = await wire.post(headers, a_call(2, "echo", {"text": "here"}))
        return [before.shown(1), gone.shown(2), after.shown(3)]


async def test_streamed_answers_do_not_wait_for_a_slow_acknowledgement() -> None:
    async with open_sockets(ServerOptions(port=0)) as (
        bound,
    ):  # asyncio turns Nagle's algorithm off only on sockets that say that they are TCP
        assert bound.proto == socket.IPPROTO_TCP
