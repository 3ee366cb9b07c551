"""The disk is full, files run out, the database goes away and comes back: what was acknowledged is there, always.

Messages are sent all the time to a server that plays a script. Each answer is 202, which counts as acknowledged, or 503
with a sentence. Afterwards, where the trouble ends, messages are taken again, and every acknowledged one can be read.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import machine
from tests.attack.harness import Attack, Target, serving

SCRIPT = '- say: "You said: {{prompt}}"\n'
THREADS = 4
FULL = 6 << 20
"""Bytes of the small disk."""


@dataclass(slots=True)
class Talk:
    """What was sent to one server, and what came back."""

    attack: Attack
    target: Target
    case: str
    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    """Message → its thread."""
    refused: int = 0
    threads: list[str] = field(default_factory=list[str])

    async def open(self) -> None:
        for _ in range(THREADS):
            self.threads.append((await self.target.ask("POST", "/api/threads", {})).json["id"])

    async def send(self, count: int, *, length: int = 2_000) -> int:
        """Send messages to every thread in turn; how many were acknowledged."""
        before = len(self.acknowledged)
        for number in range(count):
            thread = self.threads[number % THREADS]
            try:
                reply = await self.target.ask("POST", f"/api/threads/{thread}/messages", {"content": "x" * length})
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                self.attack.fail(f"{self.case}: 202, or 503 with a sentence", f"no answer: {type(error).__name__}")
                continue
            if reply.status == 202:
                self.acknowledged[reply.json["messageId"]] = thread
            else:
                self.refused += 1
            held = reply.status == 202 or (reply.status == 503 and len(reply.json.get("detail", "")) > 20)
            self.attack.check(f"{self.case}: 202, or 503 with a sentence", held, f"{reply.status} {reply.body[:300]!r}")
        return len(self.acknowledged) - before

    async def find(self) -> None:
        """Every acknowledged message can be read."""
        stored: set[str] = set()
        for thread in self.threads:
            reply = await self.target.ask("GET", f"/api/threads/{thread}")
            stored |= {message["id"] for message in reply.json.get("messages", ())} if reply.status == 200 else set()
        lost = self.acknowledged.keys() - stored
        what = f"{self.case}: acknowledged messages are there"
        self.attack.hold(what, len(self.acknowledged) - len(lost))
        for one in lost:
            self.attack.fail(what, "acknowledged, and gone", one)

    async def recover(self) -> None:
        """Messages are taken again, after a moment that is bounded."""
        for _ in range(50):
            if await self.send(1):
                break
            await asyncio.sleep(0.2)
        taken = await self.send(8)
        self.attack.check(f"{self.case}: recovers", taken == 8, f"{taken} of 8 messages taken afterwards")

    async def tools_work(self) -> None:
        reply = await self.target.call("play__echo", {"text": "still there"})
        self.attack.check(f"{self.case}: tools work meanwhile", b"still there" in reply.body, f"{reply.body[:200]!r}")


@asynccontextmanager
async def talking(attack: Attack, case: str, **env: str) -> AsyncGenerator[Talk]:
    folder = attack.folder / case.replace(" ", "-")
    (folder / "home").mkdir(parents=True, exist_ok=True)
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    settings = (f"runtime.scripted.script={script}", 'runtime.default="scripted"')
    async with serving(folder, *settings, env=env) as target:
        talk = Talk(attack, target, case)
        await talk.open()
        yield talk
        target.check_log(attack)


async def attack(attack: Attack) -> None:
    """Each trouble on a server of its own."""
    cases = [full_disk, file_size, gone]
    cases += [] if attack.is_sample else [open_files, locked, replaced, overwritten]
    for case in cases:
        if not attack.is_over:
            await case(attack)
    lack = machine.reason_for_lack("postgres")
    if lack or attack.is_sample:
        attack.note(f"Postgres left out: {lack or 'a sample'}")
    else:
        await postgres(attack)


async def full_disk(attack: Attack) -> None:
    """A disk of a few megabytes, filled to the last byte, and emptied again."""
    case = "full disk"
    data = attack.folder / case.replace(" ", "-") / "home" / "data"
    with small_disk(data) as mounted:
        if not mounted:
            attack.note("no disk could be mounted; the limit on a file's size stands for it")
            return
        async with talking(attack, case) as talk:
            await talk.send(attack.count // 4)
            filler = data / "filler"
            _fill(filler)
            await talk.send(attack.count)
            attack.check(f"{case}: was felt", talk.refused > 0, "no message was refused: the attack did not reach it")
            await talk.tools_work()
            filler.unlink()
            await talk.recover()
            await talk.find()


async def file_size(attack: Attack) -> None:
    """No file may grow: what a full disk or a quota does, without being root."""
    async with talking(attack, "no file may grow") as talk:
        await talk.send(attack.count // 4)
        with limited(talk.target.program.pid, resource.RLIMIT_FSIZE, 4_096):
            await talk.send(attack.count // 2)
            attack.check(f"{talk.case}: was felt", talk.refused > 0, "no message was refused")
            await talk.tools_work()
        await talk.recover()
        await talk.find()


async def open_files(attack: Attack) -> None:
    """The table of open files is full of idle connections."""
    async with talking(attack, "no more open files") as talk:
        await talk.send(attack.count // 4)
        pid = talk.target.program.pid
        used = len(list(Path(f"/proc/{pid}/fd").iterdir())) if sys.platform == "linux" else 60
        idle: list[asyncio.StreamWriter] = []
        with limited(pid, resource.RLIMIT_NOFILE, used + 12):
            idle += [(await asyncio.open_connection("127.0.0.1", talk.target.port))[1] for _ in range(200)]
            before = talk.target.processor_seconds
            await asyncio.sleep(2)
            spent = talk.target.processor_seconds - before
            attack.check(f"{talk.case}: no busy loop", spent < 1, f"{spent:.1f} s of processor time in 2 s")
            for writer in idle:
                writer.close()
        await talk.recover()
        await talk.find()


async def locked(attack: Attack) -> None:
    """Another program holds the database."""
    async with talking(attack, "database locked") as talk:
        await talk.send(4)
        database = sqlite3.connect(talk.target.home / "data" / "toolstead.db", isolation_level=None)
        with closing(database):
            database.execute("BEGIN IMMEDIATE")
            await talk.send(2)
            await talk.tools_work()
            database.execute("ROLLBACK")
        await talk.recover()
        await talk.find()


async def gone(attack: Attack) -> None:
    """The file is deleted while the server runs: it says so, and tools work."""
    async with talking(attack, "database deleted") as talk:
        await talk.send(8)
        for file in (talk.target.home / "data").glob("toolstead.db*"):
            file.unlink()
        acknowledged = await talk.send(8)
        attack.check(f"{talk.case}: nothing more is acknowledged", not acknowledged, f"{acknowledged} acknowledged")
        await talk.tools_work()


async def replaced(attack: Attack) -> None:
    """Another file is moved to its place while the server runs."""
    async with talking(attack, "database replaced") as talk:
        await talk.send(8)
        file = talk.target.home / "data" / "toolstead.db"
        other = file.with_name("other")
        other.write_bytes(b"no database at all " * 1_000)
        other.replace(file)
        acknowledged = await talk.send(8)
        attack.check(f"{talk.case}: nothing more is acknowledged", not acknowledged, f"{acknowledged} acknowledged")
        await talk.tools_work()


async def overwritten(attack: Attack) -> None:
    """Its bytes are written over while the server runs: SQLite goes on with what it has in memory and in its log."""
    async with talking(attack, "database overwritten") as talk:
        await talk.send(8)
        _overwrite(talk.target.home / "data" / "toolstead.db")
        acknowledged = await talk.send(8)
        attack.note(f"{talk.case}: {acknowledged} of 8 messages acknowledged afterwards")
        await talk.tools_work()
        attack.check(f"{talk.case}: the server answers", await talk.target.is_healthy(), "no answer")


async def postgres(attack: Attack) -> None:
    """Postgres cannot be reached for a while, twice, and every connection is cut each time."""
    import asyncpg

    from tests.contracts.postgres_server import running_server

    with running_server() as place:
        url = f"postgresql://postgres@/postgres?host={place}"
        async with talking(attack, "Postgres away", TOOLSTEAD_DATABASE_URL=url) as talk:
            for _ in range(2):
                await talk.send(attack.count // 4)
                admin = await asyncpg.connect(host=str(place), user="postgres", database="postgres")
                door = place / ".s.PGSQL.5432"
                door.rename(place / "away")
                cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                await admin.execute(f"{cut} AND application_name = 'toolstead'")
                await admin.close()
                await talk.send(attack.count // 4)
                await talk.tools_work()
                (place / "away").rename(door)
                await talk.recover()
            attack.check(f"{talk.case}: was felt", talk.refused > 0, "no message was refused")
            await talk.find()


@contextmanager
def small_disk(folder: Path) -> Generator[bool]:
    """A file system in memory at this folder, where we may mount one."""
    folder.mkdir(parents=True, mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL},mode=0700", "none", str(folder)]
    can = os.geteuid() == 0 and sys.platform == "linux"
    mounted = can and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@contextmanager
def limited(pid: int, which: int, most: int) -> Generator[None]:
    """Another process with a limit that it did not have before."""
    set_limit: Callable[..., tuple[int, int]] = resource.prlimit
    before = set_limit(pid, which)
    set_limit(pid, which, (most, before[1]))
    try:
        yield
    finally:
        set_limit(pid, which, before)


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler:
        for size in (1 << 16, 4_096, 512, 1):
            try:
                while True:
                    filler.write(b"x" * size)
            except OSError:
                continue


def _overwrite(file: Path) -> None:
    """Without opening it in this process as a database: only its bytes change."""
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.write(b"no database at all " * (size // 19 + 1))
