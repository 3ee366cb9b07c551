"""Our words in MCP's: what each protocol version can say."""

from __future__ import annotations

from typing import Any

import mcp_types
import pytest

from toolstead import Annotations, PluginContext, Tool, ToolMeta, ToolResult
from toolstead.testing import connect, memory_stead
from toolstead.types.content import ResourceLink

NUMBERS = {"type": "array", "items": {"type": "integer"}}
ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])


async def numbers(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    return ToolResult.of_json([1, 2])


async def who(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return meta.call_id


async def link(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ResourceLink:
    return ResourceLink(uri="file:///a.txt", name="a", description="A file.", mime_type="text/plain")


TOOLS = [
    Tool(name="numbers", description="Numbers.", handler=numbers, output_schema=NUMBERS),
    Tool(name="who", description="Who calls.", handler=who, annotations=Annotations(read_only=True, open_world=False)),
    Tool(name="link", description="A link.", handler=link, title="Link"),
]


@ERAS
async def test_what_is_no_object_is_structured_in_the_modern_era_only_and_text_in_both(era: Any) -> None:
    async with memory_stead(*TOOLS) as stead, connect(stead, protocol=era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed["numbers"].output_schema == (NUMBERS if era == "modern" else None)
        answer = await client.call_tool("numbers")
        assert answer.structured_content == ([1, 2] if era == "modern" else None)
        assert [part.text for part in answer.content if isinstance(part, mcp_types.TextContent)] == ["[1,2]"]


@ERAS
async def test_hints_titles_and_links_arrive(era: Any) -> None:
    async with memory_stead(*TOOLS) as stead, connect(stead, protocol=era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        hints = listed["who"].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.open_world_hint, hints.destructive_hint) == (True, False, None)
        assert (listed["link"].annotations, listed["link"].title) == (None, "Link")
        part = (await client.call_tool("link")).content[0]
        assert isinstance(part, mcp_types.ResourceLink)
        assert (str(part.uri), part.name, part.description, part.mime_type) == (
            "file:///a.txt",
            "a",
            "A file.",
            "text/plain",
        )


@ERAS
@pytest.mark.parametrize(("given", "kept"), [("toolu_1", True), ("", False), ("x" * 129, False), (7, False)])
async def test_the_models_own_id_of_a_call_is_kept(era: Any, given: Any, kept: bool) -> None:
    async with memory_stead(*TOOLS) as stead, connect(stead, protocol=era) as client:
        part = (await client.call_tool("who", meta={"claudecode/toolUseId": given})).content[0]
        assert isinstance(part, mcp_types.TextContent)
        assert (part.text == given) is kept
