"""Steps of runs, on SQLite and on Postgres alike: stored with events and ends, listed, and deleted."""

from __future__ import annotations

import msgspec

from tests.contracts.conftest import Place
from tests.contracts.samples import ending, event, message, run
from toolstead.adapters.storage import step_queries
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Store
from toolstead.types.run import RunError, Usage
from toolstead.types.step import RecordedStep, RunStep, StepBatch


def step(number: int, **fields: object) -> RecordedStep:
    values = {"created_at": 1000.0 + number, "model": "m", "request": {"messages": [{"text": f"n{number}"}]}} | fields
    return RecordedStep(number=number, **values)


def batch(run_id: str, *steps: RecordedStep) -> StepBatch:
    text = msgspec.json.encode(steps).decode()
    return StepBatch(run_id=run_id, number=steps[0].number, last=steps[-1].number, steps=text)


async def accept(store: Store, run_id: str, thread_id: str = "t") -> None:
    await store.accept_message(message(thread_id), run(thread_id, store.owner, id=run_id))


async def numbers(store: Store, run_id: str, **page: int) -> list[int]:
    return [one.number for one in await store.list_steps(run_id, **page)]


async def test_a_step_is_kept_whole(store: Store) -> None:
    await accept(store, "r")
    whole = step(
        1,
        kind="turn",
        request={"prompt": 'é "quoted" \x00 \U0001f600', "tools": []},
        reply={"text": "yes"},
        usage=Usage(input_tokens=1, output_tokens=2, cost=0.25),
        duration_ms=12.5,
        error=RunError(code="limit", message="too much"),
    )
    await store.append_events([], [batch("r", whole, step(2))])
    assert await store.list_steps("r") == [
        RunStep(run_id="r", **msgspec.structs.asdict(one)) for one in (whole, step(2))
    ]


async def test_steps_come_in_order_and_in_pages_however_they_were_stored(store: Store) -> None:
    await accept(store, "r")
    await accept(store, "other", "u")
    for first, count in ((1, 3), (4, 1), (5, 5)):
        steps = [step(number) for number in range(first, first + count)]
        await store.append_events([event(run_id="r")], [batch("r", *steps), batch("other", step(first))])
    assert await numbers(store, "r") == list(range(1, 10))
    assert await numbers(store, "r", after=1, limit=4) == [2, 3, 4, 5]
    assert await numbers(store, "r", after=6) == [7, 8, 9]
    assert await numbers(store, "r", after=9) == []
    assert await numbers(store, "other") == [1, 4, 5]
    assert await numbers(store, "nobody") == []
    assert len(await store.list_events(EventFilter())) == 3, "steps are no events"


async def test_the_end_of_a_run_brings_its_last_steps(store: Store) -> None:
    await accept(store, "r")
    await store.append_events([], [batch("r", step(1))])
    assert await store.end_run("r", ending(steps=[batch("r", step(2)), batch("r", step(3))])) is not None
    assert await store.end_run("r", ending(steps=[batch("r", step(4))])) is None
    assert await numbers(store, "r") == [1, 2, 3]


async def test_steps_of_a_run_that_is_gone_and_steps_that_are_there_are_not_kept(store: Store) -> None:
    await accept(store, "r")
    await store.append_events([event("one")], [batch("r", step(1))])
    again = [batch("r", step(1)), batch("gone", step(1)), batch("r", step(2))]
    assert [one.type for one in await store.append_events([event("two")], again)] == ["two"]
    assert await numbers(store, "r") == [1, 2]
    assert await numbers(store, "gone") == []


async def test_steps_go_with_their_thread(store: Store) -> None:
    for name in ("gone", "stays"):
        await accept(store, f"run-{name}", name)
        await store.append_events([], [batch(f"run-{name}", step(1))])
    await store.delete_thread("gone")
    assert (await numbers(store, "run-gone"), await numbers(store, "run-stays")) == ([], [1])


async def test_steps_expire_by_the_end_of_their_run_all_of_them_together(store: Store) -> None:
    for number in range(step_queries.DELETED_TOGETHER + 2):
        await accept(store, f"old-{number}", f"t{number}")
        await store.append_events([], [batch(f"old-{number}", step(1))])
        await store.end_run(f"old-{number}", ending(ended_at=1500.0, steps=[batch(f"old-{number}", step(2))]))
    await accept(store, "new", "t-new")
    await store.end_run("new", ending(ended_at=2500.0, steps=[batch("new", step(1, created_at=1.0))]))
    await accept(store, "unfinished", "t-unfinished")
    await store.append_events([], [batch("unfinished", step(1, created_at=1.0))])
    assert await store.expire_rows(2000.0, ["events", "keys"]) == 0
    assert await store.expire_rows(2000.0, ["steps"]) == 2 * (step_queries.DELETED_TOGETHER + 2)
    assert await store.expire_rows(2000.0) == 0
    assert [await numbers(store, one) for one in ("old-0", "new", "unfinished")] == [[], [1], [1]]


async def test_another_process_reads_the_steps_of_a_run_that_goes_on(place: Place) -> None:
    ours, theirs = await place.open(), await place.open()
    await accept(ours, "r")
    await ours.append_events([], [batch("r", step(1))])
    assert await numbers(theirs, "r") == [1]
