"""The official SDK, `mcp`: its decorator server (`MCPServer`) and its low level, which does not validate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from benchmarks import workload
from benchmarks.peers.plain import without_extras


def decorated(*, best: bool) -> MCPServer:
    """A server of the decorator API; at its best it neither logs each request nor derives an output schema."""
    server = MCPServer("peer", log_level="WARNING") if best else MCPServer("peer")
    structured = False if best else None
    server.add_tool(workload.repeat, structured_output=structured)
    server.add_tool(workload.read_file, name=workload.READ, structured_output=structured)
    server.add_tool(workload.workspace_info, name=workload.WORKSPACE, structured_output=structured)
    return server


def low_level(many: Sequence[Any]) -> Server[Any]:
    """A server of the low level: schemas are given, arguments go to the function as they came."""
    functions: dict[str, Any] = {
        workload.REPEAT: workload.repeat,
        workload.READ: workload.read_file,
        workload.WORKSPACE: workload.workspace_info,
    }
    schemas = {workload.READ: workload.READ_SCHEMA, workload.WORKSPACE: workload.WORKSPACE_SCHEMA}
    functions.update((function.__name__, function) for function in many)
    tools = [
        types.Tool(
            name=name,
            description=workload.REPEAT_DESCRIPTION,
            input_schema=schemas.get(name, workload.REPEAT_SCHEMA),
        )
        for name in functions
    ]

    async def on_list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def on_call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = await functions[params.name](**(params.arguments or {}))
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(text))])

    listen = ListenHandler(InMemorySubscriptionBus())
    return Server("peer", on_list_tools=on_list_tools, on_call_tool=on_call_tool, on_subscriptions_listen=listen)


async def call(seconds: float, *, best: bool) -> None:
    server = decorated(best=best)
    name, arguments = workload.REPEAT, workload.REPEAT_ARGUMENTS
    result: Any = await server.call_tool(name, arguments)
    workload.expect(result.content[0].text == workload.REPEAT_ANSWER, "the answer")
    try:
        await server.call_tool(name, {"text": 7})
    except ToolError:
        pass
    else:
        workload.expect(False, "a wrong argument must be rejected")

    async def batch(count: int) -> None:
        for _ in range(count):
            await server.call_tool(name, arguments)

    await workload.time_calls(batch, seconds)


async def serve_low_level(server: Server[Any]) -> None:
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def main() -> None:
    mode, options = workload.options()
    low, best = options.get("level") == "low", options.get("best") == "1"
    if mode == "call":
        asyncio.run(call(float(options["seconds"]), best=best))
        return
    many = workload.many(int(options.get("tools", "0")))
    server = None if low else decorated(best=best)
    with workload.Stopwatch() as registering:
        if server is None:
            server = low_level(many)
        else:
            for function in many:
                server.add_tool(function)
    if many:
        workload.tell_registration(registering)
    if mode == "stdio":
        if isinstance(server, Server):
            asyncio.run(serve_low_level(server))
        else:
            server.run("stdio")
        return
    port = int(options["port"])
    if not best:
        without_extras()
    json = best or options.get("json") == "1"
    if isinstance(server, Server):
        import uvicorn

        app = server.streamable_http_app(json_response=json, stateless_http=best)
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning" if best else "info")
    else:
        server.run("streamable-http", port=port, json_response=json, stateless_http=best)


if __name__ == "__main__":
    main()
