"""Tools from functions as people write them: a plain `def`, called directly, with lists of text and images."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE, until
from toolstead import Image, PluginContext, Text, Tool, ToolError, ToolMeta, ToolResult, tool
from toolstead.errors import DefinitionError
from toolstead.testing import connect, memory_stead
from toolstead.types.result import Failure

PIXEL = Image(data=b"\x89PNG", mime_type="image/png")


@tool
def shout(text: str, times: int = 1) -> str:
    """Say it louder."""
    return " ".join([text.upper()] * times)


@tool(name="whisper")
async def whisper_softly(text: str) -> str:
    """Say it softly."""
    return text.lower()


@tool
def where(ctx: PluginContext, meta: ToolMeta) -> dict[str, Any]:
    """Where this runs."""
    return {"thread": meta.thread_id, "in_main": threading.current_thread() is threading.main_thread(), "as": ctx.name}


async def test_a_plain_function_is_a_tool_that_runs_beside_the_event_loop() -> None:
    async with memory_stead(shout, where) as stead:
        assert (await stead.call("shout", {"text": "hi", "times": 2.0})).text == "HI HI"
        assert "/text: expected string" in (await stead.call("shout", {"text": 5})).text
        answer = (await stead.call("where", thread_id="t1")).structured
    assert answer == {"thread": "t1", "in_main": False, "as": "python"}


async def test_a_decorated_function_is_still_the_function() -> None:
    assert shout("a", times=2) == "A A"
    assert await whisper_softly(text="LOUD") == "loud"
    assert isinstance(shout, Tool)
    assert list(inspect.signature(shout).parameters) == ["text", "times"]
    assert whisper_softly.name == "whisper"


async def test_calls_of_plain_functions_run_at_once_and_the_loop_goes_on() -> None:
    meeting = threading.Barrier(4)

    @tool
    def meet() -> int:
        """Wait until four are here."""
        meeting.wait(PATIENCE)
        return 1

    async with memory_stead(meet, shout) as stead:
        first = [asyncio.ensure_future(stead.call("meet")) for _ in range(3)]
        await until(lambda: meeting.n_waiting == 3)
        assert (await stead.call("shout", {"text": "meanwhile"})).text == "MEANWHILE"
        assert [one.structured for one in (await stead.call("meet"), *await asyncio.gather(*first))] == [1] * 4


async def test_at_the_deadline_the_caller_goes_on_and_the_thread_learns_that_nobody_waits() -> None:
    released, seen = threading.Event(), list[bool]()

    @tool(timeout=0.05)
    def slow(meta: ToolMeta) -> str:
        """Take long."""
        seen.append(meta.is_abandoned)
        assert released.wait(PATIENCE)
        seen.append(meta.is_abandoned)
        return "late"

    async with memory_stead(slow) as stead:
        result = await stead.call("slow")
        assert result.failure is Failure.TIMEOUT
        assert result.text == (
            "slow did not finish within 0.05 seconds; it goes on in the background and may still take effect: "
            "check before calling it again"
        )
        released.set()
        await until(lambda: seen == [False, True])


async def test_a_plain_function_reports_progress_and_a_report_ends_it_when_nobody_waits() -> None:
    counted, go_on, ended = threading.Event(), threading.Event(), list[BaseException]()

    @tool(progress=True)
    def count(meta: ToolMeta, wait: bool = False) -> str:
        """Count to three."""
        for number in (1, 2, 3):
            meta.report_progress(number, 3, f"{number} of 3")
        counted.set()
        if wait:
            assert go_on.wait(PATIENCE)
            try:
                meta.report_progress(3, 3)
            except asyncio.CancelledError as error:
                ended.append(error)
                raise
        return "done"

    reports: list[tuple[float, float | None, str | None]] = []

    async def take(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async with memory_stead(count) as stead, connect(stead) as client:
        answer = await client.call_tool("count", {}, progress_callback=take)
        assert answer.content[0].text == "done"
        await until(lambda: reports == [(1, 3, "1 of 3"), (2, 3, "2 of 3"), (3, 3, "3 of 3")])
        counted.clear()
        calling = asyncio.ensure_future(stead.call("count", {"wait": True}))
        await until(counted.is_set)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        go_on.set()
        await until(lambda: ended)


def test_a_plain_function_cannot_ask_its_client() -> None:
    with pytest.raises(DefinitionError, match="interactive: asking the client takes an `await`; write an `async def`"):

        @tool(interactive=True)
        def ask() -> str:
            """Ask."""
            return ""


async def test_a_handler_of_a_tool_made_by_hand_stays_async() -> None:
    def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        return ""

    async with memory_stead() as stead:
        with pytest.raises(DefinitionError, match="handler: an `async def` with"):
            stead.registry.register(Tool(name="raw", description="Raw.", handler=handler))


async def test_a_crash_and_a_refusal_in_a_thread_are_those_of_any_tool(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def divide(by: int) -> float:
        """Divide one."""
        if by < 0:
            raise ToolError("by is negative; give a positive one")
        return 1 / by

    async with memory_stead(divide) as stead:
        assert (await stead.call("divide", {"by": -1})).text == "by is negative; give a positive one"
        assert (await stead.call("divide", {"by": 0})).failure is Failure.CRASH
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("is_explicit", [True, False])
async def test_the_cause_of_a_refusal_is_in_the_log_and_not_in_the_answer(
    is_explicit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def read_row() -> str:
        """Read a row."""
        try:
            raise ConnectionError("no route to 10.0.0.7")
        except ConnectionError as error:
            if is_explicit:
                raise ToolError("the database is down") from error
            raise ToolError("the database is down")  # noqa: B904 - as many authors write it

    async with memory_stead(read_row) as stead:
        with caplog.at_level("WARNING", "toolstead"):
            assert (await stead.call("read_row")).text == "the database is down"
        cause = "the cause of read_row's failure: ConnectionError: no route to 10.0.0.7 (" + __file__
        assert caplog.text.count(cause) == 1
        assert "Traceback" not in caplog.text
        with caplog.at_level("DEBUG", "toolstead"):
            await stead.call("read_row")
        assert caplog.text.count("Traceback") >= 1


# --- lists and tuples


@dataclass
class Size:
    width: int


def gallery(count: int) -> list[Image]:
    """Some images."""
    return [PIXEL] * count


def page() -> tuple[str, Image, Size]:
    """A page."""
    return "a pixel", PIXEL, Size(width=1)


def untyped() -> Any:
    """Whatever."""
    return [1, "two", PIXEL, {"three": 3}]


def perhaps(many: bool) -> Image | list[Image | str] | None:
    """One, or some."""
    return [PIXEL, "and text"] if many else None


def numbers() -> tuple[int, str]:
    """Plain JSON."""
    return 1, "two"


def secrets() -> Any:
    """No JSON."""
    return [PIXEL, threading.Event()]


@cache
def squared(number: int) -> list[int]:
    """Squared."""
    return [number * number]


@pytest.mark.parametrize(
    ("function", "input", "content", "structured"),
    [
        (gallery, {"count": 2}, [PIXEL, PIXEL], None),
        (gallery, {"count": 0}, [], None),
        (page, {}, [Text("a pixel"), PIXEL, Text('{"width":1}')], None),
        (untyped, {}, [Text("1"), Text("two"), PIXEL, Text('{"three":3}')], None),
        (perhaps, {"many": True}, [PIXEL, Text("and text")], None),
        (perhaps, {"many": False}, [Text("")], None),
        (numbers, {}, [Text('[1,"two"]')], [1, "two"]),
        (squared, {"number": 3}, [Text("[9]")], [9]),
    ],
)
async def test_a_list_with_images_is_shown_item_by_item_and_any_other_is_json(
    function: Any, input: dict[str, Any], content: list[Any], structured: Any
) -> None:
    made = tool(function)
    assert made.output_schema is None
    async with memory_stead(made) as stead:
        result = await stead.call(made.name, input)
    assert (list(result.content), result.structured, result.is_error) == (content, structured, False)


class Colour(Enum):
    RED = "red"


RICH = {
    "day": date(2026, 1, 2),
    "colour": Colour.RED,
    "tags": {"a"},
    "path": Path("/tmp/x"),
    "sizes": [Size(1)],
    date(2026, 1, 2): None,
}
BECOMES = {
    "day": "2026-01-02",
    "colour": "red",
    "tags": ["a"],
    "path": "/tmp/x",
    "sizes": [{"width": 1}],
    "2026-01-02": None,
}


@pytest.mark.parametrize(
    ("annotation", "value", "content", "structured"),
    [
        (dict, RICH, [Text(json.dumps(BECOMES, separators=(",", ":")))], BECOMES),
        (dict[str, Any], {"of": RICH}, [Text(json.dumps({"of": BECOMES}, separators=(",", ":")))], {"of": BECOMES}),
        (list, [Colour.RED, Size(2)], [Text('["red",{"width":2}]')], ["red", {"width": 2}]),
        (inspect.Parameter.empty, Size(3), [Text('{"width":3}')], {"width": 3}),
        (Any, date(2026, 1, 2), [Text("2026-01-02")], None),
        (Any, [PIXEL, Size(4)], [PIXEL, Text('{"width":4}')], None),
    ],
)
async def test_what_becomes_json_does_so_at_any_depth_whatever_the_annotation_says(
    annotation: Any, value: Any, content: list[Any], structured: Any
) -> None:
    async def give() -> Any:
        """Give it."""
        return value

    give.__annotations__["return"] = annotation
    async with memory_stead(tool(give)) as stead:
        result = await stead.call("give")
    assert (list(result.content), result.structured, result.is_error) == (content, structured, False)


async def test_what_is_no_json_in_a_list_with_images_is_refused_by_name() -> None:
    async with memory_stead(tool(secrets)) as stead:
        result = await stead.call("secrets")
    assert result.failure is Failure.INVALID_OUTPUT
    assert "a list with content, and with what is no JSON (Object of type Event" in result.text


def test_a_result_is_built_from_parts() -> None:
    assert ToolResult.of_parts(["a", PIXEL, 2]) == ToolResult(content=[Text("a"), PIXEL, Text("2")])


async def test_a_list_with_images_reaches_an_mcp_client_as_its_parts() -> None:
    async with memory_stead(tool(page)) as stead, connect(stead) as client:
        answer = await client.call_tool("page", {})
    assert [part.type for part in answer.content] == ["text", "image", "text"]
    assert answer.structured_content is None
