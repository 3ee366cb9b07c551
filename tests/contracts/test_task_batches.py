"""Operations on tasks that share one commit: each sees what those before it did."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contracts.samples import message, new_id, run, thread
from tests.contracts.test_task_takeover import claim_of
from toolstead.delegation.budget import TokenWish
from toolstead.delegation.task_store import AdmissionRequest, Admitted, TaskClaim, TaskEnd, TaskFilter, TasksEnded
from toolstead.errors import LimitError, StaleClaimError
from toolstead.orchestrator.store import Accepted, Store
from toolstead.types.run import NOTHING_USED, TreeLimits
from toolstead.types.task import Task, TreeBudget

LIMITS = TreeLimits(max_fanout=1000, max_descendants=1000)


async def admit_many(store: Store, count: int, cap: int, budget: int = 1000) -> list[Task]:
    """Tasks of one agent, of which `cap` have a slot and the others are queued."""
    names = [new_id("task") for _ in range(count)]
    made = [
        Task(
            id=name,
            agent="helper",
            prompt=f"work {name}",
            thread_id=new_id("thread"),
            parent_thread_id="t",
            parent_run_id="root",
            root_run_id="root",
            project="p",
            duplicate_key=name,
            created_at=1000.0,
            timeout=60.0,
        )
        for name in names
    ]
    tree = TreeBudget(root_run_id="root", token_budget=budget, cost_budget=1.0)
    request = AdmissionRequest(tasks=made, limits=LIMITS, cap=cap, tree=tree, may_queue=True)
    found = await store.admit_tasks(request)
    return [one.task for one in found if isinstance(one, Admitted)]


def end_of(cap: int, **fields: Any) -> TaskEnd:
    values = {"outcome": "completed", "ended_at": 2.0, "cap": cap, "usage": NOTHING_USED, "may_have_children": False}
    return TaskEnd(**(values | fields))


def end_at_once(store: Store, task: Task, end: TaskEnd) -> Any:
    return store.end_task(claim_of(task), end, claims_started=True)


async def gather(*work: Any) -> list[Any]:
    """Submit all before the writer begins, so that they share a commit."""
    return await asyncio.gather(*work, return_exceptions=True)


class TestSlots:
    async def test_ends_of_one_commit_start_each_queued_task_once_in_order(self, store: Store) -> None:
        tasks = await admit_many(store, 9, cap=3)
        ended: list[TasksEnded] = await gather(*(end_at_once(store, task, end_of(3)) for task in tasks[:3]))
        assert [started.id for one in ended for started in one.started] == [task.id for task in tasks[3:6]]
        stored = await store.list_tasks(TaskFilter(is_open=True))
        assert sorted(one.id for one in stored if not one.waits_for_slot) == sorted(task.id for task in tasks[3:6])
        assert {(one.epoch, one.owner) for one in stored if not one.waits_for_slot} == {(1, store.owner)}

    async def test_a_lower_cap_starts_nothing_until_enough_have_ended(self, store: Store) -> None:
        tasks = await admit_many(store, 6, cap=3)
        ended: list[TasksEnded] = await gather(*(end_at_once(store, task, end_of(1)) for task in tasks[:3]))
        assert [[started.id for started in one.started] for one in ended] == [[], [], [tasks[3].id]]

    async def test_a_task_that_is_admitted_between_two_ends_is_counted(self, store: Store) -> None:
        tasks = await admit_many(store, 2, cap=2)
        await gather(
            end_at_once(store, tasks[0], end_of(2)),
            admit_many(store, 2, cap=2),
            end_at_once(store, tasks[1], end_of(2)),
        )
        stored = await store.list_tasks(TaskFilter(is_open=True))
        assert [one.waits_for_slot for one in stored] == [False, False]


class TestClaims:
    async def test_the_second_end_of_a_claim_in_one_commit_is_refused(self, store: Store) -> None:
        [task] = await admit_many(store, 1, cap=1)
        first, second = await gather(
            end_at_once(store, task, end_of(1, result="one")), end_at_once(store, task, end_of(1, result="two"))
        )
        assert isinstance(first, TasksEnded)
        assert isinstance(second, StaleClaimError)
        assert (await store.read_task(task.id)).summary == "one"

    async def test_a_run_is_refused_after_the_end_or_the_return_in_the_same_commit(self, store: Store) -> None:
        tasks = await admit_many(store, 2, cap=2)
        outcomes = await gather(
            end_at_once(store, tasks[0], end_of(2)),
            store.return_task(claim_of(tasks[1])),
            *(accept(store, task, None) for task in tasks),
        )
        assert [type(one) for one in outcomes[2:]] == [StaleClaimError, StaleClaimError]

    async def test_an_older_epoch_changes_nothing(self, store: Store) -> None:
        [task] = await admit_many(store, 1, cap=1)
        old = TaskClaim(task_id=task.id, epoch=task.epoch - 1)
        [refused] = await gather(store.end_task(old, end_of(1), claims_started=True))
        assert isinstance(refused, StaleClaimError)
        assert (await store.read_task(task.id)).is_open


def accept(store: Store, task: Task, wish: TokenWish | None) -> Any:
    own = run(task.thread_id, store.owner, task_id=task.id, root_run_id="root")
    return store.accept_run(
        own,
        thread=thread(task.thread_id),
        key="1",
        message=message(task.thread_id),
        claim=claim_of(task),
        wish=wish,
    )


class TestBudgets:
    async def test_runs_that_are_accepted_together_share_one_budget_exactly(self, store: Store) -> None:
        tasks = await admit_many(store, 5, cap=5, budget=100)
        wish = TokenWish(least=30, most=30, is_request=False)
        outcomes = await gather(*(accept(store, task, wish) for task in tasks))
        assert [type(one) for one in outcomes] == [Accepted, Accepted, Accepted, LimitError, LimitError]
        tree = await store.read_tree("root")
        assert tree is not None
        assert (tree.reserved_tokens, tree.left_tokens) == (90, 10)

    async def test_a_result_longer_than_its_summary_is_kept_whole(self, store: Store) -> None:
        [task] = await admit_many(store, 1, cap=1)
        await end_at_once(store, task, end_of(1, result="x" * 10_000))
        assert await store.read_task_result(task.id) == "x" * 10_000
        assert (await store.read_task(task.id)).result_size == 10_000
