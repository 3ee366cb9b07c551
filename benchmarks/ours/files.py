"""A folder of tool files in a stead: opening it, a change that the stead sees by itself, a reload that is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks import tool_files, workload
from toolstead import Toolstead

PATIENCE = 30.0


async def main() -> None:
    _, options = workload.options()
    folder, count = Path(options["folder"]), int(options["tools"])
    number = count // tool_files.TOOLS_IN_FILE // 2
    path, name = folder / tool_files.file_name(number), tool_files.tool_name(number)
    with workload.Stopwatch() as empty:
        stead = await Toolstead(tools_dir=options["empty"]).__aenter__()
    own = stead.registry.get_tool_count()
    await stead.__aexit__(None, None, None)
    with workload.Stopwatch() as full:
        stead = await Toolstead(tools_dir=folder).__aenter__()
    workload.expect(stead.registry.get_tool_count() == own + count, "every tool is there")
    result = await stead.call(tool_files.tool_name(number, 8), {"path": 7})
    workload.expect(result.is_error, "a wrong argument must be rejected")
    original = path.read_text()
    try:
        with stead.events(["tools.changed"]) as changes:
            for description in ("First.", "Watched."):  # with the first one the watch is surely there
                text = tool_files.file_text(number, description)
                with workload.Stopwatch() as seen:
                    path.write_text(text)
                    async with asyncio.timeout(PATIENCE):
                        event = await anext(changes)
                workload.expect(event.data["changed"] == [name], "one tool changed")
        await stead.__aexit__(None, None, None)
        stead = await Toolstead(tools_dir=folder, watch=False).__aenter__()
        path.write_text(tool_files.file_text(number, "Reloaded."))
        with workload.Stopwatch() as asked:
            reloaded = await stead.registry.reload_plugins()
        workload.expect(reloaded.changes.changed == (name,), "one tool changed")
        await stead.__aexit__(None, None, None)
    finally:
        path.write_text(original)
    workload.report(
        load=[full.cpu - empty.cpu, full.wall - empty.wall],
        watched=[seen.cpu, seen.wall],
        asked=[asked.cpu, asked.wall],
    )


if __name__ == "__main__":
    asyncio.run(main())
