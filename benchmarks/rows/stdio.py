"""MCP over stdio: from start to the list of tools, and the round trip of a call."""

from __future__ import annotations

import time
from typing import Any

from benchmarks import processes, workload
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Measured, Race, Row, Sample
from benchmarks.stdio_client import StdioClient

START, CALL, PYTHON = "stdio-start", "stdio", "stdio-python"

_FLOOR = Program(name="floor", role="floor", module="benchmarks.floor.stdio", note="a bare loop over lines")
PEERS = (
    Program(name="mcp", role="peer", module="benchmarks.peers.mcp_sdk", environment="mcp", note="`MCPServer`"),
    Program(
        name="mcp, low level",
        role="peer",
        module="benchmarks.peers.mcp_sdk",
        options=("level=low",),
        environment="mcp",
    ),
    Program(name="fastmcp", role="peer", module="benchmarks.peers.fast_mcp", environment="fastmcp"),
)


def shipped(bench: Bench) -> Race:
    """The command `toolyard mcp` and its built-in file reader; everybody else reads the same small file."""
    ours = Program(name="toolyard", role="ours", note="`toolyard mcp`")

    def measure(program: Program) -> Measured:
        arguments = ("stdio",) if program.module else ("mcp",)
        command = program.command(*arguments)
        began = time.perf_counter()
        with processes.running(command, cwd=bench.project, environment=program.environ(bench)) as child:
            client = StdioClient(child)
            client.start()
            start = Sample(cpu=child.cpu(), wall=time.perf_counter() - began)
            return {START: start, CALL: _calls(client, bench, workload.READ)}

    return Race(
        rows=(
            Row(key=START, title="stdio: start → answer to `tools/list`"),
            Row(
                key=CALL,
                title="stdio: `tools/call`, the shipped command",
                note="the tools differ: toolyard's built-in `file-reader` reads in a worker thread and checks where "
                "the opened file really lies; the others serve a function that reads the same file of one line on the "
                "event loop and checks its path and size only. The next row has the same tool for everybody.",
            ),
        ),
        contestants=tuple(p.contestant(measure) for p in entered(bench, (_FLOOR, ours, *PEERS))),
        rounds=bench.scale.rounds,
    )


def python(bench: Bench) -> Race:
    """A tool registered in Python and served with `yard.serve_stdio()`."""
    ours = Program(name="toolyard", role="ours", module="benchmarks.ours.serve", note="`yard.serve_stdio()`")

    def measure(program: Program) -> Measured:
        command = program.command("stdio")
        with processes.running(command, cwd=bench.project, environment=program.environ(bench)) as child:
            client = StdioClient(child)
            client.start()
            return {PYTHON: _calls(client, bench, workload.REPEAT)}

    return Race(
        rows=(Row(key=PYTHON, title="stdio: `tools/call`, a tool registered in Python"),),
        contestants=tuple(p.contestant(measure) for p in entered(bench, (_FLOOR, ours, *PEERS))),
        rounds=bench.scale.rounds,
    )


def _calls(client: StdioClient, bench: Bench, tool: str) -> Sample:
    arguments, answer, wrong = job(tool)
    rejects = client.check(tool, arguments, answer, wrong)
    cost = client.time_calls(tool, arguments, bench.scale.seconds)
    return Sample(cpu=cost.cpu, wall=cost.wall, rejects=rejects)


def job(tool: str) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """A tool's arguments, its answer, and arguments that must be rejected though the function would take them."""
    if tool == workload.READ:
        return workload.READ_ARGUMENTS, workload.READ_ANSWER, {"path": workload.READ_FILE, "startLine": ""}
    return workload.REPEAT_ARGUMENTS, workload.REPEAT_ANSWER, {"text": 7}
