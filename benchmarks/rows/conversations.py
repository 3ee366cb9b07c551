"""Many conversations at once, each turn with a tool call: ours stored, the peer's not."""

from __future__ import annotations

from benchmarks import processes
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Goal, Measured, Race, Row, Sample

KEY = "conversations"
LIMIT = 1200.0
TURNS = 20

PROGRAMS = (
    Program(
        name="toolstead",
        role="ours",
        module="benchmarks.ours.conversations",
        note="`stead.invoke` on the scripted runtime; messages, runs and events stored in SQLite",
    ),
    Program(
        name="pydantic-ai",
        role="peer",
        module="benchmarks.peers.pydantic_conversations",
        environment="pydantic-ai",
        note="`Agent.run` on a `FunctionModel`, `message_history` carried over; nothing stored",
    ),
)


def race(bench: Bench) -> Race:
    """Each in a fresh process that warms up with one conversation, then holds all of them and reads its own clocks."""
    threads = bench.scale.threads

    def measure(program: Program) -> Measured:
        told = processes.run(
            program.command("converse", f"threads={threads}", f"turns={TURNS}"),
            cwd=bench.project,
            environment=program.environ(bench),
            seconds=LIMIT,
        )
        return {KEY: Sample(cpu=told["cpu"], wall=told["wall"], rejects=True, memory=told["memory"])}

    return Race(
        rows=(
            Row(
                key=KEY,
                title=f"one turn with a tool call, in {threads:,} conversations of {TURNS} turns at once",
                note="the time of one turn; memory is the most the whole process ever had.",
                goals=(Goal(against="peer", limit=3),),
            ),
        ),
        contestants=tuple(program.contestant(measure) for program in entered(bench, PROGRAMS)),
        rounds=1,  # the peer needs minutes for one
    )
