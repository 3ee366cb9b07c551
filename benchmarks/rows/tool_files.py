"""A folder of JSON tool files: loading it, and one file that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import processes, tool_files
from benchmarks.contestants import Program, entered
from benchmarks.harness import Bench, Contestant, Goal, Measured, Race, Row, Sample

LOAD, RELOAD = "files", "files-reload"
LIMIT = 120.0

FLOOR = Program(
    name="floor", role="floor", module="benchmarks.floor.files", note="reads, parses, compiles each schema, keeps it"
)
OURS = Program(
    name="toolstead",
    role="ours",
    module="benchmarks.ours.files",
    note="`Toolstead(tools_dir=…)` opened, less an empty one; or a file edited, until `tools.changed` tells of it",
)
WHOLE = Program(name="toolstead, whole load", role="floor", module="benchmarks.ours.files", note="as in the row above")
ASKED = Program(
    name="toolstead, reload_plugins",
    role="ours",
    module="benchmarks.ours.files",
    note="a file edited, then `registry.reload_plugins()`, which looks at every file",
)
CLIENT = Program(name="client", role="ours", module="benchmarks.ours.files_client")


def race(bench: Bench) -> Race:
    """Each in a fresh process that reads its own clocks; once, an MCP client must see the change of a file."""
    count = bench.scale.files
    folder, empty = bench.home.parent / "tool-files", bench.home.parent / "no-tool-files"
    seen_by_client: list[float] = []

    def run(program: Program, *more: str) -> dict[str, Any]:
        _prepare(folder, empty, count)
        arguments = (f"folder={folder}", f"empty={empty}", f"tools={count * tool_files.TOOLS_IN_FILE}", *more)
        return processes.run(
            program.command("files", *arguments), cwd=bench.project, environment=program.environ(bench), seconds=LIMIT
        )

    def measure(program: Program) -> Measured:
        told = run(program)
        if program is FLOOR:
            return {LOAD: _sample(told["load"])}
        if program is WHOLE:
            return {RELOAD: _sample(told["load"])}
        if program is ASKED:
            return {RELOAD: _sample(told["asked"])}
        if not seen_by_client:
            seen_by_client.append(run(CLIENT, f"number={count // 2}")["seen"])
        return {LOAD: _sample(told["load"]), RELOAD: _sample(told["watched"])}

    contestants: list[Contestant] = [
        program.contestant(measure) for program in entered(bench, (FLOOR, WHOLE, OURS, ASKED))
    ]
    return Race(
        rows=(
            Row(
                key=LOAD,
                title=f"{count:,} JSON tool files with {tool_files.TOOLS_IN_FILE} tools each: load",
                note="the floor finds no fault but what a parser and the compiler find, and keeps nothing of a tool "
                "but its validator; its collector of cycles is at Python's defaults. Toolstead pauses it meanwhile, "
                "and compiles a schema that surely compiles when the tool is first called.",
                goals=(Goal(against="floor", limit=2),),
            ),
            Row(
                key=RELOAD,
                title=f"one of {count:,} JSON tool files changes: reload",
                note="here the floor is Toolstead's own whole load, so the goal is one hundredth of that. An MCP "
                "client over stdio on `toolstead mcp` must see the same change, else the row fails.",
                goals=(Goal(against="floor", limit=0.01),),
            ),
        ),
        contestants=tuple(contestants),
        rounds=bench.scale.rounds,
    )


def _prepare(folder: Path, empty: Path, count: int) -> None:
    if not folder.exists():
        empty.mkdir()
        tool_files.write_files(folder, count)


def _sample(times: list[float]) -> Sample:
    cpu, wall = times
    return Sample(cpu=cpu, wall=wall)
