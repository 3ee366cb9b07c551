"""Bridges between stdio and HTTP, each in front of the server; the TypeScript SDK is the client behind them."""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from tests import machine
from tests.clients.stage import Stage
from tests.programs.running import running

Command = Callable[[Path, Stage, int], Sequence[str]]
"""What starts a bridge: from its environment, the stage, and the port to listen on."""


def _start_mcp_remote(folder: Path, stage: Stage, port: int) -> Sequence[str]:
    return [str(machine.node()), str(folder / "node_modules" / ".bin" / "mcp-remote"), stage.url, "--allow-http"]


def _start_supergateway(folder: Path, stage: Stage, port: int) -> Sequence[str]:
    program = [str(machine.node()), str(folder / "node_modules" / ".bin" / "supergateway"), "--logLevel", "none"]
    if stage.url:
        return [*program, "--streamableHttp", stage.url]
    served = ["--stdio", shlex.join(stage.command), "--outputTransport", "streamableHttp", "--stateful"]
    return [*program, *served, "--port", str(port)]


def _start_mcp_proxy(folder: Path, stage: Stage, port: int) -> Sequence[str]:
    program = [str(folder / "bin" / "mcp-proxy")]
    if stage.url:
        return [*program, "--transport", "streamablehttp", stage.url]
    return [*program, "--pass-environment", "--port", str(port), "--", *stage.command]


BRIDGES: Mapping[str, Command] = MappingProxyType(
    {"mcp-remote": _start_mcp_remote, "supergateway": _start_supergateway, "mcp-proxy": _start_mcp_proxy}
)
_PATIENCE = 30


@asynccontextmanager
async def open_bridge(name: str, folder: Path, stage: Stage) -> AsyncIterator[Stage]:
    """What a client meets instead of the server: HTTP where that is on stdio, and stdio where that is on HTTP.

    Args:
        name: The bridge.
        folder: Its environment.
        stage: The server.
    """
    port = _find_port()
    command = BRIDGES[name](folder, stage, port)
    if stage.url:
        yield replace(stage, transport="stdio", command=command, url="")
        return
    async with running(command, errors=stage.home / "bridge.txt", cwd=stage.project, env=stage.environ) as program:
        reading = asyncio.ensure_future(_read_away(program.process.stdout))
        await asyncio.wait_for(_wait_for(port), _PATIENCE)
        yield replace(stage, transport="http", url=f"http://127.0.0.1:{port}/mcp")
        reading.cancel()


async def _read_away(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(65_536):
        pass


async def _wait_for(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.1)


def _find_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
