"""`web_search` without a provider, over REST, MCP and the command line: as unknown as a tool that never was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.rest_stead import serving
from tests.surfaces.test_tools_command import toolstead
from toolstead.testing import connect

pytestmark = pytest.mark.promise("K4")

INPUT = {"query": "otters"}


async def test_without_a_provider_it_is_unknown_over_rest_and_mcp(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        listed = [tool["name"] for tool in (await client.get("/api/tools")).json["tools"]]
        assert ("web_fetch" in listed, "web_search" in listed) == (True, False)
        assert (await client.get("/api/tools/web_search")).status == 404
        assert (await client.call("web_search", INPUT)).status == 404
        async with connect(client.stead) as mcp:
            assert "web_search" not in [tool.name for tool in (await mcp.list_tools()).tools]
            with pytest.raises(Exception, match="web_search") as caught:
                await mcp.call_tool("web_search", INPUT)
            never = pytest.raises(Exception, match="web_never")
            with never as other:
                await mcp.call_tool("web_never", INPUT)
            assert type(caught.value) is type(other.value)


def test_without_a_provider_it_is_unknown_on_the_command_line(tmp_path: Path) -> None:
    assert "web_search" not in toolstead("tools", "list", cwd=tmp_path).stdout
    called = toolstead("tools", "call", "web_search", "query=otters", cwd=tmp_path)
    assert called.returncode == 2
    assert "web_search" in called.stderr
