"""MCP over HTTP: `tools/call` from many clients at once, in all protocol versions of the protocol."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks import processes, rejection, workload
from benchmarks.contestants import Program, entered, with_plugin, with_repository
from benchmarks.harness import Bench, Clock, Goal, Measured, Race, Row, Sample
from benchmarks.messages import Era
from benchmarks.processes import Child, ContestantError
from benchmarks.rows.stdio import job, tool_of

START_SECONDS = 60.0
_ERAS: tuple[tuple[Era, str], ...] = (("handshake", "2025-11-25"), ("modern", "2026-07-28"))

_FLOOR = Program(
    name="floor", role="floor", module="benchmarks.floor.http", note="bare ASGI on uvicorn, uvloop and httptools"
)
_SHIPPED = Program(name="toolstead", role="ours", note="`toolstead serve`")
MCP = Program(
    name="mcp", role="peer", module="benchmarks.peers.mcp_sdk", environment="mcp", note="`MCPServer`, defaults"
)
MCP_JSON = replace(MCP, name="mcp, JSON", options=("json=1",), note="`MCPServer`, `json_response=True`, else defaults")
MCP_BEST = replace(MCP, name="mcp, at its best", options=("best=1",), note="")
MCP_LOW = replace(MCP, name="mcp, low level at its best", options=("level=low", "best=1"), note="")
FASTMCP = Program(
    name="fastmcp", role="peer", module="benchmarks.peers.fast_mcp", environment="fastmcp", note="defaults"
)
FASTMCP_BEST = replace(FASTMCP, name="fastmcp, at its best", options=("best=1",), note="")
PEERS = (MCP, MCP_JSON, MCP_BEST, MCP_LOW, FASTMCP, FASTMCP_BEST)

_PINNED = (
    "Each server has one CPU and the load another, where the system lets a program choose; here it "
    + ("does" if processes.two_cpus()[0] is not None else "does not")
    + "."
)
_BEST = (
    "`at its best` means stateless, JSON instead of event streams, uvloop and httptools, no access log, no output "
    "schema; the other peers run on what a plain install brings."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What is asked of every server.

    Attributes:
        key: The row's, in the handshake versions.
        title: The row's, with the revision still to come.
        tool: What is called.
        clients: How many at once.
        seconds: How long they are timed.
        by: The clock of the row's ratios.
        tail: Show the latency of which 99 of 100 calls stay below, instead of how many calls there are in a second.
        goals: By protocol version.
    """

    key: str
    title: str
    tool: str
    clients: int
    seconds: float
    note: str
    by: Clock = "cpu"
    tail: bool = False
    goals: Mapping[Era, tuple[Goal, ...]]


def file_reader(bench: Bench) -> Race:
    """The command `toolstead serve` and its built-in file reader; everybody else reads the same small file."""
    goal = Goal(against="rivals", rivals=(FASTMCP.name, FASTMCP_BEST.name), limit=5, by="wall")
    note = f"the same tool as over stdio. CPU is that of the server's process. {_PINNED} {_BEST}"
    what = "the built-in `file-reader`, the shipped command"
    goals: dict[Era, tuple[Goal, ...]] = {"handshake": (goal,), "modern": (goal,)}
    course = _calls(bench, key="http-file", what=what, tool=workload.READ, note=note, goals=goals)
    return _race(bench, course, (_FLOOR, _SHIPPED, *PEERS))


def workspace_info(bench: Bench) -> Race:
    """The command `toolstead serve` and its built-in `workspace-info`; everybody else asks git twice."""
    goal = Goal(against="rivals", rivals=(FASTMCP.name, FASTMCP_BEST.name), limit=5, by="wall")
    note = (
        "the floor and the peers run git for the branch and once more for the remote; toolstead asks git when the "
        "repository or its settings have changed, and every ten seconds. Ratios are of wall time, because CPU is that "
        "of the server without git's own."
    )
    what = "the built-in `workspace-info`, the shipped command"
    goals: dict[Era, tuple[Goal, ...]] = {"handshake": (goal,), "modern": (goal,)}
    course = _calls(bench, key="http-workspace", what=what, tool=workload.WORKSPACE, note=note, goals=goals)
    course = replace(course, by="wall")
    return _race(with_repository(bench), course, (_FLOOR, _SHIPPED, MCP, MCP_BEST, FASTMCP, FASTMCP_BEST))


def plugin(bench: Bench) -> Race:
    """The command `toolstead serve` and a tool of a user's plugin; everybody else serves the same function."""
    fastest = Goal(against="rivals", rivals=(FASTMCP.name, FASTMCP_BEST.name), limit=10, by="wall")
    goals: dict[Era, tuple[Goal, ...]] = {
        "handshake": (fastest,),
        "modern": (fastest, Goal(against="rivals", rivals=(MCP_JSON.name,), limit=5, by="wall")),
    }
    note = (
        f"the same `async` function for everybody, for toolstead in a plugin file of a user's folder. {_PINNED} {_BEST}"
    )
    what = "a plugin's tool, the shipped command"
    course = _calls(bench, key="http-plugin", what=what, tool=workload.REPEAT, note=note, goals=goals)
    return _race(with_plugin(bench), course, (_FLOOR, _SHIPPED, *PEERS))


def tail(bench: Bench) -> Race:
    """The slowest of a hundred calls with many clients, of the same tool and command as `plugin`."""
    goals = tuple(
        Goal(against="rivals", rivals=(rival.name,), limit=3, by="wall") for rival in (MCP, MCP_JSON, MCP_BEST)
    )
    course = Course(
        key="http-p99",
        title=f"HTTP: p99 of `tools/call`, {bench.scale.many_clients} clients, a plugin's tool, the shipped command",
        tool=workload.REPEAT,
        clients=bench.scale.many_clients,
        seconds=bench.scale.seconds * 1.5,
        note="wall is the time that 99 of 100 calls stay below, in each round; ratios and goals are of it. CPU is that "
        f"of one call. {_PINNED}",
        by="wall",
        tail=True,
        goals={"handshake": goals, "modern": goals},
    )
    return _race(with_plugin(bench), course, (_FLOOR, _SHIPPED, MCP, MCP_JSON, MCP_BEST, FASTMCP_BEST))


def python(bench: Bench) -> Race:
    """A tool registered in Python and served with `stead.serve_http()`."""
    ours = Program(name="toolstead", role="ours", module="benchmarks.ours.serve", note="`stead.serve_http()`")
    note = "toolstead runs on `asyncio.run` here, as a program of one's own would; the shipped command brings uvloop."
    course = _calls(bench, key="http-python", what="a tool registered in Python", tool=workload.REPEAT, note=note)
    return _race(bench, course, (_FLOOR, ours, *PEERS))


def _calls(
    bench: Bench, *, key: str, what: str, tool: str, note: str, goals: Mapping[Era, tuple[Goal, ...]] | None = None
) -> Course:
    return Course(
        key=key,
        title=f"HTTP: `tools/call`, {bench.scale.clients} clients, {what}",
        tool=tool,
        clients=bench.scale.clients,
        seconds=bench.scale.seconds,
        note=note,
        goals=goals or {},
    )


def _race(bench: Bench, course: Course, programs: Sequence[Program]) -> Race:
    keys: dict[Era, str] = {"handshake": course.key, "modern": f"{course.key}-modern"}
    cpu, _ = processes.two_cpus()

    def measure(program: Program) -> Measured:
        port = _free_port()
        command = (
            program.command("http", f"port={port}") if program.module else program.command("serve", "--port", str(port))
        )
        environment = program.environ(bench)
        with processes.running(command, cwd=bench.project, environment=environment, speaks=False, cpu=cpu) as server:
            _wait_for(port, server)
            if program.role == "ours":
                server.settle()
            return {keys[era]: _sample(bench, course, program, server, port=port, era=era) for era, _ in _ERAS}

    return Race(
        rows=tuple(
            Row(
                key=keys[era],
                title=f"{course.title}, {revision}",
                rate=not course.tail,
                by=course.by,
                note=course.note if era == "handshake" else "",
                goals=course.goals.get(era, ()),
            )
            for era, revision in _ERAS
        ),
        contestants=tuple(p.contestant(measure) for p in entered(bench, programs)),
        rounds=bench.scale.rounds,
    )


def _sample(
    bench: Bench, course: Course, program: Program, server: Child, *, port: int, era: Era
) -> Sample | ContestantError:
    tool, (arguments, answer, wrong) = tool_of(program, course.tool), job(course.tool)
    command = [sys.executable, "-m", "benchmarks.load", str(port), str(course.clients), era, tool]
    command += [json.dumps(arguments), answer, json.dumps(wrong)]
    patience, (_, cpu) = START_SECONDS + course.seconds, processes.two_cpus()
    environment = processes.environment(bench.home)
    try:
        with processes.running(command, cwd=bench.project, environment=environment, cpu=cpu) as load:
            rejects = json.loads(load.read_line(patience))["rejects"]
            load.write(b"%f\n" % (course.seconds / 3))
            load.read_line(patience)
            spent = server.cpu()
            load.write(b"%f\n" % course.seconds)
            told = json.loads(load.read_line(patience))
            spent = server.cpu() - spent
        shown = rejection.over_http(port, era, tool, wrong) if program.role == "ours" else ""
    except ContestantError as error:
        return error
    wall = told["p99"] if course.tail else told["wall"] / told["count"]
    return Sample(cpu=spent / told["count"], wall=wall, rejects=rejects, rejection=shown)


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
