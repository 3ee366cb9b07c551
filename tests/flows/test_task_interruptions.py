"""Delegated work is interrupted: a process stops, or is taken for dead; nothing is done twice, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime, Gate
from tests.waiting import until
from toolstead import Plugin, Toolstead
from toolstead.delegation.task_store import TaskFilter
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.orchestrator import Orchestrator
from toolstead.orchestrator.request import RunRequest
from toolstead.orchestrator.store import RunCommand
from toolstead.types.run import Usage
from toolstead.types.task import Task

Act = Callable[[Turn], Awaitable[Answer]]


@asynccontextmanager
async def stead_with(
    folder: Path, act: Act, plugins: Sequence[Plugin] = (), **more: object
) -> AsyncGenerator[tuple[Toolstead, Orchestrator]]:
    """A stead whose agents do as a test says, and may delegate to each other."""
    write_agent("helper")
    write_agent("aide")
    runtime = BenchRuntime(act=act, owns_process=False)
    for name, value in more.items():
        setattr(runtime, name, value)
    settings = {"multi_agent": {"agents": ["helper", "aide"]}}
    async with Toolstead(folder, runtimes=[runtime], settings=settings, plugins=plugins, watch=False) as stead:
        yield stead, await stead.conversations()


async def delegate(turn: Turn, prompt: str, mode: str = "immediate") -> str:
    other = "aide" if turn.caller.agent_id == "helper" else "helper"
    order = {"agent_id": other, "prompt": prompt, "mode": mode}
    return (await turn.call_tool("delegate_agent", order)).text


async def tasks_of(talk: Orchestrator) -> list[Task]:
    """All tasks, the oldest first."""
    return list(reversed(await talk.store.list_tasks(TaskFilter())))


async def has_ended(talk: Orchestrator) -> bool:
    """Whether all results are delivered and all runs have ended."""
    is_delivered = all(task.delivered_at is not None for task in await tasks_of(talk))
    return is_delivered and not await talk.store.list_runs(unfinished=True)


async def test_a_signal_from_another_process_is_stored_as_one(tmp_path: Path) -> None:
    gate = Gate()

    async def take(_: object) -> bool:
        return True

    async with stead_with(tmp_path, gate, on_steer=take) as (_, talk):
        accepted = await talk.submit(RunRequest(prompt="hello", thread_id="t"))
        await bounded(gate.begun.wait())
        command = RunCommand(id="m1", run_id=accepted.run_id, kind="signal", text="look", created_at=1.0, key="k")
        assert await talk.store.add_command(command)

        async def find_kind() -> str | None:
            return next((one.kind for one in await talk.store.list_messages("t") if one.content == "look"), None)

        assert await until(find_kind) == "signal"
        gate.let.set()


async def test_a_cancelled_task_is_not_woken_for_what_it_had_delegated(tmp_path: Path) -> None:
    gate = Gate()

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "ask":
            return Answer(text=await delegate(turn, "plan", "detached"))
        if turn.prompt == "plan":
            return Answer(text=await delegate(turn, "count", "detached"))
        return await gate(turn) if turn.prompt == "count" else Answer(text="read")

    async with stead_with(tmp_path, act) as (stead, talk):
        await talk.submit(RunRequest(prompt="ask", thread_id="t"))
        await bounded(gate.begun.wait())
        parent, child = await tasks_of(talk)
        await bounded((await stead.delegation()).delegation.cancel(parent.id))

        async def is_told() -> bool:
            return (await talk.store.read_task(parent.id)).delivered_at is not None

        await until(is_told)
        assert (await talk.store.read_task(child.id)).outcome == "cancelled"
        assert [run.status for run in await talk.store.list_runs(thread_id=parent.thread_id)] == ["completed"]


async def test_a_task_whose_result_another_turn_of_its_thread_took_goes_on_with_that_turn(tmp_path: Path) -> None:
    chatting, counting = Gate(), Gate()

    async def act(turn: Turn) -> Answer:
        match turn.prompt:
            case "ask":
                return Answer(text=await delegate(turn, "plan", "detached"))
            case "plan":
                return Answer(text=await delegate(turn, "count", "detached"))
            case "count":
                await counting(turn)
                await turn.call_tool("signal_parent", {"message": "nearly done"})
                return Answer(text="7")
            case "chat":
                return await chatting(turn)
        return Answer(text="planned with 7" if "\n7" in turn.prompt else "heard")

    async with stead_with(tmp_path, act) as (stead, talk):
        await talk.submit(RunRequest(prompt="ask", thread_id="t"))
        await bounded(counting.begun.wait())
        parent, child = await tasks_of(talk)
        await talk.submit(RunRequest(prompt="chat", thread_id=parent.thread_id))
        await bounded(chatting.begun.wait())
        counting.let.set()  # it signals a thread whose turn takes no message, and ends

        async def count_waiting() -> bool:
            unfinished = await talk.store.list_runs(thread_id=parent.thread_id, unfinished=True)
            return len(unfinished) >= 2 and not (await talk.store.read_task(child.id)).is_open

        await until(count_waiting)
        chatting.let.set()
        ended = await bounded((await stead.delegation()).delegation.wait_for_task(parent.id))
        assert (ended.outcome, ended.summary) == ("completed", "planned with 7")


async def test_an_answer_to_a_late_signal_does_not_replace_the_result_and_is_paid(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Answer:
        used = Usage(input_tokens=10)  # reported with the answer alone: before it, nothing was granted
        match turn.prompt:
            case "ask":
                return Answer(text=await delegate(turn, "plan", "detached"), usage=used)
            case "plan":
                await delegate(turn, "count", "immediate")
                return Answer(text="planned", usage=used)
            case "count":
                await turn.call_tool("signal_parent", {"message": "nearly done"})
                return Answer(text="7", usage=used)
        return Answer(text="heard", usage=used)

    async with stead_with(tmp_path, act) as (stead, talk):
        await talk.submit(RunRequest(prompt="ask", thread_id="t"))
        await until(lambda: tasks_of(talk))
        parent = (await tasks_of(talk))[0]
        ended = await bounded((await stead.delegation()).delegation.wait_for_task(parent.id))
        assert (ended.outcome, ended.summary) == ("completed", "planned")
        runs = await talk.store.list_runs(thread_id=parent.thread_id)
        assert [run.result for run in runs] == ["heard", "planned"]
        await until(lambda: has_ended(talk))
        tree = await talk.store.read_tree(parent.root_run_id)
        assert tree is not None
        assert tree.spent_tokens == 10 * len(await talk.store.list_runs())


async def test_work_that_a_stopping_process_waited_for_goes_on_in_the_next_one(tmp_path: Path) -> None:
    gate, prompts = Gate(), list[str]()

    async def begin(turn: Turn) -> Answer:
        return Answer(text=await delegate(turn, "count")) if turn.prompt == "ask" else await gate(turn)

    async def go_on(turn: Turn) -> Answer:
        prompts.append(turn.prompt)
        return Answer(text="7")

    async with stead_with(tmp_path, begin) as (_, talk):
        await talk.submit(RunRequest(prompt="ask", thread_id="t"))
        await bounded(gate.begun.wait())
    async with stead_with(tmp_path, go_on) as (_, talk):

        async def is_delivered() -> bool:
            return all(task.delivered_at is not None for task in await tasks_of(talk))

        await until(is_delivered)
        [task] = await tasks_of(talk)
        assert (task.outcome, task.summary) == ("completed", "7")
        told = [one.content for one in await talk.store.list_messages("t") if one.kind == "result"]
        assert len(told) == 1
        assert prompts[0].endswith("count")
