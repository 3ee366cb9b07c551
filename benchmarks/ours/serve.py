"""Tools registered in Python and served: `stead.serve_stdio()`, `stead.serve_http()`."""

from __future__ import annotations

import asyncio

from benchmarks import workload
from toolstead import Toolstead, tool


async def main() -> None:
    mode, options = workload.options()
    async with Toolstead() as stead:
        stead.registry.register(tool(workload.repeat))
        functions = workload.many(int(options.get("tools", "0")))
        with workload.Stopwatch() as registering:
            stead.registry.register(*(tool(function) for function in functions))
        if functions:
            workload.tell_registration(registering)
        if mode == "stdio":
            await stead.serve_stdio()
        else:
            await stead.serve_http(host="127.0.0.1", port=int(options["port"]))


if __name__ == "__main__":
    asyncio.run(main())
