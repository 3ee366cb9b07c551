"""Programs under test: started in a process group of their own, and ended with everything they started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.waiting import PATIENCE, until

PROGRAMS = Path(__file__).parent

TOOLSTEAD = [sys.executable, "-m", "toolstead"]
TOOL_SERVER = [sys.executable, str(PROGRAMS / "tool_server.py")]

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
_LONGEST_LINE = 64 << 20

T = TypeVar("T")


class Program:
    """A running program."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self.process = process
        self._errors = errors

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stderr(self) -> str:
        """What it has written to stderr so far."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    async def stderr_with(self, text: str) -> str:
        """What it has written to stderr, once this is in it."""
        await until(lambda: text in self.stderr)
        return self.stderr

    async def line(self) -> bytes:
        """The next line of its stdout, empty at the end."""
        assert self.process.stdout is not None
        return await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)

    async def ended(self) -> int:
        """Its exit status, once it has ended by itself."""
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


@asynccontextmanager
async def running(
    command: Sequence[str],
    *,
    errors: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int = asyncio.subprocess.PIPE,
    stdout: int = asyncio.subprocess.PIPE,
) -> AsyncIterator[Program]:
    """Start a program; in the end it and whatever it started is gone."""
    with errors.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=sink,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
    try:
        yield Program(process, errors)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait_for(process.wait(), PATIENCE)
        if process.stdin is not None:
            process.stdin.close()


class Wire:
    """A client that says exactly what it is told to, one line for each message."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.heard: list[Any] = []
        """Everything that was not the answer somebody waited for."""

    async def write(self, data: bytes) -> None:
        stdin = self.program.process.stdin
        assert stdin is not None
        stdin.write(data)
        await asyncio.wait_for(stdin.drain(), PATIENCE)

    async def say(self, message: Any) -> None:
        await self.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Any:
        """The next message; anything else on stdout breaks the wire, and the test."""
        line = await self.program.line()
        assert line.endswith(b"\n"), f"half a line: {line[:200]!r}; stderr: {self.program.stderr}"
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    async def answer(self, id: Any) -> Any:
        """The answer to a request, whatever comes before it."""
        while True:
            message = await self.hear()
            if "method" not in message and message["id"] == id:
                return message
            self.heard.append(message)

    async def request(self, id: Any, method: str, params: Any = None) -> Any:
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        await self.say(message if params is None else {**message, "params": params})
        return await self.answer(id)

    async def call(self, id: Any, name: str, arguments: Any = None) -> Any:
        """Call a tool in the protocol version that was opened last."""
        return await self.request(id, "tools/call", self.params({"name": name, "arguments": arguments}))

    async def notify(self, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        await self.say(message if params is None else {**message, "params": params})

    async def shake_hands(self, capabilities: Mapping[str, Any] | None = None) -> Any:
        """Open the handshake versions."""
        me = {"name": "test", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": dict(capabilities or {}), "clientInfo": me}
        answer = await self.request("hello", "initialize", params)
        await self.notify("notifications/initialized")
        return answer["result"]

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return dict(params)

    def close(self) -> None:
        assert self.program.process.stdin is not None
        self.program.process.stdin.close()


class ModernWire(Wire):
    """The same without a handshake: every request says who asks."""

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {**params, "_meta": modern_meta()}


def modern_meta(capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What every request of the stateless protocol version carries."""
    return {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": dict(capabilities or {}),
    }


@asynccontextmanager
async def wire_to(command: Sequence[str], folder: Path, **options: Any) -> AsyncIterator[Wire]:
    """A raw client of a program that speaks MCP on stdin and stdout."""
    async with running(command, errors=folder / "stderr.txt", cwd=folder, **options) as program:
        yield Wire(program)


@asynccontextmanager
async def served(command: Sequence[str], folder: Path, **options: Any) -> AsyncIterator[tuple[Program, str]]:
    """A program that serves HTTP and says its address on the first line of stdout."""
    async with running(command, errors=folder / "stderr.txt", cwd=folder, **options) as program:
        address = (await program.line()).decode().strip()
        assert address, f"it did not start: {program.stderr}"
        yield program, address


async def text_in(path: Path) -> str:
    """What a file says, once it says something."""
    return await until(lambda: path.read_text(encoding="utf-8") if path.exists() else "")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not, nor one that is being reaped."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()[:1] not in {"", "Z", "X"}
