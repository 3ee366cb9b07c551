"""An agent's view of many tools: made first, made again after a reload, found again; and the plain generation."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks import agent_files, agent_work, tool_files, workload
from toolstead import Toolstead, tool
from toolstead.tools.generation import Generation, ToolView, next_generation

REPEATS = 15
FINDS = 1_000


def use(view: ToolView) -> ToolView:
    """All that a turn takes from a view."""
    workload.expect(len(view.names) == len(view.infos), "a name for each tool")
    return view


async def main() -> None:
    _, options = workload.options()
    count = int(options["tools"])
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        files = Path(folder, "tools")
        tool_files.write_files(files, 1)
        environ = {**os.environ, "TOOLSTEAD_HOME": folder}
        async with Toolstead(tools_dir=files, watch=False, environ=environ) as stead:
            stead.registry.register(tool(agent_work.add), *(tool(function) for function in workload.many(count)))
            await measure(stead, files, count)


async def measure(stead: Toolstead, files: Path, count: int) -> None:
    """All four in turn, several times."""
    registry, folder = stead._parts.registry, stead._parts.places.user / "agents"
    agent_files.write_file(folder)
    agents = await stead.agents()
    spent: dict[str, list[workload.Stopwatch]] = defaultdict(list)

    def timed(name: str) -> workload.Stopwatch:
        spent[name].append(watch := workload.Stopwatch())
        return watch

    for number in range(1, REPEATS + 1):
        agent_files.write_file(folder, number)
        workload.expect((await agents.reload()).changed == (agent_files.NAME,), "the file was read again")
        with timed("first"):
            view = use(registry.find_view(agent_files.NAME))
        check(view, count)
        before = view
        (files / tool_files.file_name(0)).write_text(tool_files.file_text(0, f"Edited {number} times."))
        changes = (await stead.registry.reload_plugins()).changes
        workload.expect(changes.changed == (tool_files.tool_name(0),), f"one tool changed, not {changes}")
        with timed("again"):
            view = use(registry.find_view(agent_files.NAME))
        check(view, count)
        workload.expect(view is not before, "the view was made again")
        with timed("found"):
            for _ in range(FINDS):
                use(registry.find_view(agent_files.NAME))
        workload.expect(registry.find_view(agent_files.NAME) is view, "the same view is found")
        with timed("plain"):
            use(build_generation(registry.current))
    workload.report(
        **{name: workload.middle(watches, of=FINDS if name == "found" else 1) for name, watches in spent.items()}
    )


def build_generation(current: Generation) -> Generation:
    """A generation of the same tools and rules, as a reload builds it."""
    return next_generation(current, held=current.held, visibility=current.visibility, problems=current.problems)


def check(view: ToolView, count: int) -> None:
    numbered = sum(name.startswith("tool_") for name in view.tools)
    workload.expect(numbered == agent_files.count_numbered(count), f"the allowed tools, not {numbered}")
    workload.expect(all(name in view.tools for name in (*agent_files.OWN, workload.READ)), "its own tools")


if __name__ == "__main__":
    asyncio.run(main())
