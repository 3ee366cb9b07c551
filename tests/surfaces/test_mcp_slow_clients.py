"""128 clients over HTTP, all protocol versions, half of which hardly read: they hold up nobody, and lose nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.programs.running import HANDSHAKE, MODERN, TOOL_SERVER, modern_meta, served

CLIENTS = 128
CALLS = 10
"""Calls of each quick client."""
LONG = "stead " * 40_000
SIP = 256


class Client:
    """One connection, spoken to in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, modern: bool) -> None:
        self._reader = reader
        self._writer = writer
        self._modern = modern
        self._session = ""
        self._taken = b""

    async def shake_hands(self) -> None:
        me = {"name": "test", "version": "1"}
        self.send("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": me})
        head, _ = await self.answer()
        self._session = next(line for line in head.split("\r\n") if line.lower().startswith("mcp-session-id"))
        self.send("notifications/initialized", {}, id=None)
        await self.answer()

    def send(self, method: str, params: dict[str, Any], *, id: int | None = 1) -> None:
        body = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
        lines += ["Accept: application/json, text/event-stream"]
        if self._modern:
            params["_meta"] = modern_meta()
            lines += [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}", f"Mcp-Name: {params['name']}"]
        elif self._session:
            lines += [self._session, f"MCP-Protocol-Version: {HANDSHAKE}"]
        data = json.dumps(body).encode()
        self._writer.write("\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data)

    async def sip(self) -> None:
        """Take a little of the answer."""
        self._taken += await self._reader.read(SIP)

    async def answer(self) -> tuple[str, str]:
        """The rest of an answer: its head and its body."""
        while b"\r\n\r\n" not in self._taken:
            self._taken += await self._read()
        head, _, rest = self._taken.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length")), None)
        while len(rest) < length if length is not None else not rest.endswith(b"0\r\n\r\n"):
            rest += await self._read()
        self._taken = b""
        return head.decode(), rest.decode()

    async def call(self, text: str) -> str:
        self.send("tools/call", {"name": "echo", "arguments": {"text": text}})
        return (await self.answer())[1]

    async def _read(self) -> bytes:
        data = await self._reader.read(65_536)
        assert data, f"the server closed the connection after {self._taken[:200]!r}"
        return data


@asynccontextmanager
async def client_of(port: int, *, modern: bool) -> AsyncIterator[Client]:
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # what nobody takes stays with the server
    wire.setblocking(False)
    await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=wire, limit=SIP)
    client = Client(reader, writer, modern=modern)
    try:
        if not modern:
            await client.shake_hands()
        yield client
    finally:
        writer.close()


@pytest.mark.promise("B6")
async def test_sixty_four_clients_that_hardly_read_hold_up_nobody_and_lose_nothing(tmp_path: Path) -> None:
    async with served([*TOOL_SERVER, "http"], tmp_path) as (_, address):
        port = urlsplit(address).port or 0
        drunk: list[int] = [0] * (CLIENTS // 2)
        ready, over, moved = asyncio.Semaphore(0), asyncio.Event(), asyncio.Condition()
        done = 0

        async def slow(number: int) -> str:
            async with client_of(port, modern=number % 2 == 0) as client:
                client.send("tools/call", {"name": "echo", "arguments": {"text": LONG}})
                ready.release()
                while not over.is_set():
                    await client.sip()
                    drunk[number] += 1
                    async with moved:
                        await moved.wait()
                return (await client.answer())[1]

        async def quick(number: int) -> list[str]:
            nonlocal done
            said: list[str] = []
            async with client_of(port, modern=number % 2 == 0) as client:
                for turn in range(CALLS):
                    said.append(await client.call(f"quick {number} {turn}"))
                    done += 1
                    if done % 50 == 0:
                        async with moved:
                            moved.notify_all()
            return said

        async with asyncio.TaskGroup() as tasks:
            slows = [tasks.create_task(slow(number)) for number in range(CLIENTS // 2)]
            for _ in slows:
                await ready.acquire()
            quicks = [tasks.create_task(quick(number)) for number in range(CLIENTS // 2)]
            await asyncio.wait(quicks)
            for number, task in enumerate(quicks):
                for turn, said in enumerate(task.result()):
                    assert f'"quick {number} {turn}"' in said
            assert all(drunk)
            assert not any(task.done() for task in slows)  # none has its answer yet, and all others have theirs
            over.set()
            async with moved:
                moved.notify_all()
        for task in slows:
            assert LONG in task.result()
