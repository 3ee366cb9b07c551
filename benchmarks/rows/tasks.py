"""Sub-tasks in the background: what one costs, with everything that is stored of it and handed back to its parent."""

from __future__ import annotations

from importlib.util import find_spec

from benchmarks import processes, task_work
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Measured, Race, Row, Sample
from benchmarks.processes import ContestantError

KEY = "tasks"
LIMIT = 300.0

PROGRAMS = (
    Program(name="toolstead", role="ours", module="benchmarks.ours.tasks"),
    Program(
        name="pydantic-ai on dbos",
        role="peer",
        module="benchmarks.peers.dbos_tasks",
        environment="dbos",
        note="`DBOSDurability`, a workflow on a queue for each; after a kill it goes on by itself",
    ),
    Program(
        name="pydantic-ai on dbos, at its best",
        role="peer",
        module="benchmarks.peers.dbos_tasks",
        options=("polling=0.05",),
        environment="dbos",
        note="looks for work and results every 50 ms, not every second",
    ),
    Program(
        name="langgraph",
        role="peer",
        module="benchmarks.peers.langgraph_tasks",
        environment="langgraph-sqlite",
        note="`create_agent`, a sub-graph for each in the parent's thread; after a kill it goes on when asked to",
    ),
    Program(
        name="langgraph, threads",
        role="peer",
        module="benchmarks.peers.langgraph_tasks",
        options=("keeps=thread",),
        environment="langgraph-sqlite",
        note='a thread for each, `durability="exit"`; after a kill it goes on when asked to, and does some twice',
    ),
    Program(
        name="langgraph, at its best",
        role="peer",
        module="benchmarks.peers.langgraph_tasks",
        options=("keeps=answer",),
        environment="langgraph-sqlite",
        note="nothing is kept of a child but its answer; after a kill it goes on when asked to",
    ),
    Program(
        name="openai-agents",
        role="peer",
        module="benchmarks.peers.openai_tasks",
        environment="openai-agents",
        note="a `SQLiteSession` for each, tracing off; does not survive a kill",
    ),
)


def race(bench: Bench) -> Race:
    """Each in a fresh process and an empty database, which hands out a few tasks first and reads its own clocks."""
    count = min(task_work.COUNT, bench.scale.threads)

    def measure(program: Program) -> Measured:
        if program.role == "ours" and find_spec(program.module) is None:
            raise ContestantError(f"{program.module} is missing")
        told = processes.run(
            program.command("tasks", f"count={count}", f"at_once={task_work.AT_ONCE}"),
            cwd=bench.project,
            environment=program.environ(bench),
            seconds=LIMIT,
        )
        if not told["ok"]:
            raise ContestantError("not every result was stored once and handed back")
        return {KEY: Sample(cpu=told["cpu_seconds"] / told["tasks"], wall=told["wall_seconds"] / told["tasks"])}

    return Race(
        rows=(
            Row(
                key=KEY,
                title=f"a sub-task in the background, one of {count}, {task_work.AT_ONCE} at once",
                note="the time of one task, which is one run of a child agent with one reply of a scripted model; its "
                "answer is stored in SQLite and handed back to the parent, whose last sentence lists them all.",
            ),
        ),
        contestants=tuple(program.contestant(measure) for program in entered(bench, PROGRAMS)),
        rounds=bench.scale.rounds,
    )
