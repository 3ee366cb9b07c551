"""Pydantic AI on DBOS: every sub-task is a workflow on a queue, in the SQLite file of DBOS.

`DBOSDurability` is what Pydantic AI recommends since it deprecated `DBOSAgent`. The parent is a workflow too: its tool
`task` enqueues a child and is back at once, and `results` waits for all of them. That takes fewer looks into the
database than a tool that waits for its own child.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from dbos import DBOS, DBOSConfig, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from benchmarks import task_work as work
from benchmarks import workload

QUEUE, RESULTS, CHILD = "tasks", "results", "child"
USED = RequestUsage(input_tokens=work.INPUT_TOKENS, output_tokens=work.OUTPUT_TOKENS)


async def hand_out(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The parent's model: all tasks in one reply, then their results, then the last sentence."""
    first, last = messages[0].parts[-1], messages[-1].parts[-1]
    assert isinstance(first, UserPromptPart)
    numbers = work.wanted(str(first.content))
    if not isinstance(last, ToolReturnPart):
        calls = [ToolCallPart(work.TASK, {"number": number}, f"call_{number}") for number in numbers]
        return ModelResponse(parts=calls, usage=USED)
    if last.tool_name == work.TASK:
        ids = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        return ModelResponse(parts=[ToolCallPart(RESULTS, {"ids": ids}, "call_results")], usage=USED)
    return ModelResponse(parts=[TextPart(work.last_sentence(last.content))], usage=USED)


async def do_task(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """A child's model."""
    asked = messages[-1].parts[-1]
    return ModelResponse(parts=[TextPart(await work.answer(str(asked.content)))], usage=USED)


child_agent = Agent(
    FunctionModel(do_task), name="child", instructions=work.CHILD_INSTRUCTIONS, capabilities=[DBOSDurability()]
)
parent_agent = Agent(
    FunctionModel(hand_out), name="parent", instructions=work.INSTRUCTIONS, capabilities=[DBOSDurability()]
)


@DBOS.workflow(name=CHILD)
async def child(number: int) -> str:
    return (await child_agent.run(work.child_prompt(number))).output


@DBOS.workflow(name="parent")
async def parent(prompt: str) -> str:
    return (await parent_agent.run(prompt)).output


@parent_agent.tool_plain
async def task(number: int) -> str:
    """Start a task in the background."""
    return (await DBOS.enqueue_workflow_async(QUEUE, child, number)).workflow_id


@parent_agent.tool_plain
async def results(ids: list[str]) -> list[str]:
    """The results of tasks, when all of them have ended."""
    handles = [await DBOS.retrieve_workflow_async(one, existing_workflow=False) for one in ids]  # else it looks twice
    return [await handle.get_result(polling_interval_sec=polling()) for handle in handles]


def polling() -> float:
    """How often it looks for tasks and results; its default is a second."""
    return float(workload.options()[1].get("polling", 1.0))


class DbosTasks:
    async def delegate(self, name: str, prompt: str) -> str:
        with SetWorkflowID(name):
            return await parent(prompt)

    async def stored(self, numbers: Iterable[int]) -> Mapping[int, list[str]]:
        found: dict[int, list[str]] = {}
        for one in await DBOS.list_workflows_async(name=CHILD, status="SUCCESS"):
            assert one.input is not None
            found.setdefault(one.input["args"][0], []).append(one.output)
        return {number: found.get(number, []) for number in numbers}

    async def said(self, name: str) -> str | None:
        (one,) = await DBOS.list_workflows_async(workflow_ids=[name])
        return one.output

    async def resume(self, name: str) -> bool:
        return False  # it does so when it is launched


@asynccontextmanager
async def opened(folder: Path, at_once: int) -> AsyncGenerator[DbosTasks]:
    config: DBOSConfig = {
        "name": "tasks",
        "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    await DBOS.register_queue_async(QUEUE, global_concurrency=at_once, polling_interval_sec=polling())
    try:
        yield DbosTasks()
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    work.main(opened)
