"""The tools of smolagents, called as its agents call them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from mcp import StdioServerParameters
from PIL.Image import Image
from probe import Answer, Connection, Probe
from smolagents import MCPClient
from smolagents.models import get_tool_json_schema

probe = Probe()


class SmolConnection(Connection):
    """Its client, whose tools are ordinary functions."""

    def __init__(self, client: MCPClient) -> None:
        self.client = client

    def spell(self, name: str) -> str:
        return name.replace("-", "_")

    async def tools(self) -> dict[str, Any]:
        schemas = {tool.name: get_tool_json_schema(tool) for tool in self.client.get_tools()}
        return json.loads(json.dumps(schemas))  # as its ToolCallingAgent sends them

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        (tool,) = [tool for tool in self.client.get_tools() if tool.name == self.spell(name)]
        result = await asyncio.to_thread(tool, **arguments)
        if isinstance(result, Image):
            return Answer(False, "", ("image",))
        return Answer(False, str(result))


async def run() -> None:
    told: Any = {"url": probe.stage["url"], "transport": "streamable-http"}
    if probe.is_stdio:
        environ = probe.stage["environ"]
        told = StdioServerParameters(command=probe.command, args=probe.arguments, env=environ)
    client = await asyncio.to_thread(MCPClient, told, structured_output=False)
    await probe.run_checks(SmolConnection(client))
    await asyncio.to_thread(client.disconnect)


probe.run(run)
