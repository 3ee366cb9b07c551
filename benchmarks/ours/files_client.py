"""The official SDK's client over stdio on `toolstead mcp`: a file is edited, and the client must see the change."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import mcp_types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks import tool_files, workload
from benchmarks.contestants import shipped

PATIENCE = 60.0
EDITED = "Edited while a client was connected."


async def description_of(client: Client, name: str) -> str:
    """What a tool's description says, looked for over every page of the list."""
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            if tool.name == name:
                return tool.description or ""
        if page.next_cursor is None:
            raise SystemExit(f"{name} is not listed")
        cursor = page.next_cursor


async def main() -> None:
    _, options = workload.options()
    folder, number = Path(options["folder"]), int(options["number"])
    path, name = folder / tool_files.file_name(number), tool_files.tool_name(number)
    told = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            told.set()

    command, *arguments = [*shipped(), "mcp"]
    environ = {**os.environ, "TOOLSTEAD_TOOLS_DIR": str(folder)}
    server = stdio_client(StdioServerParameters(command=command, args=arguments, env=environ))
    original, edited = path.read_text(), tool_files.file_text(number, EDITED)
    async with (
        asyncio.timeout(PATIENCE),
        Client(server, mode="legacy", read_timeout_seconds=PATIENCE, message_handler=hear) as client,
    ):
        before = await description_of(client, name)
        workload.expect(before not in ("", EDITED), "the tool is listed as it was")
        try:
            with workload.Stopwatch() as watch:
                path.write_text(edited)
                await told.wait()
                workload.expect(await description_of(client, name) == EDITED, "the client sees the change")
        finally:
            path.write_text(original)
    workload.report(seen=watch.wall)


if __name__ == "__main__":
    asyncio.run(main())
