"""Ten thousand tools: registering them, listing them, calling one among them, and among ten."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from statistics import median

from benchmarks import processes, rejection, workload
from benchmarks.contestants import Program, entered, with_plugin
from benchmarks.harness import Bench, Goal, Measured, Race, Row, Sample
from benchmarks.processes import Child, ContestantError
from benchmarks.rows.stdio import MCP_LOW, PEERS, SHIPPED, job, tool_of
from benchmarks.stdio_client import Cost, StdioClient

REGISTER, LIST, CALL = "register", "list", "call-among-many"
LIST_SHIPPED, CALL_BY_TOOLS = "list-plugin", "call-by-tools"
LIMIT = 300.0
FEW = 10
TURNS = 12
"""How often each of two servers is measured, in turn, within one round; the median of them counts."""

FLOOR = Program(
    name="floor", role="floor", module="benchmarks.floor.stdio", note="compiles each schema, encodes each list"
)
SERVERS = (
    FLOOR,
    Program(name="toolstead", role="ours", module="benchmarks.ours.serve", note="`@tool`, `register`, `serve_stdio`"),
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
            _check_list(client, count)
            lists = client.time_lists(bench.scale.seconds)
            name = workload.many_name(count // 2)
            if program.role == "ours":
                child.settle()
            rejects = client.check(name, workload.REPEAT_ARGUMENTS, workload.REPEAT_ANSWER, {"text": 7})
            calls = client.time_calls(name, workload.REPEAT_ARGUMENTS, bench.scale.seconds)
            shown = rejection.over_stdio(child, client, name, {"text": 7}) if program.role == "ours" else ""
        return {
            REGISTER: registered,
            LIST: Sample(cpu=lists.cpu, wall=lists.wall),
            CALL: Sample(cpu=calls.cpu, wall=calls.wall, rejects=rejects, rejection=shown),
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


def shipped(bench: Bench) -> Race:
    """The command `toolstead mcp` with a user's plugin of ten thousand tools, and beside it one of ten.

    Both servers of a contestant run at the same time and are called in turn, so that a slow second hits both alike.
    """
    count = bench.scale.tools
    few = min(FEW, count // 2)
    homes = {tools: with_plugin(bench, tools) for tools in (few, count)}

    def measure(program: Program) -> Measured:
        with ExitStack() as stack:
            servers = {tools: stack.enter_context(_started(program, tools, home)) for tools, home in homes.items()}
            return _shipped_rows(program, servers, bench.scale.seconds)

    return Race(
        rows=(
            Row(
                key=LIST_SHIPPED,
                title=f"`tools/list` of {count:,} tools over stdio, the shipped command",
                note="the whole list, page by page where a server has pages; not the first time, which may cost more.",
                goals=(Goal(against="rivals", rivals=(MCP_LOW.name,), limit=50, by="wall"),),
            ),
            Row(
                key=CALL_BY_TOOLS,
                title=f"`tools/call` of one among {count:,} tools over stdio, the shipped command",
                note=f"in the notes, the same among {few} tools, in a server beside it that is called in turn with it.",
                goals=(Goal(against="size", limit=1.1),),
            ),
        ),
        contestants=tuple(p.contestant(measure) for p in entered(bench, (FLOOR, SHIPPED, MCP_LOW))),
        rounds=bench.scale.rounds,
    )


@contextmanager
def _started(program: Program, tools: int, bench: Bench) -> Generator[tuple[Child, StdioClient]]:
    command = program.command("stdio", f"tools={tools}") if program.module else program.command("mcp")
    with processes.running(command, cwd=bench.project, environment=program.environ(bench)) as child:
        client = StdioClient(child)
        client.start()
        _check_list(client, tools)
        if program.role == "ours":
            child.settle()
        yield child, client


def _shipped_rows(program: Program, servers: Mapping[int, tuple[Child, StdioClient]], seconds: float) -> Measured:
    arguments, answer, wrong = job(workload.REPEAT)
    names = {tools: tool_of(program, workload.many_name(tools // 2)) for tools in servers}
    child, client = servers[max(servers)]
    lists = client.time_lists(seconds)
    rejects = all(asked.check(names[tools], arguments, answer, wrong) for tools, (_, asked) in servers.items())
    costs: dict[int, list[Cost]] = {tools: [] for tools in servers}
    order = list(servers)
    for _ in range(TURNS):
        for tools in order:
            costs[tools].append(servers[tools][1].time_calls(names[tools], arguments, seconds / TURNS))
        order.reverse()
    shown = rejection.over_stdio(child, client, names[max(servers)], wrong) if program.role == "ours" else ""
    sizes = {tools: median(cost.cpu for cost in spent) for tools, spent in costs.items()}
    return {
        LIST_SHIPPED: Sample(cpu=lists.cpu, wall=lists.wall),
        CALL_BY_TOOLS: Sample(
            cpu=sizes[max(servers)],
            wall=median(cost.wall for cost in costs[max(servers)]),
            rejects=rejects,
            sizes=sizes,
            rejection=shown,
        ),
    }


def _check_list(client: StdioClient, count: int) -> None:
    listed = sum(len(json.loads(page)["result"]["tools"]) for page in client.list_tools())
    if listed < count:
        raise ContestantError(f"{listed} tools were listed, not {count}")


def _registered(child: Child) -> Sample:
    told = dict(part.split("=") for part in child.log_line("registered ", LIMIT).split())
    return Sample(cpu=float(told["cpu"]), wall=float(told["wall"]))
