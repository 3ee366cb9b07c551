"""What every store promises about approvals, on SQLite and on Postgres alike: one decision, one event, no more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from tests.contracts.conftest import Place
from tests.contracts.samples import event, lost, message, new_id, run, thread
from tests.programs import store_processes as processes
from tests.programs.store_processes import started
from toolstead.errors import NotFoundError, StorageError
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Resolution, Store
from toolstead.types.approval import Approval
from toolstead.types.event import NewEvent

ALL = EventFilter()


def question(owner: str, **fields: Any) -> Approval:
    values: dict[str, Any] = {
        "id": new_id("approval"),
        "call_id": "call",
        "tool": "mail__send",
        "input": {"to": ["ada"], "deep": {"é": None}},
        "reason": "it is a mail ✓",
        "asked_by": "careful",
        "thread_id": "t",
        "requested_at": 1000.25,
        "expires_at": 1300.25,
    }
    return Approval(owner=owner, **(values | fields))


def resolution(decision: Any = "deny", events: Sequence[NewEvent] | None = None, **fields: Any) -> Resolution:
    told = [event("approval.resolved")] if events is None else events
    return Resolution(decision=decision, **({"decided_at": 1100.5} | fields), events=told)


def stopped(_: Approval) -> Resolution:
    return resolution(decision_reason="stopped")


async def ask(store: Store, **fields: Any) -> Approval:
    asked = question(store.owner, **fields)
    await store.add_approval(asked, [event("approval.requested")])
    return asked


async def test_a_question_is_kept_whole_with_its_events(store: Store) -> None:
    asked = question(store.owner, run_id="r", task_id="k")
    told = await store.add_approval(asked, [event("tool_use"), event("approval.requested", data={"x": 1})])
    assert await store.read_approval(asked.id) == asked
    assert await store.pending_approvals() == [asked]
    assert await store.list_events(ALL) == told
    assert [one.type for one in told] == ["tool_use", "approval.requested"]


async def test_a_question_that_nobody_is_told_of_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="needs an event that tells of it"):
        await store.add_approval(question(store.owner), [])


async def test_what_is_unknown_is_named(store: Store) -> None:
    with pytest.raises(NotFoundError, match=r"^no approval 'nobody'$"):
        await store.read_approval("nobody")
    assert await store.resolve_approval("nobody", resolution()) is None
    assert await store.list_events(ALL) == []


async def test_a_decision_is_kept_whole_with_its_event(store: Store) -> None:
    asked = await ask(store)
    decided = resolution("allow", decision_reason="once ✓", decided_input={"to": []})
    told = await store.resolve_approval(asked.id, decided)
    assert told is not None
    assert await store.read_approval(asked.id) == decided.given_to(asked)
    assert (await store.list_events(ALL))[1:] == told
    assert await store.pending_approvals() == []
    assert await store.pending_ids(store.owner) == frozenset()


async def test_the_first_decision_counts_and_the_others_tell_nothing(store: Store) -> None:
    asked = await ask(store)
    answers = [resolution("allow" if number % 2 else "deny", decision_reason=str(number)) for number in range(20)]
    stored = await asyncio.gather(*(store.resolve_approval(asked.id, one) for one in answers))
    assert [one is not None for one in stored] == [True] + [False] * 19
    assert await store.read_approval(asked.id) == answers[0].given_to(asked)
    assert [one.type for one in await store.list_events(ALL)] == ["approval.requested", "approval.resolved"]


async def test_of_two_that_are_open_to_one_database_the_first_counts(place: Place) -> None:
    first, second = await place.open(), await place.open()
    for _ in range(10):
        asked = await ask(first)
        stored = await asyncio.gather(
            first.resolve_approval(asked.id, resolution("allow")), second.resolve_approval(asked.id, resolution())
        )
        assert sorted(one is None for one in stored) == [False, True]
        winner = "allow" if stored[0] is not None else "deny"
        assert (
            (await first.read_approval(asked.id)).decision == (await second.read_approval(asked.id)).decision == winner
        )
    assert len(await first.list_events(ALL)) == 20


async def test_what_waits_comes_oldest_first_whatever_the_clocks_say(place: Place) -> None:
    first, second = await place.open(), await place.open()
    asked = [await ask(store, requested_at=at) for store, at in ((first, 9.0), (second, 5.0), (first, 7.0))]
    assert await first.pending_approvals() == await second.pending_approvals() == asked
    assert await second.pending_ids(first.owner) == {asked[0].id, asked[2].id}


async def test_what_is_no_json_is_refused_and_what_no_database_can_hold_is_replaced(store: Store) -> None:
    with pytest.raises(TypeError, match="must be JSON"):
        await store.add_approval(question(store.owner, input={"x": object()}), [event()])
    asked = await ask(store, reason="a\0b", call_id="c\ud800", asked_by="p\0", input={"x": "a\0b"})
    kept = await store.read_approval(asked.id)
    assert (kept.reason, kept.call_id, kept.asked_by) == ("a\ufffdb", "c\ufffd", "p\ufffd")
    assert kept.input == {"x": "a\0b"}
    await store.resolve_approval(asked.id, resolution(decision_reason="n\0"))
    assert (await store.read_approval(asked.id)).decision_reason == "n\ufffd"


async def test_a_question_is_stored_once(store: Store) -> None:
    asked = await ask(store)
    with pytest.raises(StorageError, match="does not take this row"):
        await store.add_approval(asked, [event("approval.requested")])
    assert len(await store.list_events(ALL)) == 1


async def test_a_deleted_thread_takes_its_approvals_along_and_no_others(store: Store) -> None:
    for name in ("gone", "stays"):
        await store.create_thread(thread(name))
    gone = [await ask(store, thread_id="gone") for _ in range(2)]
    await store.resolve_approval(gone[0].id, resolution())
    stays = await ask(store, thread_id="stays")
    await store.delete_thread("gone")
    for one in gone:
        with pytest.raises(NotFoundError):
            await store.read_approval(one.id)
    assert await store.pending_approvals() == [stays]


async def test_what_was_decided_expires_and_what_waits_does_not(store: Any) -> None:
    old, new, waits = [await ask(store) for _ in range(3)]
    await store.resolve_approval(old.id, resolution(decided_at=10.0))
    await store.resolve_approval(new.id, resolution(decided_at=5000.0))
    assert await store.expire_rows(2000.0, ["approvals"]) == 1
    with pytest.raises(NotFoundError):
        await store.read_approval(old.id)
    assert (await store.read_approval(new.id)).decision == "deny"
    assert await store.pending_approvals() == [waits]
    await store.expire_rows(9000.0)
    with pytest.raises(NotFoundError):
        await store.read_approval(new.id)


async def test_only_what_the_dead_have_asked_is_recovered_and_once(place: Place) -> None:
    mine = await place.open()
    own = await ask(mine)
    dead, alive = await place.open(), await place.open()
    left = [await ask(dead), await ask(dead)]
    await dead.resolve_approval((await ask(dead)).id, resolution("allow"))
    others = await ask(alive)
    assert await mine.recover_approvals(stopped) == []
    await dead.close()
    recovered = await mine.recover_approvals(stopped)
    assert [one for one, _ in recovered] == [stopped(one).given_to(one) for one in left]
    assert [[one.type for one in told] for _, told in recovered] == [["approval.resolved"]] * 2
    assert await mine.recover_approvals(stopped) == await alive.recover_approvals(stopped) == []
    assert await mine.pending_approvals() == [own, others]


async def test_what_a_process_of_the_same_name_had_asked_before_is_recovered(place: Place) -> None:
    before = await place.open(owner="same")
    left = await ask(before)
    await before.close()
    after = await place.open(owner="same")
    own = await ask(after)
    assert [one.id for one, _ in await after.recover_approvals(stopped)] == [left.id]
    assert await after.pending_approvals() == [own]


async def test_two_processes_that_recover_at_once_decide_each_once(place: Place) -> None:
    dead = await place.open()
    asked = [await ask(dead) for _ in range(20)]
    await dead.close()
    with ExitStack() as stack:
        both = [stack.enter_context(started(processes.recover_approvals, place.address, gate=True)) for _ in range(2)]
        for one in both:
            assert await one.receive() == "ready"
        for one in both:
            one.send("go")
        decided = [found for one in both for found in await one.receive()]
    assert sorted(decided) == sorted((one.id, 1) for one in asked)
    types = [one.type for one in await (await place.open()).list_events(ALL)]
    assert (types.count("approval.requested"), types.count("approval.resolved")) == (20, 20)


async def test_recovering_runs_and_approvals_of_one_name_does_not_touch_what_is_new(place: Place) -> None:
    before = await place.open(owner="same")
    await ask(before)
    await before.close()
    after = await place.open(owner="same")
    mine = run("t", after.owner)
    await after.accept_message(message("t"), mine)
    assert await after.recover_runs(lost) == []
