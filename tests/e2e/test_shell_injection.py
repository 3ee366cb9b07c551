"""Thousands of hostile values through a real server into real processes: they arrive as they are, nothing else runs.

Every process that this process starts is counted by Python's own audit events, so a shell in
between, or one program too many, could not hide. The programs print their arguments, each ended
by a null byte, which no argument can hold.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hostile_values import REFUSED, by_hand, generated
from tests.flows.tool_files import shell, tool, write
from tests.surfaces.rest_server import PATIENCE, Connection, request
from toolyard import Toolyard

pytestmark = pytest.mark.promise("R8")

AT_ONCE = 8
GENERATED = 2_000
SHOW = "printf '%s\\0' begin"
STARTS = (
    "subprocess.Popen",
    "os.posix_spawn",
    "os.spawn",
    "os.exec",
    "os.system",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
)
Argvs = list[list[str]]
Check = Callable[[dict[str, Any]], None]
Job = tuple[str, Any, Check]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place for a value: the command, the arguments that run for one, and whether a dash is taken there."""

    command: str
    runs: Callable[[str], Argvs]
    takes_a_dash: bool = False
    shows: int = -1
    """Which of the programs has the answer."""


def _show(*words: str) -> list[str]:
    return ["printf", "%s\\0", "begin", *words]


POSITIONS = {
    "unquoted": Position(command=f"{SHOW} {{{{x}}}} end", runs=lambda x: [_show(x, "end")]),
    "single": Position(command=f"{SHOW} '{{{{x}}}}' end", runs=lambda x: [_show(x, "end")]),
    "double": Position(command=f'{SHOW} "{{{{x}}}}" end', runs=lambda x: [_show(x, "end")]),
    "word": Position(command=f"{SHOW} a{{{{x}}}}'b'", runs=lambda x: [_show(f"a{x}b")], takes_a_dash=True),
    "option": Position(command=f"{SHOW} --opt={{{{x}}}}", runs=lambda x: [_show(f"--opt={x}")], takes_a_dash=True),
    "separated": Position(command=f"{SHOW} -- {{{{x}}}}", runs=lambda x: [_show("--", x)], takes_a_dash=True),
    "piped": Position(command=f"echo first | {SHOW} {{{{x}}}}", runs=lambda x: [["echo", "first"], _show(x)]),
    "and": Position(command=f"true && {SHOW} {{{{x}}}}", runs=lambda x: [["true"], _show(x)]),
    "or": Position(command=f"false || {SHOW} {{{{x}}}}; true", runs=lambda x: [["false"], _show(x), ["true"]], shows=1),
    "everywhere": Position(
        command=f"{SHOW} {{{{x}}}} '{{{{x}}}}' \"{{{{x}}}}\" a{{{{x}}}}b --opt={{{{x}}}} -- {{{{x}}}} | cat",
        runs=lambda x: [_show(x, x, x, f"a{x}b", f"--opt={x}", "--", x), ["cat"]],
        shows=0,
    ),
    "careful": Position(
        command=f"{SHOW} a{{{{x}}}} --opt={{{{x}}}} -- {{{{x}}}} '{{{{x}}}}'",
        runs=lambda x: [_show(f"a{x}", f"--opt={x}", "--", x, x)],
        takes_a_dash=True,
    ),
}
ONE_BY_ONE = [name for name in POSITIONS if name not in ("everywhere", "careful")]


@dataclass(slots=True)
class Yard:
    """The server, the way to it, and what it started."""

    port: int
    project: Path
    canary: Path
    started: list[list[str]] = field(default_factory=list[list[str]])
    other_starts: list[str] = field(default_factory=list[str])
    expected: Argvs = field(default_factory=list[list[str]])

    async def each(self, jobs: Iterable[Job]) -> int:
        """Call every tool with its input on a few connections that stay open, and look at each answer."""
        waiting = iter(jobs)
        done = 0

        async def work() -> None:
            nonlocal done
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            connection = Connection(reader, writer, f"127.0.0.1:{self.port}")
            try:
                for name, given, check in waiting:
                    body = json.dumps({"input": given}).encode()
                    await connection.send(request("POST", f"/api/tools/{name}/call", body, host=connection.host))
                    reply = await connection.reply()
                    assert reply.status == 200, reply.body
                    check(reply.json)
                    done += 1
            finally:
                await connection.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())
        return done

    def nothing_else_ran(self) -> None:
        """What started is what was expected, word for word; nothing else did, and no file appeared."""
        assert self.other_starts == []
        assert Counter(map(tuple, self.started)) == Counter(map(tuple, self.expected))
        assert list(self.canary.iterdir()) == []
        assert list(self.project.iterdir()) == []


@contextmanager
def _counted(yard: Yard) -> Iterator[None]:
    """Write down every process that is started; the hook stays for ever, and is deaf afterwards."""
    listening = True

    def hear(event: str, given: tuple[Any, ...]) -> None:
        if not listening or event not in STARTS:
            return
        if event == "subprocess.Popen":
            yard.started.append([word.decode() if isinstance(word, bytes) else str(word) for word in given[1]])
        else:
            yard.other_starts.append(event)

    sys.addaudithook(hear)
    try:
        yield
    finally:
        listening = False


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncGenerator[Yard]:
    project, tools, canary = (tmp_path / name for name in ("project", "tools", "canary"))
    for folder in (project, tools, canary):
        folder.mkdir()
    tools_by_position = [shell(name, position.command, "x") for name, position in POSITIONS.items()]
    many = {"type": "array", "items": {"type": "string"}}
    write(
        tools / "shows.json",
        *tools_by_position,
        tool("array", {"type": "shell", "command": f"{SHOW} {{{{xs}}}} end", "maxOutput": 4_194_304}, {"xs": many}),
        shell("text", "cat", "x", stdin="{{x}}", maxOutput=4_194_304),
    )
    async with _serving(project, tools) as port:
        here = Yard(port, project, canary)
        with _counted(here):
            yield here


@asynccontextmanager
async def _serving(project: Path, tools: Path) -> AsyncGenerator[int]:
    async with Toolyard(project, tools_dir=tools, watch=False) as yard:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(yard.serve_http(port=0, on_ready=ready.set_result, stop=stop))
        await asyncio.wait([serving, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield int((await ready).url.rpartition(":")[2])
        finally:
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)


def _job(yard: Yard, name: str, value: str) -> Job:
    """A call with one value, and what must come of it."""
    position = POSITIONS[name]
    argvs = position.runs(value)
    if value.startswith("-") and not position.takes_a_dash:
        return name, {"x": value}, _refusal("'x' makes an argument that begins with a dash")
    yard.expected += argvs
    return name, {"x": value}, _answer("".join(f"{word}\0" for word in argvs[position.shows][2:]))


def _answer(text: str) -> Check:
    def check(answer: dict[str, Any]) -> None:
        assert answer["content"] == [{"type": "text", "text": text}]
        assert answer["isError"] is False

    return check


def _refusal(says: str) -> Check:
    def check(answer: dict[str, Any]) -> None:
        assert answer["isError"] is True
        assert says in answer["content"][0]["text"], answer

    return check


async def test_every_value_thought_of_arrives_as_it_is_in_every_position_and_nothing_else_runs(yard: Yard) -> None:
    values = by_hand(yard.canary)
    jobs = [_job(yard, name, value) for name in ONE_BY_ONE for value in values]
    assert await yard.each(jobs) == len(ONE_BY_ONE) * len(values) > 2_000
    yard.nothing_else_ran()


async def test_two_thousand_generated_values_arrive_as_they_are_in_all_positions_at_once(yard: Yard) -> None:
    values = generated(yard.canary, GENERATED)
    jobs = [_job(yard, "careful" if value.startswith("-") else "everywhere", value) for value in values]
    assert await yard.each(jobs) == GENERATED
    yard.nothing_else_ran()


async def test_an_array_of_hostile_values_is_as_many_arguments(yard: Yard) -> None:
    values = [*by_hand(yard.canary), *generated(yard.canary, GENERATED)]
    taken = [value for value in values if not value.startswith("-") and len(value) <= 2_000]
    jobs: list[Job] = []
    for at in range(0, len(taken), 200):
        argv = _show(*taken[at : at + 200], "end")
        yard.expected.append(argv)
        jobs.append(("array", {"xs": taken[at : at + 200]}, _answer("".join(f"{word}\0" for word in argv[2:]))))
    refused = _refusal("makes an argument that begins with a dash")
    jobs += [("array", {"xs": ["a", value]}, refused) for value in values if value.startswith("-")]
    await yard.each(jobs)
    yard.nothing_else_ran()


async def test_hostile_text_for_stdin_is_read_as_it_is(yard: Yard) -> None:
    values = [*by_hand(yard.canary), *generated(yard.canary, 200), "x" * 1_000_000]
    yard.expected += [["cat"]] * len(values)
    await yard.each(("text", {"x": value}, _answer(value)) for value in values)
    yard.nothing_else_ran()


async def test_null_bytes_and_values_that_are_too_long_are_refused_before_anything_starts(yard: Yard) -> None:
    jobs: list[Job] = []
    for value in REFUSED:
        says = "'x' contains a null byte" if "\0" in value else "characters long; at most 10,000 are allowed here"
        jobs += [(name, {"x": value}, _refusal(says)) for name in POSITIONS]
        jobs.append(("array", {"xs": ["a", value]}, _refusal(says.replace("'x'", "'xs'"))))
    jobs.append(("text", {"x": "a\0b"}, _refusal("'x' contains a null byte")))
    jobs.append(("array", {"xs": ["a"] * 5_000}, _refusal("more than 4,096 arguments; give fewer values")))
    await yard.each(jobs)
    assert yard.started == []
    yard.nothing_else_ran()


async def test_half_of_a_character_is_no_json_and_nothing_starts(yard: Yard) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", yard.port)
    connection = Connection(reader, writer, f"127.0.0.1:{yard.port}")
    for body in (rb'{"input":{"x":"\ud800"}}', rb'{"input":{"x":"\udc80; id"}}', b'{"input":{"x":"\xed\xa0\x80"}}'):
        await connection.send(request("POST", "/api/tools/unquoted/call", body, host=connection.host))
        reply = await connection.reply()
        assert reply.problem["status"] == 400
    await connection.close()
    yard.nothing_else_ran()


async def test_a_value_is_filled_in_once_and_never_looked_at_again(yard: Yard) -> None:
    """`{{x}}` inside a value stays text, whatever the template's own placeholders are called."""
    values = ["{{x}}", "{{ x }}", "{{xs}}", "{{x}}{{x}}", "{{y}}", "{x}", "{{x", "x}}"]
    await yard.each([_job(yard, name, value) for name in POSITIONS for value in values])
    yard.nothing_else_ran()
