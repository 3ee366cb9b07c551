"""The work that every contestant does: two tools, their arguments, and the clock around a batch of calls.

It is imported inside the peers' environments and while start-up is being measured, so it needs nothing but a few
modules of the standard library that Python has loaded by then anyway.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

REPEAT = "repeat"
REPEAT_DESCRIPTION = "Say a text several times."
REPEAT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What to say."},
        "times": {"type": "integer", "description": "How often.", "default": 1},
    },
    "required": ["text"],
}
REPEAT_ARGUMENTS: dict[str, Any] = {"text": "stead", "times": 3}
REPEAT_ANSWER = "steadsteadstead"

PLUGIN = "steadbench"
"""The plugin of a user that brings these tools to the shipped commands, which puts its name before theirs."""

TURN = "Say it three times."
TURN_ANSWER = f"The tool said {REPEAT_ANSWER}, as it was asked to."

READ = "file-reader"
READ_DESCRIPTION = "Read a text file of the project, or some of its lines."
READ_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, from the project's folder."},
        "startLine": {"type": "integer", "minimum": 1, "description": "The first line to read."},
        "endLine": {"type": "integer", "minimum": 1, "description": "The last line to read."},
    },
    "required": ["path"],
}
READ_FILE = "notes.txt"
READ_ARGUMENTS: dict[str, Any] = {"path": READ_FILE}
READ_ANSWER = "the stead holds twelve tools"
LARGEST_FILE = 1_048_576

WORKSPACE = "workspace-info"
WORKSPACE_DESCRIPTION = "Tell the project's folder, its branch and its remote."
WORKSPACE_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
WORKSPACE_BRANCH = "bench"
WORKSPACE_ANSWER = "https://example.org/stead.git"
BUILT_IN = frozenset({READ, WORKSPACE})
"""Tools that the shipped commands have without a plugin."""

PROJECT = os.path.realpath(os.getcwd())  # noqa: PTH109 - pathlib would cost more than the reading


async def repeat(text: str, times: int = 1) -> str:
    """Say a text several times.

    Args:
        text: What to say.
        times: How often.
    """
    return text * times


async def read_file(path: str, startLine: int | None = None, endLine: int | None = None) -> str:  # noqa: N803 - as on the wire
    """Read a text file of the project, or some of its lines.

    Args:
        path: The file, from the project's folder.
        startLine: The first line to read.
        endLine: The last line to read.
    """
    full = os.path.realpath(os.path.join(PROJECT, path))  # noqa: ASYNC240, PTH118 - a small file, as above
    if full != PROJECT and not full.startswith(PROJECT + os.sep):
        raise ValueError(f"{path} is outside the project")
    descriptor = os.open(full, os.O_RDONLY)
    try:
        if os.fstat(descriptor).st_size > LARGEST_FILE:
            raise ValueError(f"{path} is too large")
        text = os.read(descriptor, LARGEST_FILE).decode()
    finally:
        os.close(descriptor)
    if not startLine and not endLine:
        return text
    return "".join(text.splitlines(keepends=True)[(startLine or 1) - 1 : endLine or None])


async def workspace_info() -> str:
    """Tell the project's folder, its branch and its remote."""
    branch = await _ask_git("symbolic-ref", "-q", "--short", "HEAD")
    remote = await _ask_git("remote", "get-url", "origin")
    return json.dumps({"projectPath": PROJECT, "branch": branch, "remoteUrl": remote})


async def _ask_git(*arguments: str) -> str | None:
    import asyncio  # every server has it by then

    pipe = asyncio.subprocess.PIPE
    asked = await asyncio.create_subprocess_exec("git", *arguments, cwd=PROJECT, stdout=pipe, stderr=pipe)
    output, _ = await asked.communicate()
    return output.decode().strip() if asked.returncode == 0 else None


def many(count: int) -> list[Callable[..., Awaitable[str]]]:
    """Functions like `repeat`, all different, `tool_00000` and on."""
    return [numbered(number) for number in range(count)]


def numbered(number: int) -> Callable[..., Awaitable[str]]:
    """A function like `repeat`, with this number in its name."""

    async def tool(text: str, times: int = 1) -> str:
        """Say a text several times.

        Args:
            text: What to say.
            times: How often.
        """
        return text * times

    tool.__name__ = tool.__qualname__ = many_name(number)
    return tool


def many_name(number: int) -> str:
    """The name of the tool of this number."""
    return f"tool_{number:05d}"


def name_in_plugin(name: str) -> str:
    """What a tool of the plugin is called by the shipped commands."""
    return f"{PLUGIN}__{name}"


def options() -> tuple[str, dict[str, str]]:
    """What the harness asked this program for: a mode, then `name=value`."""
    return sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:])


def report(**values: Any) -> None:
    """Tell the harness, in one line."""
    print(json.dumps(values), flush=True)


class Stopwatch:
    """CPU and wall time of this process between `with` and its end."""

    cpu = 0.0
    wall = 0.0

    def __enter__(self) -> Self:
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu = time.process_time() - self._began[0]
        self.wall = time.perf_counter() - self._began[1]


def middle(watches: list[Stopwatch], of: int = 1) -> dict[str, float]:
    """The medians of several times, of one operation where each of them saw so many."""
    half = len(watches) // 2
    return {clock: sorted(getattr(watch, clock) for watch in watches)[half] / of for clock in ("cpu", "wall")}


async def time_calls(batch: Callable[[int], Awaitable[None]], seconds: float) -> None:
    """Run batches of calls for about so long, after warming up, and report the time of one call.

    `batch(n)` makes n calls in a loop of its own, so that nothing of ours stands inside the loop that is timed.
    """
    size = 64
    while True:
        with Stopwatch() as trial:
            await batch(size)
        if trial.wall >= seconds / 10:
            break
        size *= 2
    count, cpu, wall = 0, 0.0, 0.0
    while wall < seconds:
        with Stopwatch() as watch:
            await batch(size)
        count, cpu, wall = count + size, cpu + watch.cpu, wall + watch.wall
    report(cpu=cpu / count, wall=wall / count)


def turn_answer(result: str) -> str:
    """What the model of a conversation says when the tool has answered."""
    return TURN_ANSWER.replace(REPEAT_ANSWER, result)


def report_turns(watch: Stopwatch, turns: int) -> None:
    """Tell the harness the time of one turn, and the most memory this process ever had, in bytes."""
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    report(cpu=watch.cpu / turns, wall=watch.wall / turns, memory=most)


def tell_registration(watch: Stopwatch) -> None:
    """Tell the harness how long registering took, on stderr: stdout is the wire."""
    print(f"registered cpu={watch.cpu} wall={watch.wall}", file=sys.stderr, flush=True)


def expect(what: bool, message: str) -> None:
    """End the program with a message unless this holds: a wrong answer is not worth timing."""
    if not what:
        raise SystemExit(f"the sanity check failed: {message}")
