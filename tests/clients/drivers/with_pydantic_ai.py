"""An agent of Pydantic AI, on a scripted chat completions API."""

from __future__ import annotations

from typing import Any

from fastmcp.client.transports import StdioTransport
from probe import AgentConnection, Probe
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

probe = Probe()


class PydanticConnection(AgentConnection):
    """An agent with the server as a toolset."""

    def __init__(self) -> None:
        transport: Any = probe.stage["url"]
        if probe.is_stdio:
            transport = StdioTransport(probe.command, probe.arguments, env=probe.stage["environ"])
        self.toolset = MCPToolset(transport, elicitation_handler=elicit)
        provider = OpenAIProvider(base_url=f"{probe.stage['models']}/v1", api_key="any")
        self.agent = Agent(OpenAIChatModel("scripted", provider=provider), toolsets=[self.toolset], retries=2)

    async def talk(self, prompt: str) -> str:
        return str((await self.agent.run(prompt)).output)

    async def tools(self) -> dict[str, Any]:
        listed = await self.toolset.list_tools()
        return {tool.name: tool.input_schema for tool in listed}

    async def prompts(self) -> int:
        return len(await self.toolset.client.list_prompts())

    async def resources(self) -> int:
        return len(await self.toolset.list_resources())


async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
    return {"name": "Ada"} if response_type is None else response_type(name="Ada")


async def run() -> None:
    connection = PydanticConnection()
    async with connection.agent:
        await probe.run_checks(connection)


probe.run(run)
