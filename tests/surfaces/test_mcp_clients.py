"""The official SDK's client against a stead: all protocol versions on both transports.

The clients live as long as this module: one for each way, and one server for all of them over HTTP.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types
import pytest
import pytest_asyncio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tests.programs.clients import (
    EVERY_WAY,
    Door,
    Ear,
    Era,
    connected,
    in_a_task,
    names_of,
    names_with,
    target_of,
    text_of,
)
from tests.programs.running import TOOLSTEAD, running, text_in
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(kw_only=True)
class Guest:
    """A connected client, and what it heard."""

    door: Door
    era: Era
    client: Client
    ear: Ear
    lines: list[str] = field(default_factory=list[str])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Where the one HTTP server is."""
    async with in_a_task(target_of("http", tmp_path_factory.mktemp("http"))) as target:
        yield target


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=EVERY_WAY, ids="-".join)
async def instance(request: Any, address: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guest]:
    """A client for each way, which declares nothing that it could be asked for."""
    door, era = request.param
    ear, lines = Ear(), list[str]()

    async def note(params: mcp_types.LoggingMessageNotificationParams) -> None:
        lines.append(f"{params.level}: {params.data}")

    options: dict[str, Any] = {"message_handler": ear.message, "logging_callback": note, "log_level": "error"}
    async with (
        in_a_task(target_of("stdio", tmp_path_factory.mktemp("stdio"))) as started,
        in_a_task(connected(address if door == "http" else started, era, **options)) as client,
    ):
        yield Guest(door=door, era=era, client=client, ear=ear, lines=lines)


@pytest.mark.promise("B6")
async def test_a_client_lists_and_calls(instance: Guest) -> None:
    client = instance.client
    assert (client.protocol_version == "2026-07-28") is (instance.era == "modern")
    assert client.server_info is not None
    assert client.server_info.name == "toolstead"
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert listed["echo"].input_schema["required"] == ["text"]
    assert listed["git-status"].annotations is not None
    assert listed["git-status"].annotations.read_only_hint is True
    answer = await client.call_tool("echo", {"text": "grüß dich 🌱"})
    assert (text_of(answer), answer.is_error) == ("grüß dich 🌱", False)


async def test_the_list_has_the_same_order_every_time(instance: Guest) -> None:
    first = await names_of(instance.client)
    await instance.client.call_tool("grow", {"name": "zz"})
    await instance.client.call_tool("shrink", {"name": "zz"})
    assert await names_of(instance.client) == first


async def test_a_failure_is_a_result_and_an_unknown_tool_is_an_error(instance: Guest) -> None:
    foreseen = await instance.client.call_tool("fail", {"text": "no such colour"})
    assert (text_of(foreseen), foreseen.is_error) == ("no such colour", True)
    wrong = await instance.client.call_tool("echo", {"txt": "x"})
    assert wrong.is_error
    assert '"text" is missing' in text_of(wrong)
    with pytest.raises(MCPError, match="unknown tool 'ecko'; did you mean 'echo'") as caught:
        await instance.client.call_tool("ecko", {})
    assert caught.value.code == mcp_types.INVALID_PARAMS


@pytest.mark.promise("R5")
async def test_a_tool_registered_while_clients_are_connected_appears_after_a_notice(instance: Guest) -> None:
    client, ear = instance.client, instance.ear
    assert client.server_capabilities.tools is not None
    assert client.server_capabilities.tools.list_changed is True
    async with ear.open(client, instance.era):
        assert "late" not in await names_of(client)
        await client.call_tool("grow", {"name": "late"})
        assert "late" in await names_with(client, ear, lambda names: "late" in names)
        assert text_of(await client.call_tool("late")) == "late"
        await client.call_tool("shrink", {"name": "late"})
        assert "late" not in await names_with(client, ear, lambda names: "late" not in names)


@pytest.mark.promise("R5")
async def test_a_burst_of_changes_is_few_notices_and_the_last_one_tells_of_all(instance: Guest) -> None:
    client, ear = instance.client, instance.ear
    async with ear.open(client, instance.era):
        ear.notices = 0
        await client.call_tool("grow_many", {"prefix": "burst", "count": 300})
        names = await names_with(client, ear, lambda names: "burst299" in names)
        assert sum(name.startswith("burst") for name in names) == 300
        assert ear.notices < 150
        await client.call_tool("shrink", {"name": "burst"})
        await names_with(client, ear, lambda names: "burst299" not in names)


@pytest.mark.promise("R5")
async def test_every_client_of_a_server_hears_of_a_change_and_those_that_left_disturb_nobody(address: str) -> None:
    ears = [Ear(), Ear()]
    async with (
        connected(address, "handshake", message_handler=ears[0].message) as old,
        connected(address, "modern") as new,
        ears[1].open(new, "modern"),
    ):
        async with connected(address, "handshake") as gone, connected(address, "modern") as also_gone:
            await gone.call_tool("echo", {"text": "x"})
            async with Ear().open(also_gone, "modern"):
                pass
        await new.call_tool("grow", {"name": "for-all"})
        for client, ear in zip((old, new), ears, strict=True):
            assert "for-all" in await names_with(client, ear, lambda names: "for-all" in names)
        await new.call_tool("shrink", {"name": "for-all"})


@pytest.mark.promise("B6")
async def test_cancelling_reaches_the_handler(instance: Guest, tmp_path: Path) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"
    calling = asyncio.create_task(instance.client.call_tool("wait", {"began": str(began), "ended": str(ended)}))
    assert await text_in(began) == "began"
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await text_in(ended) == "cancelled"
    assert text_of(await instance.client.call_tool("echo", {"text": "still here"})) == "still here"


@pytest.mark.promise("B6")
async def test_progress_arrives_in_order(instance: Guest) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    assert text_of(await instance.client.call_tool("count", {"to": 3}, progress_callback=note)) == "counted"
    await until(lambda: len(seen) >= 3)
    assert seen == [(1, 3, "1 of 3"), (2, 3, "2 of 3"), (3, 3, "3 of 3")]
    assert text_of(await instance.client.call_tool("count", {"to": 3})) == "counted", "nobody has to listen"


async def test_log_lines_arrive_from_the_level_that_the_client_wants(instance: Guest) -> None:
    client, lines = instance.client, instance.lines
    if instance.era == "handshake":
        assert client.server_capabilities.logging is not None
        await client.call_tool("log")
        await until(lambda: len(lines) >= 2)
        assert lines == ["info: a line at info", "error: a line at error"]
        lines.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await client.set_logging_level("error")
    await client.call_tool("log")
    await until(lambda: lines)
    assert lines == ["error: a line at error"]


async def test_text_that_no_encoding_holds_is_mended_wherever_it_is_said(instance: Guest) -> None:
    seen: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    instance.lines.clear()
    answer = await instance.client.call_tool("half_a_character", progress_callback=note)
    assert text_of(answer) == "�"
    assert answer.structured_content == {"�": ["�"]}
    await until(lambda: seen and instance.lines)
    assert (seen, instance.lines) == (["�"], ["error: �"])
    assert text_of(await instance.client.call_tool("echo", {"text": "next"})) == "next"


async def test_a_long_list_comes_in_pages_and_a_stale_cursor_is_refused(instance: Guest) -> None:
    client = instance.client
    before = len(await names_of(client))
    await client.call_tool("grow_many", {"prefix": "many", "count": 1_500, "at_once": True})
    names = await names_of(client)
    assert len(names) == len(set(names)) == before + 1_500
    assert (await client.list_tools()).next_cursor is not None
    with pytest.raises(MCPError, match="list again without a cursor"):
        await client.list_tools(cursor="never-there")
    await client.call_tool("shrink", {"name": "many"})


async def test_a_client_that_declared_nothing_is_not_asked(instance: Guest) -> None:
    for name, arguments, needed in (("ask", {}, "elicitation"), ("think", {"prompt": "hi"}, "sampling")):
        if instance.era == "handshake":
            answer = await instance.client.call_tool(name, arguments)
            assert answer.is_error
            assert text_of(answer).endswith(f"it did not declare `{needed}`")
            continue
        with pytest.raises(MCPError, match=f"did not declare `{needed}`") as caught:
            await instance.client.call_tool(name, arguments)
        assert caught.value.code == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert caught.value.data == {"requiredCapabilities": {needed: {}}}


async def ada(context: Any, params: Any) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})


async def nobody(context: Any, params: Any) -> mcp_types.ErrorData:
    return mcp_types.ErrorData(code=-1, message="nobody is at home")


async def parrot(context: Any, params: mcp_types.CreateMessageRequestParams) -> mcp_types.CreateMessageResult:
    said = params.messages[0].content
    assert isinstance(said, mcp_types.TextContent)
    text = mcp_types.TextContent(type="text", text=f"you said: {said.text}")
    return mcp_types.CreateMessageResult(role="assistant", content=text, model="parrot")


async def test_the_commands_themselves_serve_both_eras(tmp_path: Path) -> None:
    """`toolstead mcp` and `toolstead serve`, not only the Python API behind them."""
    (tmp_path / "note.txt").write_text("first\nsecond\n")
    async with running([*TOOLSTEAD, "serve", "--port", "0"], errors=tmp_path / "serve.txt", cwd=tmp_path) as program:
        said = await program.stderr_with("docs     http")
        address = said.partition("MCP   ")[2].split()[0]
        command, *arguments = [*TOOLSTEAD, "mcp"]
        with (tmp_path / "mcp.txt").open("w") as errors:
            for era in ("handshake", "modern"):
                params = StdioServerParameters(command=command, args=arguments, cwd=tmp_path, env=dict(os.environ))
                for target in (stdio_client(params, errlog=errors), address):
                    async with connected(target, era) as client:
                        assert "file-reader" in await names_of(client)
                        answer = await client.call_tool("file-reader", {"path": "note.txt", "startLine": 2})
                        assert "second" in text_of(answer)
                        assert "first" not in text_of(answer)


@pytest.mark.promise("B13")
@pytest.mark.parametrize(("door", "era"), EVERY_WAY)
async def test_a_person_and_a_model_at_the_client_can_be_asked(door: Door, era: Era, tmp_path: Path) -> None:
    async with (
        target_of(door, tmp_path) as target,
        connected(target, era, elicitation_callback=ada, sampling_callback=parrot) as client,
    ):
        asked = await client.call_tool("ask")
        assert asked.structured_content == {"action": "accept", "content": {"name": "Ada"}}
        assert text_of(await client.call_tool("think", {"prompt": "hi"})) == "you said: hi�"


async def test_a_client_that_refuses_to_be_asked_is_told_to_the_model(address: str) -> None:
    async with connected(address, "handshake", elicitation_callback=nobody) as client:
        asked = await client.call_tool("ask")
        assert (text_of(asked), asked.is_error) == ("this client cannot be asked: nobody is at home", True)


async def test_a_handshake_client_that_does_not_answer_in_time_is_told_to_the_model(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def silent(context: Any, params: Any) -> mcp_types.ErrorData:
        await never.wait()
        return mcp_types.ErrorData(code=-1, message="too late")

    async with (
        target_of("stdio", tmp_path, "server.ask_timeout=0.2") as target,
        connected(target, "handshake", elicitation_callback=silent) as client,
    ):
        asked = await client.call_tool("ask")
        assert text_of(asked) == "this client cannot be asked: it did not answer within 0.2 seconds"
