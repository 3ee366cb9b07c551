"""Two processes on one database talk in one thread: one at a time, in order, and neither with an old conversation."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.contracts.postgres_server import running_server
from tests.programs.killed_runs import postgres_place
from tests.programs.shared_thread import THREAD, Place, Talker, talker
from toolstead.adapters.storage.store import open_store
from toolstead.orchestrator.log_store import EventFilter

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
            kept = (await store.read_thread(THREAD)).session_id or ""
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


async def received(process: Talker, prompt: str) -> None:
    """Wait until the model of a process was told something."""
    async with asyncio.timeout(60):
        while not [one for one in await process.ask("received") if one[0] == prompt]:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_is_cancelled_from_another_process_within_a_second(tmp_path: Path, kind: str) -> None:
    async with shared(kind, tmp_path) as place:
        with talker(place) as one, talker(place) as other:
            await asyncio.gather(one.receive(), other.receive())
            seconds: list[float] = []
            for _ in range(3):  # on a busy machine one of them may be slow
                running = await one.ask("say", "message to hang")
                waiting = [await who.ask("say", "message to hang") for who in (one, other)]
                await received(one, "message to hang")
                assert await other.ask("cancel", waiting[0]) == ("cancelled", "cancelled")
                began = time.monotonic()
                assert await other.ask("cancel", running) == ("cancelled", "cancelled")
                seconds.append(time.monotonic() - began)
                assert await one.ask("cancel", waiting[1]) == ("cancelled", "cancelled")
            print(f"cancelled from another process in {[f'{one:.2f}' for one in seconds]} s")
            assert min(seconds) < 1.0
            assert await other.ask("say", "message after")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_steers_the_run_of_another_process_once_within_a_second(tmp_path: Path, kind: str) -> None:
    async with shared(kind, tmp_path) as place:
        with talker(place) as one, talker(place) as other:
            await asyncio.gather(one.receive(), other.receive())
            running = await one.ask("say", "message to hang")
            await received(one, "message to hang")
            seconds: list[float] = []
            for number in range(3):
                began = time.monotonic()
                steered = await other.ask("steer", "go on", f"key {number}")
                seconds.append(time.monotonic() - began)
                assert steered[1:] == (running, True)
                assert await other.ask("steer", "go on", f"key {number}") == (*steered[:2], False)
                assert await one.ask("steer", "go on", f"key {number}") == (*steered[:2], False)
            print(f"steered from another process in {[f'{one:.2f}' for one in seconds]} s")
            assert min(seconds) < 1.0
            assert [one[0] for one in await one.ask("received") if one[2]] == ["go on"] * 3
            assert await other.ask("received") == []
            await other.ask("cancel", running)
        store = await open_store(place.url or "")
        said = [(one.content, one.run_id) for one in await store.list_messages(THREAD)]
        events = [one.type for one in await store.list_events(EventFilter(run_id=running))]
        await store.close()
        assert said == [("message to hang", running), *[("go on", running)] * 3]
        assert events == ["message", "run.started", "message", "message", "message", "cancelled"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_that_the_run_of_another_process_cannot_take_is_answered_by_a_run_of_its_own(
    tmp_path: Path, kind: str
) -> None:
    async with shared(kind, tmp_path) as place:
        with talker(place) as one, talker(place) as other:
            await asyncio.gather(one.receive(), other.receive())
            dying = await one.ask("say", "message to hang")
            await received(one, "message to hang")
            one.freeze()
            steering = asyncio.create_task(other.ask("steer", "message instead", "k"))
            await asyncio.sleep(0.5)
            assert not steering.done()
            one.kill()
            steered = await steering
            assert steered[1] != dying
            assert steered[2]
            assert await other.ask("wait", steered[1]) == ("completed", "inside and out: done")
            assert (await other.ask("wait", dying))[0] == "lost"
        store = await open_store(place.url or "")
        told = [one.content for one in await store.list_messages(THREAD) if one.role == "user"]
        await store.close()
        assert told == ["message to hang", "message instead"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_thread_that_is_deleted_ends_the_runs_of_every_process(tmp_path: Path, kind: str) -> None:
    async with shared(kind, tmp_path) as place:
        with talker(place) as one, talker(place) as other:
            await asyncio.gather(one.receive(), other.receive())
            await one.ask("say", "message to hang")
            await received(one, "message to hang")
            await other.ask("say", "message behind")
            assert await other.ask("delete") == "deleted"
            again = await other.ask("say", "message again")
            assert await one.ask("wait", again) == ("completed", "inside and out: done")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_process_that_is_killed_in_mid_turn_leaves_a_thread_that_is_resumed(tmp_path: Path, kind: str) -> None:
    async with shared(kind, tmp_path) as place:
        with talker(place) as one:
            await one.receive()
            await one.ask("say", "message to stall")
            await received(one, "message to stall")
            store = await open_store(place.url or "")
            async with asyncio.timeout(60):
                while (kept := (await store.read_thread(THREAD)).session_id) is None:
                    await asyncio.sleep(0.01)
            await store.close()
            one.kill()
        with talker(place) as other:
            await other.receive()
            run = await other.ask("say", "message after")
            assert await other.ask("wait", run) == ("completed", "inside and out: done")
            assert next(warmth for _, warmth, _ in await other.ask("received")) == "resumed"
            store = await open_store(place.url or "")
            assert (await store.read_thread(THREAD)).session_id == kept
            await store.close()


async def test_the_key_of_a_steered_message_is_kept_for_the_next_process(tmp_path: Path) -> None:
    async with shared("sqlite", tmp_path) as place:
        with talker(place) as first:
            first_pid = (await first.receive())[0]
            running = await first.ask("say", "message to hang")
            await received(first, "message to hang")
            steered = await first.ask("steer", "go on", "k")
            assert steered[1:] == (running, True)
            assert await first.ask("steer", "go on", "k") == (*steered[:2], False)
            assert [one[0] for one in await first.ask("received") if one[2]] == ["go on"]
            await first.ask("stop")
        with talker(place) as second:
            assert (await second.receive())[0] != first_pid
            assert await second.ask("steer", "go on", "k") == (*steered[:2], False)
            assert await second.ask("received") == []
