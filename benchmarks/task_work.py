"""The work that every parent agent hands out: many sub-tasks in the background, each one run of a child agent.

The parent's model asks for all of them, each child's model says `done N`, every answer is stored in a file and handed
back, and the parent's last sentence lists them all: it is right only when every answer reached the parent's model. A
contestant gives a way to do that in a folder. What is measured of it, and how it is killed, is said here. As
`workload`, it is imported inside the peers' environments and needs nothing but the standard library.

    python -m benchmarks.peers.dbos_tasks tasks count=200 at_once=50    # how long it takes, in one line of JSON
    python -m benchmarks.peers.dbos_tasks --kill                        # what `kill -9` leaves of it, likewise
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from benchmarks import workload

COUNT, AT_ONCE = 200, 50
TASK = "task"
"""The tool of the parent that hands out a task."""
INSTRUCTIONS, CHILD_INSTRUCTIONS = "You hand out tasks.", "You do one task."
INPUT_TOKENS, OUTPUT_TOKENS = 100, 10
"""What every request is said to use, so that nobody has to guess it."""
NAME = "parent"
"""What the parent's run is stored as."""
KILL_AT = 100
"""The process dies when the model of so many children has been asked."""
MODEL_SECONDS = 0.05
"""How long the quickest model thinks in the kill test, so that there are children in the midst of it."""
QUIET_SECONDS = 10.0
"""When nothing has happened for so long after the restart, nothing will: DBOS looks for work every second."""
LIFE_SECONDS = 300.0


class Tasks(Protocol):
    """A contestant whose database is open."""

    async def delegate(self, name: str, prompt: str) -> str:
        """One run of the parent, stored under this name: its last sentence."""
        ...

    async def stored(self, numbers: Iterable[int]) -> Mapping[int, list[str]]:
        """The answers that are stored for each task."""
        ...

    async def said(self, name: str) -> str | None:
        """The last sentence of the parent's run, as it is stored, when it has ended."""
        ...

    async def resume(self, name: str) -> bool:
        """Go on with a run of the parent that was cut off; False where the library has no way to ask for that."""
        ...


Contestant = Callable[[Path, int], AbstractAsyncContextManager[Tasks]]
"""Opens it in a folder, with a bound of how many children run at once."""


class Work:
    """What the children's models do besides answering.

    Attributes:
        log: Where the kill test has them write who is asked and who has answered; None where time is measured.
        dies: Whether the process is killed in the midst.
        asked: How many were asked in this process.
        running: How many are at it now.
        most: The most that ever were.
    """

    log: Path | None = None
    dies = False
    asked = 0
    running = 0
    most = 0


WORK = Work()


def prompt(numbers: range) -> str:
    """What the parent is asked for."""
    return f"Hand out the tasks {numbers.start} to {numbers.stop - 1}."


def wanted(prompt: str) -> range:
    """The tasks that the parent's model asks for."""
    first, last = (int(word) for word in prompt.rstrip(".").split() if word.isdigit())
    return range(first, last + 1)


def child_prompt(number: int) -> str:
    """What a child is asked for."""
    return f"Do task {number}."


def done(number: int) -> str:
    """What a child answers."""
    return f"done {number}"


def last_sentence(answers: Iterable[str]) -> str:
    """What the parent's model says in the end."""
    return ", ".join(answers)


async def answer(prompt: str) -> str:
    """What a child's model says; every one of them awaits this."""
    number = int(prompt.rstrip(".").split()[-1])
    if WORK.log is None:
        await asyncio.sleep(0)
    else:
        await _think(number, WORK.log)
    return done(number)


async def _think(number: int, log: Path) -> None:
    """Take a while, which is not the same for all, and leave a trace that outlives the process."""
    WORK.asked, WORK.running = WORK.asked + 1, WORK.running + 1
    WORK.most = max(WORK.most, WORK.running)
    with log.open("a") as file:
        file.write(f"asked {number}\n")
    if WORK.dies and WORK.asked == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(MODEL_SECONDS * (1 + number % 5))
    with log.open("a") as file:
        file.write(f"answered {number}\n")
    WORK.running -= 1


def main(contestant: Contestant) -> None:
    """Do what this program was asked for: `tasks`, `--kill`, or one of the two lives of the latter."""
    mode, options = workload.options()
    if mode == "--kill":
        _kill(sys.argv[2:])
        return
    at_once = int(options.get("at_once", AT_ONCE))
    if mode == "tasks":
        asyncio.run(_time(contestant, int(options.get("count", COUNT)), at_once))
        return
    WORK.log, WORK.dies = _log(options["folder"]), mode == "first-life"
    live = _first_life if WORK.dies else _second_life
    asyncio.run(live(contestant, Path(options["folder"]), at_once))


async def _time(contestant: Contestant, count: int, at_once: int) -> None:
    """CPU and wall time of all tasks, after some that pay for what all share."""
    warm = range(min(count, at_once))
    numbers = range(len(warm), len(warm) + count)
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        async with contestant(Path(folder), at_once) as tasks:
            said = await tasks.delegate("warm", prompt(warm))
            workload.expect(said == _all(warm), f"the parent said {said!r}")
            with workload.Stopwatch() as watch:
                said = await tasks.delegate(NAME, prompt(numbers))
            stored = await tasks.stored(numbers)
            ok = said == await tasks.said(NAME) == _all(numbers) and stored == {n: [done(n)] for n in numbers}
    workload.report(tasks=count, cpu_seconds=watch.cpu, wall_seconds=watch.wall, ok=ok)


async def _first_life(contestant: Contestant, folder: Path, at_once: int) -> None:
    async with contestant(folder, at_once) as tasks:
        await tasks.delegate(NAME, prompt(range(COUNT)))


async def _second_life(contestant: Contestant, folder: Path, at_once: int) -> None:
    """Open what the first left, ask for nothing, and see; only then ask the library to go on, where it can."""
    numbers = range(COUNT)
    async with contestant(folder, at_once) as tasks:
        await _quiet(tasks, _all(numbers))
        alone, parent_alone = await tasks.stored(numbers), await tasks.said(NAME) == _all(numbers)
        resumed = not parent_alone and await tasks.resume(NAME)
        stored, parent = await tasks.stored(numbers), await tasks.said(NAME) == _all(numbers)
    workload.report(
        ended_alone=_count(alone, at_least=1),
        parent_alone=parent_alone,
        resumed=resumed,
        ended=_count(stored, at_least=1),
        parent=parent,
        ended_twice=_count(stored, at_least=2),
        most_at_once=WORK.most,
    )


async def _quiet(tasks: Tasks, last: str) -> None:
    """Wait until the parent has ended, or until nothing happens any more."""
    seen, since = WORK.asked, time.monotonic()
    while await tasks.said(NAME) != last and time.monotonic() - since < QUIET_SECONDS:
        if seen != WORK.asked:
            seen, since = WORK.asked, time.monotonic()
        await asyncio.sleep(0.2)


def _kill(options: list[str]) -> None:
    """Two processes, one after the other, in one folder: the first dies by SIGKILL."""
    spec = sys.modules["__main__"].__spec__
    assert spec is not None
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        command, place = [sys.executable, "-m", spec.name], [f"folder={folder}", *options]
        first = subprocess.run([*command, "first-life", *place], check=False, timeout=LIFE_SECONDS)
        workload.expect(first.returncode == -signal.SIGKILL, f"the first life ended with {first.returncode}")
        before = _traces(folder)
        second = subprocess.run(
            [*command, "second-life", *place], check=True, timeout=LIFE_SECONDS, stdout=subprocess.PIPE
        )
        after = _traces(folder)[len(before) :]
    told: dict[str, Any] = json.loads(second.stdout)
    answered, again = _numbers(before, "answered"), _numbers(before, "asked") & _numbers(after, "asked")
    workload.report(
        survives=_verdict(told),
        tasks=COUNT,
        asked_before=len(_numbers(before, "asked")),
        answered_before=len(answered),
        asked_again=len(again),
        asked_again_though_answered=len(again & answered),
        **told,
    )


def _verdict(told: Mapping[str, Any]) -> str:
    if told["ended"] < COUNT or not told["parent"]:
        return "no"
    how = "when asked to go on" if told["resumed"] else "yes"
    return f"{how}, but not every task ended once" if told["ended_twice"] else how


def _log(folder: str) -> Path:
    return Path(folder, "asked.txt")


def _traces(folder: str) -> list[str]:
    return _log(folder).read_text().splitlines()


def _numbers(traces: Iterable[str], what: str) -> set[str]:
    return {line.split()[1] for line in traces if line.startswith(f"{what} ")}


def _all(numbers: range) -> str:
    return last_sentence(map(done, numbers))


def _count(stored: Mapping[int, list[str]], *, at_least: int) -> int:
    """The tasks of which the right answer is stored so often."""
    return sum(answers.count(done(number)) >= at_least for number, answers in stored.items())
