"""What an agent's file costs: the agent's view of many tools, and a turn beside one of an agent without a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import processes
from benchmarks.contestants import Program
from benchmarks.harness import Bench, Contestant, Goal, Measured, Race, Role, Row, Sample

VIEW, TURN = "agent-view", "agent-turn"
LIMIT = 300.0
BUDGET = 0.005
FEW, MORE = 10, 1_000
NOISE = 1.05
"""What two times of the same agent differ by at most, in most rounds."""

_VIEWS = Program(name="views", role="ours", module="benchmarks.ours.agent_views")
_TURNS = Program(name="turns", role="ours", module="benchmarks.ours.agent_turns")


class SharedProcess:
    """Contestants that one process measures in turn: the first of a round runs it, the others take their part."""

    def __init__(self, run: Callable[[], Mapping[str, Measured]]) -> None:
        self._run = run
        self._left: dict[str, Measured] = {}

    def contestant(self, key: str, name: str, note: str, *, role: Role = "ours") -> Contestant:
        """One that the process reports under this key."""
        return Contestant(name=name, role=role, note=note, measure=lambda: self._take(key))

    def _take(self, key: str) -> Measured:
        if key not in self._left:
            self._left = dict(self._run())
        return self._left.pop(key)


def races(bench: Bench) -> list[Race]:
    """Each in a fresh process that checks itself and reads its own clocks."""
    return [_views(bench), _turns(bench)]


def _views(bench: Bench) -> Race:
    count = bench.scale.tools

    def run() -> dict[str, Measured]:
        told = _told(bench, _VIEWS, "view", f"tools={count}")
        return {key: {VIEW: Sample(**times)} for key, times in told.items()}

    shared = SharedProcess(run)
    row = Row(
        key=VIEW,
        title=f"an agent's view of {count:,} tools",
        note="an agent's file with an allow-list of patterns, a block-list and two tools of its own; with the list of "
        "names and of infos that a turn takes from it. All in turn in one process; the medians of 15 times each.",
        goals=(Goal(against="budget", limit=BUDGET),),
    )
    return Race(
        rows=(row,),
        contestants=(
            shared.contestant("plain", "plain generation", "what a reload builds for everybody", role="floor"),
            shared.contestant("again", "made again", "after a reload that changed one tool"),
            shared.contestant("first", "made first", "after the agent's file changed"),
            shared.contestant("found", "found again", "nothing changed"),
        ),
        rounds=bench.scale.heavy_rounds,
    )


def _turns(bench: Bench) -> Race:
    sizes = {TURN: FEW, f"{TURN}-many": min(MORE, bench.scale.tools)}

    def run() -> dict[str, Measured]:
        told = {
            key: _told(bench, _TURNS, "turn", f"tools={count}", f"seconds={bench.scale.seconds}")
            for key, count in sizes.items()
        }
        return {who: {key: Sample(**times[who]) for key, times in told.items()} for who in ("without", "with", "again")}

    shared = SharedProcess(run)
    rows = tuple(
        Row(
            key=key,
            title=f"one stored turn with a tool call of an agent, {count:,} tools",
            note="`stead.invoke` on the kernel with a scripted model, conversations of five turns, in shuffled order "
            "in one process; how far the agent without a file is from itself is the noise.",
            goals=(Goal(against="floor", limit=NOISE),),
        )
        for key, count in sizes.items()
    )
    return Race(
        rows=rows,
        contestants=(
            shared.contestant("without", "without a file", "the built-in `main`", role="floor"),
            shared.contestant("with", "with a file", "instructions, tools, block-list, limits, tools of its own"),
            shared.contestant("again", "without a file, again", "the noise"),
        ),
        rounds=bench.scale.rounds,
    )


def _told(bench: Bench, program: Program, *arguments: str) -> Mapping[str, Any]:
    command, environment = program.command(*arguments), program.environ(bench)
    return processes.run(command, cwd=bench.project, environment=environment, seconds=LIMIT)
