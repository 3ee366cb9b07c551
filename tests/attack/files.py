"""Tool files that are wrong in every way: each is read or refused in a moment, and the tools beside it keep working.

Most are read in this process, as `validate_tool_file` and the loader read them, under a bound of processor time. Some
are written into the watched folder of a running server.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.harness import Attack, Target, TooSlowError, bounded_work, own_memory, serving
from tests.attack.mutations import Mutator
from tests.flows.tool_files import shell, tool
from toolstead import validate_tool_file
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.sources.json_file import FileReader

LARGEST = 4 << 20
"""Bytes that a file may have."""
BATCH = 50
MOST_OWN_MEMORY = 500 << 20

_TEXT = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "x": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 10, "default": "a"},
        "xs": {"type": "array", "items": {"$ref": "#/$defs/one"}, "minItems": 0, "uniqueItems": True},
        "o": {"anyOf": [{"type": "object", "additionalProperties": False}, {"const": None}, {"enum": [1, "b", 2.5]}]},
    },
    "required": ["x"],
    "$defs": {"one": {"type": ["string", "integer"], "format": "date"}},
}
_FULL = {
    **tool("full", {"type": "shell", "command": "printf '%s' {{x}} \"{{xs}}\" | grep -v -- '{{x}}' || true"}),
    "inputSchema": _SCHEMA,
    "outputSchema": {"type": "object", "properties": {"a": {"type": "number", "minimum": 0}}},
    "annotations": {"title": "Full", "readOnlyHint": True},
    "examples": [{"input": {"x": "abc"}, "expect": {"contains": "a"}, "run": False}],
}
_EXTRAS = {"env": {"A": "${HOME}", "B": "b"}, "stdin": "{{x}}", "cwd": ".", "timeout": 1_000, "allowLeadingDash": ["x"]}
DOCUMENTS: list[Any] = [
    {"name": "one", "version": "1.0", "tools": [_FULL]},
    {"name": "two", "tools": [shell("grep", "grep -rn --include=*.py -e {{x}} 10.0.0.1-10.0.0.9 2026-11-16", "x")]},
    {
        "name": "three",
        "tools": [tool("sort", {"type": "shell", "command": "sort -t , -k 1 {{x}}", **_EXTRAS}, {"x": _TEXT})],
    },
    {
        "name": "four",
        "tools": [
            tool(
                "ask",
                {
                    "type": "http",
                    "url": "https://example.org:8443/a/{{x}}?q={{y}}",
                    "method": "GET",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                    "allowedHosts": ["10.0.0.7:8080"],
                    "timeout": 5_000,
                },
                {"x": _TEXT, "y": {"type": "integer", "minimum": 0}},
            ),
            tool("origin", {"type": "http", "url": "{{url}}/health"}, {"url": _TEXT}),
            tool("read", {"type": "file-read", "basePath": "docs", "maxSize": 1_000}, {"path": _TEXT}),
        ],
    },
]


WORDS = (
    "grep",
    "-rn",
    "--include=.py",
    "-e",
    "todo",
    "{{x}}",
    "'{{x}}'",
    "a{{x}}b",
    "--opt={{x}}",
    "| wc",
    "&& true",
    "--",
)
DIGITS = ("1", "20", "192", ".", "-", "17", "0", "3.11", "-static", ".exe", "e", "x")
ENDS = ("", "", ";", '"src"', "'a b'", "$", "|", "(", "x", "!", "&", "\\", "*", "{{", '"', "'")


def make_command(chance: Random) -> str:
    """A command as people lay it out: words in columns, versions, dates and ranges of addresses, quotes at the end."""
    words: list[str] = [chance.choice(("grep", "ls", "sort", "python3", "find", "git log"))]
    for _ in range(chance.choice((1, 3, 9, 30))):
        digits = "".join(chance.choice(DIGITS) for _ in range(chance.choice((2, 8, 24, 60))))
        words.append(chance.choice((*WORDS, digits, digits)))
    blanks = chance.choice((" ", " ", "  ", "    ", " " * 30, " " * 600, "\t", " \t "))
    return blanks.join(words) + blanks + chance.choice(ENDS)


def make_document(chance: Random, mutator: Mutator) -> bytes:
    """A tool file with something wrong in it, or with an unusual command."""
    roll = chance.random()
    document = chance.choice(DOCUMENTS)
    if roll < 0.3:
        made = shell("made", make_command(chance), "x")
        return json.dumps({"name": "made", "tools": [made]}).encode()
    if roll < 0.4:  # half written: a string begun, and much in it that needs an escape
        text = json.dumps(document)
        begun = text[: chance.choice([at for at, character in enumerate(text) if character == '"']) + 1]
        inside = chance.choice(('\\"', "\\\\", "\\u0041", "a", "{", "[", '\\"a', "\\n"))
        return (begun + inside * chance.choice((10, 1_000, 20_000, 200_000)))[:LARGEST].encode()
    return mutator.document(document)[: LARGEST + 1]


async def attack(attack: Attack) -> None:
    """Read so many files here, and one in twenty on a server."""
    mutator = Mutator(attack.chance, longest=LARGEST // 8)
    before = own_memory()
    reader = FileReader(Surroundings(root=Path("/"), environ={}), GuardedClient)
    for _ in range(attack.count):
        if attack.is_past(0.6):
            attack.note("the time was over before the count")
            break
        data = make_document(attack.chance, mutator)
        if _read(attack, "read by the loader", lambda data=data: reader.read(Path("tried.json"), data), data):
            _validate(attack, data)
    grown = own_memory() - before
    attack.check("memory bounded (in this process)", grown < MOST_OWN_MEMORY, f"grew by {grown >> 20} MB")
    await _watched_folder(attack, mutator)


def _validate(attack: Attack, data: bytes) -> None:
    """As a program does that has the value already."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    _read(attack, "validate_tool_file", lambda: validate_tool_file(value), data)


def _read(attack: Attack, what: str, read: Any, data: bytes) -> bool:
    """Whether it came back, with whatever verdict, in time."""
    try:
        with bounded_work():
            read()
    except TooSlowError as slow:
        where = traceback.extract_tb(slow.__traceback__)
        place = next((frame for frame in reversed(where) if "/toolstead/" in frame.filename), where[-1])
        attack.fail(
            what, f"more than 1 s of processor time, in {place.name}, {Path(place.filename).name}:{place.lineno}", data
        )
        return False
    except Exception:  # noqa: BLE001 - whatever it raises is the fault that is looked for
        attack.fail(what, traceback.format_exc(limit=-2)[-400:], data)
        return False
    attack.hold(what)
    return True


async def _watched_folder(attack: Attack, mutator: Mutator) -> None:
    """Batches into the folder of a server; the tools of the file beside them stay callable, and it stays quick."""
    beside = shell("beside", "printf %s {{x}}", "x")
    async with serving(attack.folder / "watched", tools=[beside]) as target:
        before = target.memory
        for number in range(max(attack.count // 20 // BATCH, 1)):
            if attack.is_over:
                break
            written = [make_document(attack.chance, mutator) for _ in range(BATCH)]
            if not await _try_batch(attack, target, written):
                attack.note(f"the server was given up in batch {number + 1}")
                return
        await target.check_end(attack, before=before)


async def _try_batch(attack: Attack, target: Target, written: list[bytes]) -> bool:
    """Whether the server got through it."""
    what = "watched folder: batch loaded, others callable"
    for number, data in enumerate(written):
        (target.tools / f"mutant-{number}.json").write_bytes(data)
    used = target.processor_seconds
    try:
        reloaded = await target.ask("POST", "/api/tools/reload", patience=BATCH * 2)
        called = await target.call("beside", {"x": "still here"})
    except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
        slow = await _slow_one(target, written)
        attack.fail(what, f"{type(error).__name__}: the server does not answer while it loads this file", slow)
        return False
    attack.check(
        what, reloaded.status == 200 and b"still here" in called.body, f"{reloaded.body[:200]!r} {called.body!r}"
    )
    used = target.processor_seconds - used
    attack.check("watched folder: time", used < 2 * BATCH, f"{used:.1f} s for {BATCH} files", b"\n".join(written))
    return True


async def _slow_one(target: Target, written: list[bytes]) -> bytes:
    """The file of a batch that is slow by itself, as this process reads it."""
    reader = FileReader(Surroundings(root=Path("/"), environ={}), GuardedClient)
    for data in written:
        try:
            with bounded_work(3):
                reader.read(Path("tried.json"), data)
        except TooSlowError:
            return data
    return b"\n".join(written)
