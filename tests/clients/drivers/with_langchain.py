"""An agent of LangGraph with the tools of langchain-mcp-adapters, on a scripted chat completions API."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI
from mcp.types import ElicitResult
from probe import AgentConnection, Probe, expect

probe = Probe()
steps: list[str] = []


async def note(done: float, total: float | None, message: str | None, context: Any) -> None:
    steps.append(f"{done:g}/{total:g}")


async def elicit(context: Any, params: Any, more: Any) -> Any:
    return ElicitResult(action="accept", content={"name": "Ada"})


def make_client() -> MultiServerMCPClient:
    environ = probe.stage["environ"]
    stdio = {"transport": "stdio", "command": probe.command, "args": probe.arguments, "env": environ}
    http = {"transport": "streamable_http", "url": probe.stage["url"]}
    callbacks = Callbacks(on_progress=note, on_elicitation=elicit)
    return MultiServerMCPClient({"lab": stdio if probe.is_stdio else http}, callbacks=callbacks)


class LangConnection(AgentConnection):
    """An agent whose tools are loaded anew for each question, as the library does by itself."""

    def __init__(self, client: MultiServerMCPClient, session: Any) -> None:
        self.client = client
        self.session = session

    async def load(self) -> list[Any]:
        """The tools of the open session."""
        return await load_mcp_tools(self.session, callbacks=self.client.callbacks, server_name="lab")

    async def talk(self, prompt: str) -> str:
        model = ChatOpenAI(model="scripted", base_url=f"{probe.stage['models']}/v1", api_key="any")
        agent = create_agent(model, await self.load())
        state = await agent.ainvoke({"messages": [{"role": "user", "content": prompt}]})
        return str(state["messages"][-1].content)

    async def tools(self) -> dict[str, Any]:
        return {tool.name: convert_to_openai_tool(tool)["function"]["parameters"] for tool in await self.load()}

    async def follow(self, name: str) -> list[str]:
        steps.clear()
        await self.talk(f"use {name}")
        return list(steps)


async def run() -> None:
    client = make_client()
    async with client.session("lab") as session:
        await probe.run_checks(LangConnection(client, session))


async def close_while_calling() -> None:
    client = make_client()
    async with client.session("lab") as session:
        task = asyncio.create_task(session.call_tool("lab__wait", {"tag": "abandoned"}))
        expect(await probe.log_has("began abandoned", 10), "it never began")
        task.cancel()
        await asyncio.wait([task])


probe.run(run, close_while_calling)
