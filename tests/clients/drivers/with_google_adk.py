"""An agent of Google's ADK, on a scripted Gemini API."""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams
from google.genai import types
from mcp import StdioServerParameters
from mcp_types import ElicitResult
from probe import AgentConnection, Probe

probe = Probe()
steps: list[str] = []


async def note(done: float, total: float | None, message: str | None) -> None:
    steps.append(f"{done:g}/{total:g}")


async def elicit(context: Any, params: Any) -> Any:
    return ElicitResult(action="accept", content={"name": "Ada"})


class AdkConnection(AgentConnection):
    """An agent with the server as a toolset."""

    def __init__(self) -> None:
        if probe.is_stdio:
            server = StdioServerParameters(command=probe.command, args=probe.arguments, env=probe.stage["environ"])
            params: Any = StdioConnectionParams(server_params=server, timeout=20)
        else:
            params = StreamableHTTPConnectionParams(url=probe.stage["url"], timeout=20)
        self.toolset = McpToolset(connection_params=params, progress_callback=note, elicitation_callback=elicit)
        agent = LlmAgent(name="lab", model="gemini-2.5-flash", tools=[self.toolset])
        self.runner = InMemoryRunner(agent=agent, app_name="lab")

    async def talk(self, prompt: str) -> str:
        session = await self.runner.session_service.create_session(app_name="lab", user_id="ada")
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        said = ""
        async for event in self.runner.run_async(user_id="ada", session_id=session.id, new_message=message):
            for part in (event.content.parts or ()) if event.content else ():
                said = part.text or said
        return said

    async def tools(self) -> dict[str, Any]:
        declared = {tool.name: tool._get_declaration() for tool in await self.toolset.get_tools()}
        return {name: tool.model_dump(exclude_none=True, mode="json") for name, tool in declared.items()}

    async def follow(self, name: str) -> list[str]:
        steps.clear()
        await self.talk(f"use {name}")
        return list(steps)

    async def resources(self) -> int:
        return len(await self.toolset.list_resources())


async def run() -> None:
    connection = AdkConnection()
    await probe.run_checks(connection)
    await connection.toolset.close()


probe.run(run)
