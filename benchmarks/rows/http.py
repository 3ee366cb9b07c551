"""MCP over HTTP: `tools/call` from many clients at once, in both eras of the protocol."""

from __future__ import annotations

import json
import socket
import sys
import time

from benchmarks import processes, workload
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Measured, Race, Row, Sample
from benchmarks.messages import Era
from benchmarks.processes import Child, ContestantError
from benchmarks.rows.stdio import job

START_SECONDS = 60.0
_ERAS: tuple[tuple[Era, str], ...] = (("handshake", "2025-11-25"), ("modern", "2026-07-28"))

_FLOOR = Program(
    name="floor", role="floor", module="benchmarks.floor.http", note="bare ASGI on uvicorn, uvloop and httptools"
)
PEERS = (
    Program(
        name="mcp", role="peer", module="benchmarks.peers.mcp_sdk", environment="mcp", note="`MCPServer`, defaults"
    ),
    Program(
        name="mcp, at its best",
        role="peer",
        module="benchmarks.peers.mcp_sdk",
        options=("best=1",),
        environment="mcp",
    ),
    Program(
        name="mcp, low level at its best",
        role="peer",
        module="benchmarks.peers.mcp_sdk",
        options=("level=low", "best=1"),
        environment="mcp",
    ),
    Program(name="fastmcp", role="peer", module="benchmarks.peers.fast_mcp", environment="fastmcp", note="defaults"),
    Program(
        name="fastmcp, at its best",
        role="peer",
        module="benchmarks.peers.fast_mcp",
        options=("best=1",),
        environment="fastmcp",
    ),
)


def shipped(bench: Bench) -> Race:
    """The command `toolyard serve` and its built-in file reader."""
    ours = Program(name="toolyard", role="ours", note="`toolyard serve`")
    note = (
        "the same tool as over stdio. CPU is that of the server's process; the load comes from another. `at its best` "
        "means stateless, JSON instead of event streams, uvloop and httptools, no access log, no output schema."
    )
    return _race(bench, ours, key="http", what="the shipped command", tool=workload.READ, note=note)


def python(bench: Bench) -> Race:
    """A tool registered in Python and served with `yard.serve_http()`."""
    ours = Program(name="toolyard", role="ours", module="benchmarks.ours.serve", note="`yard.serve_http()`")
    note = "toolyard runs on `asyncio.run` here, as a program of one's own would; the shipped command brings uvloop."
    return _race(bench, ours, key="http-python", what="a tool registered in Python", tool=workload.REPEAT, note=note)


def _race(bench: Bench, ours: Program, *, key: str, what: str, tool: str, note: str) -> Race:
    keys: dict[Era, str] = {"handshake": key, "modern": f"{key}-modern"}

    def measure(program: Program) -> Measured:
        port = _free_port()
        command = (
            program.command("http", f"port={port}") if program.module else program.command("serve", "--port", str(port))
        )
        environment = program.environ(bench)
        with processes.running(command, cwd=bench.project, environment=environment, speaks=False) as server:
            _wait_for(port, server)
            return {keys[era]: _load(server, port, era, tool, bench) for era, _ in _ERAS}

    return Race(
        rows=tuple(
            Row(
                key=keys[era],
                title=f"HTTP: `tools/call`, {bench.scale.clients} clients, {what}, {revision}",
                rate=True,
                note=note if era == "handshake" else "",
            )
            for era, revision in _ERAS
        ),
        contestants=tuple(p.contestant(measure) for p in entered(bench, (_FLOOR, ours, *PEERS))),
        rounds=bench.scale.rounds,
    )


def _load(server: Child, port: int, era: Era, tool: str, bench: Bench) -> Sample | ContestantError:
    arguments, answer, wrong = job(tool)
    command = [sys.executable, "-m", "benchmarks.load", str(port), str(bench.scale.clients), era, tool]
    command += [json.dumps(arguments), answer, json.dumps(wrong)]
    patience = START_SECONDS + bench.scale.seconds
    try:
        with processes.running(command, cwd=bench.project, environment=processes.environment(bench.home)) as load:
            rejects = json.loads(load.read_line(patience))["rejects"]
            load.write(b"%f\n" % (bench.scale.seconds / 3))
            load.read_line(patience)
            cpu = server.cpu()
            load.write(b"%f\n" % bench.scale.seconds)
            told = json.loads(load.read_line(patience))
            cpu = server.cpu() - cpu
    except ContestantError as error:
        return error
    return Sample(cpu=cpu / told["count"], wall=told["wall"] / told["count"], rejects=rejects)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _wait_for(port: int, server: Child) -> None:
    """Wait until the server accepts connections."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if server.ended():
                raise ContestantError("it ended", server.said()) from None
            time.sleep(0.02)
        else:
            return
    raise ContestantError(f"no connection within {START_SECONDS:g} s", server.said())
