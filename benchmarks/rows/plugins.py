"""What plugins cost: a call and a turn with none, with ours, with 10 and with 100, without and with hooks."""

from __future__ import annotations

from benchmarks import processes
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Goal, Measured, Race, Row, Sample

CALL = "plugins-call"
TURN = "plugins-turn"
LIMIT = 300.0
MODULE = "benchmarks.ours.plugins"


def _program(name: str, *, plugins: int = 0, hooks: int = 0, first: int = 1, note: str) -> Program:
    options = (f"plugins={plugins}", f"hooks={hooks}", f"first={first}")
    return Program(name=name, role="ours" if first else "floor", module=MODULE, options=options, note=note)


PROGRAMS = (
    _program("no plugins", first=0, note="toolstead with its own plugins off too"),
    _program("as shipped", note="time, context and plan"),
    _program("10 plugins", plugins=10, note="each with a tool"),
    _program("100 plugins", plugins=100, note="each with a tool"),
    _program("10 plugins with hooks", plugins=10, hooks=1, note="each with a hook at every station"),
    _program("100 plugins with hooks", plugins=100, hooks=1, note="each with a hook at every station"),
)


def race(bench: Bench) -> Race:
    """Each in a fresh process that warms up, then reads its own clocks."""

    def measure(program: Program) -> Measured:
        def told(mode: str) -> Sample:
            values = processes.run(
                program.command(mode, f"seconds={bench.scale.seconds}"),
                cwd=bench.project,
                environment=program.environ(bench),
                seconds=LIMIT,
            )
            return Sample(cpu=values["cpu"], wall=values["wall"], rejects=True, memory=values.get("memory"))

        return {CALL: told("call"), TURN: told("converse")}

    goals = (Goal(against="floor", limit=1.1),)
    return Race(
        rows=(
            Row(
                key=CALL,
                title="one validated call, by how many plugins there are",
                goals=goals,
            ),
            Row(
                key=TURN,
                title="one stored turn with a tool call, by how many plugins there are",
                goals=goals,
            ),
        ),
        contestants=tuple(program.contestant(measure) for program in entered(bench, PROGRAMS)),
        rounds=bench.scale.heavy_rounds,
    )
