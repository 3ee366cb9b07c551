"""Deltas are joined with the end of their run, and no reader can tell from the text, on SQLite and on Postgres."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from tests.contracts.conftest import Place
from tests.contracts.samples import ending, event, lost, message, run
from toolstead.adapters.storage import events as stored_events
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Store
from toolstead.types.event import DELTA, Event, NewEvent
from toolstead.types.run import Run

ALL = EventFilter()
WORDS = ("", "a", "bc", "d e", "f\0g", "über", "\U0001f600")


@pytest.fixture
async def store(place: Place) -> Store:
    return await place.open()


async def begin(store: Store, thread_id: str = "t") -> Run:
    started = run(thread_id, store.owner)
    await store.accept_message(message(thread_id), started)
    return started


def delta(of: Run, text: str, **data: object) -> NewEvent:
    return event(DELTA, data={"text": text, **data}, thread_id=of.thread_id, run_id=of.id)


def other(of: Run, number: int = 0) -> NewEvent:
    return event("usage", data={"number": number}, thread_id=of.thread_id, run_id=of.id)


def pieces(events: list[Event]) -> list[tuple[str | None, str, object]]:
    """What was told: for each run its text and other events in order, whatever the pieces are."""
    found: list[tuple[str | None, str, object]] = []
    for one in events:
        if one.type == DELTA:
            found += [(one.run_id, one.type, letter) for letter in one.data["text"]]
        else:
            found.append((one.run_id, one.type, one.data.get("number")))
    return found


async def read(store: Store, wanted: EventFilter = ALL, after: str | None = None, limit: int = 500) -> list[Event]:
    """All pages."""
    found: list[Event] = []
    while page := await store.list_events(wanted, after=found[-1].id if found else after, limit=limit):
        assert len(page) <= limit
        found += page
        if len(page) < limit:
            break
    return found


async def test_a_long_answer_leaves_few_rows(store: Store) -> None:
    answered = await begin(store)
    for number in range(0, 1_000, 50):
        await store.append_events([delta(answered, f"{number + n} ") for n in range(50)])
    await store.append_events([other(answered)])
    await store.append_events([delta(answered, "more "), delta(answered, "text")])
    before = await store.list_events(ALL, limit=2_000)
    assert len(before) == 1_003
    await store.end_run(answered.id, ending(events=[other(answered, 1)]))
    after = await store.list_events(ALL, limit=2_000)
    assert [one.type for one in after] == [DELTA, "usage", DELTA, "usage"]
    assert [one.id for one in after[:3]] == [before[999].id, before[1_000].id, before[1_002].id]
    assert pieces(after[:3]) == pieces(before)
    assert after[0].time == before[999].time


async def test_a_client_that_resumes_inside_gets_the_rest_and_from_the_end_nothing(store: Store) -> None:
    answered = await begin(store)
    told = await store.append_events([delta(answered, text) for text in ("one ", "two ", "three")])
    await store.end_run(answered.id, ending())
    for index, text in enumerate(["two three", "three"]):
        (rest,) = await store.list_events(ALL, after=told[index].id)
        assert (rest.id, rest.data) == (told[2].id, {"text": text})
    assert await store.list_events(ALL, after=told[2].id) == []
    (cut,) = await store.list_events(ALL, until=told[1].id)
    assert (cut.id, cut.data) == (told[1].id, {"text": "one two "})


async def test_deltas_that_differ_in_more_than_their_text_are_not_joined(store: Store) -> None:
    answered = await begin(store)
    told = await store.append_events(
        [
            delta(answered, "a"),
            delta(answered, "b", attempt=2),
            delta(answered, "c", attempt=2),
            event(DELTA, data={"odd": 1}, thread_id="t", run_id=answered.id),
            event(DELTA, data={"text": 5}, thread_id="t", run_id=answered.id),
        ]
    )
    await store.end_run(answered.id, ending())
    found = await store.list_events(ALL)
    assert [one.data for one in found] == [
        {"text": "a"},
        {"text": "bc", "attempt": 2},
        {"odd": 1},
        {"text": 5},
    ]
    assert [one.id for one in found] == [told[index].id for index in (0, 2, 3, 4)]


async def test_the_deltas_of_a_lost_run_are_joined_too(place: Place) -> None:
    dead = await place.open(owner="dead")
    gone = await begin(dead)
    await dead.append_events([delta(gone, "a"), delta(gone, "b")])
    await dead.close()
    living = await place.open()
    await living.recover_runs(lost)
    assert [one.type for one in await living.list_events(EventFilter(run_id=gone.id))] == [DELTA, "error"]


async def test_the_last_deltas_come_with_the_end_and_are_told_one_by_one(store: Store) -> None:
    answered = await begin(store)
    heard: list[Event] = []
    store.on_commit(lambda first, last, events: heard.extend(events))
    await store.append_events([delta(answered, "a")])
    await store.end_run(answered.id, ending(events=[delta(answered, "b"), delta(answered, "c"), other(answered)]))
    assert [one.data.get("text") for one in heard] == ["a", "b", "c", None]
    assert [one.data.get("text") for one in await store.list_events(ALL)] == ["abc", None]


async def test_a_commit_says_what_lies_between_it_and_the_one_before(place: Place) -> None:
    one, two = await place.open(), await place.open()
    commits: list[tuple[str, str, list[str]]] = []
    one.on_commit(lambda first, last, events: commits.append((first, last, [event.type for event in events])))
    await one.append_events([event("1"), event("2")])
    await begin(one)
    await two.append_events([event("theirs")])
    await one.append_events([event("3")])
    (_, first_end, first), (second_start, second_end, second), (third_start, third_end, third) = commits
    assert (first, second, third) == (["1", "2"], [], ["3"])
    assert first_end == second_start
    assert second_end < third_start
    assert third_end == await two.event_position()


async def test_the_position_never_runs_ahead_of_what_the_listener_was_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    database: Any = store._database  # pyright: ignore[reportAttributeAccessIssue] - the store of `open_store`
    write = database.write

    async def write_and_dawdle(work: Any) -> Any:
        outcome = await write(work)
        await asyncio.sleep(0.05)
        return outcome

    monkeypatch.setattr(database, "write", write_and_dawdle)
    told: list[str] = []
    store.on_commit(lambda first, last, events: told.append(last))
    start = await store.event_position()
    appending = asyncio.create_task(store.append_events([event()]))
    async with asyncio.timeout(10):
        while (position := await store.event_position()) == start:
            await asyncio.sleep(0)
    assert told == [position]
    await appending


async def test_whoever_reads_from_wherever_gets_the_text_once_and_in_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random runs that speak at once, random ids to resume from, random moments of their ends."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for round_number in range(6):
        monkeypatch.setattr(stored_events, "LONGEST_SPAN", dice.choice([3, 20, 10_000]))
        start = await store.event_position()
        runs = [await begin(store, f"t{round_number}-{number % 2}") for number in range(3)]
        wanted = [ALL, *(EventFilter(run_id=one.id) for one in runs), EventFilter(thread_id=runs[0].thread_id)]
        wanted.append(EventFilter(types=frozenset({DELTA})))
        told: list[Event] = []
        readers = [(list[Event](), which) for which in wanted]  # they read a page now and then, all the while
        unfinished = list(runs)
        while unfinished:
            for _ in range(dice.randrange(1, 12)):
                speaker = dice.choice(unfinished)
                batch = [delta(speaker, dice.choice(WORDS)) for _ in range(dice.randrange(1, 4))]
                told += await store.append_events(batch if dice.random() < 0.85 else [other(speaker, len(told))])
            if dice.random() < 0.4:
                last = unfinished.pop(dice.randrange(len(unfinished)))
                told += await store.end_run(last.id, ending(events=[delta(last, "end"), other(last, len(told))])) or []
            for seen, which in readers:
                after = seen[-1].id if seen else start
                if dice.random() < 0.5:
                    seen.extend(await store.list_events(which, after=after, limit=dice.choice([1, 2, 5, 500])))
        for seen, which in readers:
            seen.extend(await read(store, which, seen[-1].id if seen else start, dice.choice([1, 3, 500])))
            assert pieces(seen) == pieces([one for one in told if fits(one, which)])
            assert all(one.id < two.id for one, two in pairwise(seen))
        for _ in range(30):
            which, cut, limit = dice.choice(wanted), dice.choice(told), dice.choice([1, 2, 7, 500])
            rest = await read(store, which, cut.id, limit)
            assert pieces(rest) == pieces([one for one in told if one.id > cut.id and fits(one, which)])
            until = await store.list_events(which, after=start, until=cut.id, limit=10_000)
            assert pieces(until) == pieces([one for one in told if one.id <= cut.id and fits(one, which)])


def fits(one: Event, wanted: EventFilter) -> bool:
    return (
        wanted.run_id in (None, one.run_id)
        and wanted.thread_id in (None, one.thread_id)
        and (wanted.types is None or one.type in wanted.types)
    )
