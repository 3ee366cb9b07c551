"""Rounds: each measures every contestant of a race once, in shuffled order, so that a slow minute hits all alike.

Above it are the races in `rows/`; below it `processes` and the clients. `table` turns the outcome into Markdown.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

from benchmarks.processes import ContestantError

Role = Literal["floor", "ours", "peer"]
Clock = Literal["cpu", "wall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long and how large.

    Attributes:
        rounds: Rounds of a race.
        heavy_rounds: Rounds of the race with many tools, whose slowest contestant needs half a minute.
        seconds: Time a contestant is measured for, in each round.
        tools: How many "many tools" are.
        files: How many tool files; a smaller number would say little about the cost of one among many.
        clients: HTTP clients at once.
        many_clients: HTTP clients at once where the slowest answers count.
        threads: Conversations at once, and agents' runs at once.
    """

    rounds: int = 5
    heavy_rounds: int = 3
    seconds: float = 1.0
    tools: int = 10_000
    files: int = 1_000
    clients: int = 32
    many_clients: int = 128
    threads: int = 1_000


QUICK = Scale(rounds=2, heavy_rounds=1, seconds=0.2, tools=500, threads=100)
SELFCHECK = Scale(rounds=1, heavy_rounds=1, seconds=0.05, tools=20, files=5, clients=4, many_clients=8, threads=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a race is built from: the scale, a project folder and an empty home."""

    scale: Scale
    project: Path
    home: Path
    peers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Seconds for one operation, and whether wrong arguments were rejected (None: nothing was called).

    Attributes:
        memory: The most bytes the process ever had, where that is asked.
        each: Bytes that the process grew by for each of what it did at once, where that is asked.
        sizes: CPU of one operation by how large the whole is, from small to large, where that is asked.
        rejection: What was said to a wrong argument, and the event of it, where both are to be shown.
    """

    cpu: float
    wall: float
    rejects: bool | None = None
    memory: float | None = None
    each: float | None = None
    sizes: Mapping[int, float] | None = None
    rejection: str = ""

    def seconds(self, by: Clock) -> float:
        return self.cpu if by == "cpu" else self.wall


Measured = Mapping[str, Sample | ContestantError]
"""What one measurement of a contestant says of each row it takes part in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One program in a race.

    Attributes:
        measure: Runs it once.
        note: What a reader must know about it.
        complete: Whether it is the library's whole way of calling a tool, so that goals are held against it.
    """

    name: str
    role: Role
    measure: Callable[[], Measured]
    note: str = ""
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What we want: a ratio, or a size.

    Attributes:
        against: `floor`: ours is at most `limit` times the floor. `peer`: the best peer that validates takes at least
            `limit` times ours. `rivals`: the best of the peers named takes at least `limit` times ours. `size`: the
            largest size takes at most `limit` times the smallest, of ours. `each`: at most `limit` bytes for each.
            `budget`: ours takes at most `limit` seconds.
        rivals: The names of those peers.
        by: Which of both times is compared with theirs.
    """

    against: Literal["floor", "peer", "rivals", "size", "each", "budget"]
    limit: float
    rivals: tuple[str, ...] = ()
    by: Clock = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table, filled by one race.

    Attributes:
        rate: Show wall time as operations a second.
        by: Which of both times the ratios are of.
    """

    key: str
    title: str
    note: str = ""
    rate: bool = False
    by: Clock = "cpu"
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Contestants measured against each other; one race may fill several rows."""

    rows: tuple[Row, ...]
    contestants: tuple[Contestant, ...]
    rounds: int


@dataclass(slots=True, kw_only=True)
class Entry:
    """A contestant's samples for one row, by round."""

    contestant: Contestant
    samples: dict[int, Sample] = field(default_factory=dict[int, Sample])
    failure: str = ""

    @property
    def validates(self) -> bool | None:
        """Whether wrong arguments were rejected in every round; None where nothing is called."""
        told = [sample.rejects for sample in self.samples.values() if sample.rejects is not None]
        return all(told) if told else None

    def seconds(self, by: Clock) -> float:
        return median(sample.seconds(by) for sample in self.samples.values())

    def each(self) -> float | None:
        """Bytes for each, where that was asked."""
        told = [sample.each for sample in self.samples.values() if sample.each is not None]
        return median(told) if told else None

    def sizes(self) -> dict[int, float]:
        """CPU by size, where that was asked."""
        told = [sample.sizes for sample in self.samples.values() if sample.sizes]
        return {size: median(sizes[size] for sizes in told) for size in (told[0] if told else ())}

    def growth(self) -> float | None:
        """CPU of the largest size against the smallest, taken in each round."""
        told = [list(sample.sizes.values()) for sample in self.samples.values() if sample.sizes]
        return median(cpu[-1] / cpu[0] for cpu in told) if told else None

    def ratios(self, to: Entry, by: Clock = "cpu") -> list[float]:
        """Time against another contestant's, round by round: only what was measured side by side is compared."""
        return [
            sample.seconds(by) / to.samples[number].seconds(by)
            for number, sample in self.samples.items()
            if number in to.samples
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A row with all its entries."""

    row: Row
    entries: tuple[Entry, ...]
    rounds: int

    def of(self, role: Role) -> Entry | None:
        """The entry of the floor or of ours, when it was measured."""
        found = [entry for entry in self.entries if entry.contestant.role == role and entry.samples]
        return found[0] if found else None

    def failures(self, *roles: Role) -> list[str]:
        """What went wrong with contestants of these roles."""
        return [
            f"{self.row.key}: {entry.contestant.name}: {entry.failure}"
            for entry in self.entries
            if entry.failure and entry.contestant.role in roles
        ]


def run_race(race: Race, seed: int = 0) -> list[Outcome]:
    """Measure a race in rounds. A contestant that fails is left out from then on; the others go on."""
    entries = {row.key: {c.name: Entry(contestant=c) for c in race.contestants} for row in race.rows}
    shuffled = random.Random(seed)
    for number in range(race.rounds):
        order = list(race.contestants)
        shuffled.shuffle(order)
        for contestant in order:
            if all(entries[row.key][contestant.name].failure for row in race.rows):
                continue
            began = time.monotonic()
            measured = _measure(contestant, race)
            _say(race, number, contestant, time.monotonic() - began)
            for key, sample in measured.items():
                entry = entries[key][contestant.name]
                if isinstance(sample, Sample) and sample.rejects is False and contestant.role != "peer":
                    sample = ContestantError("wrong arguments were not rejected")  # noqa: PLW2901 - it takes its place
                if isinstance(sample, ContestantError):
                    entry.failure = str(sample)
                    print(f"benchmarks: {key}: {contestant.name}: {sample}\n{sample.log}", file=sys.stderr)
                else:
                    entry.samples[number] = sample
    return [
        Outcome(
            row=row,
            entries=tuple(e for e in entries[row.key].values() if e.samples or e.failure),
            rounds=race.rounds,
        )
        for row in race.rows
    ]


def _measure(contestant: Contestant, race: Race) -> Measured:
    try:
        return contestant.measure()
    except ContestantError as error:
        return {row.key: error for row in race.rows}


def _say(race: Race, number: int, contestant: Contestant, seconds: float) -> None:
    rows = ", ".join(row.key for row in race.rows)
    print(
        f"benchmarks: {rows}: round {number + 1} of {race.rounds}: {contestant.name} ({seconds:.1f} s)",
        file=sys.stderr,
        flush=True,
    )
