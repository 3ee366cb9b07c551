"""What the tests of model connections share: the four APIs, tools, a question, and a server with fixed answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from toolstead.adapters.providers.connect import connect
from toolstead.adapters.providers.model import ProviderModel
from toolstead.kernel.conversation import Message, ModelReply, UserMessage
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.types.tool import Provenance, ToolInfo

ANTHROPIC = "anthropic:claude-sonnet-5-5"
OPENAI = "openai:gpt-5-mini"
CHAT = "openai-chat:gpt-5-mini"
GOOGLE = "google:gemini-3.8-flash"
APIS = (ANTHROPIC, OPENAI, CHAT, GOOGLE)

_HERE = Provenance(source="plugin", origin="tests")


def tool(name: str, schema: Mapping[str, Any] | None = None) -> ToolInfo:
    return ToolInfo(
        name=name,
        description=f"Does {name}.",
        provenance=_HERE,
        input_schema=schema or {"type": "object", "properties": {"q": {"type": "string"}}},
    )


TOOLS = (tool("first"), tool("second"), tool("look_up"))


@asynccontextmanager
async def connected(name: str, environ: Mapping[str, str]) -> AsyncGenerator[ProviderModel]:
    model = connect(name, environ.get)
    try:
        yield model
    finally:
        await model.aclose()


async def answer(
    model: ProviderModel, messages: Sequence[Message] | str, *, tools: Sequence[ToolInfo] = TOOLS, **fields: Any
) -> tuple[list[ModelDelta], ModelReply]:
    """Everything that a model answers: its pieces, and the whole."""
    said = [UserMessage(text=messages)] if isinstance(messages, str) else messages
    fields = {"instructions": "Be brief."} | fields
    pieces: list[ModelDelta] = []
    async for item in model.stream_reply(ModelRequest(messages=said, tools=tools, **fields)):
        if isinstance(item, ModelReply):
            return pieces, item
        pieces.append(item)
    raise AssertionError("the last item is a whole reply")


def events(*data: Mapping[str, Any], named: bool = False) -> bytes:
    """Server-sent events; with their type as the name where an API wants that."""
    lines = ((f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one)}\n\n" for one in data)
    return "".join(lines).encode()


@asynccontextmanager
async def canned(
    body: bytes,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    kind: str = "text/event-stream",
    missing: int = 0,
) -> AsyncGenerator[dict[str, str]]:
    """A server that answers every request with the same bytes; gives the environment that leads to it.

    It closes the connection before the last ones that it announced, where some are `missing`.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
            start = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{extra}content-length: {len(body) + missing}\r\n"
            writer.write(start.encode() + b"connection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield environ(url)
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def listing(body: bytes) -> AsyncGenerator[dict[str, str]]:
    """A server that knows no model that is asked, and says which ones it has; the environment of Ollama leads to it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            status = "200 OK" if head.startswith(b"GET /v1/models ") else "404 Not Found"
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    await reader.readexactly(int(line.partition(b":")[2]))
            start = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            writer.write(start.encode() + b"connection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield {"OLLAMA_BASE_URL": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}
    finally:
        server.close()
        await server.wait_closed()


def environ(url: str) -> dict[str, str]:
    """The environment that leads every SDK to an address."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "the-key",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "the-key",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GOOGLE_API_KEY": "the-key",
    }
