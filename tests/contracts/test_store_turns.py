"""One run at a time in each thread, in the order of acceptance, whoever holds them; and the keys of messages."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from sqlalchemy import update

from tests.contracts.conftest import Place
from tests.contracts.samples import ending, event, lost, message, run
from toolstead.adapters.storage import tables
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Begun, Behind, HeldRun, Store
from toolstead.types.run import Run
from toolstead.types.thread import Thread

ALL = EventFilter()


async def accepted(store: Store, thread_id: str = "t") -> Run:
    asked = run(thread_id, store.owner)
    await store.accept_message(message(thread_id), asked)
    return asked


def held(*runs: Run) -> Behind:
    return Behind(runs=tuple(HeldRun(id=one.id, owner=one.owner) for one in runs))


class TestTurns:
    async def test_a_run_does_not_begin_while_another_of_its_thread_runs_whoever_holds_it(self, place: Place) -> None:
        first, second = await place.open(), await place.open()
        running, own, others = await accepted(first), await accepted(first), await accepted(second)
        assert isinstance(await first.begin_run(running, 1.0), Begun)
        assert await first.begin_run(own, 2.0, [event()]) == held(running)
        assert await second.begin_run(others, 2.0, [event()]) == held(running, own)
        assert await first.list_events(ALL) == []
        assert [one.status for one in await first.list_runs()] == ["queued", "queued", "running"]
        await first.end_run(running.id, ending())
        assert await second.begin_run(others, 2.0) == held(own)
        assert isinstance(await first.begin_run(own, 2.0), Begun)
        await first.end_run(own.id, ending())
        assert isinstance(await second.begin_run(others, 2.0), Begun)

    async def test_other_threads_are_in_nobodys_way(self, store: Store) -> None:
        for name in "tuv":
            assert isinstance(await store.begin_run(await accepted(store, name), 1.0), Begun)

    async def test_one_that_runs_is_waited_for_also_when_it_came_later(self, place: Place) -> None:
        store = await place.open()
        older, newer = await accepted(store), await accepted(store)
        running = update(tables.runs).where(tables.runs.c.id == newer.id).values(status="running")
        await cast("Any", store).write_with(lambda connection: connection.execute(running).rowcount)
        assert await store.begin_run(older, 1.0) == held(newer)

    async def test_an_end_is_not_taken_for_a_line(self, store: Store) -> None:
        running, waiting = await accepted(store), await accepted(store)
        await store.begin_run(running, 1.0)
        await store.end_run(waiting.id, ending("cancelled"))
        assert await store.begin_run(waiting, 2.0, [event()]) is None
        assert await store.begin_run(running, 2.0, [event()]) is None

    async def test_what_a_dead_process_left_is_in_the_way_until_it_is_recovered(self, place: Place) -> None:
        dead, living = await place.open(), await place.open()
        queued, own = await accepted(dead), await accepted(living)
        await dead.close()
        assert await living.begin_run(own, 1.0) == held(queued)
        assert [one.id for one, _ in await living.recover_runs(lost)] == [queued.id]
        assert isinstance(await living.begin_run(own, 1.0), Begun)

    async def test_who_begins_is_told_who_began_last(self, place: Place) -> None:
        first, second = await place.open(), await place.open()
        told: list[HeldRun | None] = []
        runs: list[Run] = []
        for store in (first, second, second, first):
            never = await accepted(store)
            await store.end_run(never.id, ending("cancelled"))
            asked = await accepted(store)
            begun = await store.begin_run(asked, 1.0, [event()])
            assert isinstance(begun, Begun)
            assert len(begun.events) == 1
            told.append(begun.last)
            runs.append(asked)
            await store.end_run(asked.id, ending())
        assert told == [None, *(HeldRun(id=one.id, owner=one.owner) for one in runs[:-1])]

    async def test_the_line_is_seen_inside_one_commit_too(self, store: Store) -> None:
        first, second, third = (run("t", store.owner) for _ in range(3))
        outcomes = await asyncio.gather(
            store.accept_message(message("t"), first),
            store.accept_message(message("t"), second),
            store.begin_run(second, 1.0),
            store.begin_run(first, 1.0),
            store.begin_run(second, 1.0),
            store.end_run(first.id, ending()),
            store.begin_run(second, 2.0),
            store.accept_message(message("t"), third),
            store.begin_run(third, 2.0),
        )
        before = HeldRun(id=first.id, owner=store.owner)
        assert outcomes[2] == outcomes[4] == held(first)
        assert outcomes[3] == Begun(events=[], last=None)
        assert outcomes[6] == Begun(events=[], last=before)
        assert outcomes[8] == held(second)


class TestKeysOfMessages:
    async def test_a_key_of_a_message_without_a_run_of_its_own_counts_once_and_over_restarts(
        self, place: Place
    ) -> None:
        store = await place.open()
        running = await accepted(store)
        steered = message("t", "go on", run_id=running.id)
        first = await store.add_message(steered, [event()], idempotency_key="k")
        assert (first.message_id, first.run_id, first.fresh, len(first.events)) == (steered.id, running.id, True, 1)
        again = message("t", "go on", run_id=running.id)
        await store.close()
        store = await place.open()
        second = await store.add_message(again, [event()], idempotency_key="k")
        assert (second.message_id, second.run_id, second.fresh) == (steered.id, running.id, False)
        assert list(second.events) == []
        assert await store.find_accepted("t", "k") == second
        assert await store.find_accepted("t", "other") is None
        assert await store.find_accepted("u", "k") is None
        assert len(await store.list_messages("t")) == 2
        assert len(await store.list_events(ALL)) == 1

    async def test_a_key_is_one_for_both_kinds_of_messages(self, store: Store) -> None:
        asked = run("t", store.owner)
        first = await store.accept_message(message("t"), asked, idempotency_key="k")
        steered = await store.add_message(message("t", run_id=asked.id), idempotency_key="k")
        assert (steered.message_id, steered.fresh) == (first.message_id, False)
        told = await store.add_message(message("t", run_id=asked.id), idempotency_key="l")
        posted = await store.accept_message(message("t"), run("t", store.owner), idempotency_key="l")
        assert (posted.message_id, posted.run_id, posted.fresh) == (told.message_id, asked.id, False)

    async def test_a_message_of_no_run_is_kept_once_for_each_key(self, store: Store) -> None:
        await store.create_thread(Thread(id="t", created_at=1.0))
        first = await store.add_message(message("t"), idempotency_key="k")
        again = await store.add_message(message("t"), idempotency_key="k")
        assert (first.fresh, again.fresh, again.message_id) == (True, False, first.message_id)
        assert [one.id for one in await store.list_messages("t")] == [first.message_id]
