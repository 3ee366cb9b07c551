"""What is sent of a Struct: its fields in camelCase, but for those it keeps, leaves out or flattens."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from toolstead.types.content import Audio, EmbeddedResource, Image, ResourceLink, Text
from toolstead.types.result import Failure, ToolResult
from toolstead.types.sent import SentStruct


class Part(SentStruct, frozen=True, kw_only=True):
    """A part."""

    optional: ClassVar[frozenset[str]] = frozenset({"line_number"})

    own_name: str
    line_number: int | None = None


class Whole(SentStruct, frozen=True, kw_only=True):
    """A whole."""

    unsent: ClassVar[frozenset[str]] = frozenset({"secret"})
    optional: ClassVar[frozenset[str]] = frozenset({"is_stale", "found"})
    flattened: ClassVar[frozenset[str]] = frozenset({"first"})

    id: str
    secret: str = ""
    first: Part
    others: tuple[Part, ...] = ()
    data: Mapping[str, Any] | None = None
    is_stale: bool = False
    found: Mapping[str, int] = MappingProxyType({})


def test_fields_are_sent_kept_left_out_and_flattened_as_the_struct_says() -> None:
    whole = Whole(id="1", secret="s", first=Part(own_name="a"), others=(Part(own_name="b", line_number=0),))
    assert whole.to_json() == {"id": "1", "ownName": "a", "others": [{"ownName": "b", "lineNumber": 0}], "data": None}
    more = Whole(id="1", first=Part(own_name="a"), data=MappingProxyType({"a": (1,)}), is_stale=True, found={"x": 1})
    assert more.to_json() == {
        "id": "1",
        "ownName": "a",
        "others": [],
        "data": {"a": (1,)},
        "isStale": True,
        "found": {"x": 1},
    }


def test_what_is_sent_may_be_changed_without_changing_the_struct() -> None:
    whole = Whole(id="1", first=Part(own_name="a"), data={"a": 1})
    sent = whole.to_json()
    sent["data"]["a"] = 2
    assert whole.data == {"a": 1}


def test_parts_of_results_are_as_mcp_has_them() -> None:
    parts = (
        Text("t"),
        Image(data=b"i", mime_type="image/png"),
        Audio(data=b"a", mime_type="audio/wav"),
        ResourceLink(uri="u", name="n", mime_type="text/plain"),
        EmbeddedResource(uri="u", content="text"),
        EmbeddedResource(uri="u", content=b"b", mime_type="x/y"),
    )
    result = ToolResult(content=parts, structured=False, failure=Failure.TOOL)
    assert result.to_json() == {
        "content": [
            {"type": "text", "text": "t"},
            {"type": "image", "data": "aQ==", "mimeType": "image/png"},
            {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "u", "name": "n", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "u", "text": "text"}},
            {"type": "resource", "resource": {"uri": "u", "mimeType": "x/y", "blob": "Yg=="}},
        ],
        "isError": False,
        "structuredContent": False,
    }
