"""`python -m benchmarks.claude_start [--runs 20]`: whose tools are in the first request of the real Claude Code.

Claude Code starts an MCP server with each `claude -p` and does not wait for it long: a server that lists its tools too
late has none in the first request, and the model answers without them. Each contestant is added with
`claude mcp add`, as a person does it, and then asked in turn, against a scripted Messages API on loopback.
`ENABLE_TOOL_SEARCH=false`, because otherwise the tools are left for a search.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import workload
from benchmarks.contestants import Program
from benchmarks.harness import QUICK, Bench
from benchmarks.rows.stdio import PEERS, SHIPPED
from toolstead.testing import scripted_models

SECONDS = 120.0
NAME = "subject"
SCRIPT = '- say: "done"\n'


@dataclass(slots=True)
class Tally:
    """What was seen of one contestant.

    Attributes:
        offered: How many of its tools were in the first request of each run.
        seconds: How long each run took.
    """

    offered: list[int] = field(default_factory=list[int])
    seconds: list[float] = field(default_factory=list[float])


def main() -> int:
    """Ask Claude Code in turns, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claude_start")
    parser.add_argument("--runs", type=int, default=20, help="runs of each contestant")
    runs: int = parser.parse_args().runs
    spec = find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        print("the package claude-agent-sdk is not installed; it brings Claude Code", file=sys.stderr)
        return 1
    claude = Path(spec.origin).parent / "_bundled" / "claude"
    with tempfile.TemporaryDirectory(prefix="toolstead-bench-") as folder:
        tallies = asyncio.run(_race(claude, Path(folder), runs))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end; {runs} runs each, in turns\n")
    print("| server | runs with its tools in the first request | seconds of a run, median |\n|---|--:|--:|")
    for name, tally in tallies.items():
        with_tools = sum(1 for count in tally.offered if count)
        print(f"| {name} | {with_tools} of {runs} | {median(tally.seconds):.2f} |")
    return 0


async def _race(claude: Path, folder: Path, runs: int) -> dict[str, Tally]:
    bench = Bench(scale=QUICK, project=folder / "project", home=folder / "home", peers=True)
    bench.project.mkdir()
    (bench.project / workload.READ_FILE).write_text(workload.READ_ANSWER + "\n")
    programs = (SHIPPED, *PEERS)
    tallies = {program.name: Tally() for program in programs}
    async with scripted_models(SCRIPT) as api:
        homes = {
            program.name: await _add(claude, bench, program, folder / str(n)) for n, program in enumerate(programs)
        }
        for run in range(runs):
            for program in (*programs[run % len(programs) :], *programs[: run % len(programs)]):
                home = folder / "run"
                shutil.copytree(homes[program.name], home)  # each run is the first in its home
                seen, began = len(api.requests), time.perf_counter()
                await _run(claude, bench, {**_environ(program, bench, home), **api.environ()}, "-p", "say done")
                first: Any = api.requests[seen].body
                tools = [tool["name"] for tool in first.get("tools", [])]
                tally = tallies[program.name]
                tally.seconds.append(time.perf_counter() - began)
                tally.offered.append(sum(name.startswith(f"mcp__{NAME}__") for name in tools))
                shutil.rmtree(home)
    return tallies


async def _add(claude: Path, bench: Bench, program: Program, home: Path) -> Path:
    """A home in which the contestant is added to Claude Code."""
    command = program.command("stdio" if program.module else "mcp")
    await asyncio.to_thread(home.mkdir)
    environ = program.environ(bench)
    given = [part for name in ("PYTHONPATH",) if name in environ for part in ("--env", f"{name}={environ[name]}")]
    add = ["mcp", "add", "--scope", "user", NAME, *given, "--", *command]
    await _run(claude, bench, _environ(program, bench, home), *add)
    return home


def _environ(program: Program, bench: Bench, home: Path) -> dict[str, str]:
    """What Claude Code finds: nothing of the user's, no look at the internet."""
    return {
        **program.environ(bench),
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(home / "tmp"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }


async def _run(claude: Path, bench: Bench, environ: Mapping[str, str], *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        str(claude),
        *arguments,
        cwd=bench.project,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise SystemExit(f"claude {' '.join(arguments[:2])} failed: {out.decode()[-500:]}")


if __name__ == "__main__":
    sys.exit(main())
