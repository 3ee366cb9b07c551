"""The official Python SDK, 2.x; the variant is its `mode`: `auto` is the modern protocol version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from probe import LIST_CHANGED, Answer, Connection, Probe, expect

probe = Probe()


class SdkConnection(Connection):
    """A client of the SDK."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.client: Any = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SdkConnection]:
        """Connect; in the modern protocol version, subscribe."""
        environ = probe.stage["environ"]
        server = StdioServerParameters(command=probe.command, args=probe.arguments, env=environ)
        target = server if probe.is_stdio else probe.stage["url"]
        callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "message_handler": self.hear}
        async with AsyncExitStack() as stack:
            self.client = await stack.enter_async_context(Client(target, mode=probe.variant, cache=None, **callbacks))
            if probe.variant != "legacy":
                events = await stack.enter_async_context(self.client.listen(tools_list_changed=True))
                listening = asyncio.ensure_future(self._listen(events))
                stack.callback(listening.cancel)
            yield self

    async def _listen(self, events: Any) -> None:
        async for _ in events:
            self.heard.append(LIST_CHANGED)

    async def hear(self, message: Any) -> None:
        """Note what is heard."""
        if method := getattr(message, "method", None):
            self.heard.append(method)

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool.input_schema for tool in (await self.client.list_tools()).tools}

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        result = await self.client.call_tool(name, dict(arguments))
        parts = result.content
        text = "".join(part.text for part in parts if part.type == "text")
        return Answer(bool(result.is_error), text, tuple(part.type for part in parts))

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


async def elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(context: Any, params: Any) -> Any:
    said = types.TextContent(type="text", text="seven")
    return types.CreateMessageResult(role="assistant", content=said, model="scripted")


async def run() -> None:
    async with SdkConnection().open() as connection:
        await probe.run_checks(connection)


async def close_while_calling() -> None:
    async with SdkConnection().open() as connection:
        task = asyncio.create_task(connection.call("lab__wait", {"tag": "abandoned"}))
        expect(await probe.log_has("began abandoned", 10), "it never began")
        task.cancel()
        await asyncio.wait([task])


probe.run(run, close_while_calling)
