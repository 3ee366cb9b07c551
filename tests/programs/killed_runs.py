"""A process with runs that wait and runs that run is killed, while another works on the same database.

Afterwards a third opens it: every message that was acknowledged is there, every run of the dead one has exactly one
end, and the runs of the living one are untouched. The suite does some rounds; for many there is
`python -m tests.programs.killed_runs --rounds 200 --database sqlite`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE
from toolstead.adapters.storage import store as preloaded  # noqa: F401 - so that a start is cheap
from toolstead.app.stead import Toolstead
from toolstead.orchestrator.endings import end_lost_run
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.orchestrator import LAST_EVENTS, Orchestrator, RunRequest
from toolstead.plugins.decorator import tool

SCRIPT = """
- when: hang
  say: "I begin"
  hang: 1000
- when: slow
  delay: 0.02
  say: "slowly: {{prompt}}"
- when: add
  call: [{tool: add, input: {a: 1, b: 2}}]
- say: "it is {{result}}"
- say: "quickly: {{prompt}}"
"""
KINDS = ("quick", "add", "slow", "add", "quick", "slow", "hang")
THREADS = 6


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@dataclass(frozen=True)
class Place:
    """A database, and the folder its processes share."""

    folder: Path
    url: str | None = None

    def stead(self) -> Toolstead:
        environ = {"TOOLSTEAD_HOME": str(self.folder / "home"), "PATH": os.environ["PATH"]}
        if self.url is not None:
            environ["TOOLSTEAD_DATABASE_URL"] = self.url
        script = self.folder / "script.yaml"
        script.write_text(SCRIPT, encoding="utf-8")
        settings = {"runtime": {"scripted": {"script": str(script)}}}
        return Toolstead(self.folder, environ=environ, settings=settings, watch=False)


@dataclass
class Heard:
    """What a process acknowledged."""

    owner: str = ""
    accepted: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Run → message, thread, prompt."""
    ended: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Run → status, result."""

    def take(self, kind: str, *told: Any) -> None:
        if kind == "owner":
            self.owner = told[0]
        elif kind == "accepted":
            self.accepted[told[0]] = told[1:]
        else:
            self.ended[told[0]] = told[1:]


class Talker:
    """A process that talks until it is killed, or told to stop. A worker listens, so that it never has to wait."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self._process = process
        self._pipe = pipe
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self.heard = Heard()
        self._listener.start()

    async def hear(self, until: int) -> None:
        """Wait until it had so many messages accepted."""
        async with asyncio.timeout(PATIENCE):
            while len(self.heard.accepted) < until:
                assert self._listener.is_alive(), "a process ended before its time"
                await asyncio.sleep(0.001)

    async def kill(self) -> None:
        """Kill it, and hear what it said before."""
        self._process.kill()
        await asyncio.to_thread(self._listener.join, PATIENCE)

    async def stop(self) -> None:
        """Ask it to finish, and hear the rest."""
        self._pipe.send("stop")
        await asyncio.to_thread(self._listener.join, PATIENCE)
        await asyncio.to_thread(self._process.join, PATIENCE)
        assert self._process.exitcode == 0, f"it ended with {self._process.exitcode}"

    def end(self) -> None:
        """Whatever happened: it is gone."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._listener.join(PATIENCE)
        self._pipe.close()

    def _listen(self) -> None:
        try:
            while True:
                self.heard.take(*self._pipe.recv())
        except (EOFError, OSError):  # the end, perhaps in the middle of a word
            return


@contextmanager
def talker(place: Place, seed: int, *, hangs: bool) -> Generator[Talker]:
    """A process that talks in several threads of its own at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(place, seed, hangs, theirs), daemon=True)
    process.start()
    theirs.close()
    one = Talker(process, ours)
    try:
        yield one
    finally:
        one.end()


def _main(place: Place, seed: int, hangs: bool, pipe: Connection) -> None:
    asyncio.run(_talk(place, random.Random(seed), hangs, pipe))


async def _talk(place: Place, dice: random.Random, hangs: bool, pipe: Connection) -> None:
    stop = asyncio.Event()
    async with place.stead() as stead:
        stead.registry.register(add)
        talk = await stead.conversations()
        pipe.send(("owner", talk.store.owner))
        asyncio.get_running_loop().add_reader(pipe.fileno(), stop.set)
        kinds = KINDS if hangs else KINDS[:-1]
        ending: set[asyncio.Task[None]] = set()

        async def tell_end(run_id: str) -> None:
            run = await talk.wait(run_id)
            pipe.send(("ended", run.id, run.status, run.result))

        async def converse(name: str) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                prompt = f"{dice.choice(kinds)} {number}"
                accepted = await talk.submit(RunRequest(prompt=prompt, thread_id=name))
                pipe.send(("accepted", accepted.run_id, accepted.message_id, name, prompt))
                task = asyncio.create_task(tell_end(accepted.run_id))
                ending.add(task)
                task.add_done_callback(ending.discard)
                await asyncio.sleep(dice.choice((0, 0, 0.001, 0.01) if hangs else (0.01, 0.05, 0.1)))
                if len(ending) > 60:  # else a busy machine has thousands to answer when it is to stop
                    await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED, timeout=0.05 if hangs else None)

        await asyncio.gather(*(converse(f"{talk.store.owner}-{number}") for number in range(THREADS)))
        if ending:
            await asyncio.wait(ending)
        asyncio.get_running_loop().remove_reader(pipe.fileno())
        pipe.recv()


@dataclass(frozen=True)
class Round:
    """What one round found."""

    number: int
    accepted: int
    ended: int
    statuses: Counter[str]
    others: int
    seconds: float

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"round {self.number}: killed after {self.accepted} messages and {self.ended} answers; its runs: {ends}; "
            f"the other process: {self.others} messages so far; {self.seconds:.2f} s"
        )


async def rounds(place: Place, count: int, seed: int) -> AsyncGenerator[Round]:
    """Kill a process so many times. Raises AssertionError when anything is lost, or touched that should not be."""
    dice = random.Random(seed)
    with talker(place, seed, hangs=False) as other:
        await other.hear(1)
        for number in range(1, count + 1):
            began = time.monotonic()
            with talker(place, dice.randrange(1 << 30), hangs=True) as victim:
                await victim.hear(dice.randrange(1, 150))
                await asyncio.sleep(dice.random() * 0.02)
                await victim.kill()
            await other.hear(len(other.heard.accepted) + 1)  # it goes on
            statuses = await _check(place, victim.heard, other.heard)
            yield Round(
                number=number,
                accepted=len(victim.heard.accepted),
                ended=len(victim.heard.ended),
                statuses=statuses,
                others=len(other.heard.accepted),
                seconds=time.monotonic() - began,
            )
        await other.stop()
    assert other.heard.accepted.keys() == other.heard.ended.keys()
    assert {status for status, _ in other.heard.ended.values()} == {"completed"}
    async with place.stead() as stead:
        talk = await stead.conversations()
        assert await talk.store.list_runs(unfinished=True) == []
        await _check_ends(talk, other.heard)


async def _check(place: Place, dead: Heard, living: Heard) -> Counter[str]:
    """A third process opens the database, which recovers what the dead one left, and nothing of the living one."""
    async with place.stead() as stead:
        talk = await stead.conversations()
        async with asyncio.timeout(PATIENCE):
            while any(run.owner == dead.owner for run in await talk.store.list_runs(unfinished=True, limit=10_000)):
                await asyncio.sleep(0.01)  # a server notices a moment later that its client died
                await talk.store.recover_runs(lambda run: end_lost_run(run, time.time()))
        for run_id in list(living.accepted)[-200:]:
            assert (await talk.store.read_run(run_id)).status in {"queued", "running", "completed"}
        return await _check_ends(talk, dead)


async def _check_ends(talk: Orchestrator, heard: Heard) -> Counter[str]:
    """Every message is there, every run has exactly one end, and what was told of it is what is stored."""
    statuses: Counter[str] = Counter()
    for name in {thread for _, thread, _ in heard.accepted.values()}:
        stored = await talk.store.list_messages(name)
        answered = Counter(message.run_id for message in stored if message.role == "assistant")
        messages = {message.id: message.content for message in stored}
        wanted = {message: prompt for message, thread, prompt in heard.accepted.values() if thread == name}
        assert wanted.items() <= messages.items(), "an acknowledged message is gone"
        told_by_run: dict[str | None, list[str]] = {}
        for event in await talk.store.list_events(EventFilter(thread_id=name), limit=1_000_000):
            told_by_run.setdefault(event.run_id, []).append(event.type)
        for run in await talk.store.list_runs(thread_id=name, limit=1_000_000):
            told = told_by_run[run.id]
            assert [kind for kind in told if kind in LAST_EVENTS] == told[-1:], (run, told)
            assert run.has_ended, run
            assert answered[run.id] == (run.status == "completed"), run
            if run.id in heard.ended:
                assert heard.ended[run.id] == (run.status, run.result)
            statuses[run.status] += 1
    return statuses


@asynccontextmanager
async def postgres_place(socket: Path, folder: Path, name: str) -> AsyncGenerator[Place]:
    """A schema of its own on a running server."""
    import asyncpg

    admin = await asyncpg.connect(host=str(socket), user="postgres", database="postgres")
    try:
        await admin.execute(f"CREATE SCHEMA {name}")
        yield Place(folder, f"postgresql://postgres@/postgres?host={socket}&search_path={name}")
    finally:
        await admin.execute(f"DROP SCHEMA {name} CASCADE")
        await admin.close()


async def _soak(place: Place, count: int, seed: int) -> None:
    statuses: Counter[str] = Counter()
    accepted = others = 0
    began = time.monotonic()
    async for one in rounds(place, count, seed):
        print(one, flush=True)
        statuses += one.statuses
        accepted, others = accepted + one.accepted, one.others
    ends = ", ".join(f"{number} {status}" for status, number in sorted(statuses.items()))
    print(
        f"{count} kills in {time.monotonic() - began:.0f} s: {accepted} acknowledged messages, none lost; "
        f"{sum(statuses.values())} runs of the dead, each with one end: {ends}; "
        f"the living process had {others} messages, all answered, none touched"
    )


async def _main_soak(asked: argparse.Namespace, folder: Path) -> None:
    if asked.database == "sqlite":
        await _soak(Place(folder), asked.rounds, asked.seed)
        return
    from tests.contracts.postgres_server import running_server

    with running_server() as socket:
        async with postgres_place(socket, folder, "soak") as place:
            await _soak(place, asked.rounds, asked.seed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.killed_runs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    logging.getLogger("toolstead").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave through every `with`
    print(f"seed {asked.seed}, {asked.database}, {asked.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory(prefix="toolstead-kill-") as folder:
        asyncio.run(_main_soak(asked, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
