"""FastMCP's client, 3.x and 4.x; the variant of 4.x is its `mode`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from probe import Answer, Connection, Probe, expect

probe = Probe()


class FastConnection(Connection):
    """A client of FastMCP."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        if probe.is_stdio:
            transport: Any = StdioTransport(probe.command, probe.arguments, env=probe.stage["environ"])
        else:
            transport = StreamableHttpTransport(probe.stage["url"])
        mode = {"mode": probe.variant} if probe.variant else {}
        handlers = {"message_handler": self.hear, "elicitation_handler": elicit, "sampling_handler": sample}
        self.client: Any = Client(transport, **handlers, **mode)

    async def hear(self, message: Any) -> None:
        """Note what is heard."""
        root = getattr(message, "root", message)
        if method := getattr(root, "method", None):
            self.heard.append(method)

    async def tools(self) -> dict[str, Any]:
        listed = await self.client.list_tools()
        return {tool.name: getattr(tool, "input_schema", None) or tool.inputSchema for tool in listed}

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        result = await self.client.call_tool(name, dict(arguments), raise_on_error=False)
        parts = result.content
        text = "".join(part.text for part in parts if part.type == "text")
        return Answer(result.is_error, text, tuple(part.type for part in parts))

    async def follow(self, name: str) -> list[str]:
        seen: list[str] = []

        async def note(done: float, total: float | None, message: str | None) -> None:
            seen.append(f"{done:g}/{total:g}")

        await self.client.call_tool(name, {}, progress_handler=note)
        return seen

    async def prompts(self) -> int:
        return len(await self.client.list_prompts())

    async def resources(self) -> int:
        return len(await self.client.list_resources())


async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
    return {"name": "Ada"} if response_type is None else response_type(name="Ada")


async def sample(messages: Any, params: Any, context: Any) -> str:
    return "seven"


async def run() -> None:
    connection = FastConnection()
    async with connection.client:
        await probe.run_checks(connection)


async def close_while_calling() -> None:
    connection = FastConnection()
    async with connection.client:
        task = asyncio.create_task(connection.call("lab__wait", {"tag": "abandoned"}))
        expect(await probe.log_has("began abandoned", 10), "it never began")
        task.cancel()
        await asyncio.wait([task])


probe.run(run, close_while_calling)
