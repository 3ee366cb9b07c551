"""Output: what a handler may return, what is refused, and how a result is bounded."""

from __future__ import annotations

import json
import types
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.output import BadResultError, cap_result, convert_answer
from toolstead.tools.registry import Registry
from toolstead.types.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text
from toolstead.types.result import Failure, ToolResult


class Pair(NamedTuple):
    a: int
    b: str


class Upper(Mapping[str, int]):
    """A mapping that is no dict."""

    def __getitem__(self, key: str) -> int:
        return {"A": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["A"])

    def __len__(self) -> int:
        return 1


class Said(str):
    __slots__ = ()


endless: list[Any] = []
endless.append(endless)
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("", "", None),
        (Said("text"), "text", None),
        ({}, "{}", {}),
        ([], "[]", []),
        ({"ü": None}, '{"ü":null}', {"ü": None}),
        (OrderedDict(a=1), '{"a":1}', {"a": 1}),
        (types.MappingProxyType({"a": 1}), '{"a":1}', {"a": 1}),
        (Upper(), '{"A":1}', {"A": 1}),
        ((1, "a"), '[1,"a"]', [1, "a"]),
        (Pair(1, "a"), '[1,"a"]', [1, "a"]),
        (0, "0", 0),
        (False, "false", False),
        (2**70, str(2**70), 2**70),
        (1.5, "1.5", 1.5),
        ({1}, "[1]", [1]),
        ({(1, 2): 3}, '{"1,2":3}', {"1,2": 3}),
    ],
)
def test_text_and_json_values_are_answers(value: Any, text: str, structured: Any) -> None:
    result = convert_answer(value)
    assert (result.text, result.structured, result.is_error) == (text, structured, False)


@pytest.mark.parametrize(
    "part",
    [
        Text("a"),
        Image(data=b"a", mime_type="image/png"),
        Audio(data=b"a", mime_type="audio/wav"),
        ResourceLink(uri="file:///a", name="a"),
        EmbeddedResource(uri="file:///a", content="a"),
        EmbeddedResource(uri="file:///a", content=b"a", mime_type="text/plain"),
    ],
)
def test_a_piece_of_content_is_an_answer_and_a_whole_result_stays_itself(part: Content) -> None:
    assert convert_answer(part) == ToolResult(content=(part,))
    whole = ToolResult(content=[part, part], is_error=True, structured={"a": 1}, failure=Failure.TOOL)
    assert convert_answer(whole) is whole


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, 'None; return text, such as "", or JSON, or let the annotation of the function allow it'),
        (b"\xff", "bytes; return Image(data=…, mime_type="),
        (b"hello", "bytes; return Image(data=…, mime_type="),
        (bytearray(b"hello"), "bytearray; return Image(data=…, mime_type="),
        ((n for n in ()), "a generator; return text"),
        ({"a": object()}, "dict that is no JSON (Object of type object is not JSON serializable)"),
        (float("nan"), "float that is no JSON (Out of range float values"),
        ([float("inf")], "list that is no JSON (Out of range float values"),
        (endless, "list that is no JSON (Circular reference detected)"),
        (deep, "list that is no JSON (maximum recursion depth exceeded"),
        (ToolResult(content=[Text("a")], structured=object()), "object that is no JSON"),
        (ToolResult(content=[Text("a")], structured={"n": float("nan")}), "dict that is no JSON (Out of range"),
        (ToolResult(content="text"), "a ToolResult whose content is str, not a list"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (ToolResult(content=None), "a ToolResult whose content is NoneType, not a list"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (ToolResult(content=["text"]), "a ToolResult with str in its content"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (Text(5), "Text with a field of a wrong type: Text(text=5)"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (ToolResult(content=[Text(None)]), "Text with a field of a wrong type"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (Image(data="aGk=", mime_type="image/png"), "Image with a field of a wrong type"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (
            Image(data=b"a", mime_type="nonsense"),
            "Image with mime_type='nonsense'; a media type is needed, such as 'im",
        ),
        (Audio(data=b"a", mime_type=None), "Audio with a field of a wrong type"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (ResourceLink(uri="a", name=None), "ResourceLink with a field of a wrong type"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        (EmbeddedResource(uri="a", content={}), "EmbeddedResource with a field of a wrong type"),  # pyright: ignore[reportArgumentType] - nonsense on purpose
    ],
)
def test_what_is_no_result_is_refused_in_a_few_words(value: Any, said: str) -> None:
    with pytest.raises(BadResultError) as caught:
        convert_answer(value)
    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) < 200


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    "value",
    [
        ToolResult(content=[Text("a")], structured=object()),
        ToolResult(content=[Text(5)]),  # pyright: ignore[reportArgumentType] - nonsense on purpose
        {"n": float("nan")},
    ],
)
async def test_nonsense_is_an_error_result_for_every_caller(value: Any) -> None:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> Any:
        return value

    registry = Registry()
    registry.register(Tool(name="t", description="d", handler=handler))
    result = await Dispatcher(registry, events=EventLog(), cwd=Path("/")).call("t")
    assert result.failure is Failure.INVALID_OUTPUT
    assert result.text.startswith("t returned ")


def test_a_result_within_the_limit_is_the_same_result() -> None:
    result = ToolResult(content=[Text("ü" * 5), Image(data=b"x" * 6, mime_type="image/png")], structured={"a": 1})
    assert cap_result(result, 16) == (result, 0)
    assert cap_result(result, 16)[0] is result
    assert cap_result(result, 15)[1] > 0


def test_bytes_are_counted_not_characters() -> None:
    assert cap_result(convert_answer("ü" * 10), 20)[1] == 0
    assert cap_result(convert_answer("ü" * 10), 19)[1] > 0
    assert cap_result(ToolResult(content=[Text("a")], structured="ü" * 9), 20)[1] == 0
    assert cap_result(ToolResult(content=[Text("a")], structured="ü" * 10), 20)[1] == 22
    assert cap_result(convert_answer("\ud800"), 3)[1] == 0
    link = ResourceLink(uri="u" * 5, name="n" * 5, description="d" * 5)
    assert cap_result(convert_answer(link), 15)[1] == 0
    assert cap_result(convert_answer(link), 14)[1] == 15
    for content in ("ü" * 5, b"x" * 10):
        resource = EmbeddedResource(uri="u" * 5, content=content)
        assert cap_result(convert_answer(resource), 15)[1] == 0
        assert cap_result(convert_answer(resource), 14)[1] == 15


def test_text_keeps_its_head_and_its_tail() -> None:
    result, left_out = cap_result(convert_answer("HEAD" + "x" * 1000 + "TAIL"), 100)
    assert left_out == 908
    assert result.text.startswith("HEAD" + "x" * 71 + "\n[toolstead: 908 of 1,008 bytes left out here;")
    assert result.text.endswith("]\n" + "x" * 21 + "TAIL")


def test_an_error_and_its_reason_survive_the_cut() -> None:
    cut, left_out = cap_result(ToolResult(content=[Text("x" * 100)], is_error=True, failure=Failure.TOOL), 10)
    assert (cut.is_error, cut.failure, left_out) == (True, Failure.TOOL, 90)


def test_a_structured_answer_that_is_too_large_is_left_out_whole_and_said_so() -> None:
    cut, left_out = cap_result(ToolResult(content=[Text("short")], structured=["x" * 100]), 50)
    assert cut.structured is None
    assert left_out == 104
    assert [part.text for part in cut.content if isinstance(part, Text)] == [
        "short",
        "[toolstead: the structured answer was larger than 50 bytes and is left out]",
    ]


def test_a_structured_answer_that_fits_stays_when_only_the_text_is_too_long() -> None:
    cut, _ = cap_result(ToolResult(content=[Text("x" * 100)], structured={"a": 1}), 50)
    assert cut.structured == {"a": 1}


def test_a_picture_that_is_too_large_leaves_room_for_the_words_beside_it() -> None:
    picture = Image(data=b"x" * 9_000, mime_type="image/png")
    cut, left_out = cap_result(ToolResult(content=[Text("before"), picture, Text("after")]), 1_000)
    assert [part.text for part in cut.content if isinstance(part, Text)] == [
        "before",
        "[toolstead: image/png of 9,000 bytes left out: more than the limit allows]",
        "after",
    ]
    assert left_out == 9_000


@pytest.mark.parametrize("part", [Text("x" * 50), Image(data=b"x" * 2_000, mime_type="image/" + "p" * 500)])
def test_very_many_parts_do_not_make_very_many_notes(part: Content) -> None:
    cut, left_out = cap_result(ToolResult(content=[part] * 10_000), 1_000)
    kept = sum(50 for one in cut.content if one is part)
    assert len(json.dumps(cut.to_json())) < 2_500
    assert "more parts of" in cut.text.splitlines()[-1]
    assert left_out + kept <= 10_000 * 2_000


def test_even_a_tiny_limit_says_what_is_missing() -> None:
    cut, left_out = cap_result(convert_answer(Image(data=b"x" * 10, mime_type="image/png")), 1)
    assert (cut.text, left_out) == ("[toolstead: image/png of 10 bytes left out: more than the limit allows]", 10)
    cut, left_out = cap_result(convert_answer("xy"), 1)
    assert left_out == 1
    assert "1 of 2 bytes left out" in cut.text


@settings(deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=6), limit=st.integers(min_value=1, max_value=100))
def test_what_is_kept_and_what_is_left_out_is_the_whole(texts: list[str], limit: int) -> None:
    total = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    cut, left_out = cap_result(ToolResult(content=[Text(text) for text in texts]), limit)
    assert (left_out > 0) is (total > limit)
    whole = [text for text, part in zip(texts, cut.content, strict=False) if part == Text(text)]
    assert sum(len(text.encode("utf-8", "surrogatepass")) for text in whole) <= limit
    assert len(cut.text) <= limit + 400
