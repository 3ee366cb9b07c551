"""Threads that talk to Claude Code and Codex for a long time, with interrupts, reloads and killed programs.

`python -m tests.programs.soak_runtimes --minutes 60 --threads 5`. Every run must end as it should, and at the end
there must be no more processes, descriptors and memory in use than near the beginning. The model APIs are scripted, in
a process of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import pydantic_core

from toolstead import Annotations, Toolstead, tool
from toolstead.errors import ToolsteadError
from toolstead.testing import scripted_models
from toolstead.types.run import Run

# What was interrupted may stand before the last words in the same message, so those decide.
SCRIPT = r"""
- {when: 'hang\s*$', say: I begin and then, hang: 600}
- when: add\s*$
  call: [{tool: add, input: {a: 1, b: 2}}]
- say: "{{result}}"
- when: slow\s*$
  call: [{tool: dawdle, input: {}}]
- say: "{{result}}"
- say: Hello to you too
"""
DEEDS = ("hello", "add", "slow", "interrupt", "kill", "reload", "timeout")
LONGEST_TALK = 8
"""Messages of one thread; then another begins, so that no conversation grows for ever."""


@tool(annotations=Annotations(read_only=True))
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return f"the sum is {a + b}"


@tool
async def dawdle() -> str:
    """Takes a moment."""
    await asyncio.sleep(0.3)
    return "at last"


@tool
async def passing() -> str:
    """Comes and goes."""
    return "here"


@dataclass
class Seen:
    """What happened, and what there was at each look."""

    deeds: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    looks: list[dict[str, float]] = field(default_factory=list[dict[str, float]])


def serve(told: Connection) -> None:
    """The model APIs, until the parent is gone."""

    async def until_told() -> None:
        async with scripted_models(SCRIPT, kept=10) as api:
            told.send(api.environ())
            with contextlib.suppress(EOFError):
                await asyncio.to_thread(told.recv)

    asyncio.run(until_told())


def descendants(of: int, without: frozenset[int]) -> list[int]:
    """The processes below one, but for some of them and what is below those."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents.setdefault(int(parent), []).append(int(place.name))
    found, look = list[int](), [of]
    while look:
        below = [pid for pid in parents.get(look.pop(), []) if pid not in without]
        found += below
        look += below
    return found


def memory_of(pid: int) -> float:
    """Megabytes of memory that a process has for itself and shares, in all."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def in_use() -> float:
    """Megabytes that this process really needs: without garbage, and without what its allocator keeps for later."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # not the GNU library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return round(memory_of(os.getpid()), 1)


class MallocFigures(ctypes.Structure):
    """What the GNU allocator says of itself (`mallinfo2`)."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    ]


def in_malloc() -> float:
    """Megabytes that are handed out by the C library, as it says itself; 0 where it does not say so."""
    with contextlib.suppress(OSError, AttributeError):  # not the GNU library
        ask = ctypes.CDLL("libc.so.6").mallinfo2
        ask.restype = MallocFigures
        figures = ask()
        return round((figures.uordblks + figures.hblkhd) / 2**20, 2)
    return 0.0


def fill_tables() -> None:
    """Fill what the interpreter and its libraries keep up to a bound, which would fill up within the hour instead.

    The JSON parser below the MCP SDK keeps 16,384 strings, and each call of Codex brings some that are new. Python's
    table of interned strings doubles once, when strings that came and went have used up its room.
    """
    for number in range(200_000):  # one after the other: room for all at once would hide what grows later
        pydantic_core.from_json(f'["{number:036}"]')
        sys.intern(f"{number} came and went")


@dataclass
class Talker:
    """One thread after the other on one runtime, each some messages long."""

    stead: Toolstead
    runtime: str
    number: int
    seen: Seen
    others: frozenset[int]

    async def ask(self, prompt: str, thread: str, timeout: float | None = None) -> Run:
        return await self.stead.invoke(prompt, thread_id=thread, runtime=self.runtime, timeout=timeout)

    async def talk(self, until: float) -> None:
        dice, talks = random.Random(self.number), 0
        while time.monotonic() < until:
            talks += 1
            thread = f"{self.runtime}-{self.number}-{talks}"
            for _ in range(dice.randint(2, LONGEST_TALK)):
                if time.monotonic() >= until:
                    return
                deed = dice.choices(DEEDS, [5, 5, 3, 3, 1, 1, 1])[0]
                self.seen.deeds[f"{self.runtime} {deed}"] += 1
                try:
                    await asyncio.wait_for(self.perform(thread, deed, dice), 180)
                except (ToolsteadError, TimeoutError) as error:
                    self.seen.wrong.append(f"{thread} {deed}: {type(error).__name__}: {error}")

    async def perform(self, thread: str, deed: str, dice: random.Random) -> None:
        stead, runtime, seen = self.stead, self.runtime, self.seen
        match deed:
            case "interrupt":
                asking = asyncio.create_task(self.ask("hang", thread))
                await asyncio.sleep(dice.uniform(0, 2))
                asking.cancel()
                await asyncio.wait([asking])
                return
            case "timeout":
                run = await self.ask("hang", thread, dice.uniform(0.2, 2))
                if not self.was_hit(run):
                    self.expect(thread, deed, run, right=run.status == "timeout")
                return
            case "reload":
                names = {info.name for info in stead.registry.list_tools()}
                if "passing" in names:
                    stead.registry.unregister("passing")
                else:
                    stead.registry.register(passing)
            case "kill":
                asking = asyncio.create_task(self.ask("slow", thread))
                await asyncio.sleep(dice.uniform(0, 1.5))
                if programs := descendants(os.getpid(), self.others):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(dice.choice(programs), signal.SIGKILL)
                seen.deeds[f"{runtime} killed: {(await asking).status}"] += 1
                return
            case _:
                pass
        prompt = deed if deed in ("add", "slow") else "hello"
        run = await self.ask(prompt, thread)
        wanted = {"add": "the sum is 3", "slow": "at last"}.get(prompt, "Hello to you too")
        if not self.was_hit(run):
            self.expect(thread, deed, run, right=run.status == "completed" and wanted in (run.result or ""))

    def was_hit(self, run: Run) -> bool:
        """Whether a kill has hit it, which may be meant for another; it is counted by what it says."""
        if run.status != "failed":
            return False
        self.seen.deeds[f"{self.runtime} failed beside a kill: {run.error.message[:80] if run.error else ''}"] += 1
        return True

    def expect(self, thread: str, deed: str, run: Run, *, right: bool) -> None:
        if not right:
            self.seen.wrong.append(f"{thread} {deed}: {run.status}: {run.result!r}, {run.error}")


async def look(stead: Toolstead, seen: Seen, until: float, others: frozenset[int], every: float) -> None:
    """Write down what there is, from time to time."""
    began = time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(every)
        if not seen.looks:
            fill_tables()  # now everything is imported; the first look is not compared
        programs = descendants(os.getpid(), others)
        now = {
            "minute": round((time.monotonic() - began) / 60, 1),
            "processes": len(programs),
            "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
            "tasks": len(asyncio.all_tasks()),
            "idle sessions": (await stead.conversations()).invoker.pool.stats().idle,
            "ours MB": round(memory_of(os.getpid()), 1),
            "ours in use MB": in_use(),
            "ours in blocks of Python": sys.getallocatedblocks(),
            "ours of malloc MB": in_malloc(),
            "programs MB": round(sum(map(memory_of, programs)), 1),
        }
        seen.looks.append(now)
        print(json.dumps(now), file=sys.stderr, flush=True)


async def soak(
    minutes: float, threads: int, runtimes: list[str], environ: dict[str, str], others: frozenset[int]
) -> Seen:
    seen, until = Seen(), time.monotonic() + minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        (project / ".git").mkdir(parents=True)
        given = {"PATH": os.environ["PATH"], "HOME": folder, "TOOLSTEAD_HOME": str(Path(folder, "home")), **environ}
        async with Toolstead(project, environ=given, watch=False) as stead:
            stead.registry.register(add, dawdle)
            looking = asyncio.create_task(look(stead, seen, until, others, min(60.0, minutes * 6)))
            talkers = [Talker(stead, runtimes[n % len(runtimes)], n, seen, others) for n in range(threads)]
            await asyncio.gather(*(talker.talk(until) for talker in talkers))
            looking.cancel()
            await asyncio.wait([looking])
    await asyncio.sleep(1)
    for pid in descendants(os.getpid(), others):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            seen.wrong.append(f"process {pid} is left at the end: {words[:200]}")
    return seen


def grown(seen: Seen, what: str) -> str:
    """How it was near the beginning, and how at the end: medians of a fifth of the looks each, the first left out."""
    values = [one[what] for one in seen.looks][max(1, len(seen.looks) // 10) :]
    part = max(1, len(values) // 5)
    first, last = statistics.median(values[:part]), statistics.median(values[-part:])
    return f"{what}: {first:g} → {last:g} (most {max(values):g})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=5)
    parser.add_argument("--runtimes", default="claude,codex")
    given = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    apis = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    apis.start()
    assert ours.poll(60), "the model APIs did not start"
    others = frozenset(descendants(os.getpid(), frozenset()))
    seen = asyncio.run(soak(given.minutes, given.threads, given.runtimes.split(","), ours.recv(), others))
    ours.close()
    apis.terminate()
    apis.join(10)
    print("\n".join(f"{count:6} {deed}" for deed, count in sorted(seen.deeds.items())))
    if len(seen.looks) > 2:
        print("\n".join(grown(seen, what) for what in seen.looks[0] if what != "minute"))
    print("\n".join(seen.wrong[:50]))
    print(f"{sum(seen.deeds.values())} deeds, {len(seen.wrong)} ended wrong")
    return 1 if seen.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
