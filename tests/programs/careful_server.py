"""A stead whose gate asks a person before anything is sent, served with the public API alone.

Usage: careful_server.py stdio | http FILE [KEY=VALUE …]. What is sent is written to the file, a line each. Over HTTP
the first line on stdout is the address.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from toolstead import Tool, Toolstead
from toolstead.types.call import Ask, Decision, ToolCall

QUICK = 0.3
"""Seconds that a person has for what is sent to `quick`."""


async def careful(call: ToolCall) -> Decision:
    if call.name != "send":
        return None
    return Ask("it goes to <others>", timeout=QUICK if call.input["to"] == "quick" else 600)


async def main(door: str, file: Path, overrides: list[str]) -> None:
    async def send(ctx: Any, input: dict[str, Any], meta: Any) -> str:
        with file.open("a", encoding="utf-8") as sent:
            sent.write(f"{input['to']}\n")
        return f"sent to {input['to']}"

    async with Toolstead(overrides=overrides, gates=[careful]) as stead:
        schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
        stead.registry.register(Tool(name="send", description="Send.", handler=send, schema=schema, timeout=0.2))
        if door == "http":
            await stead.serve_http(port=0, on_ready=lambda address: print(address.url, flush=True))
        else:
            await stead.serve_stdio()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
