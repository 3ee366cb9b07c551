"""What a tool may do to its MCP client, and what becomes of it when the client cannot."""

from __future__ import annotations

from typing import Any

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError

from toolstead import PluginContext, Tool, ToolError, ToolMeta
from toolstead.testing import connect, memory_stead


def interactive(handler: Any) -> Tool:
    return Tool(name="ask", description="Ask.", handler=handler, interactive=True)


async def ask(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return str(await meta.client.elicit("Who are you?", {"type": "object", "properties": {}}))


async def ask_or_guess(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    try:
        return await ask(ctx, input, meta)
    except ToolError:
        return "somebody"


async def ask_or_complain(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    try:
        return await ask(ctx, input, meta)
    except ToolError:
        raise ToolError("say who you are in `name`") from None


async def shout(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    await meta.client.log("loud", "hello")
    return "logged"


async def test_a_tool_that_can_do_without_an_answer_keeps_its_own() -> None:
    for handler, text in ((ask_or_guess, "somebody"), (ask_or_complain, "say who you are in `name`")):
        async with memory_stead(interactive(handler)) as stead, connect(stead, protocol="modern") as client:
            part = (await client.call_tool("ask")).content[0]
            assert isinstance(part, mcp_types.TextContent)
            assert part.text == text


async def test_a_tool_that_cannot_is_the_protocols_own_error() -> None:
    async with memory_stead(interactive(ask)) as stead, connect(stead, protocol="modern") as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ask")
        assert caught.value.code == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_level_that_does_not_exist_is_the_tools_mistake(era: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with memory_stead(interactive(shout)) as stead, connect(stead, protocol=era) as client:
        assert (await client.call_tool("ask")).is_error
    assert "unknown log level 'loud'; use one of debug, info," in caplog.text


async def test_other_doors_have_nobody_to_ask_and_the_caller_reads_it() -> None:
    async with memory_stead(interactive(ask)) as stead:
        answer = await stead.call("ask")
        assert answer.is_error
        assert answer.text == "tool 'ask': this caller cannot be asked; call it from an MCP client"
