"""The database fails in the middle of delegated work: the work waits for it, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flows.talking import bounded
from tests.flows.test_task_interruptions import delegate, stead_with, tasks_of
from tests.unit.invoker.bench import Gate
from tests.waiting import until
from toolstead.delegation import attempts
from toolstead.delegation.order import Order
from toolstead.errors import RuntimeFailureError, StorageError
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.orchestrator.request import RunRequest
from toolstead.plugins.contract import Hooks, Plugin, PluginContext
from toolstead.types.call import Caller


class Failing:
    """A method of the store that fails so many times; one that `is_kept` does its work before."""

    def __init__(self, talk: Orchestrator, name: str, times: int = 1, *, is_kept: bool = False, **wanted: Any) -> None:
        self.left, self._is_kept, self._wanted = times, is_kept, wanted
        store: Any = talk.store
        self._method = getattr(store, name)
        setattr(store, name, self)

    async def __call__(self, *given: Any, **named: Any) -> Any:
        if self.left and all(getattr(given[0], field) == value for field, value in self._wanted.items()):
            self.left -= 1
            if self._is_kept:
                await self._method(*given, **named)
            raise StorageError("the database is away")
        return await self._method(*given, **named)


async def finish(talk: Orchestrator, prompt: str = "ask") -> str | None:
    """Ask, and wait until everything that was delegated is delivered; the answer."""
    accepted = await talk.submit(RunRequest(prompt=prompt, thread_id="t"))
    run = await bounded(talk.wait(accepted.run_id))

    async def is_delivered() -> bool:
        found = await tasks_of(talk)
        return bool(found) and all(task.delivered_at is not None for task in found)

    await until(is_delivered)
    return run.result


async def count_immediately(turn: Turn) -> Answer:
    if turn.prompt == "ask":
        return Answer(text=await delegate(turn, "count"))
    return Answer(text="7")


async def test_a_run_of_a_task_that_could_not_begin_is_begun_again(tmp_path: Path) -> None:
    async with stead_with(tmp_path, count_immediately) as (_, talk):
        Failing(talk, "begin_run", 2, agent="helper")
        assert "7" in (await finish(talk) or "")
        [task] = await tasks_of(talk)
        assert (task.outcome, task.summary) == ("completed", "7")
        runs = await talk.store.list_runs(thread_id=task.thread_id)
        assert [run.status for run in reversed(runs)] == ["stopped", "stopped", "completed"]
        assert [one.role for one in await talk.store.list_messages(task.thread_id)] == ["user", "assistant"]


async def test_a_task_that_the_database_fails_again_and_again_ends(tmp_path: Path) -> None:
    async with stead_with(tmp_path, count_immediately) as (_, talk):
        Failing(talk, "begin_run", 1_000, agent="helper")
        await finish(talk)
        [task] = await tasks_of(talk)
        assert task.outcome == "lost"
        assert task.error is not None
        assert "the database failed in it" in task.error.message
        assert len(await talk.store.list_runs(thread_id=task.thread_id)) == attempts.MOST_TRIES


async def test_a_thread_is_woken_again_whose_turn_could_not_begin(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Answer:
        return Answer(text=await delegate(turn, "count", "detached") if turn.prompt == "ask" else "7")

    async with stead_with(tmp_path, act) as (_, talk):
        failing = Failing(talk, "begin_run", prompt="", agent="main")
        await finish(talk)
        assert not failing.left
        told = [one for one in await talk.store.list_messages("t") if one.kind == "result"]
        assert len(told) == 1


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_delegation_waits_for_the_database_and_starts_one_task(tmp_path: Path, is_kept: bool) -> None:
    async with stead_with(tmp_path, count_immediately) as (_, talk):
        Failing(talk, "admit_tasks", is_kept=is_kept)
        assert "7" in (await finish(talk) or "")
        assert [task.outcome for task in await tasks_of(talk)] == ["completed"]


async def test_a_call_that_waits_for_a_task_waits_for_the_database_too(tmp_path: Path) -> None:
    gate = Gate()

    async def act(turn: Turn) -> Answer:
        return await count_immediately(turn) if turn.prompt == "ask" else await gate(turn)

    async with stead_with(tmp_path, act) as (_, talk):
        asked = asyncio.create_task(finish(talk))
        await bounded(gate.begun.wait())
        failing = Failing(talk, "read_task", 2)
        await until(lambda: not failing.left)
        gate.let.set()
        assert "let" in (await bounded(asked) or "")


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_check_in_waits_for_the_database_and_is_stored_once(tmp_path: Path, is_kept: bool) -> None:
    async def act(turn: Turn) -> Answer:
        if turn.prompt == "ask":
            return await count_immediately(turn)
        result = await turn.call_tool("delegation__checkin", {"message": "half done"})
        return Answer(text=result.text)

    async with stead_with(tmp_path, act) as (_, talk):
        Failing(talk, "add_message", is_kept=is_kept)
        assert "Check-in sent." in (await finish(talk) or "")
        told = [one for one in await talk.store.list_messages("t") if one.kind == "checkin"]
        assert len(told) == 1


async def test_a_reservation_waits_for_the_database(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Answer:
        if turn.prompt == "ask":
            return await count_immediately(turn)
        assert turn.budget is not None
        granted = await turn.budget.reserve(least=1, most=100, base_cost=0.0, token_cost=0.0)
        turn.budget.release()
        return Answer(text=f"granted {granted}")

    async with stead_with(tmp_path, act) as (_, talk):
        Failing(talk, "reserve_share")
        assert "granted 100" in (await finish(talk) or "")


def plugin_with(**hooks: Callable[..., Any]) -> Plugin:
    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(**hooks)

    return Plugin(name="watcher", register=register)


async def test_a_task_is_worked_on_however_often_the_call_that_starts_it_is_cancelled(tmp_path: Path) -> None:
    told, never = asyncio.Event(), asyncio.Event()

    async def hold(thread_id: str, task_id: str) -> None:
        told.set()
        await never.wait()

    plugin = plugin_with(on_task_create=hold)
    async with stead_with(tmp_path, count_immediately, plugins=[plugin]) as (stead, talk):
        delegation = (await stead.delegation()).delegation
        order = Order(agent="helper", prompt="count")
        starting = asyncio.create_task(delegation.delegate([order], Caller(thread_id="t"), mode="detached"))
        await bounded(told.wait())
        for _ in range(2):
            starting.cancel()
            await asyncio.sleep(0)
        await asyncio.wait((starting,))
        [task] = await tasks_of(talk)
        assert (await bounded(delegation.wait_for_task(task.id))).outcome == "completed"


async def test_a_slow_hook_that_is_told_of_a_failure_is_not_cut_off_by_the_look_for_lost_work(tmp_path: Path) -> None:
    told, let, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def note(thread_id: str, task_id: str, error: str) -> None:
        told.set()
        await let.wait()
        done.set()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "count":
            raise RuntimeFailureError("it broke")
        return await count_immediately(turn)

    async with stead_with(tmp_path, act, plugins=[plugin_with(on_task_failed=note)]) as (stead, talk):
        asked = asyncio.create_task(finish(talk))
        await bounded(told.wait())
        delegation: Any = (await stead.delegation()).delegation
        await delegation._sweep.stop_lost_work()
        await asyncio.sleep(0)
        let.set()
        await bounded(done.wait())
        await bounded(asked)
