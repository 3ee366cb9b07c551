"""Several processes on one database: nothing twice, nothing lost, and only the dead are recovered."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from tests.contracts.conftest import Place
from tests.contracts.samples import lost, message, run
from tests.programs import store_processes as processes
from tests.programs.store_processes import Process, started
from toolstead.adapters.storage.store import open_store
from toolstead.orchestrator.log_store import EventFilter
from toolstead.types.run import Run

ALL = EventFilter()
ROUNDS = {"sqlite": 20, "postgres": 6}


async def test_two_that_open_a_new_database_at_once_both_can(place: Place) -> None:
    with ExitStack() as stack:
        opening = [stack.enter_context(started(processes.open_only, place.address, gate=True)) for _ in range(4)]
        for one in opening:
            assert await one.receive() == "ready"
        for one in opening:
            one.send("go")
        assert [await one.receive() for one in opening] == [[]] * 4
        for one in opening:
            await one.end()
            assert one.process.exitcode == 0


async def test_of_equal_keys_from_two_processes_one_is_fresh(place: Place) -> None:
    store = await place.open()
    with ExitStack() as stack:
        posting = [stack.enter_context(started(processes.post_with_keys, place.address, gate=True)) for _ in range(2)]
        for one in posting:
            assert await one.receive() == "ready"
        for one in posting:
            one.send("go")
        first, second = [await one.receive() for one in posting]
    assert [one[:2] for one in first] == [one[:2] for one in second]
    assert all(one[2] != other[2] for one, other in zip(first, second, strict=True))
    assert len(await store.list_messages("shared")) == len(await store.list_events(ALL)) == 100
    assert len(await store.list_runs(thread_id="shared", limit=1_000)) == 100


async def test_two_processes_that_recover_at_once_end_each_run_once(place: Place) -> None:
    dead = await place.open()
    asked = [run("t", dead.owner) for _ in range(30)]
    await asyncio.gather(*(dead.accept_message(message("t"), one) for one in asked))
    await dead.close()
    with ExitStack() as stack:
        both = [stack.enter_context(started(processes.recover, place.address, gate=True)) for _ in range(2)]
        for one in both:
            assert await one.receive() == "ready"
        for one in both:
            one.send("go")
        ended = [found for one in both for found in await one.receive()]
    assert sorted(ended) == sorted((one.id, 1) for one in asked)
    assert len(await (await place.open()).list_events(ALL)) == 30


async def test_a_killed_process_loses_nothing_it_acknowledged_and_only_its_runs_are_recovered(place: Place) -> None:
    mine = await place.open()
    own = run("mine", mine.owner)
    await mine.accept_message(message("mine"), own)
    with started(processes.hold, place.address) as living:
        living_owner, living_run = await living.receive()
        for number in range(ROUNDS[place.kind]):
            owner, told = await _killed_after(place, 5 + number * 7)
            await _check(place, owner, told)
            unfinished = {one.id for one in await mine.list_runs(unfinished=True)}
            assert unfinished == {own.id, living_run}
        assert (await mine.read_run(living_run)).owner == living_owner
        living.send("go")
        await living.end()
    assert await mine.recover_runs(lost) != []  # it went without ending its run
    assert [one.id for one in await mine.list_runs(unfinished=True)] == [own.id]


async def _killed_after(place: Place, many: int) -> tuple[str, list[tuple[str, str, str, str]]]:
    """Its owner, and everything it had acknowledged when it was killed."""
    with started(processes.converse_for_ever, place.address) as victim:
        _, owner = await victim.receive()
        told = [await victim.receive() for _ in range(many)]
        victim.kill()
        while (one := await _rest(victim)) is not None:
            told.append(one)
        await victim.end()
    return owner, told


async def _rest(victim: Process) -> tuple[str, str, str, str] | None:
    try:
        return await victim.receive()
    except ConnectionResetError:
        return None


async def _check(place: Place, owner: str, told: list[tuple[str, str, str, str]]) -> None:
    """A new process finds all of it, and recovers what the dead one left: once, and nothing else."""
    store = await open_store(place.address)
    try:
        ended = {one[1] for one in told if one[0] == "ended"}
        begun = {one[1] for one in told if one[0] == "accepted"} - ended
        recovered: list[Run] = []
        async with asyncio.timeout(30):
            while True:  # a server notices a moment later that its client died
                recovered += [one for one, _ in await store.recover_runs(lost)]
                if not [one for one in await store.list_runs(unfinished=True) if one.owner == owner]:
                    break
        assert {one.owner for one in recovered} <= {owner}
        assert len({one.id for one in recovered} - ended) == len(recovered)
        statuses = {run_id: (await store.read_run(run_id)).status for run_id in begun}
        assert set(statuses.values()) <= {"lost", "completed"}  # it may have died between the commit and the telling
        events = {one.id for one in await store.list_events(ALL, limit=100_000)}
        assert {one[3] for one in told} <= events
        names = {f"{owner}-{number}" for number in range(10)}
        kept = {one.id for name in names for one in await store.list_messages(name)}
        assert {one[2] for one in told} <= kept
        assert await store.recover_runs(lost) == []
    finally:
        await store.close()
