"""Slots and queues: whoever finds no slot is told who holds them, or waits in order, and never for ever."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.flows.delegated import delegate, send, stage
from tests.flows.talking import bounded
from tests.unit.invoker.bench import Gate
from tests.waiting import until
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.log_store import EventFilter

ONE_SLOT = {"multi_agent": {"max_concurrent_delegates": 1}}


@pytest.mark.promise("T7")
async def test_a_batch_answers_for_every_item_whatever_became_of_its_siblings(tmp_path: Path) -> None:
    answers = list[dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "root":
            names = ["a", "b", "fail c", "d", "slow", "f", "fail g"]
            batch = [{"agent_id": "slow" if name == "slow" else "helper", "prompt": name} for name in names]
            answers.append(await send(turn, batch=[*batch[:4], {"agent_id": "helper", "prompt": "h"}, *batch[4:]]))
        elif turn.prompt == "slow":
            await Gate()(turn)
        elif turn.prompt.startswith("fail"):
            raise RuntimeError(f"cannot {turn.prompt}")
        return Answer(text=f"did {turn.prompt}")

    settings = {"multi_agent": {"max_concurrent_delegates": 6}}
    async with stage(tmp_path, act, settings=settings, agents={"slow": "limits: {run_timeout: 0.5}"}) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        [answer] = answers
        assert answer["status"] == "ok"
        runs = answer["runs"]
        expected = ["completed", "completed", "failed", "completed", "completed", "timeout", "completed", "refused"]
        assert [run["status"] for run in runs] == expected
        assert [run.get("summary") for run in runs if run["status"] == "completed"] == [
            "did a",
            "did b",
            "did d",
            "did h",
            "did f",
        ]
        assert [run["agent_id"] for run in runs] == ["helper"] * 5 + ["slow"] + ["helper"] * 2
        assert runs[7]["error"]["code"] == "DelegateInProgress"
        assert [one["run_id"] for one in runs[7]["error"]["holders"]] == [runs[n]["run_id"] for n in (0, 1, 2, 3, 4, 6)]
        assert "cannot fail c" not in str([run for run in runs if run["status"] == "completed"])
        assert len(await at.settle()) == 7


@pytest.mark.promise("T5")
async def test_a_call_that_starts_nothing_is_an_error_that_says_what_would_be_right(tmp_path: Path) -> None:
    gate, found = Gate(), dict[str, dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "root":
            found["first"] = await delegate(turn, "hold", mode="detached")
            await bounded(gate.begun.wait())
            held = found["first"]["runs"][0]
            found["full"] = await send(turn, batch=[{"agent_id": "helper", "prompt": f"p{n}"} for n in (1, 2)])
            found["unknown"] = await delegate(turn, "x", "nobody")
            found["outside"] = await delegate(turn, "x", "aide", context={"working_directory": "../elsewhere"})
            found["busy"] = await delegate(turn, "and this", conversation_id=held["conversation_id"])
            return Answer(text="asked")
        return await gate(turn)

    async with stage(tmp_path, act, settings=ONE_SLOT) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        gate.let.set()
        [task] = await at.settle()
        full = found["full"]
        assert {run["status"] for run in full["runs"]} == {"refused"}
        [holder] = full["error"]["holders"]
        assert holder == {"run_id": task.id, "deadline": task.deadline}
        assert re.search(r"the first ends in \d+ s at the latest", full["error"]["message"])
        assert found["unknown"]["error"]["code"] == "AgentNotFound"
        assert all(name in found["unknown"]["error"]["message"] for name in ("nobody", "aide", "helper"))
        assert found["outside"]["error"]["code"] == "InvalidRequest"
        codes = [found[name]["error"]["code"] for name in ("full", "busy")]
        assert codes == ["DelegateInProgress"] * 2
        assert [one["run_id"] for one in found["busy"]["error"]["holders"]] == [task.id]


@pytest.mark.promise("T5")
async def test_folder_hints_and_conversation_reach_the_child(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    prompts, found = list[str](), list[dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        if turn.caller.depth:
            prompts.append(turn.prompt)
            return Answer(text=str(turn.caller.cwd))
        context = {"working_directory": "sub", "hints": ["look at x.py"], "issue": 7}
        found.append(await delegate(turn, "work", context=context))
        again = found[0]["runs"][0]["conversation_id"]
        found.append(await delegate(turn, "more of it", conversation_id=again))
        return Answer(text="done")

    async with stage(tmp_path, act) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        first, second = (one["runs"][0] for one in found)
        assert first["status"] == second["status"] == "completed"
        assert first["conversation_id"] == second["conversation_id"]
        assert first["run_id"] != second["run_id"]
        assert prompts == ['work\n\nHints:\n- look at x.py\n\nContext:\n{"issue":7}', "more of it"]
        assert at.runtime.sessions[1].spec.cwd == tmp_path / "sub"
        told = [
            one.content for one in await at.talk.store.list_messages(first["conversation_id"]) if one.role == "user"
        ]
        assert told == prompts


@pytest.mark.promise("T5")
async def test_of_two_calls_at_once_one_goes_on_with_a_conversation(tmp_path: Path) -> None:
    found = list[dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        if turn.caller.depth:
            return Answer(text="did it")
        [first] = (await delegate(turn, "work"))["runs"]
        again = [delegate(turn, f"more {n}", conversation_id=first["conversation_id"]) for n in (1, 2)]
        found.extend(await asyncio.gather(*again))
        return Answer(text="done")

    async with stage(tmp_path, act) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        tasks = await at.settle()
        [refused] = [one for one in found if one["status"] == "error"]
        [held] = [one["runs"][0]["run_id"] for one in found if one["status"] == "ok"]
        assert refused["error"]["code"] == "DelegateInProgress"
        assert f"task {held} works in this conversation" in refused["error"]["message"]
        assert [one["run_id"] for one in refused["error"]["holders"]] == [held]
        assert len(tasks) == 2


@pytest.mark.promise("T6")
async def test_queued_tasks_begin_in_order_as_soon_as_a_slot_is_free(tmp_path: Path) -> None:
    gates, begun = [Gate() for _ in range(4)], list[int]()
    found = list[dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "root":
            for n in range(4):
                found.append(await delegate(turn, f"task {n}", mode="detached", queue=True))
            return Answer(text="asked")
        if not turn.caller.depth:
            return Answer(text="read")
        number = int(turn.prompt.split()[-1])
        begun.append(number)
        return await gates[number](turn)

    async with stage(tmp_path, act, settings=ONE_SLOT) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        entries = [one["runs"][0] for one in found]
        assert [(one["status"], one.get("position")) for one in entries] == [
            ("running", None),
            ("queued", 1),
            ("queued", 2),
            ("queued", 3),
        ]
        for number, gate in enumerate(gates):
            await bounded(gate.begun.wait())
            assert begun == list(range(number + 1))
            gate.let.set()
        assert [task.outcome for task in await at.settle()] == ["completed"] * 4
        created = await at.talk.store.list_events(EventFilter(thread_id="t", types=frozenset({"task.created"})))
        assert [event.data.get("position", 0) for event in created] == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", ["immediate", "detached"])
async def test_a_task_that_would_wait_for_a_slot_of_one_above_it_is_refused(tmp_path: Path, mode: str) -> None:
    refused = list[dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "root":
            await delegate(turn, "hold the slot", mode="detached")
        elif turn.prompt == "hold the slot":
            await delegate(turn, "in between", "aide", mode=mode)
        elif turn.prompt == "in between":
            refused.append(await delegate(turn, "one part", "helper", mode=mode, queue=True))
        return Answer(text="done")

    async with stage(tmp_path, act, settings=ONE_SLOT) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        assert [task.outcome for task in await at.settle()] == ["completed"] * 2
        [answer] = refused
        assert answer["error"]["code"] == "DelegateInProgress"
        assert "this task would wait for ever" in answer["error"]["message"]


@pytest.mark.parametrize("mode", ["immediate", "detached"])
async def test_of_two_trees_that_would_wait_for_each_other_the_second_is_refused(tmp_path: Path, mode: str) -> None:
    holding, answers = asyncio.Barrier(2), dict[str, dict[str, Any]]()

    async def act(turn: Turn) -> Answer:
        match turn.prompt.split():
            case ["root", agent]:
                await delegate(turn, f"hold {agent}", agent, mode="detached")
            case ["hold", agent]:
                await holding.wait()
                other = "aide" if agent == "helper" else "helper"
                if agent == "aide":
                    await until(has_queued)
                answers[agent] = await delegate(turn, "a part of it", other, mode=mode, queue=True)
                if mode == "detached":
                    await until(lambda: len(answers) == 2)
            case _:
                pass
        return Answer(text="done")

    async def has_queued() -> bool:
        return any(task.waits_for_slot for task in await at.list_tasks())

    async with stage(tmp_path, act, settings=ONE_SLOT) as at:
        await bounded(at.stead.invoke("root helper", thread_id="t"))
        await bounded(at.stead.invoke("root aide", thread_id="u"))
        assert [task.outcome for task in await at.settle()] == ["completed"] * 3
        assert answers["helper"]["status"] == "ok"
        assert "this task would wait for ever" in answers["aide"]["error"]["message"]


@pytest.mark.promise("T6")
async def test_a_slot_is_free_before_the_end_is_announced(tmp_path: Path) -> None:
    gate, first, statuses = Gate(), list[str](), list[str]()

    async def act(turn: Turn) -> Answer:
        match turn.prompt:
            case "root":
                first.append((await delegate(turn, "short work", mode="detached"))["runs"][0]["run_id"])
                return Answer(text="asked")
            case "look":
                seen = EventFilter(task_id=first[0], types=frozenset({"task.completed"}))

                async def is_announced() -> bool:
                    return bool(await at.talk.store.list_events(seen))

                gate.let.set()
                await until(is_announced)
                statuses.append((await delegate(turn, "the next work"))["runs"][0]["status"])
            case "short work":
                return await gate(turn)
            case _:
                pass
        return Answer(text="done")

    async with stage(tmp_path, act, settings=ONE_SLOT) as at:
        await bounded(at.stead.invoke("root", thread_id="t"))
        await bounded(gate.begun.wait())
        await bounded(at.stead.invoke("look", thread_id="u"))
        assert statuses == ["completed"]
        await at.settle()
