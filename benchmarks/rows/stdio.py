"""MCP over stdio: from start to the list of tools, and the round trip of a call."""

from __future__ import annotations

import time
from typing import Any

from benchmarks import processes, rejection, workload
from benchmarks.contestants import Program, entered, with_plugin
from benchmarks.harness import Bench, Goal, Measured, Race, Row, Sample
from benchmarks.processes import Child, ContestantError
from benchmarks.stdio_client import StdioClient

START, CALL, PLUGIN, PYTHON = "stdio-start", "stdio-file", "stdio-plugin", "stdio-python"
START_MODERN = "stdio-start-modern"

_FLOOR = Program(name="floor", role="floor", module="benchmarks.floor.stdio", note="a bare loop over lines")
SHIPPED = Program(name="toolstead", role="ours", note="`toolstead mcp`")
MCP_LOW = Program(
    name="mcp, low level",
    role="peer",
    module="benchmarks.peers.mcp_sdk",
    options=("level=low",),
    environment="mcp",
)
PEERS = (
    Program(name="mcp", role="peer", module="benchmarks.peers.mcp_sdk", environment="mcp", note="`MCPServer`"),
    MCP_LOW,
    Program(name="fastmcp", role="peer", module="benchmarks.peers.fast_mcp", environment="fastmcp"),
)


def shipped(bench: Bench) -> Race:
    """The command `toolstead mcp` and its built-in file reader; everybody else reads the same small file."""

    def measure(program: Program) -> Measured:
        command = program.command("stdio" if program.module else "mcp")
        began = time.perf_counter()
        with processes.running(command, cwd=bench.project, environment=program.environ(bench)) as child:
            client = StdioClient(child)
            client.start()
            start = Sample(cpu=child.cpu(), wall=time.perf_counter() - began)
            return {START: start, CALL: _calls(program, child, client, bench, workload.READ)}

    return Race(
        rows=(
            Row(
                key=START,
                title="stdio: start → answer to `tools/list`",
                goals=(Goal(against="rivals", rivals=("fastmcp",), limit=8, by="wall"),),
            ),
            Row(
                key=CALL,
                title="stdio: `tools/call`, the built-in `file-reader`, the shipped command",
                note="everybody reads the same file of one line. Toolstead also checks where the opened file really "
                "lies and that it is none of its own; the others check its path and size only. The next rows have the "
                "same tool for everybody.",
            ),
        ),
        contestants=tuple(p.contestant(measure) for p in entered(bench, (_FLOOR, SHIPPED, *PEERS))),
        rounds=bench.scale.rounds,
    )


def modern_start(bench: Bench) -> Race:
    """The same start for a client of the modern protocol version, which subscribes before it lists."""

    def measure(program: Program) -> Measured:
        command = program.command("stdio" if program.module else "mcp")
        began = time.perf_counter()
        with processes.running(command, cwd=bench.project, environment=program.environ(bench)) as child:
            is_offered = StdioClient(child).start_modern()
            if program.role == "ours" and not is_offered:
                raise ContestantError("toolstead does not offer the subscription")
            return {START_MODERN: Sample(cpu=child.cpu(), wall=time.perf_counter() - began)}

    row = Row(
        key=START_MODERN,
        title="stdio: start → answer to `tools/list`, 2026-07-28",
        note="`server/discover`, `subscriptions/listen` and its acknowledgement, then `tools/list`, as clients of this "
        "version begin; who offers no subscription is not asked for one.",
    )
    return Race(
        rows=(row,),
        contestants=tuple(p.contestant(measure) for p in entered(bench, (SHIPPED, *PEERS))),
        rounds=bench.scale.rounds,
    )


def plugin(bench: Bench) -> Race:
    """The command `toolstead mcp` and a tool of a user's plugin; everybody else serves the same function."""
    row = Row(
        key=PLUGIN,
        title="stdio: `tools/call`, a plugin's tool, the shipped command",
        note="the same `async` function for everybody, for toolstead in a plugin file of a user's folder.",
        goals=(Goal(against="rivals", rivals=("mcp",), limit=5, by="wall"),),
    )
    return _repeating(with_plugin(bench), row, SHIPPED)


def python(bench: Bench) -> Race:
    """A tool registered in Python and served with `stead.serve_stdio()`."""
    ours = Program(name="toolstead", role="ours", module="benchmarks.ours.serve", note="`stead.serve_stdio()`")
    return _repeating(bench, Row(key=PYTHON, title="stdio: `tools/call`, a tool registered in Python"), ours)


def _repeating(bench: Bench, row: Row, ours: Program) -> Race:
    def measure(program: Program) -> Measured:
        command = program.command("stdio" if program.module else "mcp")
        with processes.running(command, cwd=bench.project, environment=program.environ(bench)) as child:
            client = StdioClient(child)
            client.start()
            return {row.key: _calls(program, child, client, bench, workload.REPEAT)}

    return Race(
        rows=(row,),
        contestants=tuple(p.contestant(measure) for p in entered(bench, (_FLOOR, ours, *PEERS))),
        rounds=bench.scale.rounds,
    )


def _calls(program: Program, child: Child, client: StdioClient, bench: Bench, work: str) -> Sample:
    tool, (arguments, answer, wrong) = tool_of(program, work), job(work)
    if program.role == "ours":
        child.settle()
    rejects = client.check(tool, arguments, answer, wrong)
    cost = client.time_calls(tool, arguments, bench.scale.seconds)
    shown = rejection.over_stdio(child, client, tool, wrong) if program.role == "ours" else ""
    return Sample(cpu=cost.cpu, wall=cost.wall, rejects=rejects, rejection=shown)


def tool_of(program: Program, work: str) -> str:
    """What a server calls the tool that does this: of the shipped command, `repeat` is a plugin's."""
    return work if program.module or work in workload.BUILT_IN else workload.name_in_plugin(work)


def job(tool: str) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """A tool's arguments, its answer, and arguments that must be rejected though the function would take them."""
    if tool == workload.READ:
        return workload.READ_ARGUMENTS, workload.READ_ANSWER, {"path": workload.READ_FILE, "startLine": ""}
    if tool == workload.WORKSPACE:
        return {}, workload.WORKSPACE_ANSWER, {"folder": "."}
    return workload.REPEAT_ARGUMENTS, workload.REPEAT_ANSWER, {"text": 7}
