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
from tests.surfaces.rest_server import Connection, request
from tests.waiting import PATIENCE
from toolstead import Toolstead

pytestmark = pytest.mark.promise("R8")

AT_ONCE = 8
VALUES = 2_000
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
class Template:
    """A command with places for two values, what runs for them, and the words that begin with one."""

    command: str
    runs: Callable[[str, str], Argvs]
    begins: Callable[[str, str], list[str]] = lambda _, __: []
    """Where a dash would make an option of it."""

    def refuses(self, x: str, y: str) -> bool:
        return any(word.startswith("-") for word in self.begins(x, y))

    def prints(self, x: str, y: str) -> str:
        """What the programs that show their arguments print, together."""
        shown = [argv[argv.index(FORMAT) + 1 :] for argv in self.runs(x, y) if FORMAT in argv[:4]]
        return "".join(f"{word}\0" for words in shown for word in words)


FORMAT = "%s\\0"


def _show(*words: str) -> list[str]:
    return ["printf", FORMAT, "begin", *words]


TEMPLATES = {
    "plain": Template(
        command=f"{SHOW} {{{{x}}}} {{{{y}}}} end",
        runs=lambda x, y: [_show(x, y, "end")],
        begins=lambda x, y: [x, y],
    ),
    "quoted": Template(
        command=f"{SHOW} '{{{{x}}}}' \"{{{{y}}}}\" end",
        runs=lambda x, y: [_show(x, y, "end")],
        begins=lambda x, y: [x, y],
    ),
    "inside": Template(
        command=f"{SHOW} a{{{{x}}}}'b' \"c {{{{y}}}} d\" --opt={{{{x}}}} -o{{{{y}}}}",
        runs=lambda x, y: [_show(f"a{x}b", f"c {y} d", f"--opt={x}", f"-o{y}")],
    ),
    "joined": Template(
        command=f"{SHOW} {{{{x}}}}{{{{y}}}} .'{{{{y}}}}'{{{{x}}}}",
        runs=lambda x, y: [_show(f"{x}{y}", f".{y}{x}")],
        begins=lambda x, y: [f"{x}{y}"],
    ),
    "separated": Template(
        command=f"{SHOW} -- {{{{x}}}} '{{{{y}}}}'",
        runs=lambda x, y: [_show("--", x, y)],
    ),
    "from-a-pipe": Template(
        command=f'echo first | {SHOW} {{{{x}}}} a"{{{{y}}}}"',
        runs=lambda x, y: [["echo", "first"], _show(x, f"a{y}")],
        begins=lambda x, _: [x],
    ),
    "into-a-pipe": Template(
        command=f"{SHOW} {{{{x}}}} '{{{{y}}}}' | cat",
        runs=lambda x, y: [_show(x, y), ["cat"]],
        begins=lambda x, y: [x, y],
    ),
    "and": Template(
        command=f'true && {SHOW} {{{{x}}}} && {SHOW} "{{{{y}}}}"',
        runs=lambda x, y: [["true"], _show(x), _show(y)],
        begins=lambda x, y: [x, y],
    ),
    "or": Template(
        command=f"false || {SHOW} {{{{x}}}}; {SHOW} a{{{{y}}}}",
        runs=lambda x, y: [["false"], _show(x), _show(f"a{y}")],
        begins=lambda x, _: [x],
    ),
    "wrapped": Template(
        command=f"env LANG=C {SHOW} {{{{x}}}} -- '{{{{y}}}}'",
        runs=lambda x, y: [["env", "LANG=C", *_show(x, "--", y)]],
        begins=lambda x, _: [x],
    ),
}


@dataclass(slots=True)
class Stead:
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
def _counted(stead: Stead) -> Iterator[None]:
    """Write down every process that is started; the hook stays for ever, and is deaf afterwards."""
    listening = True

    def hear(event: str, given: tuple[Any, ...]) -> None:
        if not listening or event not in STARTS:
            return
        if event == "subprocess.Popen":
            stead.started.append([word.decode() if isinstance(word, bytes) else str(word) for word in given[1]])
        else:
            stead.other_starts.append(event)

    sys.addaudithook(hear)
    try:
        yield
    finally:
        listening = False


@pytest.fixture
async def stead(tmp_path: Path) -> AsyncGenerator[Stead]:
    project, tools, canary = (tmp_path / name for name in ("project", "tools", "canary"))
    for folder in (project, tools, canary):
        folder.mkdir()
    tools_by_template = [shell(name, template.command, "x", "y") for name, template in TEMPLATES.items()]
    many = {"type": "array", "items": {"type": "string"}}
    write(
        tools / "shows.json",
        *tools_by_template,
        tool("array", {"type": "shell", "command": f"{SHOW} {{{{xs}}}} end", "maxOutput": 4_194_304}, {"xs": many}),
        shell("text", "cat", "x", stdin="{{x}}", maxOutput=4_194_304),
    )
    async with _serving(project, tools) as port:
        here = Stead(port, project, canary)
        with _counted(here):
            yield here


@asynccontextmanager
async def _serving(project: Path, tools: Path) -> AsyncGenerator[int]:
    async with Toolstead(project, tools_dir=tools, watch=False) as stead:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(stead.serve_http(port=0, on_ready=ready.set_result, stop=stop))
        await asyncio.wait([serving, ready], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield int((await ready).url.rpartition(":")[2])
        finally:
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)


def _jobs(stead: Stead, name: str, x: str, y: str) -> list[Job]:
    """A call with two values, and what must come of it; where one is refused, the other has another try."""
    template, given = TEMPLATES[name], {"x": x, "y": y}
    if not template.refuses(x, y):
        stead.expected += template.runs(x, y)
        return [(name, given, _answer(template.prints(x, y)))]
    jobs: list[Job] = [(name, given, _refusal("makes an argument that begins with a dash"))]
    for again in ((x, "plain"), ("plain", y)):
        jobs += _jobs(stead, name, *again) if not template.refuses(*again) else []
    return jobs


def _answer(text: str) -> Check:
    def check(answer: dict[str, Any]) -> None:
        assert answer["content"] == [{"type": "text", "text": text}]
        assert answer["isError"] is False

    return check


def _refusal(*says: str) -> Check:
    def check(answer: dict[str, Any]) -> None:
        assert answer["isError"] is True
        for part in says:
            assert part in answer["content"][0]["text"], answer

    return check


@pytest.mark.parametrize("name", TEMPLATES)
async def test_two_thousand_values_arrive_as_they_are_in_every_place_and_nothing_else_runs(
    name: str, stead: Stead
) -> None:
    values = list(dict.fromkeys([*by_hand(stead.canary), *generated(stead.canary, VALUES)]))[:VALUES]
    neighbours = [*values[VALUES // 3 :], *values[: VALUES // 3]]
    jobs = [job for x, y in zip(values, neighbours, strict=True) for job in _jobs(stead, name, x, y)]
    assert await stead.each(jobs) == len(jobs) >= VALUES
    stead.nothing_else_ran()


async def test_an_array_of_hostile_values_is_as_many_arguments(stead: Stead) -> None:
    values = [*by_hand(stead.canary), *generated(stead.canary, VALUES)]
    taken = [value for value in values if not value.startswith("-") and len(value) <= 2_000]
    jobs: list[Job] = []
    for at in range(0, len(taken), 200):
        argv = _show(*taken[at : at + 200], "end")
        stead.expected.append(argv)
        jobs.append(("array", {"xs": taken[at : at + 200]}, _answer("".join(f"{word}\0" for word in argv[2:]))))
    refused = _refusal("makes an argument that begins with a dash")
    jobs += [("array", {"xs": ["a", value]}, refused) for value in values if value.startswith("-")]
    await stead.each(jobs)
    stead.nothing_else_ran()


async def test_hostile_text_for_stdin_is_read_as_it_is(stead: Stead) -> None:
    values = [*by_hand(stead.canary), *generated(stead.canary, 200), "x" * 1_000_000]
    stead.expected += [["cat"]] * len(values)
    await stead.each(("text", {"x": value}, _answer(value)) for value in values)
    stead.nothing_else_ran()


async def test_null_bytes_and_values_that_are_too_long_are_refused_before_anything_starts(stead: Stead) -> None:
    jobs: list[Job] = []
    for value in REFUSED:
        says = "contains a null byte" if "\0" in value else "characters long; at most 10,000 are allowed here"
        for bad, good in (("x", "y"), ("y", "x")):
            jobs += [(name, {bad: value, good: "a"}, _refusal(f"'{bad}' ", says)) for name in TEMPLATES]
        jobs.append(("array", {"xs": ["a", value]}, _refusal("'xs' ", says)))
    jobs.append(("text", {"x": "a\0b"}, _refusal("'x' contains a null byte")))
    jobs.append(("array", {"xs": ["a"] * 5_000}, _refusal("more than 4,096 arguments; give fewer values")))
    await stead.each(jobs)
    assert stead.started == []
    stead.nothing_else_ran()


async def test_half_of_a_character_is_no_json_and_nothing_starts(stead: Stead) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stead.port)
    connection = Connection(reader, writer, f"127.0.0.1:{stead.port}")
    for text in (rb'"\ud800"', rb'"\udc80; id"', b'"\xed\xa0\x80"'):
        body = b'{"input":{"y":"a","x":' + text + b"}}"
        await connection.send(request("POST", "/api/tools/plain/call", body, host=connection.host))
        reply = await connection.reply()
        assert reply.problem["status"] == 400
    await connection.close()
    stead.nothing_else_ran()


async def test_a_value_is_filled_in_once_and_never_looked_at_again(stead: Stead) -> None:
    """`{{x}}` inside a value stays text, whatever the template's own placeholders are called."""
    values = ["{{x}}", "{{ x }}", "{{xs}}", "{{x}}{{y}}", "{{y}}", "{x}", "{{x", "y}}"]
    pairs = [(x, y) for x in values for y in values]
    await stead.each([job for name in TEMPLATES for x, y in pairs for job in _jobs(stead, name, x, y)])
    stead.nothing_else_ran()
