"""An agent of AutoGen with the tools of autogen-ext, on a scripted chat completions API."""

from __future__ import annotations

from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import StdioServerParams, StreamableHttpServerParams, mcp_server_tools
from probe import AgentConnection, Probe

probe = Probe()


class AutogenConnection(AgentConnection):
    """An agent whose tools are loaded anew for each question."""

    async def load(self) -> list[Any]:
        """Its tools."""
        if probe.is_stdio:
            environ = probe.stage["environ"]
            return await mcp_server_tools(
                StdioServerParams(command=probe.command, args=probe.arguments, env=environ, read_timeout_seconds=20)
            )
        return await mcp_server_tools(StreamableHttpServerParams(url=probe.stage["url"], timeout=20))

    async def talk(self, prompt: str) -> str:
        able = ModelInfo(vision=True, function_calling=True, json_output=True, structured_output=True, family="unknown")
        model = OpenAIChatCompletionClient(
            model="scripted", base_url=f"{probe.stage['models']}/v1", api_key="any", model_info=able
        )
        agent = AssistantAgent("lab", model, tools=await self.load(), reflect_on_tool_use=True)
        result = await agent.run(task=prompt)
        return str(result.messages[-1].content)

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool.schema["parameters"] for tool in await self.load()}


async def run() -> None:
    await probe.run_checks(AutogenConnection())


probe.run(run)
