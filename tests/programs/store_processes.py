"""Processes that use a store: forked from one server that has imported everything, so that a start is cheap.

Each is told what to do by the function it runs, and speaks through a pipe: what it has sent, it had committed.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from tests.contracts.samples import ending, event, lost, message, run
from toolstead.adapters.storage.store import open_store
from toolstead.orchestrator.store import Resolution, Store
from toolstead.types.approval import Approval

WAIT_SECONDS = 60.0
for _adapter in ("sqlite", "postgres"):  # what opening a store would import, the server of forks has imported
    with suppress(ModuleNotFoundError):  # Postgres' driver is an extra
        importlib.import_module(f"toolstead.adapters.storage.{_adapter}")

Work = Callable[[Store, Connection], Awaitable[None]]


class Process:
    """Another process, and the pipe to it."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self.process = process
        self._pipe = pipe

    async def receive(self) -> Any:
        """What it sends next; None when it is gone."""
        return await asyncio.to_thread(self._receive)

    def send(self, value: Any) -> None:
        self._pipe.send(value)

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self.process.kill()

    async def end(self) -> None:
        """Wait until it is gone."""
        await asyncio.to_thread(self.process.join, WAIT_SECONDS)
        assert not self.process.is_alive()

    def _receive(self) -> Any:
        assert self._pipe.poll(WAIT_SECONDS), "the process says nothing"
        try:
            return self._pipe.recv()
        except EOFError:
            return None


@contextmanager
def started(work: Work, address: str, *, gate: bool = False) -> Generator[Process]:
    """Run a function in another process that has opened the store; with a gate it opens it when told to."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(work, address, theirs, gate), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Process(process, ours)
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


def _main(work: Work, address: str, pipe: Connection, gate: bool) -> None:
    asyncio.run(_open(work, address, pipe, gate))


async def _open(work: Work, address: str, pipe: Connection, gate: bool) -> None:
    if gate:
        pipe.send("ready")
        pipe.recv()
    store = await open_store(address)
    await work(store, pipe)
    await store.close()


async def open_only(store: Store, pipe: Connection) -> None:
    pipe.send([one.id for one in await store.list_threads()])


async def hold(store: Store, pipe: Connection) -> None:
    """Have one run that is running, until told to go."""
    asked = run("held", store.owner)
    await store.accept_message(message("held"), asked)
    await store.begin_run(asked, 1.0)
    pipe.send((store.owner, asked.id))
    await asyncio.to_thread(pipe.recv)


async def post_with_keys(store: Store, pipe: Connection) -> None:
    """Post a hundred messages at once, with the same keys as everybody else."""
    posts = (
        store.accept_message(
            message("shared"), run("shared", store.owner), idempotency_key=f"key-{number}", events=[event()]
        )
        for number in range(100)
    )
    pipe.send([(one.message_id, one.run_id, one.fresh) for one in await asyncio.gather(*posts)])


async def recover(store: Store, pipe: Connection) -> None:
    pipe.send([(ended.id, len(told)) for ended, told in await store.recover_runs(lost)])


async def recover_approvals(store: Store, pipe: Connection) -> None:
    def denied(_: Approval) -> Resolution:
        return Resolution(decision="deny", decided_at=1.0, events=[event("approval.resolved")])

    pipe.send([(decided.id, len(told)) for decided, told in await store.recover_approvals(denied)])


async def converse_for_ever(store: Store, pipe: Connection) -> None:
    """Ten conversations at once; what is committed is told."""
    pipe.send(("owner", store.owner))

    async def converse(name: str) -> None:
        while True:
            asked = run(name, store.owner)
            said = message(name)
            told = (await store.accept_message(said, asked, events=[event(run_id=asked.id)])).events
            pipe.send(("accepted", asked.id, said.id, told[0].id))
            await store.begin_run(asked, 1.0)
            answer = message(name, "done", "assistant")
            told = await store.end_run(asked.id, ending(answer=answer, events=[event("completed", run_id=asked.id)]))
            assert told is not None
            pipe.send(("ended", asked.id, answer.id, told[0].id))

    await asyncio.gather(*(converse(f"{store.owner}-{number}") for number in range(10)))
