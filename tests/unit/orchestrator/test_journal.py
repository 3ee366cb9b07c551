"""The journal: events reach the store in order, also when it fails, and a run takes along what is left of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.waiting import until
from toolstead.errors import StorageError
from toolstead.orchestrator.journal import Journal
from toolstead.types.event import Event, NewEvent
from toolstead.types.step import StepBatch


class Shelf:
    """A store for events that can be made to wait and to fail."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.steps: list[tuple[str, int]] = []
        self.commits = 0
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.failures = 0

    async def append_events(self, events: Sequence[NewEvent], steps: Sequence[StepBatch] = ()) -> list[Event]:
        self.asked.set()
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise StorageError("no")
        for event in events:
            if event.data.get("bad"):
                raise TypeError("this is not JSON")
        if any(one.steps == "bad" for one in steps):
            raise TypeError("this is not JSON either")
        self.stored += [event.type for event in events]
        self.steps += [(one.run_id, one.number) for one in steps]
        self.commits += 1
        return []


class Source:
    """Has so many steps of a run to give, each in a batch of its own."""

    def __init__(self, run_id: str, *texts: str) -> None:
        self.left = [StepBatch(run_id=run_id, number=n, last=n, steps=text) for n, text in enumerate(texts, 1)]

    def take_steps(self) -> StepBatch | None:
        return self.left.pop(0) if self.left else None


def event(name: str, run_id: str | None = "r", **data: object) -> NewEvent:
    return NewEvent(type=name, time=1.0, data=data, run_id=run_id)


def journal(shelf: Shelf, **options: int) -> Journal:
    return Journal(shelf, **options)


async def test_what_could_not_be_stored_stays_in_front_of_what_was_told_meanwhile() -> None:
    shelf = Shelf()
    shelf.failures = 1
    shelf.open.clear()
    kept = journal(shelf)
    kept.add(event("1"))
    await shelf.asked.wait()
    kept.add(event("2"))
    kept.add(event("other", "s"))
    shelf.open.set()
    await kept.close()
    assert [name for name in shelf.stored if name != "other"] == ["1", "2"]
    assert "other" in shelf.stored


@pytest.mark.parametrize("fails", [True, False])
async def test_a_run_waits_for_what_is_being_stored_and_takes_it_back_when_that_fails(fails: bool) -> None:
    shelf = Shelf()
    shelf.failures = int(fails)
    shelf.open.clear()
    kept = journal(shelf)
    kept.add(event("1"))
    await shelf.asked.wait()
    kept.add(event("2"))
    taking = asyncio.create_task(kept.take_unstored("r"))
    await asyncio.sleep(0)
    assert not taking.done()
    assert await kept.take_unstored("somebody else") == []
    shelf.open.set()
    taken = [one.type for one in await asyncio.wait_for(taking, 10)]
    await kept.close()
    assert [*shelf.stored, *taken] == ["1", "2"]
    assert taken == (["1", "2"] if fails else taken)


async def test_an_event_that_cannot_be_stored_is_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    kept = journal(shelf)
    for one in (event("1"), event("broken", bad=True), event("2")):
        kept.add(one)
    await kept.close()
    assert shelf.stored == ["1", "2"]
    assert "an event broken of run r cannot be stored" in caplog.text


async def test_more_than_may_wait_is_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.open.clear()
    kept = journal(shelf, most_waiting=3)
    for number in range(5):
        kept.add(event(str(number)))
    await shelf.asked.wait()
    shelf.open.set()
    await kept.close()
    assert shelf.stored == ["0", "1", "2"]
    assert "2 events were left out" in caplog.text
    again = journal(shelf, most_waiting=1)
    for number in range(3):
        again.add(event(f"again {number}", f"r{number}"))
        assert [one.type for one in await again.take_unstored(f"r{number}")] == [
            f"again {number}"
        ]  # there is room again
    await again.close()


async def test_a_store_that_stays_away_is_not_waited_for_when_everything_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shelf = Shelf()
    shelf.failures = 100
    kept = journal(shelf)
    kept.add(event("1"))
    await asyncio.wait_for(kept.close(), 30)
    assert shelf.stored == []
    assert "1 events could not be stored" in caplog.text


async def test_steps_come_along_with_events_and_cause_no_commit_of_their_own() -> None:
    shelf = Shelf()
    kept = journal(shelf)
    kept.add_steps("r", Source("r", "[]"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert shelf.commits == 0
    kept.add(event("1", "somebody else"))
    await until(lambda: shelf.commits == 1)
    assert shelf.steps == [("r", 1)]
    kept.add_steps("s", Source("s", "[]"))
    await kept.close()
    assert shelf.steps == [("r", 1), ("s", 1)], "what waits at the end is stored"


async def test_a_run_takes_its_steps_along_once_none_is_being_stored() -> None:
    shelf = Shelf()
    shelf.failures = 1
    shelf.open.clear()
    kept = journal(shelf)
    source = Source("r", "[]", "[]")
    kept.add_steps("r", source)
    kept.add(event("1", "somebody else"))
    await shelf.asked.wait()
    kept.add_steps("r", source)
    taking = asyncio.create_task(kept.take_unstored("r"))
    await asyncio.sleep(0)
    assert not taking.done()
    shelf.open.set()
    await asyncio.wait_for(taking, 10)
    assert [one.number for one in kept.take_steps("r")] == [1, 2], "what was refused comes first"
    assert kept.take_steps("r") == []
    await kept.close()
    assert shelf.steps == []


async def test_steps_that_cannot_be_stored_are_left_out_alone(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    kept = journal(shelf)
    for run_id, text in (("a", "[]"), ("b", "bad"), ("c", "[]")):
        kept.add_steps(run_id, Source(run_id, text))
    kept.add(event("1"))
    await kept.close()
    assert (shelf.stored, shelf.steps) == (["1"], [("a", 1), ("c", 1)])
    assert "step 1 of run b cannot be stored" in caplog.text


async def test_more_steps_than_may_wait_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.failures = 1
    kept = journal(shelf, most_step_bytes=25)
    for run_id in "abc":
        kept.add_steps(run_id, Source(run_id, "x" * 10))
    kept.add(event("1"))
    await until(lambda: shelf.commits == 1)
    await kept.close()
    assert (shelf.stored, shelf.steps) == (["1"], [("a", 1), ("b", 1)])
    assert "1 steps were left out while the database could not be written" in caplog.text
