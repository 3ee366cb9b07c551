"""LangChain: `StructuredTool.ainvoke`."""

from __future__ import annotations

import asyncio

from langchain_core.tools import tool
from pydantic import ValidationError

from benchmarks import workload


async def call(seconds: float) -> None:
    repeat = tool(workload.repeat)
    arguments = workload.REPEAT_ARGUMENTS
    workload.expect(await repeat.ainvoke(arguments) == workload.REPEAT_ANSWER, "the answer")
    try:
        await repeat.ainvoke({"text": 7})
    except ValidationError:
        pass
    else:
        workload.expect(False, "a wrong argument must be rejected")

    async def batch(count: int) -> None:
        for _ in range(count):
            await repeat.ainvoke(arguments)

    await workload.time_calls(batch, seconds)


if __name__ == "__main__":
    asyncio.run(call(float(workload.options()[1]["seconds"])))
