"""How soon a message reaches the model behind Claude Code and Codex: cold, prewarmed, as the second one, four at once.

What a person waits for is wall time, so the ratios that count here are of wall time, in lines of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks import processes
from benchmarks.contestants import Program
from benchmarks.harness import Bench, Entry, Measured, Outcome, Race, Role, Row, Sample

KEY = "runtime-start-"
RUNTIMES = {"claude": "Claude Code", "codex": "Codex"}
LIMIT = 300.0
MODULE = "benchmarks.ours.runtime_start"
COLD, PREWARMED, SECOND, FOUR = "cold", "prewarmed", "second message", "four cold at once"
GOALS = {PREWARMED: 3.0, SECOND: 5.0}
"""How many times sooner than cold the model is asked."""
AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Sample):
    """A sample, with what the pool of sessions says after it.

    Attributes:
        hits: Messages that found a session open.
        misses: Messages for which one was opened.
        starting: Programs that were being started at the same time, at most; counted for four at once.
    """

    hits: int
    misses: int
    starting: int


def races(bench: Bench) -> list[Race]:
    """Each in a fresh process, whose first stead pays for imports and for files that are made once."""
    return [_race(bench, runtime) for runtime in RUNTIMES]


def _race(bench: Bench, runtime: str) -> Race:
    key = KEY + runtime

    def measure(program: Program) -> Measured:
        told = processes.run(program.command(), cwd=bench.project, environment=program.environ(bench), seconds=LIMIT)
        return {key: Start(**told)}

    def program(name: str, mode: str, note: str, *, role: Role = "ours") -> Program:
        options = (mode, f"runtime={runtime}")
        return Program(name=name, role=role, module=MODULE, options=options, note=note)

    programs = [
        program(COLD, "cold", "nothing of it runs", role="floor"),
        program(PREWARMED, "prewarmed", "the first message, after `prewarm`"),
        program(SECOND, "second", "in the same thread"),
    ]
    if runtime == "claude":  # a session of Codex is no program of its own
        programs.append(program(FOUR, "four", "until the last of them has asked the model"))
    row = Row(
        key=key,
        title=f"{RUNTIMES[runtime]}: from a message to the first request to the model",
        note="the real program and a scripted model API on loopback. The stead and its database are open, and "
        "the program ran once before, so that cold is a start and no installation. CPU is that of Toolstead and the "
        "program until then; the floor is the cold start. What a person waits for is wall time, below.",
    )
    return Race(rows=(row,), contestants=tuple(p.contestant(measure) for p in programs), rounds=bench.scale.rounds)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Warm against cold in wall time, the pool's own count, and whether the goals are met; "" when not measured."""
    titles = {KEY + runtime: title for runtime, title in RUNTIMES.items()}
    found = [outcome for outcome in outcomes if outcome.row.key in titles]
    lines = [f"- {titles[outcome.row.key]}: {line}" for outcome in found for line in _lines(outcome)]
    return "\n".join(["", "Warm against cold, in wall time:", "", *lines, ""]) if lines else ""


def _lines(outcome: Outcome) -> list[str]:
    entries = {entry.contestant.name: entry for entry in outcome.entries if entry.samples}
    if COLD not in entries:
        return ["the cold start was not measured"]
    cold = entries[COLD]
    lines = [f"cold {_wall(cold)}; pool: {_pool(cold)}"]
    for name, goal in GOALS.items():
        if name not in entries:
            lines.append(f"{name}: not measured")
            continue
        ratios = _sooner(cold, entries[name])
        ratio = median(ratios)
        lines.append(
            f"{name} {_wall(entries[name])}, goal ≥{goal:g}× sooner than cold: {'met' if ratio >= goal else 'behind'}, "
            f"{ratio:.1f}× ({min(ratios):.1f}–{max(ratios):.1f}); pool: {_pool(entries[name])}"
        )
    if FOUR in entries:
        most = max(sample.starting for sample in _starts(entries[FOUR]).values())
        limited = "limited" if most < AT_ONCE else "not limited"
        lines.append(
            f"{FOUR} {_wall(entries[FOUR])}, {limited}: at most {most} programs were starting at the same time, "
            f"all {AT_ONCE} messages were answered; pool: {_pool(entries[FOUR])}"
        )
    return lines


def _sooner(cold: Entry, warm: Entry) -> list[float]:
    """How many times sooner, round by round."""
    return [
        cold.samples[number].wall / sample.wall for number, sample in warm.samples.items() if number in cold.samples
    ]


def _starts(entry: Entry) -> Mapping[int, Start]:
    return {number: sample for number, sample in entry.samples.items() if isinstance(sample, Start)}


def _wall(entry: Entry) -> str:
    milliseconds = [sample.wall * 1000 for sample in entry.samples.values()]
    return f"{median(milliseconds):,.0f} ms ({min(milliseconds):,.0f}–{max(milliseconds):,.0f})"


def _pool(entry: Entry) -> str:
    """Hits and misses; they are the same in every round, because the program fails otherwise."""
    sample = next(iter(_starts(entry).values()))
    hits, misses = sample.hits, sample.misses
    return f"{hits} {'hit' if hits == 1 else 'hits'}, {misses} {'miss' if misses == 1 else 'misses'}"
