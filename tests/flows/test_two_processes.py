"""Two processes on one database talk in one thread: one at a time, in order, and neither with an old conversation."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.contracts.postgres_server import running_server
from tests.programs.killed_runs import postgres_place
from tests.programs.shared_thread import THREAD, Place, talker
from toolstead.adapters.storage.store import open_store

PATTERN = "abaabbababbbaaabbaba"
KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.requires("postgres"))]


@asynccontextmanager
async def shared(kind: str, folder: Path, *, resumable: bool = True) -> AsyncGenerator[Place]:
    if kind == "sqlite":
        yield Place(folder, f"sqlite:///{folder}/shared.db", resumable)
        return
    with running_server() as socket:
        async with postgres_place(socket, folder, "shared") as place:
            yield Place(folder, place.url, resumable)


@pytest.mark.parametrize("resumable", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_messages_from_two_processes_are_answered_in_order_and_never_by_a_model_that_missed_one(
    tmp_path: Path, kind: str, resumable: bool
) -> None:
    async with shared(kind, tmp_path, resumable=resumable) as place:
        with talker(place) as one, talker(place) as other:
            names = {"a": one, "b": other}
            pids = {name: (await process.receive())[0] for name, process in names.items()}
            print(f"two processes: {pids}")
            assert pids["a"] != pids["b"]
            runs = [await names[who].ask("say", f"message {number}") for number, who in enumerate(PATTERN)]
            # Each end is waited for in the process that does not hold the run.
            ends = [
                await names["b" if who == "a" else "a"].ask("wait", run) for who, run in zip(PATTERN, runs, strict=True)
            ]
            received = {name: await process.ask("received") for name, process in names.items()}
            for process in names.values():
                assert await process.ask("stop") == "stopped"
        assert ends == [("completed", "inside and out: done")] * len(PATTERN)
        inside = place.inside.read_text().splitlines()
        assert inside == [line for who in PATTERN for line in (f"in {pids[who]}", f"out {pids[who]}")]
        warmth = {prompt: how for told in received.values() for prompt, how, _ in told}
        elsewhere = "resumed" if resumable else "cold"
        after = ["warm" if now == before else elsewhere for before, now in itertools.pairwise(PATTERN)]
        assert [warmth[f"message {number}"] for number in range(len(PATTERN))] == ["cold", *after]
        if resumable:
            store = await open_store(place.url or "")
            kept = (await store.thread(THREAD)).session_id or ""
            await store.close()
            said = json.loads((place.conversations / f"{kept.partition(':')[2]}.json").read_text())["said"]
            heard = [text for role, text in said if role == "user"]
            assert heard == [f"message {number}" for number in range(len(PATTERN))]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_behind_a_process_that_dies_is_answered_and_the_dead_ones_run_is_found_as_lost(
    tmp_path: Path, kind: str
) -> None:
    async with shared(kind, tmp_path) as place:
        with talker(place) as one, talker(place) as other:
            await asyncio.gather(one.receive(), other.receive())
            dying = [await one.ask("say", "message to hang") for _ in range(2)]
            behind = await other.ask("say", "message behind")
            waiting = asyncio.create_task(other.ask("wait", dying[1]))
            one.kill()
            status, _ = await waiting
            assert status == "lost"
            assert await other.ask("wait", behind) == ("completed", "inside and out: done")


async def test_the_key_of_a_steered_message_is_kept_for_the_next_process(tmp_path: Path) -> None:
    async with shared("sqlite", tmp_path) as place:
        with talker(place) as first:
            first_pid = (await first.receive())[0]
            running = await first.ask("say", "message to hang")
            while not [one for one in await first.ask("received") if one[0] == "message to hang"]:
                await asyncio.sleep(0.01)
            steered = await first.ask("steer", "go on", "k")
            assert steered[1:] == (running, True)
            assert await first.ask("steer", "go on", "k") == (*steered[:2], False)
            assert [one[0] for one in await first.ask("received") if one[2]] == ["go on"]
            await first.ask("stop")
        with talker(place) as second:
            assert (await second.receive())[0] != first_pid
            assert await second.ask("steer", "go on", "k") == (*steered[:2], False)
            assert await second.ask("received") == []
