"""Agents that run away: each is stopped at exactly its limit, and told why."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.flows.delegated import delegate, send, stage
from tests.flows.talking import bounded
from tests.unit.invoker.bench import Gate
from tests.waiting import until
from toolstead.invoker.runtime import Answer, Turn
from toolstead.types.run import Usage

WANTED = 10_000
MANY_SLOTS = {"max_concurrent_delegates": 1_000}


@pytest.mark.parametrize(
    ("limits", "started", "reason"),
    [
        ({"max_fanout": 7, "max_descendants": 64}, 7, "limits.max_fanout"),
        ({"max_fanout": 500, "max_descendants": 23}, 23, "limits.max_descendants"),
    ],
    ids=["fanout", "descendants"],
)
@pytest.mark.parametrize("mode", ["immediate", "detached"])
async def test_a_model_that_wants_ten_thousand_children_gets_as_many_as_it_may(
    tmp_path: Path, limits: dict[str, int], started: int, reason: str, mode: str
) -> None:
    refused, runs = Counter[str](), list[str]()

    async def act(turn: Turn) -> Answer:
        if turn.prompt != "root":
            return Answer(text="done")
        for first in range(0, WANTED, 1_000):  # the largest batches, and of each thousand one alone
            alone = await delegate(turn, f"alone {first}", mode=mode)
            batch = [{"agent_id": "aide", "prompt": f"part {first + n}"} for n in range(64)]
            for entry in (*alone["runs"], *(await send(turn, batch=batch, mode=mode))["runs"]):
                if entry["status"] == "refused":
                    refused[entry["error"]["code"]] += 1
                    assert reason in entry["error"]["message"]
                else:
                    runs.append(entry["run_id"])
        return Answer(text="tried")

    async with stage(tmp_path, act, settings={"limits": limits, "multi_agent": MANY_SLOTS}) as at:
        assert (await bounded(at.stead.invoke("root", thread_id="t"))).result == "tried"
        assert len(await at.settle()) == len(runs) == started
        assert refused == {"LimitReached": 10 * 65 - started}


async def test_an_agent_that_delegates_to_itself_ends_at_its_depth(tmp_path: Path) -> None:
    depths, refused = list[int](), list[str]()

    async def act(turn: Turn) -> Answer:
        if turn.prompt.startswith("Work that you"):
            return Answer(text="read")
        depths.append(turn.caller.depth)
        result = await turn.call_tool("delegation__delegate", {"prompt": f"part {len(depths)} of the work"})
        if result.is_error:
            refused.append(result.text)
        return Answer(text="delegated")

    async with stage(tmp_path, act, settings={"limits": {"max_depth": 3}}) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        tasks = await at.settle()
        assert [task.depth for task in tasks] == [1, 2, 3]
        assert depths == [0, 1, 2, 3]
        [why] = refused
        assert "delegation__delegate" in why  # the deepest one is not shown the tool, and the call is refused


LONG = "Find every place where the parser drops a comment, and write down the file and the line of each of them"


@pytest.mark.parametrize("again", [LONG, LONG.upper() + "  ", LONG + ", please."], ids=["same", "case", "reworded"])
async def test_a_task_that_two_agents_pass_back_and_forth_is_refused(tmp_path: Path, again: str) -> None:
    told = list[dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        match turn.caller.depth:
            case 0:
                return Answer(text=str(await delegate(turn, LONG, "helper")))
            case 1:
                told.append(await delegate(turn, LONG, "aide"))  # its own task, unchanged
                await delegate(turn, "Somebody should look for comments that the parser drops", "aide")
            case _:
                told.append(await delegate(turn, again, "helper"))
        return Answer(text="did it myself")

    async with stage(tmp_path, act) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        assert [task.agent for task in await at.settle()] == ["helper", "aide"]
        assert [one["error"]["code"] for one in told] == ["InvalidRequest"] * 2
        assert "this is the task that you were given, unchanged" in told[0]["error"]["message"]
        assert "helper was given this task already, further up" in told[1]["error"]["message"]


async def test_a_root_that_delegates_whenever_it_is_woken_ends_at_its_descendants(tmp_path: Path) -> None:
    refused = list[str]()

    async def act(turn: Turn) -> Answer:
        if turn.caller.depth:
            return Answer(text="done")
        found = await delegate(turn, f"again, after {turn.prompt[:60]}", mode="detached")
        if found["status"] == "error":
            refused.append(found["error"]["message"])
        return Answer(text="more")

    async with stage(tmp_path, act, settings={"limits": {"max_descendants": 9}}) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))

        async def is_refused() -> bool:
            return bool(refused)

        await until(is_refused)
        assert len(await at.settle()) == 9
        assert len(refused) == 1
        assert "a tree may have 9 runs below its root, and has 9" in refused[0]
        woken = await at.list_runs(thread_id="t")
        assert len(woken) == 10
        assert {run.status for run in woken} == {"completed"}


async def never(turn: Turn) -> Answer:
    turn.tell("message.delta", {"text": "begun"})
    await asyncio.Event().wait()
    raise AssertionError


async def stream(turn: Turn) -> Answer:
    while True:
        turn.tell("message.delta", {"text": "on and on "})
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("runaway", "settings", "agent", "code"),
    [
        (never, {}, "limits: {run_timeout: 2}", "timeout"),
        (stream, {}, "limits: {run_timeout: 2}", "timeout"),
        (never, {"delegation": {"stall_timeout": 2}}, "", "stalled"),
    ],
    ids=["never ends", "streams for ever", "says nothing"],
)
@pytest.mark.parametrize("mode", ["immediate", "detached"])
async def test_work_that_does_not_end_is_ended(
    tmp_path: Path, runaway: Any, settings: dict[str, Any], agent: str, *, code: str, mode: str
) -> None:
    async def act(turn: Turn) -> Answer:
        if turn.caller.depth:
            return await runaway(turn)
        if turn.prompt == "root":
            await delegate(turn, "work", mode=mode)
        return Answer(text="went on")

    async with stage(tmp_path, act, settings=settings, agents={"helper": agent}) as at:
        assert (await bounded(at.stead.invoke("root", thread_id="t"))).result == "went on"
        [task] = await at.settle()
        assert task.error is not None
        assert (task.outcome, task.error.code) == ("timeout", code)
        # What it said until then is kept, and its end is that of its run.
        assert (task.summary or "").startswith("begun" if runaway is never else "on and on")
        [run] = await at.list_runs(thread_id=task.thread_id)
        assert run.has_ended


async def test_work_that_ignores_its_cancellation_is_cancelled_all_the_same(tmp_path: Path) -> None:
    gate, is_deaf = Gate(), asyncio.Event()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "root":
            await delegate(turn, "deaf", mode="detached")
            return Answer(text="delegated")
        if turn.prompt == "second":
            return Answer(text=str((await delegate(turn, "other work"))["runs"][0]["status"]))
        if turn.prompt != "deaf":
            return Answer(text="done")
        gate.begun.set()
        while not gate.let.is_set():
            try:
                await gate.let.wait()
            except asyncio.CancelledError:
                is_deaf.set()
        return Answer(text="never mind")

    one = {"multi_agent": {"max_concurrent_delegates": 1}}
    async with stage(tmp_path, act, settings=one) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        await bounded(gate.begun.wait())
        [task] = await at.list_tasks()
        assert (await at.cancel(task.id)).outcome == "cancelled"
        assert is_deaf.is_set()
        # Its slot is free, and the thread that delegated it is told, while it goes on.
        assert (await bounded(at.stead.invoke("second", thread_id="u"))).result == "completed"

        async def is_told() -> bool:
            return (await at.talk.store.read_task(task.id)).delivered_at is not None

        await until(is_told)
        gate.let.set()
        assert [one.outcome for one in await at.settle()] == ["cancelled", "completed"]


async def test_what_a_cancelled_task_had_used_is_counted(tmp_path: Path) -> None:
    gate = Gate()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "root":
            await delegate(turn, "costly", mode="detached")
            return Answer(text="delegated")
        if turn.prompt == "costly":
            turn.tell("usage", {"inputTokens": 70, "outputTokens": 30, "cost": 0.25})
            return await gate(turn)
        return Answer(text="told")

    async with stage(tmp_path, act) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        await bounded(gate.begun.wait())
        [task] = await at.list_tasks()
        cancelled = await at.cancel(task.id)
        assert (cancelled.outcome, cancelled.usage) == (
            "cancelled",
            Usage(input_tokens=70, output_tokens=30, cost=0.25),
        )
