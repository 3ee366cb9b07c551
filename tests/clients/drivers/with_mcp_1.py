"""The official Python SDK, 1.x; also through the bridges that speak stdio or HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamablehttp_client
from probe import Answer, Connection, Probe, expect

probe = Probe()


class SdkConnection(Connection):
    """A session of the SDK."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.session: Any = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SdkConnection]:
        """Connect."""
        if probe.is_stdio:
            environ = probe.stage["environ"]
            opening = stdio_client(StdioServerParameters(command=probe.command, args=probe.arguments, env=environ))
        else:
            opening = streamablehttp_client(probe.stage["url"])
        async with opening as (read, write, *_):
            callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "message_handler": self.hear}
            async with ClientSession(read, write, **callbacks) as self.session:
                await self.session.initialize()
                yield self

    async def hear(self, message: Any) -> None:
        """Note what is heard."""
        if isinstance(message, types.ServerNotification):
            self.heard.append(message.root.method)

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool.inputSchema for tool in (await self.session.list_tools()).tools}

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        return to_answer(await self.session.call_tool(name, dict(arguments)))

    async def follow(self, name: str) -> list[str]:
        seen: list[str] = []

        async def note(done: float, total: float | None, message: str | None) -> None:
            seen.append(f"{done:g}/{total:g}")

        await self.session.call_tool(name, {}, progress_callback=note)
        return seen

    async def call_by_hand(self, name: str, arguments: Mapping[str, Any]) -> Callable[[], Awaitable[None]]:
        identifier = self.session._request_id
        task = asyncio.ensure_future(self.session.call_tool(name, dict(arguments)))

        async def cancel() -> None:
            told = types.CancelledNotificationParams(requestId=identifier)
            note = types.CancelledNotification(method="notifications/cancelled", params=told)
            await self.session.send_notification(types.ClientNotification(note))
            await asyncio.wait([task], timeout=5)
            task.cancel()

        return cancel

    async def prompts(self) -> int:
        return len((await self.session.list_prompts()).prompts)

    async def resources(self) -> int:
        return len((await self.session.list_resources()).resources)


async def elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(context: Any, params: Any) -> Any:
    said = types.TextContent(type="text", text="seven")
    return types.CreateMessageResult(role="assistant", content=said, model="scripted")


def to_answer(result: Any) -> Answer:
    parts = result.content
    return Answer(
        result.isError, "".join(part.text for part in parts if part.type == "text"), tuple(part.type for part in parts)
    )


async def run() -> None:
    async with SdkConnection().open() as connection:
        await probe.run_checks(connection)


async def close_while_calling() -> None:
    async with SdkConnection().open() as connection:
        task = asyncio.create_task(connection.call("lab__wait", {"tag": "abandoned"}))
        expect(await probe.log_has("began abandoned", 10), "it never began")
        task.cancel()
        await asyncio.wait([task])


if __name__ == "__main__":
    probe.run(run, close_while_calling)
