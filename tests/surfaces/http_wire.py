"""HTTP said word for word: headers in any number and order, bodies in any pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from tests.surfaces.compared import message_in
from tests.waiting import PATIENCE

Header = tuple[str, str]
_OF_NO_INTEREST = {"date", "server", "content-length", "transfer-encoding", "connection"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said to one request."""

    status: int
    headers: tuple[Header, ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    @property
    def messages(self) -> list[Any]:
        """The messages in the body, be it JSON or a stream of events."""
        kind = (self.header("content-type") or "").partition(";")[0]
        if not self.body:
            return []
        if kind == "application/json":
            return [message_in(self.body)]
        if kind != "text/event-stream":
            return [self.body.decode(errors="replace")]
        heard: list[Any] = []
        for event in self.body.replace(b"\r\n", b"\n").split(b"\n\n"):
            fields = [line.partition(b": ") for line in event.split(b"\n") if line]
            if fields:
                named = {name.decode(): value for name, _, value in fields}
                data = message_in(named.pop("data"))
                heard.append({"data": data, **{name: value.decode() for name, value in named.items()}})
        return heard

    def shown(self, id: Any) -> dict[str, Any]:
        """All of it that two servers must say alike."""
        headers = sorted(header for header in self.headers if header[0] not in _OF_NO_INTEREST)
        known = [(name, "of the server" if name == "mcp-session-id" else value) for name, value in headers]
        return {"id": id, "status": self.status, "headers": known, "messages": self.messages}


class HttpWire:
    """A connection that says exactly what it is told to, one request after the other."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    async def post(self, headers: Sequence[Header], body: bytes, *, method: str = "POST") -> Answer:
        """Say a request, and hear all of the answer."""
        length = ("Content-Length", str(len(body)))
        return await self.say(head(method, self._host, [*headers, length]) + body)

    async def say(self, *pieces: bytes) -> Answer:
        """Say bytes, piece by piece."""
        async with asyncio.timeout(PATIENCE):
            if self._writer is None or self._reader is None or self._reader.at_eof():
                self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=16 << 20)
            for piece in pieces:
                self._writer.write(piece)
                await self._writer.drain()
            answer = await _answer(self._reader)
        if answer.header("connection") == "close":
            self._writer.close()
            self._writer = None
        return answer


def head(method: str, host: str, headers: Sequence[Header]) -> bytes:
    lines = [f"{method} /mcp HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


async def _answer(reader: asyncio.StreamReader) -> Answer:
    status = int((await reader.readline()).split(b" ")[1])
    headers: list[Header] = []
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name.lower(), value.strip()))
    known = dict(headers)
    if known.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    else:
        body = await reader.readexactly(int(known.get("content-length", "0")))
    return Answer(status=status, headers=tuple(headers), body=body)


def json_of(value: Any) -> bytes:
    return json.dumps(value).encode()
