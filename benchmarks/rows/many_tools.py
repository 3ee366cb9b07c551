"""Ten thousand tools: registering them, listing them, calling one among them."""

from __future__ import annotations

import json

from benchmarks import processes, workload
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Measured, Race, Row, Sample
from benchmarks.processes import Child, ContestantError
from benchmarks.rows.stdio import PEERS
from benchmarks.stdio_client import StdioClient

REGISTER, LIST, CALL = "register", "list", "call-among-many"
LIMIT = 300.0

SERVERS = (
    Program(
        name="floor", role="floor", module="benchmarks.floor.stdio", note="compiles each schema, encodes each list"
    ),
    Program(name="toolyard", role="ours", module="benchmarks.ours.serve", note="`@tool`, `register`, `serve_stdio`"),
    *PEERS,
)
REGISTRIES = (
    Program(name="openai-agents", role="peer", module="benchmarks.peers.openai_agents", environment="openai-agents"),
    Program(name="pydantic-ai", role="peer", module="benchmarks.peers.pydantic_tools", environment="pydantic-ai"),
)


def race(bench: Bench) -> Race:
    """Servers register, tell how long it took, and are then asked over stdio; the others only register."""
    count = bench.scale.tools

    def serve(program: Program) -> Measured:
        command = program.command("stdio", f"tools={count}")
        with processes.running(command, cwd=bench.project, environment=program.environ(bench)) as child:
            registered = _registered(child)
            client = StdioClient(child)
            client.start()
            listed = sum(len(json.loads(page)["result"]["tools"]) for page in client.list_tools())
            if listed < count:
                raise ContestantError(f"{listed} tools were listed, not {count}")
            lists = client.time_lists(bench.scale.seconds)
            name = workload.many_name(count // 2)
            rejects = client.check(name, workload.REPEAT_ARGUMENTS, workload.REPEAT_ANSWER, {"text": 7})
            calls = client.time_calls(name, workload.REPEAT_ARGUMENTS, bench.scale.seconds)
        return {
            REGISTER: registered,
            LIST: Sample(cpu=lists.cpu, wall=lists.wall),
            CALL: Sample(cpu=calls.cpu, wall=calls.wall, rejects=rejects),
        }

    def register(program: Program) -> Measured:
        told = processes.run(
            program.command("register", f"tools={count}"),
            cwd=bench.project,
            environment=program.environ(bench),
            seconds=LIMIT,
        )
        return {REGISTER: Sample(cpu=told["cpu"], wall=told["wall"])}

    contestants = [program.contestant(serve) for program in entered(bench, SERVERS)]
    contestants += [program.contestant(register) for program in entered(bench, REGISTRIES)]
    return Race(
        rows=(
            Row(
                key=REGISTER,
                title=f"registration of {count:,} tools",
                note="from Python functions, the schema from the signature; the floor and mcp's low level get the "
                "schema, and the low level neither reads nor compiles it.",
            ),
            Row(
                key=LIST,
                title=f"`tools/list` of {count:,} tools over stdio",
                note="the whole list, page by page where a server has pages; not the first time, which may cost more.",
            ),
            Row(key=CALL, title=f"`tools/call` of one among {count:,} tools over stdio"),
        ),
        contestants=tuple(contestants),
        rounds=bench.scale.heavy_rounds,
    )


def _registered(child: Child) -> Sample:
    told = dict(part.split("=") for part in child.log_line("registered ", LIMIT).split())
    return Sample(cpu=float(told["cpu"]), wall=float(told["wall"]))
