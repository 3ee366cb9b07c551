"""The processes of `crash_matrix`: one plays the scenario until it is struck at a stored write, others go on.

Blows and protections are patched into the process here, so that nothing in `src` knows of them. What a blow does:

| blow | what happens at the write |
|---|---|
| `KILL` | the process dies |
| `TERM` | it is asked to end, and closes in order |
| `STOP` | it is frozen and taken for dead, and goes on in the middle of its successor's work |
| `OUTAGE` | the database goes away for some seconds |
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from tests.programs.crash_scenario import CUT_OFF, Place, Rows, ask, read_rows, wait_until_settled
from tests.waiting import PATIENCE
from toolstead.adapters.storage import operations, store, task_operations, task_run_operations
from toolstead.adapters.storage.ledger import Ledger
from toolstead.adapters.storage.postgres import PostgresDatabase
from toolstead.adapters.storage.process_locks import ProcessLock
from toolstead.adapters.storage.sqlite import SqliteDatabase
from toolstead.delegation import attempts, delegation, sweep
from toolstead.delegation.task_store import TaskClaim
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.types.task import Task

Blow = Literal["KILL", "TERM", "STOP", "OUTAGE"]
Protection = Literal["duplicates", "epoch", "run-key", "delivery-key"]
PROTECTIONS: tuple[Protection, ...] = ("duplicates", "epoch", "run-key", "delivery-key")


@dataclass(frozen=True, kw_only=True)
class Strike:
    """Where a process is struck.

    Attributes:
        number: At which of its writes, from 1; 0 for none.
        is_before: Before that write is made, else after it is committed.
        is_slow: Of a STOP: its successor has everything when it goes on, and is slow; and it reaches no reviewer.
        operation: Only writes with this operation count.
    """

    blow: Blow = "KILL"
    number: int = 0
    is_before: bool = True
    is_slow: bool = False
    operation: str = ""

    def __str__(self) -> str:
        if not self.number:
            return "undisturbed"
        what = (f" with {self.operation}" if self.operation else "") + (" slowly" if self.is_slow else "")
        return f"{self.blow} {'before' if self.is_before else 'after'} write {self.number}{what}"


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What a process is to do.

    Attributes:
        asks: Whether it asks the root first; else it only takes up what others left.
        pauses_at: It waits before its first write with this operation until it is told to go on.
        without: A protection that it lacks.
        sweep_seconds: How often it looks for what others left; the engine's own pace unless given.
        patience: Seconds after which what has not settled will not.
        log: A file that its log goes to.
    """

    place: Place
    asks: bool
    strike: Strike = Strike()
    pauses_at: str = ""
    without: Protection | None = None
    sweep_seconds: float | None = None
    patience: float = PATIENCE
    log: Path | None = None


class Worker:
    """A process that plays the scenario, seen from outside. What it says is kept."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process, self._pipe = process, pipe
        self.said: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def hear(self, *words: str, seconds: float = PATIENCE) -> str | None:
        """Wait until it says one of these, or ends; gives which, None when it ended or said none for so long."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not (found := [word for word in words if word in self.said]):
                if "end" in self.said or not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    return None
            return found[0]

    def tell(self, word: str) -> None:
        """Tell it to go on."""
        self._pipe.send(word)

    def thaw(self) -> None:
        """Let it go on after a STOP."""
        os.kill(self.process.pid, signal.SIGCONT)

    def wait_for_end(self) -> int | None:
        """Its exit status; None when it does not end."""
        self.process.join(PATIENCE)
        return self.process.exitcode

    def end(self) -> None:
        """Whatever happened: it is gone."""
        self.process.kill()
        self.process.join()
        self._listener.join(PATIENCE)
        self.process.close()
        self._pipe.close()

    def _listen(self) -> None:
        try:
            while True:
                word, *more = self._pipe.recv()
                self._note(word, *more)
        except (EOFError, OSError):  # the end, perhaps in the middle of a word
            self._note("end")

    def _note(self, word: str, *more: Any) -> None:
        with self._changed:
            self.said[word] = (time.monotonic(), *more)
            self._changed.notify_all()


@contextmanager
def working(orders: Orders) -> Generator[Worker]:
    """A process that works; it is gone in the end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(orders, theirs), daemon=True)
    process.start()
    theirs.close()
    worker = Worker(process, ours)
    try:
        yield worker
    finally:
        worker.end()


def _main(orders: Orders, pipe: Connection) -> None:
    if orders.log is not None:
        logging.basicConfig(filename=orders.log, level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    else:
        logging.disable(logging.CRITICAL)
    if orders.strike.blow == "STOP":
        sweep.HELD_SECONDS = 2.0  # it does not notice soon that its work was taken away: nothing may depend on that
    if orders.sweep_seconds is not None:
        sweep.SWEEP_SECONDS = orders.sweep_seconds
    if orders.without is not None:
        _REMOVE[orders.without]()
    asyncio.run(_work(orders, pipe))


async def _work(orders: Orders, pipe: Connection) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    told: asyncio.Queue[str] = asyncio.Queue()
    loop.add_reader(pipe.fileno(), lambda: told.put_nowait(pipe.recv()))
    async with orders.place.open_stead() as stead:
        talk = await stead.conversations()
        strike = _Striking(orders, pipe, told)
        pipe.send(("opened",))
        playing = asyncio.create_task(_play(orders, talk, pipe, told, strike))
        await asyncio.wait((playing, asyncio.create_task(stopping.wait())), return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            playing.cancel()
            await asyncio.wait((playing,))
        elif not stopping.is_set():
            playing.result()
            await stopping.wait()  # one that ended by itself would not be asked to, but killed
    loop.remove_reader(pipe.fileno())
    pipe.send(("closed",))


async def _play(
    orders: Orders, talk: Orchestrator, pipe: Connection, told: asyncio.Queue[str], strike: _Striking
) -> None:
    """Play until everything has settled; then tell what is stored, once the driver wants to know."""
    strike.is_armed = True
    if not orders.asks:
        await told.get()  # the one before is gone, and its client asks here
    await ask(talk)
    missing = await wait_until_settled(talk, orders.patience)
    strike.is_armed = False
    pipe.send(("settled", missing, strike.count))
    await told.get()
    # What would come too much comes with the next sweep.
    await asyncio.sleep(0.2 + 1.2 * sweep.SWEEP_SECONDS)
    rows: Rows = await read_rows(talk, events=True)
    pipe.send(("rows", rows))


class _Striking:
    """Strikes its own process at a write."""

    def __init__(self, orders: Orders, pipe: Connection, told: asyncio.Queue[str]) -> None:
        self._strike, self._pauses_at, self._pipe, self._told = orders.strike, orders.pauses_at, pipe, told
        self.count = 0
        self.is_armed = False
        for database in (SqliteDatabase, PostgresDatabase):
            database.write = self._wrap(database.write)  # type: ignore[method-assign] - each write is counted

    def _wrap(self, write: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        async def struck(database: Any, work: Any) -> Any:
            names = _name_operations(work)
            if self._pauses_at and self._pauses_at in names:
                self._pauses_at = ""
                self._pipe.send(("paused",))
                await self._told.get()
            is_meant = self.is_armed and (not self._strike.operation or self._strike.operation in names)
            self.count += is_meant
            is_here = is_meant and self.count == self._strike.number
            if is_here and self._strike.is_before:
                await self._hit(database, names)
            outcome = await write(database, work)
            if is_here and not self._strike.is_before:
                await self._hit(database, names)
            return outcome

        return struck

    async def _hit(self, database: Any, names: list[str]) -> None:
        self._pipe.send(("struck", names))
        match self._strike.blow:
            case "KILL":
                os.kill(os.getpid(), signal.SIGKILL)
            case "TERM":
                os.kill(os.getpid(), signal.SIGTERM)
            case "STOP":
                _lose_lock(database)
                os.kill(os.getpid(), signal.SIGSTOP)
                _take_lock(database)
                if self._strike.is_slow:
                    CUT_OFF.set()
            case "OUTAGE":
                await self._told.get()  # until the server is gone


def _name_operations(work: Any) -> list[str]:
    """What a write does, by the functions that made its operations."""
    batch = work.args[1] if hasattr(work, "args") and len(work.args) > 1 else ()
    return [one.apply.__qualname__.partition(".")[0] for one in batch]


def _lose_lock(database: Any) -> None:
    """Let others take this process for dead, as when its connection to the server is cut."""
    if isinstance(database, SqliteDatabase):
        lock: Any = database._lock
        lock.release()
    else:
        database._guard.terminate()


def _take_lock(database: Any) -> None:
    if isinstance(database, SqliteDatabase):
        database._lock = ProcessLock(database._locks, database._owner)


def _replace(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    """Replace what must be there: a protection that moved would otherwise stay."""
    getattr(module, name)
    setattr(module, name, function)


def _remove_duplicates() -> None:
    _replace(delegation, "name_order", lambda *_: secrets.token_hex(8))


def _remove_epoch() -> None:
    def believe_claim(ledger: Ledger, claim: TaskClaim) -> Task:
        task = ledger.known.find_task(claim.task_id)
        if task is None or not task.is_open:
            raise task_operations.StaleClaimError(claim.task_id)
        return task

    _replace(task_operations, "check_claim", believe_claim)
    _replace(task_run_operations, "check_claim", believe_claim)


def _remove_run_key() -> None:
    _replace(attempts, "_name_run", lambda *_: secrets.token_hex(8))


def _remove_delivery_key() -> None:
    from sqlalchemy import select

    from toolstead.adapters.storage.tables import TASKS, tasks
    from toolstead.adapters.storage.task_queries import COLUMNS, take_waiting

    def take_all(connection: Any, thread_id: str, run_id: str) -> list[Task]:
        take_waiting(connection, thread_id, run_id)
        ended = select(*COLUMNS).where(tasks.c.parent_thread_id == thread_id, tasks.c.outcome.is_not(None))
        return [TASKS.decode_row(row) for row in connection.execute(ended)]

    _replace(operations, "take_waiting", take_all)


_REMOVE: dict[Protection, Callable[[], None]] = {
    "duplicates": _remove_duplicates,
    "epoch": _remove_epoch,
    "run-key": _remove_run_key,
    "delivery-key": _remove_delivery_key,
}

_ = store  # imported so that a process that is forked has it
