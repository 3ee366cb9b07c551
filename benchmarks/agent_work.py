"""The work that every agent does: so many turns with one call of `add` each, then a sentence; and the clocks around it.

Each turn adds the next number to what the tool said last, so a model must have read the tool's answer, and the last
sentence is right only when every call was. A contestant gives a way to do one run; what is measured of it is said
here. As `workload`, it is imported inside the peers' environments and needs nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from benchmarks import workload

ADD = "add"
ADD_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
PROMPT = "Add up the numbers, one after the other."
INSTRUCTIONS = "You add numbers with the tool."
INPUT_TOKENS, OUTPUT_TOKENS = 100, 10
"""What every request is said to use, so that nobody has to guess it."""
LIMIT = 1_000
"""Turns that a run may have, where a library wants to know."""
SIZES = (10, 40, 160)

Run = Callable[[], Coroutine[Any, Any, str]]
"""One whole run, from a new conversation to the last sentence."""


class Work:
    """What the model is to do, and what the tool saw of it.

    Attributes:
        turns: How many calls a run makes.
        wrong: Whether the model sends a word for a number, once.
        waits: Whether the model lets others go on before it answers, as one across a network does.
        calls: How often the tool ran.
    """

    turns = 20
    wrong = False
    waits = False
    calls = 0


WORK = Work()


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    WORK.calls += 1
    return a + b


def next_call(done: int, last: object) -> dict[str, Any] | None:
    """What the model calls the tool with, after so many answers of it; None when it is done."""
    if WORK.wrong:
        return None if done else {"a": "seven", "b": 1}
    return {"a": int(str(last)) if done else 0, "b": done + 1} if done < WORK.turns else None


def last_sentence(last: object) -> str:
    """What the model says in the end."""
    return f"They make {last} together."


async def pause() -> None:
    """Every model awaits this before it answers."""
    if WORK.waits:
        await asyncio.sleep(0)


async def measure(contestant: Callable[[], AbstractAsyncContextManager[Run]]) -> None:
    """Do what the harness asked this program for: `run`, `turns` or `many`."""
    mode, options = workload.options()
    async with contestant() as run:
        rejects = await _check(run)
        if mode == "run":
            await _right(run, int(options["turns"]))
            cpu, wall = await _time(run, int(options["turns"]), float(options["seconds"]))
            workload.report(cpu=cpu, wall=wall, rejects=rejects)
        elif mode == "turns":
            await _sizes(run, float(options["seconds"]), rejects=rejects)
        else:
            await _many(run, int(options["runs"]), int(options["turns"]), rejects=rejects)


async def _check(run: Run) -> bool:
    """One right run, which also pays for what all share; and whether a word for a number is kept from the tool."""
    await _right(run, turns=3)
    WORK.wrong, WORK.calls = True, 0
    logging.disable(logging.CRITICAL)
    try:
        await run()
    except Exception as error:  # noqa: BLE001 - some end the run with it
        print(f"a wrong argument ends the run: {error!r}"[:300], file=sys.stderr)
    finally:
        WORK.wrong = False
        logging.disable(logging.NOTSET)
    rejects = WORK.calls == 0
    await _right(run, turns=3)
    return rejects


async def _right(run: Run, turns: int) -> None:
    WORK.turns, WORK.calls = turns, 0
    text, expected = await run(), last_sentence(turns * (turns + 1) // 2)
    workload.expect(text == expected, f"the last sentence was {text!r}, not {expected!r}")
    workload.expect(WORK.calls == turns, f"the tool ran {WORK.calls} times, not {turns}")


async def _time(run: Run, turns: int, seconds: float) -> tuple[float, float]:
    """CPU and wall of one run of so many turns, over about so many seconds, but one run at least."""
    WORK.turns = turns
    expected = last_sentence(turns * (turns + 1) // 2)
    count, cpu, wall, size = 0, 0.0, 0.0, 1
    while wall < seconds:
        WORK.calls = 0
        with workload.Stopwatch() as watch:
            texts = [await run() for _ in range(size)]
        workload.expect(all(text == expected for text in texts), "the last sentence of a run that was timed")
        workload.expect(WORK.calls == size * turns, "the calls of the runs that were timed")
        count, cpu, wall = count + size, cpu + watch.cpu, wall + watch.wall
        if watch.wall < seconds / 10:
            size *= 2
    return cpu / count, wall / count


async def _sizes(run: Run, seconds: float, *, rejects: bool) -> None:
    """The time of one turn in runs of every size, each in turn and twice, so that a slow moment hits more than one.

    The smallest is run for as long before, and not counted: otherwise it would pay for what is still cold, and a turn
    would seem to get cheaper in longer runs.
    """
    await _time(run, SIZES[0], seconds / len(SIZES))
    cpu, wall = dict.fromkeys(SIZES, 0.0), dict.fromkeys(SIZES, 0.0)
    for _ in range(2):
        for turns in SIZES:
            took = await _time(run, turns, seconds / len(SIZES) / 2)
            cpu[turns] += took[0] / turns / 2
            wall[turns] += took[1] / turns / 2
    workload.report(cpu=cpu[SIZES[-1]], wall=wall[SIZES[-1]], rejects=rejects, sizes={n: cpu[n] for n in SIZES})


async def _many(run: Run, runs: int, turns: int, *, rejects: bool) -> None:
    """All runs at once, with a model that waits: then every one of them is in memory at the same time."""
    WORK.waits = True
    await _right(run, turns)
    gc.collect()
    before = _reset_peak()
    WORK.calls = 0
    with workload.Stopwatch() as watch:
        texts = await asyncio.gather(*(run() for _ in range(runs)))
    grown = _peak() - before
    expected = last_sentence(turns * (turns + 1) // 2)
    workload.expect(all(text == expected for text in texts), "the last sentence of every run")
    workload.expect(WORK.calls == runs * turns, f"the tool ran {WORK.calls} times, not {runs * turns}")
    workload.report(cpu=watch.cpu, wall=watch.wall, rejects=rejects, each=grown / runs)


def _reset_peak() -> int:
    """Bytes this process has now; where the system can, its peak is counted from here on."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    return _peak()


def _peak() -> int:
    """The most bytes this process had."""
    if sys.platform == "linux":
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024
