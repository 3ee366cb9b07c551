"""An agent's own cost, with a model that answers at once: one run, a turn by how long the run is, many runs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import agent_work, processes
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Goal, Measured, Race, Row, Sample

RUN, TURNS, MANY = "agent-run", "agent-turns", "agent-many"
LIMIT = 120.0
MANY_LIMIT = 1200.0
LENGTH = 20
SCRIPTED = "The model is scripted, in process and in each library's own way; nobody traces or streams"

PROGRAMS = (
    Program(
        name="floor",
        role="floor",
        module="benchmarks.floor.agent",
        note="a loop over a list of tuples, jsonschema-rs, the function",
    ),
    Program(
        name="toolstead",
        role="ours",
        module="benchmarks.ours.agent",
        note="the kernel's loop; calls through a stead's dispatcher, as those of `stead.call`",
    ),
    Program(
        name="toolstead, invoke",
        role="ours",
        module="benchmarks.ours.agent",
        options=("invoke=1",),
        note="all of `stead.invoke`: thread, session, hooks; messages, runs and events stored in SQLite",
    ),
    Program(
        name="pydantic-ai",
        role="peer",
        module="benchmarks.peers.pydantic_agent",
        environment="pydantic-ai",
        note="`Agent.run` on a `FunctionModel` that tells its usage; nothing stored",
    ),
    Program(
        name="openai-agents",
        role="peer",
        module="benchmarks.peers.openai_agent",
        environment="openai-agents",
        note="`Runner.run` on a `Model`; tracing off, nothing stored",
    ),
    Program(
        name="langchain",
        role="peer",
        module="benchmarks.peers.langchain_agent",
        environment="langchain-agent",
        note="`create_agent` on a `BaseChatModel` whose `bind_tools` is free; no checkpoints",
    ),
    Program(
        name="google-adk",
        role="peer",
        module="benchmarks.peers.adk_agent",
        environment="google-adk",
        note="`Runner.run_async` on a `BaseLlm`, `InMemorySessionService`; nobody listens to its spans",
    ),
)
OLDER = Program(
    name="langgraph, prebuilt",
    role="peer",
    module="benchmarks.peers.langchain_agent",
    options=("prebuilt=1",),
    environment="langchain-agent",
    note="`create_react_agent`, which `create_agent` replaces, on the same model; no checkpoints",
)
"""In one row only: it needs minutes where the others need seconds."""


def races(bench: Bench) -> list[Race]:
    """Each in a fresh process that checks itself, warms up and reads its own clocks."""
    return [_run(bench), _turns(bench), _many(bench)]


def _run(bench: Bench) -> Race:
    def measure(program: Program) -> Measured:
        arguments = ("run", f"turns={LENGTH}", f"seconds={bench.scale.seconds}")
        return {RUN: _sample(_told(bench, program, *arguments, seconds=LIMIT))}

    row = Row(
        key=RUN,
        title=f"an agent's run of {LENGTH} turns, each with a tool call",
        note=f"{SCRIPTED}. Each turn adds to what the tool said last, so every answer must reach the model; the tool's "
        "calls are counted and the last sentence is checked, in the timed runs too.",
        goals=(Goal(against="peer", limit=15),),
    )
    return _race(bench, row, measure, (*PROGRAMS, OLDER), rounds=bench.scale.rounds)


def _turns(bench: Bench) -> Race:
    def measure(program: Program) -> Measured:
        return {TURNS: _sample(_told(bench, program, "turns", f"seconds={bench.scale.seconds}", seconds=LIMIT))}

    sizes = ", ".join(map(str, agent_work.SIZES))
    row = Row(
        key=TURNS,
        title=f"one turn with a tool call, in an agent's run of {agent_work.SIZES[-1]} turns",
        note=f"in the notes, the same in runs of {sizes} turns, measured in turn in one process: a turn should cost "
        "the same however long the run is.",
        goals=(Goal(against="size", limit=1.1), Goal(against="peer", limit=15)),
    )
    return _race(bench, row, measure, PROGRAMS, rounds=bench.scale.rounds)


def _many(bench: Bench) -> Race:
    runs = bench.scale.threads

    def measure(program: Program) -> Measured:
        arguments = ("many", f"runs={runs}", f"turns={LENGTH}")
        return {MANY: _sample(_told(bench, program, *arguments, seconds=MANY_LIMIT))}

    row = Row(
        key=MANY,
        title=f"{runs:,} agents' runs of {LENGTH} turns at once",
        note="the time of all of them, in one process and one event loop. Here the model gives way once before it "
        "answers, so that all runs are in memory at once. For each: how much the most memory of the process meanwhile "
        "is above what it had when it was warm.",
        goals=(Goal(against="peer", limit=15), Goal(against="each", limit=48_000)),
    )
    return _race(bench, row, measure, PROGRAMS, rounds=1)  # some peers need minutes for one


def _race(
    bench: Bench, row: Row, measure: Callable[[Program], Measured], programs: Sequence[Program], *, rounds: int
) -> Race:
    contestants = tuple(program.contestant(measure) for program in entered(bench, programs))
    return Race(rows=(row,), contestants=contestants, rounds=rounds)


def _told(bench: Bench, program: Program, *arguments: str, seconds: float) -> Mapping[str, Any]:
    return processes.run(
        program.command(*arguments), cwd=bench.project, environment=program.environ(bench), seconds=seconds
    )


def _sample(told: Mapping[str, Any]) -> Sample:
    sizes = {int(size): cpu for size, cpu in told["sizes"].items()} if "sizes" in told else None
    return Sample(cpu=told["cpu"], wall=told["wall"], rejects=told["rejects"], each=told.get("each"), sizes=sizes)
