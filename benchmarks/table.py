"""The outcome in Markdown: one table, whether each goal was met, and where Toolstead is behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from benchmarks.harness import Entry, Goal, Outcome

HEAD = (
    "| what | who | CPU | wall | × floor (CPU) | × toolstead (CPU) | notes |",
    "|---|---|---:|---:|---:|---:|---|",
)
LEVEL = 0.97
"""Whoever takes less than this part of our time is ahead of us; what is nearer is noise."""
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def render(outcomes: Sequence[Outcome], about: Sequence[str]) -> str:
    """The whole text."""
    lines = [*(f"- {line}" for line in about), "", *HEAD]
    for outcome in outcomes:
        for position, entry in enumerate(_ordered(outcome)):
            lines.append(_line(outcome, entry, outcome.row.title if position == 0 else ""))
    verdicts = [verdict for outcome in outcomes for verdict in _verdicts(outcome)]
    if verdicts:
        lines += ["", "Goals, in CPU time unless a line says otherwise:", "", *(f"- {verdict}" for verdict in verdicts)]
    notes = [f"- {outcome.row.title}: {outcome.row.note}" for outcome in outcomes if outcome.row.note]
    if notes:
        lines += ["", "Notes:", "", *notes]
    rejections = [f"- {outcome.row.title}: {told}" for outcome in outcomes if (told := _rejection(outcome))]
    if rejections:
        lines += ["", "A wrong argument, as toolstead rejected it in every round, and its event:", "", *rejections]
    return "\n".join(lines) + "\n"


def _rejection(outcome: Outcome) -> str:
    """What the first round has to show."""
    ours = outcome.of("ours")
    return next((sample.rejection for sample in ours.samples.values() if sample.rejection), "") if ours else ""


def _ordered(outcome: Outcome) -> list[Entry]:
    """The floor, then Toolstead, then the peers from fast to slow, then what failed."""
    rank = {"floor": 0, "ours": 1, "peer": 2}
    return sorted(
        outcome.entries,
        key=lambda e: (not e.samples, rank[e.contestant.role], e.seconds(outcome.row.by) if e.samples else 0.0),
    )


def _line(outcome: Outcome, entry: Entry, title: str) -> str:
    notes = [entry.contestant.note] if entry.contestant.note else []
    name = f"**{entry.contestant.name}**" if entry.contestant.role == "ours" else entry.contestant.name
    if not entry.samples:
        return f"| {title} | {name} | – | – | – | – | not measured: {_cell(entry.failure)} |"
    if entry.validates is False:
        notes.append("does not validate")
    if entry.failure:
        notes.append(f"failed after {len(entry.samples)} rounds: {_cell(entry.failure)}")
    if memory := [sample.memory for sample in entry.samples.values() if sample.memory is not None]:
        notes.append(f"{median(memory) / 1_000_000:,.0f} MB at most")
    if (each := entry.each()) is not None:
        notes.append(f"{each / 1000:,.0f} kB each")
    if (growth := entry.growth()) is not None:
        shown = ", ".join(f"{_time(cpu)} at {size}" for size, cpu in entry.sizes().items())
        notes.append(f"{shown}: {_short(growth)}×")
    walls = [sample.wall for sample in entry.samples.values()]
    cells = [
        title,
        name,
        _spread_of_times([sample.cpu for sample in entry.samples.values()]),
        _spread_of_rates(walls) if outcome.row.rate else _spread_of_times(walls),
        _ratio(outcome, entry, outcome.of("floor")),
        _ratio(outcome, entry, outcome.of("ours")),
        "; ".join(notes),
    ]
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:160]


def _spread_of_times(seconds: Sequence[float]) -> str:
    size, _ = _unit(median(seconds))
    return f"{_time(median(seconds))}{_range([value / size for value in seconds])}"


def _time(seconds: float) -> str:
    size, unit = _unit(seconds)
    return f"{_short(seconds / size)} {unit}"


def _unit(seconds: float) -> tuple[float, str]:
    return next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])


def _spread_of_rates(seconds: Sequence[float]) -> str:
    rates = [1 / value for value in seconds]
    return f"{median(rates):,.0f}/s" + (f" ({min(rates):,.0f}–{max(rates):,.0f})" if len(rates) > 1 else "")


def _ratio(outcome: Outcome, entry: Entry, to: Entry | None) -> str:
    ratios = entry.ratios(to, outcome.row.by) if to is not None else []
    if not ratios:
        return "–"
    of_what = ", wall" if outcome.row.by == "wall" else ""
    return "1" if entry is to else f"{_short(median(ratios))}{_range(ratios)}{of_what}"


def _range(values: Sequence[float]) -> str:
    return f" ({_short(min(values))}–{_short(max(values))})" if len(values) > 1 else ""


def _short(value: float) -> str:
    """Three digits that say something, no more."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.1g}"


def _verdicts(outcome: Outcome) -> Iterable[str]:
    ours = outcome.of("ours")
    if ours is None:
        yield f"{outcome.row.title}: toolstead was not measured"
        return
    for goal in outcome.row.goals:
        yield f"{outcome.row.title}: {_verdict(outcome, ours, goal)}"
    ahead = [
        f"{entry.contestant.name} at {_short(median(ratios))}× our time{_reservation(entry)}"
        for entry in _ordered(outcome)
        if entry.contestant.role == "peer" and (ratios := entry.ratios(ours, outcome.row.by)) and median(ratios) < LEVEL
    ]
    if ahead:
        yield f"{outcome.row.title}: behind {', '.join(ahead)}"


def _reservation(entry: Entry) -> str:
    if entry.validates is False:
        return " (does not validate)"
    return "" if entry.contestant.complete else " (not a whole call)"


def _verdict(outcome: Outcome, ours: Entry, goal: Goal) -> str:
    if goal.against == "floor":
        floor = outcome.of("floor")
        if floor is None:
            return f"goal ≤{goal.limit:g}× the floor: the floor was not measured"
        ratio = median(ours.ratios(floor))
        return f"goal ≤{goal.limit:g}× the floor: {'met' if ratio <= goal.limit else 'behind'}, {_short(ratio)}×"
    if goal.against in ("size", "each", "budget"):
        return _own_verdict(ours, goal)
    if goal.against == "rivals":
        return _rivals_verdict(outcome, ours, goal)
    rivals = [
        entry
        for entry in outcome.entries
        if entry.contestant.role == "peer" and entry.contestant.complete and entry.samples and entry.validates
    ]
    if not rivals:
        return f"goal ≥{goal.limit:g}× under the best peer that validates: no peer was measured"
    best = min(rivals, key=lambda entry: entry.seconds("cpu"))
    ratio = median(best.ratios(ours))
    return (
        f"goal ≥{goal.limit:g}× under the best peer that validates ({best.contestant.name}): "
        f"{'met' if ratio >= goal.limit else 'behind'}, {_short(ratio)}×"
    )


def _rivals_verdict(outcome: Outcome, ours: Entry, goal: Goal) -> str:
    """A goal against peers by name, whether they validate or not."""
    wanted = f"goal ≥{goal.limit:g}× under {' or '.join(goal.rivals)}"
    rivals = [entry for entry in outcome.entries if entry.contestant.name in goal.rivals and entry.samples]
    if not rivals:
        return f"{wanted}: not measured"
    best = min(rivals, key=lambda entry: entry.seconds(goal.by))
    ratios, by = best.ratios(ours, goal.by), "CPU" if goal.by == "cpu" else "wall"
    if not ratios:
        return f"{wanted}: never measured in the same round"
    other = best.ratios(ours, "wall" if goal.by == "cpu" else "cpu")
    return (
        f"{wanted}: {'met' if median(ratios) >= goal.limit else 'behind'}, {_short(median(ratios))}× in {by} time "
        f"against {best.contestant.name} ({_short(median(other))}× in {'CPU' if by == 'wall' else 'wall'} time)"
    )


def _own_verdict(ours: Entry, goal: Goal) -> str:
    """A goal that nobody else has a part in."""
    if goal.against == "each":
        each = ours.each()
        wanted = f"goal ≤{goal.limit / 1000:g} kB each"
        told = None if each is None else (each <= goal.limit, f"{each / 1000:,.0f} kB")
    elif goal.against == "budget":
        seconds = ours.seconds(goal.by)
        wanted = f"goal ≤{_time(goal.limit)}"
        told = (seconds <= goal.limit, f"{_time(seconds)}, {_short(seconds / goal.limit)}× the budget")
    else:
        growth, sizes = ours.growth(), list(ours.sizes())
        wanted = f"goal ≤{goal.limit:g}× at {sizes[-1]} of what it is at {sizes[0]}" if sizes else "goal: no growth"
        told = None if growth is None else (growth <= goal.limit, f"{_short(growth)}×")
    return f"{wanted}: not measured" if told is None else f"{wanted}: {'met' if told[0] else 'behind'}, {told[1]}"
