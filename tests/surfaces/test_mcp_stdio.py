"""MCP on stdin and stdout, said word for word: the wire stays whole whatever is said and whoever prints."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.programs.running import (
    MODERN,
    TOOL_SERVER,
    TOOLSTEAD,
    ModernWire,
    Wire,
    modern_meta,
    running,
    text_in,
    wire_to,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("B6")]

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
LIMIT = 1 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wire(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Wire]:
    """One connection for all: what one test says, the next one must survive."""
    folder = tmp_path_factory.mktemp("stdio")
    async with wire_to([*TOOL_SERVER, "stdio", f"server.max_body={LIMIT}"], folder) as wire:
        await wire.shake_hands()
        yield wire
        wire.close()
        assert await wire.program.ended() == 0
        assert "Traceback" not in wire.program.stderr


async def next_is_served(wire: Wire) -> None:
    answer = await wire.call("next", "echo", {"text": "next"})
    assert answer["result"]["content"] == [{"type": "text", "text": "next"}]


async def test_what_a_tool_prints_goes_to_stderr(wire: Wire) -> None:
    answer = await wire.call(1, "make_noise")
    assert answer["result"]["content"][0]["text"] == "made noise"
    await next_is_served(wire)
    for said in ("printed", "written", "to the descriptor", "from a child", "from another child"):
        await wire.program.stderr_with(said + "\n")


async def test_tools_and_their_children_have_no_stdin(wire: Wire) -> None:
    answer = await wire.call(1, "read_input")
    assert answer["result"]["content"][0]["text"] == "['', b'', b'']"
    await next_is_served(wire)


NOT_A_MESSAGE = {
    "half a message": b'{"jsonrpc": "2.0", "id": 1, "meth',
    "no JSON": b"hello?",
    "no UTF-8": b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}',
    "UTF-16": '{"jsonrpc": "2.0"}'.encode("utf-16"),
    "null bytes": b"\0" * 100,
    "half a character": b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "\\ud800"}}',
    "ten thousand arrays": b"[" * 10_000 + b"]" * 10_000,
    "ten thousand objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a number of ten thousand digits": b'{"jsonrpc": "2.0", "id": ' + b"9" * 10_000 + b', "method": "ping"}',
}


@pytest.mark.parametrize("line", NOT_A_MESSAGE.values(), ids=NOT_A_MESSAGE)
async def test_what_is_no_json_is_a_parse_error_without_an_id(wire: Wire, line: bytes) -> None:
    await wire.write(line + b"\n")
    answer = await wire.hear()
    assert answer["id"] is None
    assert answer["error"]["code"] == PARSE_ERROR
    assert "not valid JSON" in answer["error"]["message"]
    await next_is_served(wire)


NO_REQUEST: dict[str, tuple[Any, Any]] = {
    "an empty array": ([], None),
    "a batch": ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], None),
    "text": ("ping", None),
    "a number": (7, None),
    "null": (None, None),
    "an empty object": ({}, None),
    "another version of JSON-RPC": ({"jsonrpc": "1.0", "id": 3, "method": "ping"}, 3),
    "parameters in an array": ({"jsonrpc": "2.0", "id": "four", "method": "ping", "params": [1]}, "four"),
    "a method that is no text": ({"jsonrpc": "2.0", "id": 5, "method": 5}, 5),
    "an id that is null": ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
    "an id that is an object": ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, None),
    "an id with a fraction": ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None),
    "an id that is true": ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
}


@pytest.mark.parametrize(("message", "id"), NO_REQUEST.values(), ids=NO_REQUEST)
async def test_what_is_no_request_is_refused_with_its_id_where_it_has_one(wire: Wire, message: Any, id: Any) -> None:
    await wire.say(message)
    answer = await wire.hear()
    assert answer["id"] == id
    assert answer["error"]["code"] == INVALID_REQUEST
    assert answer["error"]["message"].startswith("Invalid request")
    await next_is_served(wire)


UNASKED: dict[str, Any] = {
    "an answer": {"jsonrpc": "2.0", "id": 77, "result": {}},
    "an error": {"jsonrpc": "2.0", "id": 78, "error": {"code": -1, "message": "no"}},
    "an unknown notification": {"jsonrpc": "2.0", "method": "notifications/nothing"},
    "a second handshake's end": {"jsonrpc": "2.0", "method": "notifications/initialized"},
    "a cancellation of nothing": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
    "a malformed cancellation": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}},
    "progress of nothing": {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 1},
    },
}


@pytest.mark.parametrize("message", UNASKED.values(), ids=UNASKED)
async def test_what_nobody_asked_for_is_not_answered(wire: Wire, message: Any) -> None:
    await wire.say(message)
    await wire.write(b"\n  \n\t\n")
    await wire.say({"jsonrpc": "2.0", "id": "after", "method": "ping"})
    assert await wire.hear() == {"jsonrpc": "2.0", "id": "after", "result": {}}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such/method", None, UNKNOWN_METHOD),
        ("resources/subscribe", {"uri": "x:y"}, UNKNOWN_METHOD),
        ("server/discover", None, UNKNOWN_METHOD),
        ("tools/call", None, INVALID_PARAMS),
        ("tools/call", {"name": 5}, INVALID_PARAMS),
        ("tools/call", {"name": "echo", "arguments": [1]}, INVALID_PARAMS),
        ("tools/call", {"name": "no-such-tool"}, INVALID_PARAMS),
        ("tools/list", {"cursor": "never-there"}, INVALID_PARAMS),
        ("tools/list", {"_meta": modern_meta()}, INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_done_is_an_error(wire: Wire, method: str, params: Any, code: int) -> None:
    answer = await wire.request("odd", method, params)
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    await next_is_served(wire)


async def test_a_message_that_is_too_long_is_refused_and_the_next_is_served(wire: Wire) -> None:
    long = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": "y" * LIMIT}}).encode()
    await wire.write(long + b"\n")
    answer = await wire.hear()
    assert answer["error"]["code"] == INVALID_REQUEST
    assert answer["error"]["message"] == f"message of {len(long):,} bytes is too long; at most {LIMIT:,} are accepted"
    await next_is_served(wire)


async def test_a_line_of_a_hundred_megabytes_is_never_held(wire: Wire) -> None:
    before = int((await wire.call(1, "memory"))["result"]["content"][0]["text"])
    for _ in range(100):
        await wire.write(b"x" * 1_000_000)
    await wire.write(b"\n")
    answer = await wire.hear()
    assert "100,000,000 bytes" in answer["error"]["message"]
    after = int((await wire.call(2, "memory"))["result"]["content"][0]["text"])
    assert after - before < 20_000_000


async def test_a_line_that_fills_the_limit_is_served(wire: Wire) -> None:
    arguments = {"text": ""}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": arguments}}
    arguments["text"] = "x" * (LIMIT - len(json.dumps(message)))
    await wire.say(message)
    answer = await wire.answer(1)
    assert not answer["result"]["isError"]


async def test_two_requests_with_one_id_are_both_answered(wire: Wire) -> None:
    for text in ("one", "two"):
        params = {"name": "echo", "arguments": {"text": text}}
        await wire.say({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": params})
    answers = [await wire.answer("same") for _ in range(2)]
    assert sorted(answer["result"]["content"][0]["text"] for answer in answers) == ["one", "two"]


async def test_a_cancelled_call_is_not_answered(wire: Wire, tmp_path: Path) -> None:
    arguments = {"began": str(tmp_path / "began"), "ended": str(tmp_path / "ended")}
    params = {"name": "wait", "arguments": arguments}
    await wire.say({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": params})
    await text_in(tmp_path / "began")
    await wire.notify("notifications/cancelled", {"requestId": "long", "reason": "enough"})
    assert await text_in(tmp_path / "ended") == "cancelled"
    wire.heard.clear()
    await next_is_served(wire)
    assert not wire.heard


async def test_before_the_handshake_a_client_is_told_to_shake_hands(tmp_path: Path) -> None:
    async with wire_to([*TOOLSTEAD, "mcp"], tmp_path) as wire:
        await wire.say({"jsonrpc": "2.0", "id": 77, "result": {}})
        answer = await wire.request(1, "tools/list")
        assert answer["error"]["code"] == INVALID_PARAMS
        assert answer["error"]["message"] == "tools/list: this connection is not initialized; send `initialize` first"
        assert (await wire.request(2, "no/such/method"))["error"]["code"] == UNKNOWN_METHOD
        assert (await wire.request(3, "ping"))["result"] == {}
        assert (await wire.shake_hands())["serverInfo"]["name"] == "toolstead"
        assert (await wire.request(4, "tools/list"))["result"]["tools"]


@pytest.mark.parametrize("answer", [{"action": "perhaps"}, {"content": {}}, {"action": "accept", "content": [1]}])
async def test_a_malformed_answer_of_the_client_is_told_to_the_model(answer: Any, tmp_path: Path) -> None:
    async with wire_to([*TOOL_SERVER, "stdio"], tmp_path) as wire:
        await wire.shake_hands({"elicitation": {}})
        await wire.say({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}})
        question = await wire.hear()
        assert question["method"] == "elicitation/create"
        await wire.say({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        told = (await wire.answer(1))["result"]
        assert told["isError"] is True
        assert told["content"][0]["text"] == "this client cannot be asked: its answer is malformed"
        await next_is_served(wire)


async def test_a_modern_connection_survives_the_same(tmp_path: Path) -> None:
    async with running([*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        wire = ModernWire(program)
        await wire.write(b"hello?\n")
        assert (await wire.hear())["error"]["code"] == PARSE_ERROR
        discovered = await wire.request(1, "server/discover", wire.params({}))
        assert discovered["result"]["supportedVersions"] == [MODERN]
        await next_is_served(wire)
        for odd in ([], {"jsonrpc": "2.0", "id": 1.5, "method": "ping"}):
            await wire.say(odd)
            assert (await wire.hear())["error"]["code"] == INVALID_REQUEST
        assert "error" in await wire.request(2, "tools/list")
        assert "error" in await wire.request(3, "initialize", {"protocolVersion": "2025-11-25"})
        assert (await wire.request(4, "no/such/method", wire.params({})))["error"]["code"] == UNKNOWN_METHOD
        await wire.call(5, "make_noise")
        await next_is_served(wire)
        await cancel_a_modern_call(wire, tmp_path)
        wire.close()
        assert await program.ended() == 0
        assert "Traceback" not in program.stderr


async def cancel_a_modern_call(wire: Wire, folder: Path) -> None:
    arguments = {"began": str(folder / "began"), "ended": str(folder / "ended")}
    params = wire.params({"name": "wait", "arguments": arguments})
    await wire.say({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": params})
    await text_in(folder / "began")
    await wire.notify("notifications/cancelled", {"requestId": "long"})
    assert await text_in(folder / "ended") == "cancelled"
    wire.heard.clear()
    await next_is_served(wire)
    assert not wire.heard
