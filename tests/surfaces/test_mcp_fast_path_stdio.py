"""The fast path on stdio, beside the SDK: whatever is said in whatever order, both answer the same."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.programs.clients import Era
from tests.programs.running import PROGRAMS, TOOL_SERVER, ModernWire, Wire, modern_meta, running, served, text_in
from tests.surfaces.compared import Comparison, message_in
from tests.surfaces.message_parts import Said, introductions, tour
from tests.surfaces.mixed_messages import Mixer
from tests.waiting import PATIENCE
from toolstead.adapters.mcp.fast_path.change_notices import MOST_SUBSCRIPTIONS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.promise("B6")]

MANY_WIRES = [sys.executable, str(PROGRAMS / "many_wires.py")]
ERAS: list[Era] = ["handshake", "modern"]
CONVERSATIONS, LENGTH = 30, 60
LONGEST = 16 << 20

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
"""What answers a subscription."""
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
PARTS_LISTS = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
FOREIGN = {"mcp", "mcp_types", "pydantic", "pydantic_core", "starlette", "uvicorn", "httpx", "opentelemetry"}
"""What the fast path does without. And without anyio, which `watchfiles` imports too, in the background."""


class Talk:
    """One side of a conversation: says what it is told, and answers the server's questions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard: list[Any] = []
        self._reader = reader
        self._writer = writer
        self._answers = 0
        self._more = asyncio.Event()

    async def run(self, said: Sequence[Said]) -> list[Any]:
        """Everything that is heard until the server has closed its side."""
        listening = asyncio.create_task(self._listen())
        expected = 0
        try:
            for one in said:
                expected += one.answers
                self._writer.write(one.line + b"\n")
                if one.settle:
                    await self._settled(expected)
            await self._settled(expected)
        except TimeoutError:
            self.heard.append(f"{self._answers} answers instead of {expected}")
        self._writer.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(listening, PATIENCE)
        return self.heard

    async def _settled(self, expected: int) -> None:
        while self._answers < expected:
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), PATIENCE)

    async def _listen(self) -> None:
        while line := await self._reader.readline():
            message = message_in(line)
            self.heard.append(message)
            if message.get("method", ACKNOWLEDGED) == ACKNOWLEDGED:
                self._answers += 1
                self._more.set()
            elif "id" in message:
                self._answer(message)

    def _answer(self, question: Any) -> None:
        result: dict[str, Any] = {"action": "accept", "content": {"name": "x"}}
        if question["method"] == "sampling/createMessage":
            result = {"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"}
        self._writer.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": result}).encode() + b"\n")


async def talk_to(port: int, said: Sequence[Said]) -> list[Any]:
    """A conversation with one of the many wires."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    reader, unused = await asyncio.open_connection("127.0.0.1", port, limit=LONGEST)
    try:
        return await Talk(reader, writer).run(said)
    finally:
        unused.close()


async def talk_to_a_process(arguments: Sequence[str], folder: Path, said: Sequence[Said]) -> list[Any]:
    """A conversation with a process of its own, which has not imported the SDK."""
    folder.mkdir()
    async with running([*TOOL_SERVER, "stdio", *arguments], errors=folder / "stderr.txt", cwd=folder) as program:
        assert program.process.stdout is not None
        assert program.process.stdin is not None
        return await Talk(program.process.stdout, program.process.stdin).run(said)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ports(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[int, int]]:
    """The fast path in front of the SDK, and the SDK alone."""
    async with AsyncExitStack() as stack:
        found: list[int] = []
        for name, arguments in (("fast path", []), ("sdk", ["--no-fast-path"])):
            folder = tmp_path_factory.mktemp(name)
            _, port = await stack.enter_async_context(served([*MANY_WIRES, *arguments], folder))
            found.append(int(port))
        yield found[0], found[1]


@pytest.mark.parametrize("era", ERAS)
async def test_the_fast_path_and_the_sdk_say_the_same(era: Era, ports: tuple[int, int]) -> None:
    comparison = Comparison("stdio", era)
    conversations = {f"seed {seed}": Mixer(seed, era).conversation(LENGTH) for seed in range(CONVERSATIONS)}
    for title, said in [("the tour", tour(era)), *conversations.items()]:
        fast_path, sdk = await asyncio.gather(*(talk_to(port, said) for port in ports))
        comparison.compare(title, fast_path, sdk)
        comparison.check()
    comparison.check_table()


async def test_every_introduction_is_answered_alike(ports: tuple[int, int]) -> None:
    comparison = Comparison("stdio", "handshake")
    after = Said(line=b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"three"}}')
    for hello in introductions():
        said = [hello, after, Said(line=b'{"jsonrpc":"2.0","id":3,"method":"no/such/method"}')]
        fast_path, sdk = await asyncio.gather(*(talk_to(port, said) for port in ports))
        comparison.compare(str(hello.line), fast_path, sdk)
        comparison.check()


@pytest.mark.parametrize("era", ERAS)
async def test_they_say_the_same_while_the_sdk_is_being_imported(era: Era, tmp_path: Path) -> None:
    said = Mixer(0, era).conversation(LENGTH)
    fast_path, sdk = await asyncio.gather(
        talk_to_a_process([], tmp_path / "fast path", said),
        talk_to_a_process(["--no-fast-path"], tmp_path / "sdk", said),
    )
    comparison = Comparison("stdio", era)
    comparison.compare("seed 0", fast_path, sdk)
    comparison.check()


@asynccontextmanager
async def hybrid(era: Era, folder: Path) -> AsyncIterator[Wire]:
    """A client of a fresh server; in the handshake versions it has shaken hands."""
    async with running([*TOOL_SERVER, "stdio"], errors=folder / "stderr.txt", cwd=folder) as program:
        wire = ModernWire(program) if era == "modern" else Wire(program)
        if era == "handshake":
            await wire.shake_hands()
        yield wire
        assert "Traceback" not in program.stderr


async def ask(wire: Wire, id: Any, tool: str, arguments: Any = None) -> None:
    """Call a tool, and do not wait for the answer."""
    params = wire.params({"name": tool, "arguments": arguments})
    await wire.say({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})


async def hand_over(wire: Wire) -> None:
    """Say something that is the SDK's to answer, and wait for it."""
    assert "error" in await wire.request("for the SDK", "no/such/method", wire.params({}))


async def rest_of(wire: Wire) -> list[Any]:
    """Everything that nobody waited for, to the end."""
    wire.close()
    while line := await wire.program.line():
        wire.heard.append(json.loads(line))
    return wire.heard


@pytest.mark.parametrize("era", ERAS)
async def test_the_fast_path_imports_nothing_of_the_sdk_until_a_message_needs_it(era: Era, tmp_path: Path) -> None:
    async with hybrid(era, tmp_path) as wire:
        assert (await wire.request(1, "tools/list", wire.params({})))["result"]["tools"]
        assert (await wire.call(2, "fail", {"text": "no"}))["result"]["isError"] is True
        for method, key in PARTS_LISTS.items():
            assert (await wire.request(method, method, wire.params({})))["result"][key]
        if era == "modern":
            await subscribe(wire, "ear", {"toolsListChanged": True})
        else:
            assert (await wire.request(31, "ping"))["result"] == {}
            assert (await wire.request(32, "logging/setLevel", {"level": "error"}))["result"] == {}
        await wire.call(33, "grow", {"name": "grown"})
        assert (await wire.hear())["method"] == CHANGED["method"]
        meta = {**(modern_meta() if era == "modern" else {}), "progressToken": "walking"}
        assert (await wire.request(34, "tools/call", {"name": "count", "arguments": {"to": 2}, "_meta": meta}))[
            "result"
        ]
        assert [heard["params"]["progress"] for heard in wire.heard] == [1, 2]
        imported = (await wire.call(4, "modules"))["result"]["content"][0]["text"].split()
        assert not FOREIGN & set(imported)
        await hand_over(wire)
        imported = (await wire.call(5, "modules"))["result"]["content"][0]["text"].split()
        assert {"mcp", "pydantic", "anyio"} <= set(imported)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_runs_during_the_hand_over_is_answered(era: Era, tmp_path: Path) -> None:
    async with hybrid(era, tmp_path) as wire:
        await ask(wire, "slow", "forever_began", {"tag": "late"})
        await hand_over(wire)
        await ask(wire, "long", "forever", {"tag": "late"})
        assert (await wire.answer("slow"))["result"]["content"][0]["text"] == "it began"
        await wire.notify("notifications/cancelled", {"requestId": "long"})
        assert (await wire.call("last", "forever_ended", {"tag": "late"}))["result"]["isError"] is False
        assert await rest_of(wire) == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_cancelled_once_and_silently_before_during_and_after_the_hand_over(
    era: Era, tmp_path: Path
) -> None:
    async with hybrid(era, tmp_path) as wire:
        for name in ("before", "during", "after"):
            await begin(wire, name, tmp_path)
        await wire.notify("notifications/cancelled", {"requestId": "before", "reason": "enough"})
        assert await text_in(tmp_path / "before.ended") == "cancelled 1 times"
        messages = [
            {"jsonrpc": "2.0", "id": "for the SDK", "method": "no/such/method", "params": wire.params({})},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "during"}},
        ]
        await wire.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        assert await text_in(tmp_path / "during.ended") == "cancelled 1 times"
        await wire.answer("for the SDK")
        await begin(wire, "late", tmp_path)
        for name in ("after", "late"):
            await wire.notify("notifications/cancelled", {"requestId": name})
            assert await text_in(tmp_path / f"{name}.ended") == "cancelled 1 times"
        for name in ("before", "during", "after", "late"):  # and again, when they are gone
            await wire.notify("notifications/cancelled", {"requestId": name})
        assert (await wire.call("before", "echo", {"text": "the id is free"}))["result"]["isError"] is False
        assert await rest_of(wire) == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancellation_that_names_a_protocol_version_cancels_as_well(era: Era, tmp_path: Path) -> None:
    async with hybrid(era, tmp_path) as wire:
        await begin(wire, "before", tmp_path)
        await begin(wire, "after", tmp_path)
        await wire.notify("notifications/cancelled", {"requestId": "before", "_meta": modern_meta()})
        assert await text_in(tmp_path / "before.ended") == "cancelled 1 times"
        await hand_over(wire)
        await wire.notify("notifications/cancelled", {"requestId": "after", "_meta": modern_meta()})
        assert await text_in(tmp_path / "after.ended") == "cancelled 1 times"
        assert await rest_of(wire) == []


async def begin(wire: Wire, name: str, folder: Path) -> None:
    await ask(wire, name, "tidy", {"began": str(folder / f"{name}.began"), "ended": str(folder / f"{name}.ended")})
    await text_in(folder / f"{name}.began")


@pytest.mark.parametrize("era", ERAS)
async def test_tools_that_report_without_end_are_cancelled_by_a_client_that_reads(era: Era, tmp_path: Path) -> None:
    async with hybrid(era, tmp_path) as wire:
        for number in range(20):
            meta = {**(modern_meta() if era == "modern" else {}), "progressToken": number}
            call = {"name": "count", "arguments": {"to": 10**9}, "_meta": meta}
            await wire.say({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call})
        assert (await wire.hear())["method"] == "notifications/progress"
        for number in range(20):
            await wire.notify("notifications/cancelled", wire.params({"requestId": number}))
        await wire.say({"jsonrpc": "2.0", "id": "after", "method": "tools/list", "params": wire.params({})})
        heard = 0
        while "id" not in await wire.hear():
            heard += 1
            assert heard < 20_000, "the input is not read any more"


@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_the_sdk_arrives_while_the_lane_goes_on(era: Era, tmp_path: Path) -> None:
    async with hybrid(era, tmp_path) as wire:
        meta = {**(modern_meta() if era == "modern" else {}), "progressToken": "walking"}
        params = {"name": "walk", "arguments": {"tag": "w"}, "_meta": meta}
        await wire.say({"jsonrpc": "2.0", "id": "walk", "method": "tools/call", "params": params})
        for number in (1, 2, 3):
            heard = await wire.hear()
            assert heard["params"] == {"progressToken": "walking", "progress": number, "total": 3}
            assert (await wire.call(number, "echo", {"text": "meanwhile"}))["result"]["isError"] is False
            assert wire.heard == []
            await wire.call(f"step {number}", "step", {"tag": "w"})
        walked = [message for message in wire.heard if message.get("id") == "walk"] or [await wire.answer("walk")]
        assert walked[0]["result"]["content"][0]["text"] == "walked"


async def test_a_handshake_client_hears_of_a_change_once_before_and_after_the_hand_over(tmp_path: Path) -> None:
    async with hybrid("handshake", tmp_path) as wire:
        await wire.call(1, "grow", {"name": "grown_early"})
        await hand_over(wire)
        assert wire.heard == [CHANGED]
        wire.heard.clear()
        await wire.call(2, "grow", {"name": "grown_late"})
        await hand_over(wire)
        await wire.request(3, "ping")
        assert await rest_of(wire) == [CHANGED]


async def test_a_client_that_did_not_end_its_handshake_hears_of_no_change(tmp_path: Path) -> None:
    async with running([*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        wire = Wire(program)
        me = {"name": "test", "version": "1"}
        await wire.request(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me})
        await wire.call(1, "grow", {"name": "grown_early"})
        await hand_over(wire)
        await wire.call(2, "grow", {"name": "grown_late"})
        await hand_over(wire)
        assert await rest_of(wire) == []


async def test_a_modern_client_hears_of_a_change_once_and_only_where_it_listens(tmp_path: Path) -> None:
    async with hybrid("modern", tmp_path) as wire:
        await wire.call(1, "grow", {"name": "grown_early"})
        await subscribe(wire, "ear", {"toolsListChanged": True})
        await subscribe(wire, "other", {"promptsListChanged": True})
        await subscribe(wire, "ended", {"toolsListChanged": True})
        await wire.notify("notifications/cancelled", {"requestId": "ended"})
        await wire.call(2, "grow", {"name": "grown_late"})
        await hand_over(wire)
        heard = [message for message in await rest_of(wire) if "method" in message]
        stamp = {"io.modelcontextprotocol/subscriptionId": "ear"}
        assert heard == [{"jsonrpc": "2.0", "method": CHANGED["method"], "params": {"_meta": stamp}}]


async def test_one_subscription_too_many_is_refused(tmp_path: Path) -> None:
    async with hybrid("modern", tmp_path) as wire:
        for number in range(MOST_SUBSCRIPTIONS):
            await subscribe(wire, number, {"toolsListChanged": True})
        refused = await wire.request("surplus", "subscriptions/listen", wire.params({"notifications": {}}))
        assert refused["error"]["message"] == "Subscription limit reached"
        await wire.notify("notifications/cancelled", {"requestId": 7})
        await subscribe(wire, "room again", {"toolsListChanged": True})


async def subscribe(wire: Wire, id: Any, wanted: Any) -> None:
    """Open a subscription, and wait for its acknowledgement."""
    params = wire.params({"notifications": wanted})
    await wire.say({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params})
    stamp = {"io.modelcontextprotocol/subscriptionId": id}
    acknowledged = {"method": ACKNOWLEDGED, "params": {"_meta": stamp, "notifications": wanted}}
    assert await wire.hear() == {"jsonrpc": "2.0", **acknowledged}


async def test_a_client_that_was_refused_and_introduces_itself_again_is_known(tmp_path: Path) -> None:
    async with running([*TOOL_SERVER, "stdio"], errors=tmp_path / "stderr.txt", cwd=tmp_path) as program:
        wire = Wire(program)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"version": "1"}}
        assert "error" in await wire.request(0, "initialize", hello)
        hello["clientInfo"] = {"name": "claude-code", "version": "2"}
        assert "result" in await wire.request(1, "initialize", hello)
        await wire.notify("notifications/initialized")
        tools = (await wire.request(2, "tools/list"))["result"]["tools"]
        assert "anyOf" not in next(tool for tool in tools if tool["name"] == "either")["inputSchema"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_registered_and_what_is_gone_shows_at_once(era: Era, tmp_path: Path) -> None:
    async with hybrid(era, tmp_path) as wire:
        before = await names_of(wire)
        await wire.call(1, "grow", {"name": "grown"})
        assert set(await names_of(wire)) == {*before, "grown"}
        assert (await wire.call(2, "grown"))["result"]["content"][0]["text"] == "grown"
        await wire.call(3, "shrink", {"name": "grown"})
        assert await names_of(wire) == before
        assert "grown" in (await wire.call(4, "grown"))["error"]["message"]


async def names_of(wire: Wire) -> list[str]:
    return [tool["name"] for tool in (await wire.request("list", "tools/list", wire.params({})))["result"]["tools"]]
