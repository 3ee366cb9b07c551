"""FastMCP, through its public methods."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks import workload
from benchmarks.peers.plain import without_extras


def build(*, best: bool) -> Any:
    """A server; at its best it derives no output schema."""
    from fastmcp import FastMCP

    server = FastMCP("peer")
    settings: dict[str, Any] = {"output_schema": None} if best else {}
    server.tool(workload.repeat, **settings)
    server.tool(workload.read_file, name=workload.READ, **settings)
    server.tool(workload.workspace_info, name=workload.WORKSPACE, **settings)
    return server


async def call(seconds: float, *, best: bool) -> None:
    from fastmcp.exceptions import ValidationError

    server = build(best=best)
    name, arguments = workload.REPEAT, workload.REPEAT_ARGUMENTS
    result = await server.call_tool(name, arguments)
    workload.expect(result.content[0].text == workload.REPEAT_ANSWER, "the answer")
    try:
        await server.call_tool(name, {"text": 7})
    except ValidationError:
        pass
    else:
        workload.expect(False, "a wrong argument must be rejected")

    async def batch(count: int) -> None:
        for _ in range(count):
            await server.call_tool(name, arguments)

    await workload.time_calls(batch, seconds)


def main() -> None:
    mode, options = workload.options()
    best = options.get("best") == "1"
    if mode == "call":
        asyncio.run(call(float(options["seconds"]), best=best))
        return
    if mode == "http" and not best:
        without_extras()
    server = build(best=best)
    many = workload.many(int(options.get("tools", "0")))
    with workload.Stopwatch() as registering:
        for function in many:
            server.tool(function)
    if many:
        workload.tell_registration(registering)
    if mode == "stdio":
        server.run("stdio")
    elif best:
        quiet = {"access_log": False, "log_level": "warning"}
        server.run(
            "http",
            show_banner=False,
            host="127.0.0.1",
            port=int(options["port"]),
            json_response=True,
            stateless_http=True,
            uvicorn_config=quiet,
        )
    else:
        server.run("http", host="127.0.0.1", port=int(options["port"]))


if __name__ == "__main__":
    main()
