"""A process is struck at each of its stored writes in the middle of delegated work, and another one finishes it.

`python -m tests.programs.crash_matrix --database sqlite|postgres` plays the scenario of `crash_scenario` once for each
write and each side of it; `crash_checks` says what must hold afterwards. `--signal` chooses the blow: KILL, TERM (it
ends in order), STOP (it is taken for dead, and goes on later) or OUTAGE (Postgres goes away for some seconds).
`--without duplicates|epoch|run-key|delivery-key` removes a protection, and must fail; `--controls` tries all four.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tests.contracts.postgres_server import interrupted_server, running_server
from tests.programs.crash_checks import describe_event, find_problems
from tests.programs.crash_processes import PROTECTIONS, Blow, Orders, Protection, Strike, Worker, working
from tests.programs.crash_scenario import Place, Rows
from tests.waiting import PATIENCE

AWAY_SECONDS = 3.0
"""How long the database is away."""
SLOW_SECONDS = 0.8
"""How long a slow successor waits after the one that was taken for dead goes on."""
CONTROLS: Mapping[Protection, Sequence[Strike]] = {
    "duplicates": [Strike(operation="admit_tasks", number=2, is_before=False)],
    "epoch": [
        Strike(blow="STOP", operation="accept_run", number=number, is_before=False, is_slow=True) for number in (1, 2)
    ],
    "run-key": [Strike(operation="record_attempt", number=1)],
    "delivery-key": [Strike(operation="end_task", number=number, is_before=False) for number in (2, 4)],
}
"""Where a process is struck so that a missing protection shows; one round of each that goes wrong will do."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How rounds are played; see the arguments of the program.

    Attributes:
        is_alive: Whether the process that takes over is there before the blow.
    """

    without: Protection | None = None
    is_alive: bool = False
    sweep_seconds: float | None = None
    patience: float = PATIENCE
    logs: Path | None = None


@dataclass(kw_only=True)
class Round:
    """What one blow led to.

    Attributes:
        names: The operations of the write.
        changed: Tasks whose claim changed hands.
        lost: Runs that ended with their process, and were run again.
        seconds: From the blow until everything had settled.
    """

    strike: Strike
    names: Sequence[str] = ()
    problems: list[str] = field(default_factory=list[str])
    changed: int = 0
    lost: int = 0
    seconds: float | None = None
    writes: int = 0

    def __str__(self) -> str:
        found = "; ".join(self.problems) or "right"
        took = "" if self.seconds is None else f"{self.seconds:.2f} s, "
        return f"{self.strike} [{', '.join(self.names)}]: {took}{self.changed} claims, {self.lost} lost: {found}"


class Databases:
    """Makes a database for each round."""

    def __init__(self, folder: Path, socket: Path | None) -> None:
        self._folder, self.socket = folder, socket
        self._numbers = iter(range(1_000_000))
        self._lock = threading.Lock()

    @contextmanager
    def make_place(self) -> Generator[Place]:
        with self._lock:
            name = f"round{next(self._numbers)}"
        place = Place(folder=self._folder / name)
        place.prepare()
        if self.socket is None:
            yield place
            return
        asyncio.run(self._execute(f"CREATE SCHEMA {name}"))
        try:
            yield replace(place, url=f"postgresql://postgres@/postgres?host={self.socket}&search_path={name}")
        finally:
            asyncio.run(self._execute(f"DROP SCHEMA {name} CASCADE"))

    async def _execute(self, statement: str) -> None:
        import asyncpg

        admin = await asyncpg.connect(host=str(self.socket), user="postgres", database="postgres")
        await admin.execute(statement)
        await admin.close()


def play_round(databases: Databases, plan: Plan, strike: Strike, delay: float = 0.0) -> Round:
    """Strike one process, let another finish, and look at what is stored."""
    done = Round(strike=strike)
    with databases.make_place() as place, ExitStack() as stack:
        log = None if plan.logs is None else plan.logs / f"{str(strike).replace(' ', '-')}.log"
        orders = Orders(
            place=place,
            asks=True,
            strike=strike,
            without=plan.without,
            sweep_seconds=plan.sweep_seconds,
            patience=plan.patience,
            log=log,
        )
        start = partial(_start_worker, stack)
        first = start(orders)
        pauses_at = "end_task" if strike.is_slow else ""
        successor = replace(orders, asks=False, strike=Strike(), pauses_at=pauses_at)
        second = start(successor) if plan.is_alive else None
        if second is not None:
            second.hear("opened")
        heard = first.hear("struck", "settled", seconds=plan.patience)
        if heard is None:
            done.problems.append("the first process ended, or did nothing")
            return done
        if heard == "settled":
            last, struck = first, first.said["settled"][0]
        else:
            struck, done.names = first.said["struck"]
            if strike.blow == "OUTAGE":
                _interrupt_database(databases, first)
                last = first
            else:
                last = _hand_over(first, second or start(successor), strike, delay, done)
        _finish_round(last, struck, plan, done)
        if log is not None and not done.problems:
            log.unlink(missing_ok=True)
    return done


def _start_worker(stack: ExitStack, orders: Orders) -> Worker:
    return stack.enter_context(working(orders))


def _hand_over(first: Worker, second: Worker, strike: Strike, delay: float, done: Round) -> Worker:
    """Let the second process take over from one that was struck."""
    if strike.blow != "STOP":
        status = first.wait_for_end()
        if strike.blow == "TERM" and (status != 0 or first.hear("closed") is None):
            done.problems.append(f"it did not end in order: {status}")
    second.hear("opened")
    second.tell("go")
    if strike.blow == "STOP":
        heard = second.hear("paused", "settled", seconds=PATIENCE if strike.is_slow else delay)
        first.thaw()
        if heard == "paused":
            first.hear("settled", seconds=SLOW_SECONDS)
            second.tell("go on")
        first.hear("settled")
        first.process.terminate()
        if first.wait_for_end() != 0:
            done.problems.append("the one that was taken for dead did not end in order")
    return second


def _finish_round(last: Worker, struck: float, plan: Plan, done: Round) -> None:
    if last.hear("settled", seconds=plan.patience + 10) is None:
        done.problems.append("the process that takes over ended, or did nothing")
        return
    settled, missing, done.writes = last.said["settled"]
    done.seconds = settled - struck
    if missing:
        done.problems.append(missing)
    last.tell("report")
    if last.hear("rows") is None:
        done.problems.append("the process that takes over did not report")
        return
    rows: Rows = last.said["rows"][1]
    done.problems += find_problems(rows, had_outage=done.strike.blow == "OUTAGE")
    done.changed = sum(task["epoch"] > 2 for task in rows["tasks"])  # claimed when it was admitted, and ended
    done.lost = sum(run["status"] in ("lost", "stopped") for run in rows["runs"])
    last.process.terminate()
    if last.wait_for_end() != 0:
        done.problems.append("the process that takes over did not end in order")
    if done.problems and plan.logs is not None:
        _write_rows(plan.logs / f"{str(done.strike).replace(' ', '-')}.rows", rows)


def _write_rows(file: Path, rows: Rows) -> None:
    lines = [str(row) for name in rows if name != "events" for row in (f"== {name}", *rows[name])]
    file.write_text("\n".join([*lines, *map(describe_event, rows["events"])]), encoding="utf-8")


def _interrupt_database(databases: Databases, first: Worker) -> None:
    assert databases.socket is not None
    with interrupted_server(databases.socket):
        first.tell("it is gone")
        time.sleep(AWAY_SECONDS)


def play_rounds(
    databases: Databases, plan: Plan, strikes: Iterable[Strike], *, jobs: int, seed: int
) -> Iterator[Round]:
    """Play rounds, some at the same time; each as it is done, in order."""
    dice = random.Random(seed)
    span = 1.6 if plan.sweep_seconds is None else 0.4 + 2 * plan.sweep_seconds
    with ThreadPoolExecutor(jobs) as workers:
        played = [workers.submit(play_round, databases, plan, strike, dice.uniform(0.1, span)) for strike in strikes]
        try:
            for one in played:
                yield one.result()
        finally:
            for one in played:
                one.cancel()


def list_strikes(writes: int, blow: Blow, sample: int | None, dice: random.Random) -> list[Strike]:
    """Every write, before and after; or a sample of them, in order."""
    every = [
        Strike(blow=blow, number=number, is_before=is_before, is_slow=blow == "STOP" and dice.random() < 0.5)
        for number in range(1, writes + 1)
        for is_before in (True, False)
    ]
    if sample is None or sample >= len(every):
        return every
    # Spread over the whole scenario: one of each of so many equal parts.
    size = len(every) / sample
    return [every[int(size * (place + dice.random()))] for place in range(sample)]


def summarize(rounds: Sequence[Round]) -> str:
    """The table's line of these rounds."""
    struck = [one for one in rounds if one.names]
    wrong = [one for one in rounds if one.problems]
    seconds = [one.seconds for one in struck if one.seconds is not None]
    took = f"{statistics.median(seconds):.1f} / {max(seconds):.1f} s" if seconds else "-"
    kinds = Counter(problem.partition(":")[0] for one in wrong for problem in one.problems)
    line = (
        f"{len(struck)} blows, {len(wrong)} wrong; {sum(one.changed for one in struck)} claims changed hands in "
        f"{sum(one.changed > 0 for one in struck)} rounds; {sum(one.lost for one in struck)} runs lost and redone; "
        f"settled after the blow, median / max: {took}"
    )
    return "\n".join([line, *(f"  {count} x {kind}" for kind, count in kinds.most_common(20))])


def find_unnoticed(databases: Databases, plan: Plan, *, jobs: int) -> list[Protection]:
    """The protections whose removal no round notices. Raises AssertionError where a round is wrong with all of them."""
    unnoticed: list[Protection] = []
    for protection, strikes in CONTROLS.items():
        for one in play_rounds(databases, plan, strikes, jobs=jobs, seed=0):
            assert not one.problems, one
        lacking = replace(plan, without=protection)
        rounds = list(play_rounds(databases, lacking, strikes, jobs=jobs, seed=0))
        for one in rounds:
            print(f"without {protection}: {one}", flush=True)
        if not any(one.names and one.problems for one in rounds):
            unnoticed.append(protection)
    return unnoticed


@contextmanager
def open_databases(database: str) -> Generator[Databases]:
    """A folder, and a server where one is needed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="toolstead-crash-")))
        socket: Path | None = None
        if database == "postgres":
            socket = stack.enter_context(running_server())
        yield Databases(folder, socket)


def count_writes(databases: Databases, plan: Plan) -> int:
    """Play the scenario undisturbed. Raises AssertionError when even that goes wrong."""
    calm = play_round(databases, replace(plan, without=None), Strike())
    assert not calm.problems, calm
    return calm.writes


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.crash_matrix", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--signal", choices=("KILL", "TERM", "STOP", "OUTAGE"), default="KILL")
    parser.add_argument("--sample", type=int, help="so many blows, spread over the scenario, instead of all")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--without", choices=PROTECTIONS)
    parser.add_argument("--controls", action="store_true", help="see that each protection is missed when it is removed")
    parser.add_argument("--alive", action="store_true", help="the process that takes over is there before the blow")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sweep", type=float, help="seconds between two looks for what others left")
    parser.add_argument("--patience", type=float, default=PATIENCE)
    parser.add_argument("--logs", type=Path, help="a folder for the logs of rounds that go wrong")
    parser.add_argument("--at", type=int, nargs="*", help="only these writes")
    asked = parser.parse_args(given)
    if asked.signal == "OUTAGE" and asked.database != "postgres":
        parser.error("--signal OUTAGE is for --database postgres")
    plan = Plan(
        without=asked.without,
        is_alive=asked.alive,
        sweep_seconds=asked.sweep,
        patience=asked.patience,
        logs=asked.logs,
    )
    if asked.logs is not None:
        asked.logs.mkdir(parents=True, exist_ok=True)
    with open_databases(asked.database) as databases:
        if asked.controls:
            unnoticed = find_unnoticed(databases, plan, jobs=asked.jobs)
            print(f"not noticed: {', '.join(unnoticed)}" if unnoticed else "each missing protection was noticed")
            return int(bool(unnoticed))
        writes = count_writes(databases, plan)
        dice = random.Random(asked.seed)
        strikes = list_strikes(writes, asked.signal, asked.sample, dice)
        if asked.at:
            strikes = [one for one in strikes if one.number in asked.at]
        print(f"seed {asked.seed}, {asked.database}, {asked.signal}: {writes} writes, {len(strikes)} blows", flush=True)
        rounds: list[Round] = []
        for one in play_rounds(
            databases, plan, strikes, jobs=1 if asked.signal == "OUTAGE" else asked.jobs, seed=asked.seed
        ):
            print(one, flush=True)
            rounds.append(one)
    print(summarize(rounds))
    return int(any(one.problems for one in rounds))


if __name__ == "__main__":
    sys.exit(main())
