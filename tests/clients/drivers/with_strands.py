"""An agent of Strands, on a scripted chat completions API."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from probe import AgentConnection, Probe
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

probe = Probe()


def connect() -> Any:
    if probe.is_stdio:
        environ = probe.stage["environ"]
        return stdio_client(StdioServerParameters(command=probe.command, args=probe.arguments, env=environ))
    return streamable_http_client(probe.stage["url"])


class StrandsConnection(AgentConnection):
    """An agent with the server as a provider of tools."""

    def __init__(self, client: MCPClient) -> None:
        self.client = client

    async def talk(self, prompt: str) -> str:
        model = OpenAIModel(
            client_args={"base_url": f"{probe.stage['models']}/v1", "api_key": "any"}, model_id="scripted"
        )
        agent = Agent(model=model, tools=self.client.list_tools_sync(), callback_handler=None)
        return str(await agent.invoke_async(prompt))

    async def tools(self) -> dict[str, Any]:
        return {tool.tool_name: tool.tool_spec for tool in await asyncio.to_thread(self.client.list_tools_sync)}

    async def prompts(self) -> int:
        return len((await asyncio.to_thread(self.client.list_prompts_sync)).prompts)

    async def resources(self) -> int:
        return len((await asyncio.to_thread(self.client.list_resources_sync)).resources)


async def run() -> None:
    client = MCPClient(connect)
    await asyncio.to_thread(client.start)
    await probe.run_checks(StrandsConnection(client))
    await asyncio.to_thread(client.stop, None, None, None)


probe.run(run)
