"""Validation that may take long: the event loop goes on, effort is bounded, both ways give the same answers."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.schema.compiled import compile_schema
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.tools.validation import BoundedValidator
from toolstead.types.result import Failure, ToolResult

LOOK_AROUND = {"type": "string", "pattern": "(?=.*[0-9])(?=.*[a-z])[a-z0-9]+[0-9]"}
BACK_REFERENCE = {"type": "string", "pattern": r"^(a+)\1+(?=!)b$"}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
ITSELF = {
    "$defs": {
        "node": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/node"}},
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}},
                {"type": "integer"},
            ]
        }
    }
}


def nested(levels: int, inner: Any = "x") -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


async def echo(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
    return ToolResult.of_json(dict(input))


def tool(name: str, part: dict[str, Any], **fields: Any) -> Tool:
    schema = {"type": "object", "properties": {"x": part}, **fields.pop("around", {})}
    return Tool(name=name, description="A tool.", handler=echo, schema=schema, **fields)


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    registry = Registry()
    node = {"$ref": "#/$defs/node"}
    registry.register(
        tool("fast", {"type": "string"}),
        tool("password", LOOK_AROUND),
        tool("repeated", BACK_REFERENCE),
        tool("numbers", NUMBERS),
        tool("tree", node, around=ITSELF),
        tool("answers", {}, output_schema={"type": "object", "properties": {"x": LOOK_AROUND}}),
    )
    made = Dispatcher(registry, events=EventLog(), cwd=Path("/"), validator=BoundedValidator(keep_idle=60))
    yield made
    await made.validator.aclose()


def children() -> set[int]:
    """The running child processes of this one."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.promise("B12")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("password", "a" * 20_000, "expected text that matches"),
        ("repeated", "a" * 200_000, "too much work to find out whether it matches the pattern"),
        ("numbers", ["x"] * 300_000, "/x/0: expected integer"),
        ("tree", nested(16), "they do not fit the schema, and finding out where took longer than 1 second"),
        ("tree", nested(5), "fits none of 3 alternatives"),
        ("answers", "a" * 20_000, "its output schema does not allow"),
    ],
    ids=["look-around", "back-reference", "many problems", "a schema of itself", "a shallow value", "an answer"],
)
async def test_others_are_answered_while_a_value_is_validated_that_takes_long(
    dispatcher: Dispatcher, name: str, value: Any, said: str
) -> None:
    slow = asyncio.create_task(dispatcher.call(name, {"x": value}))
    await asyncio.sleep(0)
    for _ in range(100):
        assert (await dispatcher.call("fast", {"x": "y"})).structured == {"x": "y"}
    assert not slow.done()
    result = await slow
    assert result.is_error
    assert result.failure is (Failure.INVALID_OUTPUT if name == "answers" else Failure.INVALID_ARGUMENTS)
    assert said in result.text
    assert len(result.text) < 2_000


async def test_what_fits_is_passed_on_however_it_was_validated(dispatcher: Dispatcher) -> None:
    for name, value in (
        ("password", "a" * 5_000 + "1"),
        ("password", "a1"),
        ("numbers", list(range(20_000))),
        ("tree", nested(50, 1)),
        ("answers", "b" * 5_000 + "2"),
    ):
        assert (await dispatcher.call(name, {"x": value})).structured == {"x": value}


async def test_a_cancelled_validation_leaves_no_process_and_the_next_one_works(dispatcher: Dispatcher) -> None:
    before = children()
    slow = asyncio.create_task(dispatcher.call("password", {"x": "a" * 150_000}))
    await until(lambda: children() - before)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert children() <= before
    assert not (await dispatcher.call("password", {"x": "a" * 3_000 + "1"})).is_error


async def test_a_process_that_was_killed_is_a_refusal_and_the_next_value_is_validated(dispatcher: Dispatcher) -> None:
    before = children()
    slow = asyncio.create_task(dispatcher.call("password", {"x": "a" * 150_000}))
    (started,) = await until(lambda: children() - before)
    os.kill(started, signal.SIGKILL)
    result = await slow
    assert result.failure is Failure.INVALID_ARGUMENTS
    assert "validating them took longer than 5 seconds" in result.text
    assert not (await dispatcher.call("password", {"x": "a" * 3_000 + "1"})).is_error


async def test_many_at_once_are_answered_by_two_processes(dispatcher: Dispatcher) -> None:
    before = children()
    calls = [asyncio.create_task(dispatcher.call("password", {"x": "a" * 3_000 + str(n % 10)})) for n in range(30)]
    results = await asyncio.gather(*calls)
    assert [result.structured for result in results] == [{"x": "a" * 3_000 + str(n % 10)} for n in range(30)]
    assert len(children() - before) <= 2
    await dispatcher.validator.aclose()
    assert children() <= before


async def test_an_idle_process_ends_without_a_complaint_and_the_next_value_gets_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, validator = children(), BoundedValidator(keep_idle=0.05)
    schema = compile_schema(LOOK_AROUND, tool="t")
    for _ in range(2):
        assert await validator.find_problems(schema, "a" * 3_000 + "1") == []
        await until(lambda: children() <= before)
    assert not caplog.records
    await validator.aclose()


async def test_both_ways_give_the_same_answers() -> None:
    """Schemas of every kind and values that fit, that do not, and that are no JSON."""
    schemas: list[Any] = [
        {"type": "object", "properties": {"x": part}, "required": ["x"], **ITSELF}
        for part in (LOOK_AROUND, BACK_REFERENCE, NUMBERS, {"$ref": "#/$defs/node"}, {"enum": [1, "a", None]})
    ]
    chance = random.Random(5)
    leaves = [1, 1.5, float("nan"), 2**70, True, None, "a1", "aaab", "é", "\ud800", "", -0.0]

    def value(levels: int) -> Any:
        kind = chance.randrange(3) if levels else 0
        if kind == 0:
            return chance.choice(leaves)
        return [value(levels - 1) for _ in range(3)] if kind == 1 else {"x": value(levels - 1)}

    inline, apart = BoundedValidator(), BoundedValidator(keep_idle=60)
    compared = 0
    try:
        for schema in schemas:
            here, there = compile_schema(schema, tool="t"), compile_schema(schema, tool="t")
            here.inline_size, here.expands_far = 1 << 30, False
            there.inline_size = 0
            for _ in range(40):
                given = {"x": value(3)}
                assert await inline.find_problems(here, given) == await apart.find_problems(there, given)
                compared += 1
                there.inline_size = 0
    finally:
        await apart.aclose()
    assert compared == 200
