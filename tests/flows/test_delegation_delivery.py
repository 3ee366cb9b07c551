"""How results, check-ins and signals of sub-agents reach the thread that delegated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.delegated import Stage, delegate, send, stage
from tests.flows.talking import bounded
from tests.unit.invoker.bench import Gate
from tests.waiting import until
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.request import RunRequest
from toolstead.types.task import Task


async def all_ended(at: Stage, count: int) -> list[Task]:
    async def have_ended() -> bool:
        return sum(not task.is_open for task in await at.list_tasks()) == count

    await until(have_ended)
    return await at.list_tasks()


@pytest.mark.promise("P5")
async def test_results_that_end_while_their_parent_runs_come_together_in_its_next_turn(tmp_path: Path) -> None:
    gate, turns = Gate(), list[str]()

    async def act(turn: Turn) -> Answer:
        if turn.caller.depth:
            return Answer(text=f"did {turn.prompt}")
        turns.append(turn.prompt)
        if turn.prompt == "root":
            batch = [{"agent_id": "helper", "prompt": "this"}, {"agent_id": "aide", "prompt": "that"}]
            await send(turn, batch=batch, mode="detached")
            return await gate(turn)
        return Answer(text="read")

    async with stage(tmp_path, act) as at:
        await at.talk.submit(RunRequest(prompt="root", thread_id="t"))
        await bounded(gate.begun.wait())
        tasks = await all_ended(at, 2)
        assert all(task.delivered_at is None for task in tasks)
        assert turns == ["root"]
        gate.let.set()
        await at.settle()
        assert len(turns) == 2
        assert all(f"did {word}" in turns[1] for word in ("this", "that"))
        assert "Tasks that you delegated have ended" in turns[1]
        assert len(await at.list_runs(thread_id="t")) == 2
        messages = await at.talk.store.list_messages("t")
        assert [one.kind for one in messages][-3:] == ["result", "result", "text"]
        for key in (
            "created_at",
            "id",
        ):  # by whatever they are sorted, the results come before the answer that used them
            stamps = [getattr(one, key) for one in messages]
            assert stamps == sorted(stamps), key


@pytest.mark.promise("K3")
async def test_a_check_in_starts_no_run_and_equal_signals_all_arrive_in_order(tmp_path: Path) -> None:
    checked, gate, heard = Gate(), Gate(), list[str]()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "root":
            await delegate(turn, "work", mode="detached")
        elif turn.prompt == "work":
            for _ in range(2):
                assert not (await turn.call_tool("delegation__checkin", {"message": "halfway"})).is_error
            await checked(turn)
            for word in ("look", "look", "look", "last"):
                assert not (await turn.call_tool("signal_parent", {"message": word})).is_error
            await gate(turn)
        else:
            heard.append(turn.prompt)
        return Answer(text="done")

    async with stage(tmp_path, act) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        await bounded(checked.begun.wait())
        notes = [one for one in await at.talk.store.list_messages("t") if one.kind == "checkin"]
        assert [one.content.rpartition("] ")[2] for one in notes] == ["halfway"] * 2
        assert len(await at.list_runs(thread_id="t")) == 1
        checked.let.set()
        await bounded(gate.begun.wait())
        await until(lambda: len(heard) == 4)
        gate.let.set()
        await at.settle()
        assert [one.rpartition("\n")[2] for one in heard[:4]] == ["look", "look", "look", "last"]
        assert len(heard) == 5  # and then the result, once
        kinds = [one.kind for one in await at.talk.store.list_messages("t") if one.role == "user"]
        assert kinds.count("signal") == 4


async def test_deleting_a_thread_cancels_its_tasks_and_removes_what_was_below(tmp_path: Path) -> None:
    gate = Gate()

    async def act(turn: Turn) -> Answer:
        match turn.prompt:
            case "root":
                await delegate(turn, "plan", mode="detached")
            case "plan":
                await delegate(turn, "count", "aide", mode="immediate")
            case "count":
                return await gate(turn)
            case _:
                pass
        return Answer(text="done")

    async with stage(tmp_path, act) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        await bounded(at.stead.invoke("other", thread_id="u"))
        await bounded(gate.begun.wait())
        assert len(await at.list_tasks()) == 2
        await bounded(at.talk.delete_thread("t"))

        async def is_gone() -> bool:
            return not await at.list_tasks() and not await at.talk.store.list_runs(unfinished=True)

        await until(is_gone)
        assert [run.thread_id for run in await at.list_runs()] == ["u"]
        assert [thread.id for thread in await at.talk.store.list_threads()] == ["u"]


SPAWNED = """\
---
name: counter
description: Counts lines.
---
Count.
"""


@pytest.mark.promise("K3")
async def test_a_job_of_three_levels(tmp_path: Path) -> None:
    done = dict[str, object]()

    async def act(turn: Turn) -> Answer:
        match turn.prompt:
            case "root":
                await turn.call_tool("vfs_write", {"path": "notes.md", "content": "line one"})
                done["plan"] = await delegate(turn, "plan")
                done["notes"] = (await turn.call_tool("vfs_read", {"path": "notes.md"})).text
                return Answer(text="all done")
            case "plan":
                done["tool"] = (await turn.call_tool("estimate", {"what": "lines"})).text
                spawned = {"markdown": SPAWNED, "prompt": "count the lines", "mode": "immediate"}
                done["spawned"] = (await turn.call_tool("spawn_agent", spawned)).text
                return Answer(text="planned")
            case "estimate lines":
                return Answer(text="about two")
            case "count the lines":
                written = await turn.call_tool("vfs_write", {"path": "notes.md", "content": "line one\nline two"})
                done["write"] = written.is_error
                done["signal"] = (await turn.call_tool("signal_parent", {"message": "two lines"})).text
                return Answer(text="2")
            case _:
                return Answer(text="heard")

    tool = '{name: estimate, description: Estimates., prompt: "estimate {{what}}", parameters: {what: {type: string}}}'
    async with stage(tmp_path, act, agents={"helper": f'tools:\n  - "*"\n  - {tool}'}) as at:
        assert (await bounded(at.stead.invoke("root", thread_id="t"))).result == "all done"
        tasks = await at.settle()
        assert {task.outcome for task in tasks} == {"completed"}
        assert sorted(task.depth for task in tasks) == [1, 2, 2]
        assert len({task.root_run_id for task in tasks}) == 1
        assert done["tool"] == "about two"
        assert '"summary":"2"' in str(done["spawned"])
        assert (done["write"], done["signal"]) == (False, "Signal sent.")
        assert "line two" in str(done["notes"])
        [plan] = [task for task in tasks if task.depth == 1]
        signals = [one.content for one in await at.talk.store.list_messages(plan.thread_id) if one.kind == "signal"]
        assert len(signals) == 1
        assert signals[0].endswith("two lines")
