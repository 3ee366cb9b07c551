"""What is measured: one race a module, each with a `race(bench)`."""

from __future__ import annotations

import shutil

from benchmarks.harness import Bench, Race
from benchmarks.rows import (
    agent_files,
    agents,
    conversations,
    http,
    in_process,
    many_tools,
    plugins,
    runtime_start,
    stdio,
    tasks,
    tool_files,
)


def races(bench: Bench) -> list[Race]:
    """Every race, in the order of the table."""
    return [
        in_process.race(bench),
        stdio.shipped(bench),
        stdio.modern_start(bench),
        stdio.plugin(bench),
        stdio.python(bench),
        http.file_reader(bench),
        *([http.workspace_info(bench)] if shutil.which("git") else []),
        http.plugin(bench),
        http.tail(bench),
        http.python(bench),
        many_tools.race(bench),
        many_tools.shipped(bench),
        tool_files.race(bench),
        conversations.race(bench),
        plugins.race(bench),
        *agents.races(bench),
        *agent_files.races(bench),
        tasks.race(bench),
        *runtime_start.races(bench),
    ]
