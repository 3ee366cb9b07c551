"""The feed: what was just stored is handed out as it is, and the seams to the store show nothing twice or never."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE
from toolstead.adapters.storage.store import open_store
from toolstead.orchestrator import feed as feeds
from toolstead.orchestrator.feed import EventReader, Feed
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Ending, Store
from toolstead.types.event import DELTA, Event, NewEvent
from toolstead.types.run import Run
from toolstead.types.thread import Message


class CountingStore:
    """A store that counts how often events are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list_events(self, wanted: EventFilter, **more: Any) -> list[Event]:
        self.reads += 1
        await asyncio.sleep(0)
        return await self._store.list_events(wanted, **more)


@asynccontextmanager
async def feeding(folder: Path, poll_seconds: float = 0.02) -> AsyncIterator[tuple[CountingStore, Store, Feed]]:
    """A feed over one store, and the store of another process."""
    ours, theirs = await open_store(folder / "toolstead.db"), await open_store(folder / "toolstead.db")
    store, feed = CountingStore(ours), Feed(poll_seconds=poll_seconds)
    feed.attach(store)
    try:
        yield store, theirs, feed
    finally:
        await feed.detach()
        await ours.close()
        await theirs.close()


def number(n: int, run_id: str = "r") -> NewEvent:
    return NewEvent(type="usage", time=1.0, data={"n": n}, run_id=run_id)


async def take(reader: EventReader, count: int) -> list[int]:
    async with asyncio.timeout(PATIENCE):
        return [(await anext(reader)).data["n"] for _ in range(count)]


async def test_what_this_process_stores_is_not_read_back(tmp_path: Path) -> None:
    # Only a commit of ours makes the feed look here: a look between the two commits below would be a second read.
    async with feeding(tmp_path, poll_seconds=1_000) as (store, theirs, feed):
        with await feed.open_reader() as opened, feed.start_reader() as started:
            for n in range(50):
                await store.append_events([number(n)])
                assert await take(opened, 1) == await take(started, 1) == [n]
            assert store.reads == 0
            await theirs.append_events([number(50)])
            await store.append_events([number(51)])
            assert await take(opened, 2) == await take(started, 2) == [50, 51]
            assert store.reads == 1


async def test_a_reader_that_starts_before_the_position_is_known_gets_what_is_stored_from_then_on(
    tmp_path: Path,
) -> None:
    async with feeding(tmp_path) as (store, _, feed):
        for n in range(30):
            await store.append_events([number(-1)])
            with feed.start_reader() as reader:
                await asyncio.gather(store.append_events([number(n)]), asyncio.sleep(0))
                assert await take(reader, 1) == [n]


async def test_a_slow_reader_is_bounded_reads_on_from_the_store_and_is_told_what_was_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(feeds, "MOST_WAITING", 10)
    async with feeding(tmp_path) as (store, _, feed):
        with feed.start_reader() as reader:
            await store.append_events([number(n) for n in range(5)])
            for _ in range(3):
                feed.mention_event(Event(id="", type="live", time=1.0, data={"n": -1}))
            await store.append_events([number(n) for n in range(5, 40)])
            assert len(reader._waiting) <= 10
            assert await take(reader, 40) == list(range(40))
            assert reader.missed == 3
    assert "an event reader fell behind by 10 events" in caplog.text


async def test_a_reader_that_finishes_gives_what_is_stored_and_ends(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (store, _, feed):
        await store.append_events([number(n) for n in range(500)])
        reader = await feed.open_reader(after="")
        assert await take(reader, 10) == list(range(10))
        await store.append_events([number(500)])
        reader.finish()
        assert feed.position is None  # nobody reads
        await store.append_events([number(501)])
        assert [event.data["n"] async for event in reader] == list(range(10, 502))


async def test_readers_of_the_store_end_with_it_and_others_go_on(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (store, _, feed):
        opened, started = await feed.open_reader(), feed.start_reader()
        await store.append_events([number(1)])
        await feed.detach()
        assert [event.data["n"] async for event in opened] == [1]
        feed.mention_event(Event(id="x-1", type="live", time=1.0, data={"n": 2}))
        assert await take(started, 2) == [1, 2]
        started.close()


async def test_every_reader_gets_every_event_once_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own commits, other processes' commits, ends of runs, late, slow and filtered readers, all at random."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    monkeypatch.setattr(feeds, "MOST_WAITING", 15)
    monkeypatch.setattr(feeds, "PAGE", 4)
    async with feeding(tmp_path, poll_seconds=0.005) as (store, theirs, feed):
        runs: dict[str, Store] = {}
        for n, holder in enumerate([store, store, theirs, theirs]):
            run = Run(id=f"run-{n}", thread_id=f"t-{n}", prompt="", created_at=1.0, owner=holder.owner)
            sent = Message(id=f"m-{n}", thread_id=f"t-{n}", role="user", content="", created_at=1.0)
            await holder.accept_message(sent, run)
            runs[run.id] = holder
        told: list[Event] = []
        reading: list[tuple[EventFilter, str, asyncio.Task[list[Event]]]] = []

        async def write(run_id: str) -> None:
            holder = runs[run_id]
            for _ in range(dice.randrange(30, 60)):
                text = [
                    NewEvent(type=DELTA, time=1.0, data={"text": dice.choice(["a", "bc", ""])}, run_id=run_id)
                    for _ in range(dice.randrange(1, 4))
                ]
                told.extend(await holder.append_events(text if dice.random() < 0.9 else [number(len(told), run_id)]))
                if dice.random() < 0.3:
                    await asyncio.sleep(dice.random() * 0.01)
            last = NewEvent(type="completed", time=1.0, data={"n": 0}, run_id=run_id)
            ended = await holder.end_run(run_id, Ending(status="completed", ended_at=2.0, events=[last]))
            told.extend(ended or [])

        async def follow(reader: EventReader, pace: float) -> list[Event]:
            seen: list[Event] = []
            with reader:
                async for event in reader:
                    seen.append(event)
                    if event.type == "last":
                        break
                    if dice.random() < pace:
                        await asyncio.sleep(0.003)
            return seen

        async def come_late() -> None:
            for _ in range(25):
                await asyncio.sleep(dice.random() * 0.01)
                after = dice.choice(["", dice.choice(told).id]) if told else ""
                run_id = dice.choice([None, *runs])
                wanted = EventFilter(types=None if run_id is None else frozenset({DELTA, "usage", "last"}))
                reader = await feed.open_reader(wanted, after=after)
                pace = dice.choice([0, 0, 0.2])
                reading.append((wanted, after, asyncio.create_task(follow(reader, pace))))

        async with asyncio.timeout(60):
            await asyncio.gather(come_late(), *(write(run_id) for run_id in runs))
            await theirs.append_events([NewEvent(type="last", time=1.0, data={"n": 0})])
            told.sort(key=lambda event: event.id)
            for wanted, after, task in reading:
                seen = [event for event in await task if event.type != "last"]
                expected = [one for one in told if one.id > after and (not wanted.types or one.type in wanted.types)]
                assert [one.id for one in seen] == sorted({one.id for one in seen})
                assert spell(seen) == spell(expected), f"after {after or 'the start'}"


def spell(events: Sequence[Event]) -> list[Any]:
    """What the events tell, letter by letter: how a text is cut into events is left open."""
    found: list[Any] = []
    for event in events:
        if event.type == DELTA:
            found += [(event.run_id, letter) for letter in event.data["text"]]
        else:
            found.append((event.run_id, event.type, event.data["n"]))
    return found
