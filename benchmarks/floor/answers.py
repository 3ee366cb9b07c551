"""What both floor servers answer: one decoded JSON-RPC message in, one answer out, arguments validated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import jsonschema_rs

from benchmarks import workload

Handler = tuple[Callable[[Any], bool], Callable[..., Awaitable[str]]]


def catalogue(functions: Sequence[Callable[..., Awaitable[str]]] = ()) -> tuple[dict[str, Handler], list[Any]]:
    """The tools, three and any number of others like `repeat`: how each is called, and how each is listed."""
    tools = [
        (workload.REPEAT, workload.REPEAT_DESCRIPTION, workload.REPEAT_SCHEMA, workload.repeat),
        (workload.READ, workload.READ_DESCRIPTION, workload.READ_SCHEMA, workload.read_file),
        (workload.WORKSPACE, workload.WORKSPACE_DESCRIPTION, workload.WORKSPACE_SCHEMA, workload.workspace_info),
    ]
    tools += [
        (function.__name__, workload.REPEAT_DESCRIPTION, workload.REPEAT_SCHEMA, function) for function in functions
    ]
    handlers = {name: (jsonschema_rs.validator_for(schema).is_valid, function) for name, _, schema, function in tools}
    listed = [{"name": name, "description": text, "inputSchema": schema} for name, text, schema, _ in tools]
    return handlers, listed


async def answer(
    message: dict[str, Any], handlers: dict[str, Handler], listed: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """The answer, or None to a notification."""
    method = message["method"]
    if "id" not in message:
        return None
    result: dict[str, Any]
    if method == "tools/call":
        params = message["params"]
        is_valid, function = handlers[params["name"]]
        arguments = params["arguments"]
        if is_valid(arguments):
            result = {"content": [{"type": "text", "text": await function(**arguments)}], "isError": False}
        else:
            result = {"content": [{"type": "text", "text": "invalid arguments"}], "isError": True}
    elif method == "tools/list":
        result = {"tools": listed}
    else:
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "floor", "version": "1"},
        }
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}
