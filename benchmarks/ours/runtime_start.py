"""One message to Claude Code or Codex, until the model is asked: cold, prewarmed, the second one, four at once.

The real programs, against scripted model APIs on loopback. CPU is that of this process and of every program below it;
where there is no `/proc`, of this process alone.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import workload
from toolstead import Toolstead
from toolstead.adapters.claude.runtime import ClaudeRuntime
from toolstead.invoker.runtime import Runtime, Session, SessionSpec
from toolstead.testing import ScriptedModels, scripted_models
from toolstead.types.thread import Thread
from toolstead.types.tool import ToolInfo

ANSWER = "Hello to you too"
MODELS = {"claude": "anthropic:claude-sonnet-5-5", "codex": "openai:gpt-6.1-sol"}
FOUR = 4
PATIENCE = 120
LOOK = 0.001
"""Seconds between two looks at what the model was asked: the times here are no finer than this."""
_SCHED_CLOCK = 2


class Counting:
    """A runtime that counts how many of its sessions are being opened at the same time, at most."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._opening = self.most = 0
        self.name, self.owns_process, self.resolve_model = runtime.name, runtime.owns_process, runtime.resolve_model

    async def open(self, spec: SessionSpec, *, thread_id: str, resume: str | None = None) -> Session:
        self._opening += 1
        self.most = max(self.most, self._opening)
        try:
            return await self._runtime.open(spec, thread_id=thread_id, resume=resume)
        finally:
            self._opening -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A stead, the model behind it, and the runtime between them."""

    stead: Toolstead
    api: ScriptedModels
    runtime: str

    async def begin(self, count: int = 1) -> list[str]:
        """Make threads; the database is open from here on."""
        store = (await self.stead.conversations()).store
        names = [uuid.uuid4().hex for _ in range(count)]
        for name in names:
            thread = Thread(id=name, runtime=self.runtime, model=MODELS[self.runtime], created_at=time.time())
            await store.create_thread(thread)
        return names

    async def say(self, *names: str) -> tuple[float, float]:
        """Say something in threads at once: CPU and wall seconds until the model was asked by all of them."""
        asked = len(self.api.requests) + len(names)
        cpu, began = cpu_so_far(), time.perf_counter()
        saying = [asyncio.create_task(self.stead.invoke("hello", thread_id=name)) for name in names]
        async with asyncio.timeout(PATIENCE):
            # A failed message never asks, and the model tells nobody when it is asked.
            while len(self.api.requests) < asked and not all(one.done() for one in saying):  # noqa: ASYNC110 - as said
                await asyncio.sleep(LOOK)
            wall, cpu = time.perf_counter() - began, cpu_so_far() - cpu
            for run in await asyncio.gather(*saying):
                workload.expect(run.result == ANSWER, f"the answer was {run.result!r}, {run.error}")
        workload.expect(len(self.api.requests) == asked, "each message asks the model once")
        return cpu, wall


async def cold(talk: Talk) -> tuple[float, float]:
    return await talk.say(*await talk.begin())


async def prewarmed(talk: Talk) -> tuple[float, float]:
    (name,) = await talk.begin()
    asked = len(talk.api.requests)
    warmed = await (await talk.stead.conversations()).prewarm(name)
    workload.expect(warmed == (True, talk.runtime), f"it is prewarmed, not {warmed}")
    workload.expect(len(talk.api.requests) == asked, "prewarming asks no model")
    return await talk.say(name)


async def second(talk: Talk) -> tuple[float, float]:
    (name,) = await talk.begin()
    await talk.say(name)
    return await talk.say(name)


async def four(talk: Talk) -> tuple[float, float]:
    return await talk.say(*await talk.begin(FOUR))


MODES = {"cold": (cold, 0, 1), "prewarmed": (prewarmed, 1, 0), "second": (second, 1, 1), "four": (four, 0, FOUR)}
"""What is measured → how, and how many hits and misses the pool must tell of afterwards."""


def cpu_so_far() -> float:
    """CPU seconds of this process and of the programs below it."""
    return time.process_time() + sum(_cpu_of(pid) for pid in _programs())


def _programs() -> list[int]:
    """The processes below this one."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(place.name))
    found, look = list[int](), [os.getpid()]
    while look:
        below = children.get(look.pop(), [])
        found += below
        look += below
    return found


def _cpu_of(pid: int) -> float:
    """By its own clock, as `benchmarks.processes` reads it."""
    with suppress(OSError):
        return time.clock_gettime((~pid << 3) | _SCHED_CLOCK)
    return 0.0


async def main() -> None:
    mode, options = workload.options()
    measure, hits, misses = MODES[mode]
    runtime = options["runtime"]

    def offered(_: SessionSpec) -> Sequence[ToolInfo]:
        return stead.registry.list_tools()

    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        project = Path(folder, "project")
        (project / ".git").mkdir(parents=True)
        async with scripted_models(f"- say: {ANSWER}") as api:
            environ = {"PATH": os.environ["PATH"], "HOME": folder, "TOOLSTEAD_HOME": folder, **api.environ()}
            async with Toolstead(project, environ=environ) as stead:
                await cold(Talk(stead=stead, api=api, runtime=runtime))  # it pays for imports, and for files made once
                data = stead.places.data
            claude = ClaudeRuntime(environ=environ, lookup=environ.get, offered=offered, folder=data / "claude")
            counting = Counting(claude)
            async with Toolstead(project, environ=environ, runtimes=[counting] if mode == "four" else ()) as stead:
                cpu, wall = await measure(Talk(stead=stead, api=api, runtime=runtime))
                pool = stead.state()["sessions"]
    told = (pool["hits"], pool["misses"])
    workload.expect(told == (hits, misses), f"the pool had {hits} hits and {misses} misses, not {told}")
    workload.report(cpu=cpu, wall=wall, hits=hits, misses=misses, starting=counting.most)


if __name__ == "__main__":
    asyncio.run(main())
