"""One validated call in process: `await stead.call(…)`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from benchmarks import workload
from toolstead import Tool, Toolstead, tool


async def handle(_ctx: Any, input: dict[str, Any], _meta: Any) -> str:
    return await workload.repeat(**input)


def raw() -> Tool:
    """The tool with its schema written out, as a plugin with a handler of its own has it."""
    return Tool(
        name=workload.REPEAT,
        description=workload.REPEAT_DESCRIPTION,
        schema=workload.REPEAT_SCHEMA,
        handler=handle,
    )


async def main() -> None:
    _, options = workload.options()
    async with Toolstead() as stead:
        stead.registry.register(raw() if options.get("raw") == "1" else tool(workload.repeat))
        name, arguments = workload.REPEAT, workload.REPEAT_ARGUMENTS
        result = await stead.call(name, arguments)
        workload.expect(result.text == workload.REPEAT_ANSWER and not result.is_error, "the answer")
        logging.disable(logging.CRITICAL)
        workload.expect((await stead.call(name, {"text": 7})).is_error, "a wrong argument must be rejected")
        logging.disable(logging.NOTSET)

        async def batch(count: int) -> None:
            for _ in range(count):
                await stead.call(name, arguments)

        await workload.time_calls(batch, float(options["seconds"]))


if __name__ == "__main__":
    asyncio.run(main())
