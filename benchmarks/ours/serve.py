"""Tools registered in Python and served: `yard.serve_stdio()`, `yard.serve_http()`."""

from __future__ import annotations

import asyncio

from benchmarks import workload
from toolyard import Toolyard, tool


async def main() -> None:
    mode, options = workload.options()
    async with Toolyard() as yard:
        yard.registry.register(tool(workload.repeat))
        functions = workload.many(int(options.get("tools", "0")))
        with workload.Stopwatch() as registering:
            yard.registry.register(*(tool(function) for function in functions))
        if functions:
            workload.tell_registration(registering)
        if mode == "stdio":
            await yard.serve_stdio()
        else:
            await yard.serve_http(host="127.0.0.1", port=int(options["port"]))


if __name__ == "__main__":
    asyncio.run(main())
