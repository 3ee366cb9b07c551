"""Pydantic AI: its tool manager, which is how its agents call tools, and its bare toolset validated by hand."""

from __future__ import annotations

import asyncio

from pydantic import ValidationError
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.exceptions import ToolRetryError, UnexpectedModelBehavior
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import RunUsage

from benchmarks import workload

NAME, ARGUMENTS = workload.REPEAT, workload.REPEAT_ARGUMENTS


async def call(seconds: float, *, parts: bool) -> None:
    toolset: FunctionToolset[None] = FunctionToolset()
    toolset.add_function(workload.repeat)
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    await (call_parts if parts else call_manager)(toolset, context, seconds)


async def call_parts(toolset: FunctionToolset[None], context: RunContext[None], seconds: float) -> None:
    """The two halves an agent puts together, and nothing between them: no look-up, no errors for the model."""
    tool = (await toolset.get_tools(context))[NAME]
    validate = tool.args_validator.validate_python
    answer = await toolset.call_tool(NAME, validate(ARGUMENTS), context, tool)
    workload.expect(answer == workload.REPEAT_ANSWER, "the answer")
    try:
        validate({"text": 7})
    except ValidationError:
        pass
    else:
        workload.expect(False, "a wrong argument must be rejected")

    async def batch(count: int) -> None:
        for _ in range(count):
            await toolset.call_tool(NAME, validate(ARGUMENTS), context, tool)

    await workload.time_calls(batch, seconds)


async def call_manager(toolset: FunctionToolset[None], context: RunContext[None], seconds: float) -> None:
    manager = await ToolManager(toolset).for_run_step(context)
    part = ToolCallPart(NAME, ARGUMENTS, "call_1")
    workload.expect(await manager.handle_call(part) == workload.REPEAT_ANSWER, "the answer")
    try:
        await manager.handle_call(ToolCallPart(NAME, {"text": 7}, "call_2"))
    except (ToolRetryError, UnexpectedModelBehavior):
        pass
    else:
        workload.expect(False, "a wrong argument must be rejected")

    async def batch(count: int) -> None:
        for _ in range(count):
            await manager.handle_call(part)

    await workload.time_calls(batch, seconds)


def register(count: int) -> None:
    FunctionToolset([workload.repeat])  # the first one pays for what all share
    functions = workload.many(count)
    with workload.Stopwatch() as watch:
        toolset: FunctionToolset[None] = FunctionToolset()
        for function in functions:
            toolset.add_function(function)
    workload.expect(len(toolset.tools) == count, "every tool must be there")
    workload.report(cpu=watch.cpu, wall=watch.wall)


def main() -> None:
    mode, options = workload.options()
    if mode == "call":
        asyncio.run(call(float(options["seconds"]), parts=options.get("parts") == "1"))
    else:
        register(int(options["tools"]))


if __name__ == "__main__":
    main()
