"""The tools of llama-index-tools-mcp, called as its agents call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from probe import Answer, Connection, Probe

probe = Probe()


class LlamaConnection(Connection):
    """Its client, which opens a session for each request."""

    def __init__(self) -> None:
        if probe.is_stdio:
            self.client = BasicMCPClient(probe.command, args=probe.arguments, env=probe.stage["environ"], timeout=20)
        else:
            self.client = BasicMCPClient(probe.stage["url"], timeout=20)

    async def load(self) -> dict[str, Any]:
        """Its tools."""
        return {tool.metadata.name: tool for tool in await McpToolSpec(self.client).to_tool_list_async()}

    async def tools(self) -> dict[str, Any]:
        return {name: tool.metadata.to_openai_tool() for name, tool in (await self.load()).items()}

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        output = await (await self.load())[name].acall(**arguments)
        result = output.raw_output
        parts = result.content
        is_error = getattr(result, "is_error", False) or getattr(result, "isError", False)
        return Answer(
            bool(is_error),
            "".join(part.text for part in parts if part.type == "text"),
            tuple(part.type for part in parts),
        )

    async def follow(self, name: str) -> list[str]:
        seen: list[str] = []

        async def note(done: float, total: float | None, message: str | None) -> None:
            seen.append(f"{done:g}/{total:g}")

        await self.client.call_tool(name, {}, progress_callback=note)
        return seen

    async def prompts(self) -> int:
        return len((await self.client.list_prompts()).prompts)

    async def resources(self) -> int:
        return len((await self.client.list_resources()).resources)


async def run() -> None:
    await probe.run_checks(LlamaConnection())


probe.run(run)
