"""`python -m benchmarks [--rows a,b] [--quick] [--rounds N] [--output FILE] [--selfcheck] [--no-peers]`."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import environments, subject, workload
from benchmarks.harness import QUICK, SELFCHECK, Bench, Outcome, Scale, run_race
from benchmarks.rows import races, runtime_start
from benchmarks.table import render

CHANGED = "toolstead's source files changed during the run, so its rounds are of different versions"


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, _stop)
    scale = SELFCHECK if asked.selfcheck else QUICK if asked.quick else Scale()
    if asked.rounds:
        scale = replace(scale, rounds=asked.rounds, heavy_rounds=min(asked.rounds, scale.heavy_rounds))
    began, load, measured = datetime.now(UTC), os.getloadavg()[0], subject.mark()
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        bench = _bench(Path(folder), scale, peers=not asked.no_peers)
        outcomes = _run(bench, asked.rows.split(",") if asked.rows else [])
    about = _about(scale, began, load, peers=not asked.no_peers)
    changed = subject.mark() != measured
    if changed:
        about.append(f"**not one program: {CHANGED}**")
    text = render(outcomes, about) + runtime_start.summary(outcomes)
    print(text, end="")
    if asked.output:
        Path(asked.output).write_text(text)
    failures = [line for outcome in outcomes for line in outcome.failures("floor", "ours")]
    if asked.selfcheck:
        failures += [line for outcome in outcomes for line in outcome.failures("peer")]
    if changed:
        failures.append(CHANGED)
    for line in failures:
        print(f"benchmarks: failed: {line}", file=sys.stderr)
    return 1 if failures else 0


def _stop(_number: int, _frame: object) -> None:
    """Leave through every `with`, so that what was started is ended."""
    sys.exit(143)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", default="", help="only these rows, by key, with commas; `--rows help` lists them")
    parser.add_argument("--quick", action="store_true", help="one to two minutes: fewer rounds, 500 tools")
    parser.add_argument("--rounds", type=int, default=0, help="so many rounds")
    parser.add_argument("--output", default="", help="write the text to this file too")
    parser.add_argument("--no-peers", action="store_true", help="only the floor and toolstead; installs nothing")
    parser.add_argument("--selfcheck", action="store_true", help="run every contestant once, briefly; 1 if any fails")
    return parser.parse_args()


def _bench(folder: Path, scale: Scale, *, peers: bool) -> Bench:
    project, home = folder / "project", folder / "home"
    project.mkdir()
    home.mkdir()
    (project / workload.READ_FILE).write_text(workload.READ_ANSWER + "\n")
    return Bench(scale=scale, project=project, home=home, peers=peers)


def _run(bench: Bench, wanted: list[str]) -> list[Outcome]:
    found = races(bench)
    known = [row.key for race in found for row in race.rows]
    unknown = [key for key in wanted if key not in known]
    if unknown:
        raise SystemExit(f"no row {', '.join(unknown)}; there are {', '.join(known)}")
    outcomes: list[Outcome] = []
    for race in found:
        rows = [row.key for row in race.rows if not wanted or row.key in wanted]
        if rows:
            outcomes += [outcome for outcome in run_race(race) if outcome.row.key in rows]
    return outcomes


def _about(scale: Scale, began: datetime, load: float, *, peers: bool) -> list[str]:
    ours = f"{subject.installed_version()} (files {subject.mark()})"
    minutes = (datetime.now(UTC) - began).total_seconds() / 60
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f} before the start"
    rounds = f"{scale.rounds} rounds ({scale.heavy_rounds} with {scale.tools:,} tools)"
    lines = [
        f"{began:%Y-%m-%d}, toolstead {ours}, {python}, {system}, {minutes:.0f} min",
        f"{rounds}, {scale.seconds:g} s for each contestant and round; medians, in brackets the least and the most",
    ]
    if peers:
        names = sorted(path.stem for path in environments.REQUIREMENTS.glob("*.txt"))
        lines.append("peers: " + ", ".join(environments.versions(name) for name in names))
    return lines


if __name__ == "__main__":
    sys.exit(main())
