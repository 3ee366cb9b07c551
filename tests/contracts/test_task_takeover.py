"""A task changes hands: what its former owner left, and what comes too late from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.contracts.conftest import Place
from tests.contracts.samples import ending, event, lost, message, new_id, run, thread
from toolstead.adapters.storage.task_operations import cancel_task
from toolstead.delegation.budget import Grant, TokenWish, TreeShare
from toolstead.delegation.task_store import AdmissionRequest, Admitted, TaskClaim, TaskEnd, TasksEnded
from toolstead.errors import InvocationError, StaleClaimError
from toolstead.orchestrator.log_store import EventFilter
from toolstead.orchestrator.store import Begun, Store
from toolstead.types.run import Run, RunEnd, TreeLimits
from toolstead.types.task import Attempt, Task, TreeBudget


async def admitted(store: Store, **fields: Any) -> Task:
    """A task that a store has admitted, and holds."""
    own = new_id("task")
    values = {
        "id": own,
        "agent": "helper",
        "prompt": "work",
        "thread_id": new_id("thread"),
        "parent_thread_id": "t",
        "root_run_id": "root",
        "project": "p",
        "duplicate_key": own,
        "created_at": 1000.0,
        "timeout": 60.0,
        "parent_run_id": "root",
        "max_attempts": 3,
    }
    request = AdmissionRequest(
        tasks=[Task(**(values | fields))],
        limits=TreeLimits(),
        cap=5,
        tree=TreeBudget(root_run_id="root", token_budget=1000, cost_budget=1.0),
    )
    [found] = await store.admit_tasks(request)
    assert isinstance(found, Admitted)
    return found.task


def claim_of(task: Task) -> TaskClaim:
    return TaskClaim(task_id=task.id, epoch=task.epoch)


async def run_of(store: Store, task: Task, key: str = "1", **fields: Any) -> Run:
    """A run that works on a task, and has begun."""
    own = run(task.thread_id, store.owner, task_id=task.id, root_run_id="root", **fields)
    accepted = await store.accept_run(
        own, thread=thread(task.thread_id), key=key, message=message(task.thread_id), claim=claim_of(task)
    )
    assert accepted.fresh
    await store.begin_run(own, 1.0)
    return own


async def statuses(store: Store, thread_id: str) -> list[str]:
    return [one.status for one in reversed(await store.list_runs(thread_id=thread_id))]


def cancel_at_once(store: Any, task: Task) -> Awaitable[TasksEnded]:
    """Cancel a task in the commit that is being gathered."""
    return store.writer.write(cancel_task(task.id, "not wanted", 2.0, 5))


async def end(store: Store, task: Task, **fields: Any) -> None:
    """End a task with a result."""
    values = {"outcome": "completed", "ended_at": 2.0, "cap": 5, "result": "done"} | fields
    await store.end_task(claim_of(task), TaskEnd(**values), claims_started=True)


class TestClaiming:
    async def test_the_runs_that_the_former_owner_left_end_with_it(self, place: Place) -> None:
        former, other, successor = await place.open(), await place.open(), await place.open()
        task = await admitted(former)
        await run_of(former, task)
        answering = run(task.thread_id, former.owner)
        await former.accept_message(message(task.thread_id), answering)
        others = run(task.thread_id, other.owner)
        await other.accept_message(message(task.thread_id), others)
        taken = await successor.claim_task(task.id, task.epoch, 5.0)
        assert taken is not None
        assert (taken.owner, taken.epoch) == (successor.owner, task.epoch + 1)
        assert await statuses(successor, task.thread_id) == ["lost", "lost", "queued"]

    async def test_a_run_that_recovery_ends_in_the_same_commit_has_one_end(self, place: Place) -> None:
        former, successor = await place.open(), await place.open()
        task = await admitted(former)
        left = await run_of(former, task)
        await asyncio.gather(successor.end_run(left.id, lost(left)), successor.claim_task(task.id, task.epoch, 5.0))
        told = await successor.list_events(EventFilter(run_id=left.id))
        assert [one.type for one in told] == ["error"]

    async def test_only_one_of_two_that_saw_the_same_epoch_gets_it(self, place: Place) -> None:
        former, first, second = await place.open(), await place.open(), await place.open()
        task = await admitted(former)
        assert await first.claim_task(task.id, task.epoch, 5.0) is not None
        assert await second.claim_task(task.id, task.epoch, 5.0) is None


class TestEndedRuns:
    """A process that was taken for dead goes on with a run that has ended meanwhile."""

    async def test_one_reserves_nothing_more_of_its_tree(self, place: Place) -> None:
        former, successor = await place.open(), await place.open()
        task = await admitted(former)
        left = await run_of(former, task)
        share, wish = TreeShare(run_id=left.id, root_run_id="root"), TokenWish(least=1, most=100)
        assert isinstance(await former.reserve_share(share, wish), Grant)
        await successor.claim_task(task.id, task.epoch, 5.0)
        with pytest.raises(InvocationError, match="has ended"):
            await former.reserve_share(share, wish)
        tree = await successor.read_tree("root")
        assert tree is not None
        assert (tree.reserved_tokens, tree.in_flight) == (0, 0)

    async def test_one_delegates_nothing_more(self, place: Place) -> None:
        former, successor = await place.open(), await place.open()
        parent = run("t", former.owner, id="root")
        await former.accept_message(message("t"), parent)
        await successor.end_run(parent.id, lost(parent))
        with pytest.raises(InvocationError, match="has ended"):
            await admitted(former)
        again = await admitted(former, retry_of="another")
        assert again.is_open


class TestDelivering:
    async def test_a_result_whose_turn_is_lost_wakes_again_though_another_run_was_woken_for_it(
        self, place: Place
    ) -> None:
        store, successor = await place.open(), await place.open()
        task = await admitted(store)
        await end(store, task)
        woken, asked = run("t", store.owner), run("t", store.owner)
        await store.accept_message(message("t"), asked)
        assert (await store.accept_run(woken, thread=thread("t"), key="w")).fresh
        begun = await store.begin_run(asked, 1.0)
        assert isinstance(begun, Begun)
        assert [one.id for one in begun.results] == [task.id]
        await store.end_run(woken.id, ending("cancelled"))
        assert await successor.list_wakes("p") == []
        await successor.end_run(asked.id, lost(asked))
        assert [one.id for one in await successor.list_wakes("p")] == [task.id]

    @pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
    async def test_what_a_run_waited_for_ends_with_it_and_waits_for_nobody(self, store: Store, status: RunEnd) -> None:
        parent = run("t", store.owner, id="root")
        await store.accept_message(message("t"), parent)
        child = await admitted(store, mode="immediate")
        await store.end_run(parent.id, ending(status, has_tasks=True))
        ended = await store.read_task(child.id)
        assert (ended.outcome, ended.taken_by) == ("cancelled", parent.id)
        assert ended.delivered_at is not None

    async def test_nobody_is_woken_for_what_an_ended_task_had_delegated(self, store: Store) -> None:
        parent = await admitted(store)
        child = await admitted(store, prompt="count", parent_task_id=parent.id, parent_thread_id=parent.thread_id)
        await store.cancel_task(parent.id, "not wanted", now=2.0, cap=5)
        assert (await store.read_task(child.id)).outcome == "cancelled"
        assert [one.id for one in await store.list_wakes("p")] == [parent.id]


class TestRepeating:
    """The answer of a commit can be lost on the way, so that whoever wrote it writes it again."""

    async def test_an_attempt_that_is_stored_is_not_stored_again(self, store: Store) -> None:
        task = await admitted(store)
        rejected = Attempt(
            task_id=task.id,
            number=1,
            run_id="r",
            accepted=False,
            feedback="no",
            defect="",
            answer_digest="",
            ended_at=2.0,
        )
        once = await store.record_attempt(claim_of(task), rejected, "no")
        assert await store.record_attempt(claim_of(task), rejected, "no") == once
        assert (once.attempt, once.feedback) == (2, "no")
        assert len(await store.list_attempts(task.id)) == 1

    async def test_a_run_that_is_stored_is_found_by_its_key(self, store: Store) -> None:
        task = await admitted(store)
        own = await run_of(store, task)
        another = run(task.thread_id, store.owner, task_id=task.id)
        found = await store.accept_run(another, thread=thread(task.thread_id), key="1", claim=claim_of(task))
        assert (found.run_id, found.fresh) == (own.id, False)

    async def test_whoever_lost_its_claim_does_not_find_the_run_of_its_successor(self, place: Place) -> None:
        former, successor = await place.open(), await place.open()
        task = await admitted(former)
        taken = await successor.claim_task(task.id, task.epoch, 5.0)
        assert taken is not None
        await run_of(successor, taken)
        late = run(task.thread_id, former.owner, task_id=task.id)
        with pytest.raises(StaleClaimError):
            await former.accept_run(late, thread=thread(task.thread_id), key="1", claim=claim_of(task))


class TestAbandoning:
    async def test_a_task_ends_with_the_call_that_waits_for_it(self, store: Store) -> None:
        task = await admitted(store, mode="immediate")
        ended = await store.abandon_task(task.id, "root", "left", 2.0, 5)
        assert [one.id for one in ended.tasks] == [task.id]
        assert (await store.read_task(task.id)).outcome == "cancelled"

    async def test_one_goes_on_whose_waiting_run_was_lost(self, place: Place) -> None:
        former, successor = await place.open(), await place.open()
        parent = run("t", former.owner, id="root")
        await former.accept_message(message("t"), parent)
        task = await admitted(former, mode="immediate")
        await successor.end_run(parent.id, lost(parent))
        assert (await former.abandon_task(task.id, "root", "left", 2.0, 5)).tasks == ()
        assert (await successor.read_task(task.id)).is_open

    async def test_one_goes_on_that_another_run_waits_for_now(self, store: Store) -> None:
        task = await admitted(store, mode="immediate")
        await admitted(store, mode="immediate", duplicate_key=task.duplicate_key, parent_run_id="again")
        assert (await store.abandon_task(task.id, "root", "left", 2.0, 5)).tasks == ()
        assert (await store.read_task(task.id)).is_open


class TestCancelling:
    async def test_a_run_that_was_accepted_a_moment_ago_is_cancelled_too(self, store: Store) -> None:
        task = await admitted(store)
        own = run(task.thread_id, store.owner, task_id=task.id, root_run_id="root")
        accepting = store.accept_run(
            own, thread=thread(task.thread_id), key="1", message=message(task.thread_id), claim=claim_of(task)
        )
        _, ended = await asyncio.gather(accepting, cancel_at_once(store, task))
        assert ended.runs == [own.id]
        assert [command.run_id for command in await store.list_commands()] == [own.id]

    async def test_a_run_that_ends_with_the_same_commit_is_asked_for_nothing(self, store: Store) -> None:
        task = await admitted(store)
        own = await run_of(store, task)
        told = event("completed", thread_id=task.thread_id, run_id=own.id)
        await asyncio.gather(
            store.end_run(own.id, ending(events=[told])),
            cancel_at_once(store, task),
        )
        assert await store.list_commands() == []
