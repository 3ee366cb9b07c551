"""An agent of the OpenAI Agents SDK, on a scripted Responses API."""

from __future__ import annotations

from typing import Any

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from probe import AgentConnection, Probe

probe = Probe()
set_tracing_disabled(True)


class OpenAiConnection(AgentConnection):
    """An agent with the server."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.agent = Agent(name="lab", model="gpt-scripted", mcp_servers=[server])

    async def talk(self, prompt: str) -> str:
        return str((await Runner.run(self.agent, prompt)).final_output)

    async def tools(self) -> dict[str, Any]:
        listed = await self.server.list_tools()
        return {tool.name: getattr(tool, "inputSchema", None) or tool.input_schema for tool in listed}

    async def list_anew(self) -> None:
        self.server.invalidate_tools_cache()

    async def prompts(self) -> int:
        return len((await self.server.list_prompts()).prompts)

    async def resources(self) -> int:
        return len((await self.server.list_resources()).resources)


async def run() -> None:
    more = {"client_session_timeout_seconds": 20, "cache_tools_list": probe.variant == "cached"}
    if probe.is_stdio:
        told = {"command": probe.command, "args": probe.arguments, "env": probe.stage["environ"]}
        server: Any = MCPServerStdio(told, **more)
    else:
        server = MCPServerStreamableHttp({"url": probe.stage["url"]}, **more)
    async with server:
        await probe.run_checks(OpenAiConnection(server))


probe.run(run)
