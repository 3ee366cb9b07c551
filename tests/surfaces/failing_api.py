"""A model API in trouble: it never answers, is overloaded, or breaks off in the middle of each answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

Trouble = Literal["silent", "overloaded", "broken"]
TEXT = "The **TODOs** are in "


class FailingApi:
    """Answers as Anthropic's API does, up to its trouble.

    Attributes:
        requests: How many came.
    """

    def __init__(self, trouble: Trouble) -> None:
        self.requests = 0
        self._trouble = trouble

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line for line in head.splitlines() if line.startswith("content-length:"))
        await reader.readexactly(int(length.partition(":")[2]))
        self.requests += 1
        if self._trouble == "silent":
            await reader.read()  # up to the end of the client's patience
        elif self._trouble == "overloaded":
            body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
            start = b"HTTP/1.1 529 Overloaded\r\ncontent-type: application/json\r\nconnection: close\r\n"
            writer.write(b"%scontent-length: %d\r\n\r\n%s" % (start, len(body), body))
        else:
            start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            writer.write(start + b"".join(map(_chunk, _begun())))
            await writer.drain()
        writer.close()


def _begun() -> list[Mapping[str, Any]]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "stop_reason": None}
    return [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
    ]


def _chunk(event: Mapping[str, Any]) -> bytes:
    data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def failing_api(trouble: Trouble) -> AsyncIterator[tuple[FailingApi, str]]:
    """The API, and its address."""
    api = FailingApi(trouble)
    server = await asyncio.start_server(api.answer, "127.0.0.1", 0)
    try:
        yield api, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
