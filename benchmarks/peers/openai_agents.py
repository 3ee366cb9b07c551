"""The OpenAI Agents SDK: `FunctionTool.on_invoke_tool`, which takes its arguments as JSON text."""

from __future__ import annotations

import asyncio
import json
import logging

from agents import function_tool
from agents.tool_context import ToolContext

from benchmarks import workload


async def call(seconds: float) -> None:
    tool = function_tool(workload.repeat)
    text = json.dumps(workload.REPEAT_ARGUMENTS)
    context = ToolContext(None, tool_name=tool.name, tool_call_id="call_1", tool_arguments=text)
    invoke = tool.on_invoke_tool
    workload.expect(await invoke(context, text) == workload.REPEAT_ANSWER, "the answer")
    logging.disable(logging.CRITICAL)
    refusal = await invoke(context, '{"text": 7}')
    logging.disable(logging.NOTSET)
    workload.expect("error" in refusal, "a wrong argument must be rejected")

    async def batch(count: int) -> None:
        for _ in range(count):
            await invoke(context, text)

    await workload.time_calls(batch, seconds)


def register(count: int) -> None:
    function_tool(workload.repeat)  # the first one pays for what all share
    functions = workload.many(count)
    with workload.Stopwatch() as watch:
        tools = {function.__name__: function_tool(function) for function in functions}
    workload.expect(len(tools) == count, "every tool must be there")
    workload.report(cpu=watch.cpu, wall=watch.wall)


def main() -> None:
    mode, options = workload.options()
    if mode == "call":
        asyncio.run(call(float(options["seconds"])))
    else:
        register(int(options["tools"]))


if __name__ == "__main__":
    main()
