from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from mcp.client.client import Client

from tests.unit.adapters.claude.said import SPEC, Listener
from toolstead.adapters.claude.tools_server import ToolsServer, claude_copies
from toolstead.adapters.claude.turn_progress import TurnProgress
from toolstead.adapters.claude.usage import ClaudeUsage
from toolstead.types.content import Text
from toolstead.types.result import ToolResult
from toolstead.types.tool import Annotations, Provenance, ToolInfo

pytestmark = pytest.mark.requires("claude")

CHOICE = {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}


def info(name: str, description: str = "Does it.", **more: Any) -> ToolInfo:
    schema: Mapping[str, Any] = more.pop("input_schema", {"type": "object", "properties": {}})
    provenance = Provenance(source="plugin", origin="tests")
    return ToolInfo(name=name, description=description, provenance=provenance, input_schema=schema, **more)


class Stage:
    def __init__(self, *tools: ToolInfo) -> None:
        self.tools = list(tools)
        self.listener = Listener()
        self.progress: TurnProgress | None = None
        self.server = ToolsServer(offered=lambda: self.tools, copies=claude_copies(), running=lambda: self.progress)

    def begin(self) -> TurnProgress:
        self.progress = TurnProgress(self.listener.turn(), SPEC, ClaudeUsage(resumed=False), max_turns=100)
        return self.progress

    def client(self) -> Client:
        return Client(self.server.instance, mode="legacy")


async def test_what_is_offered_now_is_listed() -> None:
    stage = Stage(info("one"))
    async with stage.client() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["one"]
        stage.tools.append(info("two"))
        assert [tool.name for tool in (await client.list_tools()).tools] == ["one", "two"]


async def test_a_choice_at_the_top_level_is_told_otherwise_and_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="toolstead")
    stage = Stage(info("either", input_schema=CHOICE), info("plain"))
    async with stage.client() as client:
        for _ in range(2):
            either, plain = (await client.list_tools()).tools
        stage.tools[0] = info("either", input_schema=CHOICE)  # a reload made it anew
        await client.list_tools()
    assert "anyOf" not in either.input_schema
    assert plain.input_schema == stage.tools[1].input_schema
    assert len([record for record in caplog.records if "adapted" in record.getMessage()]) == 1


async def test_hints_and_limits_go_along_and_an_output_schema_does_not() -> None:
    reads = info("reads", annotations=Annotations(read_only=True), output_schema={"type": "object"})
    async with Stage(reads).client() as client:
        (tool,) = (await client.list_tools()).tools
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is True
    assert tool.output_schema is None
    assert tool.meta is not None
    assert tool.meta["anthropic/maxResultSizeChars"] > 262_144


async def test_a_call_is_made_by_the_turn_that_runs_with_the_models_own_id() -> None:
    stage = Stage(info("one"))
    stage.listener.answer = ToolResult(content=(Text("as text"),), structured={"as": "json"})
    progress = stage.begin()
    async with stage.client() as client:
        result = await client.call_tool("one", {"x": 1}, meta={"claudecode/toolUseId": "c1"})
    assert stage.listener.calls == [("one", {"x": 1}, "c1")]
    assert [part.text for part in result.content] == ["as text"]
    assert result.structured_content is None  # it would take the place of the text
    assert progress.acted
    assert "c1" in progress.calls


async def test_an_answer_without_content_is_told_as_text() -> None:
    stage = Stage(info("one"))
    stage.listener.answer = ToolResult(content=(), structured={"größe": 1}, is_error=True)
    stage.begin()
    async with stage.client() as client:
        result = await client.call_tool("one", {})
    assert [part.text for part in result.content] == ['{"größe":1}']
    assert result.is_error


@pytest.mark.parametrize(
    ("text", "is_error", "told"),
    [
        ("x" * 500_000, False, None),
        ("x" * 500_001, False, "500,001 characters"),
        ("\U0001f600" * 250_001, False, "500,002 characters"),
        ("x" * 10_000, True, None),
        ("x" * 10_001, True, "an error of 10,001 characters"),
    ],
)
async def test_an_answer_that_claude_code_will_not_show_whole_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture, text: str, is_error: bool, told: str | None
) -> None:
    caplog.set_level(logging.WARNING, logger="toolstead")
    stage = Stage(info("one"))
    stage.listener.answer = ToolResult(content=(Text(text),), is_error=is_error)
    stage.begin()
    async with stage.client() as client:
        await client.call_tool("one", {})
    said = [record.getMessage() for record in caplog.records if "answered with" in record.getMessage()]
    assert len(said) == (told is not None)
    assert all(f"one answered with {told}" in line for line in said)


async def test_without_a_turn_nothing_is_called() -> None:
    stage = Stage(info("one"))
    async with stage.client() as client:
        result = await client.call_tool("one", {})
    assert result.is_error
    assert "no turn is running" in result.content[0].text
    assert not stage.listener.calls


async def test_cancelling_reaches_a_call_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(info("one"))
    inside, cancelled = asyncio.Event(), list[str]()

    async def call_tool(name: str, input: Mapping[str, Any], *, call_id: str | None = None, **more: Any) -> ToolResult:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it can tidy up
            cancelled.append(name)
        raise AssertionError

    monkeypatch.setattr(stage.listener, "call_tool", call_tool)
    stage.begin()
    async with asyncio.timeout(30), stage.client() as client:
        calling = asyncio.create_task(client.call_tool("one", {}))
        await inside.wait()
        calling.cancel()
        await asyncio.wait((calling,))
        while not cancelled:
            await asyncio.sleep(0.01)
    assert cancelled == ["one"]


async def test_what_was_added_makes_a_list_outdated_and_what_is_gone_or_changed_makes_it_stale() -> None:
    stage = Stage(info("one"), info("two"))
    assert not stage.server.is_outdated  # nobody has listed anything
    assert not stage.server.is_stale
    async with stage.client() as client:
        await client.list_tools()
        assert not stage.server.is_outdated
        stage.tools[:] = [info("one"), info("two"), info("three")]
        assert stage.server.is_outdated
        assert not stage.server.is_stale
        stage.tools[:] = [info("one", "Does more."), info("two")]
        assert stage.server.is_stale
        await client.list_tools()
        assert not stage.server.is_outdated
        assert stage.server.is_stale  # a model that was shown the old one goes on to see it
        stage.tools[:] = [info("one"), info("two")]
        assert not stage.server.is_stale
        stage.tools[:] = [info("one")]
        assert stage.server.is_stale
        stage.tools[:] = [info("one"), info("two", input_schema={"type": "object"})]
        assert stage.server.is_stale
        stage.tools[:] = [info("one"), info("two", annotations=Annotations(read_only=True))]
        assert stage.server.is_stale
