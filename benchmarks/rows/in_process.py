"""One validated call in process."""

from __future__ import annotations

from benchmarks import processes
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Goal, Measured, Race, Row, Sample

KEY = "call"
LIMIT = 120.0

PROGRAMS = (
    Program(name="floor", role="floor", module="benchmarks.floor.call", note="jsonschema-rs, then the function"),
    Program(name="toolstead", role="ours", module="benchmarks.ours.call", note="`await stead.call(…)` of a `@tool`"),
    Program(
        name="toolstead, own schema",
        role="ours",
        module="benchmarks.ours.call",
        options=("raw=1",),
        note="`await stead.call(…)` of a `Tool(schema=…, handler=…)`",
    ),
    Program(
        name="openai-agents",
        role="peer",
        module="benchmarks.peers.openai_agents",
        environment="openai-agents",
        note="`FunctionTool.on_invoke_tool`",
    ),
    Program(
        name="pydantic-ai",
        role="peer",
        module="benchmarks.peers.pydantic_tools",
        environment="pydantic-ai",
        note="`ToolManager.handle_call`",
    ),
    Program(
        name="pydantic-ai, in parts",
        role="peer",
        module="benchmarks.peers.pydantic_tools",
        options=("parts=1",),
        environment="pydantic-ai",
        note="its validator, then `FunctionToolset.call_tool`, by hand: no look-up, no error for the model",
        complete=False,
    ),
    Program(
        name="mcp",
        role="peer",
        module="benchmarks.peers.mcp_sdk",
        environment="mcp",
        note="`MCPServer.call_tool`",
    ),
    Program(
        name="mcp, at its best",
        role="peer",
        module="benchmarks.peers.mcp_sdk",
        options=("best=1",),
        environment="mcp",
        note="no output schema",
    ),
    Program(
        name="fastmcp",
        role="peer",
        module="benchmarks.peers.fast_mcp",
        environment="fastmcp",
        note="`FastMCP.call_tool`",
    ),
    Program(
        name="langchain",
        role="peer",
        module="benchmarks.peers.langchain_tools",
        environment="langchain",
        note="`StructuredTool.ainvoke`",
    ),
)


def race(bench: Bench) -> Race:
    """Each in a fresh process that warms up, then calls in a loop and reads its own clocks."""

    def measure(program: Program) -> Measured:
        told = processes.run(
            program.command("call", f"seconds={bench.scale.seconds}"),
            cwd=bench.project,
            environment=program.environ(bench),
            seconds=LIMIT,
        )
        return {KEY: Sample(cpu=told["cpu"], wall=told["wall"], rejects=True)}

    return Race(
        rows=(
            Row(
                key=KEY,
                title="one validated call in process",
                goals=(Goal(against="floor", limit=4), Goal(against="peer", limit=1.5)),
            ),
        ),
        contestants=tuple(program.contestant(measure) for program in entered(bench, PROGRAMS)),
        rounds=bench.scale.rounds,
    )
