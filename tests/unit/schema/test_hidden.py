"""Whole documents: every text is looked at by the rules of its place, and plain ones are told fast."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.flows.hidden_strings import HIDDEN, JOINED, SPACED
from toolstead.schema.visible import Part, find_hidden, hides_nothing, may_hide

EVERY = [*HIDDEN, *JOINED, *SPACED]
HEART = "\u2764\ufe0f"


def found(document: Any, part: Part = "schema") -> list[tuple[str, bool]]:
    return [(hidden.pointer, hidden.is_key) for hidden in find_hidden(document, part=part)]


def test_every_name_and_text_of_a_tool_file_is_looked_at_and_data_is_not() -> None:
    zero = "a\u200bb"
    tool = {
        "name": zero,
        "description": zero,
        "inputSchema": {"properties": {zero: {"title": zero, "pattern": zero}}, "required": [zero], zero: zero},
        "outputSchema": {"enum": [zero], "$comment": zero},
        "annotations": {"title": zero},
        "handler": {"type": "http", "url": zero, "headers": {zero: zero}},
        "examples": [{"input": {"x": zero, zero: 1}, "expect": {"contains": zero}}],
    }
    assert found({"$schema": zero, "name": zero, "version": zero, "tools": [tool]}, "file") == [
        ("/$schema", False),
        ("/name", False),
        ("/version", False),
        ("/tools/0/name", False),
        ("/tools/0/description", False),
        ("/tools/0/inputSchema/properties/a\\u{200b}b/title", False),
        ("/tools/0/outputSchema/$comment", False),
        ("/tools/0/annotations/title", False),
        ("/tools/0/handler/url", False),
        ("/tools/0/handler/headers/a\\u{200b}b", True),
        ("/tools/0/handler/headers/a\\u{200b}b", False),
    ]


def test_an_emoji_stands_in_the_prose_and_the_data_of_a_tool_file_and_nowhere_else() -> None:
    tool = {
        "name": HEART,
        "description": HEART,
        "inputSchema": {"description": HEART, "properties": {"description": {"description": HEART, "enum": [HEART]}}},
        "annotations": {"title": HEART},
        "handler": {"description": HEART, "command": HEART},
        "examples": [{"input": {"x": HEART, HEART: 1}, "expect": HEART}],
    }
    assert found({"name": HEART, "tools": [tool]}, "file") == [
        ("/name", False),
        ("/tools/0/name", False),
        ("/tools/0/annotations/title", False),
        ("/tools/0/handler/description", False),
        ("/tools/0/handler/command", False),
    ]


def test_a_property_that_is_named_like_a_keyword_is_a_schema_and_data_is_data() -> None:
    zero = "\u200b"
    assert found({"properties": {"default": {"description": zero}}}) == [("/properties/default/description", False)]
    assert found({"$defs": {"const": {"title": zero}}}) == [("/$defs/const/title", False)]
    assert found({"default": {"description": zero}}) == []
    assert found({"const": {"properties": {"a": {"title": zero}}}, "enum": [{"title": zero}], "examples": [zero]}) == []
    assert found({"allOf": [{"if": {"description": zero}}]}) == [("/allOf/0/if/description", False)]
    assert found({"default": {"description": zero}}, "schemas") == [("/default/description", False)]


def test_a_path_is_given_raw_to_locate_and_escaped_to_show() -> None:
    (hidden,) = find_hidden({"properties": {"a/\u202e~": {"title": "\u202e"}}}, part="schema")
    assert hidden.path == ("properties", "a/\u202e~", "title")
    assert hidden.shown_path == ("properties", "a/\\u{202e}~", "title")
    assert hidden.pointer == "/properties/a~1\\u{202e}~0/title"
    assert [hidden.pointer for hidden in find_hidden("\u200b", part="prose")] == ["/"]


def test_what_stands_within_itself_is_looked_at_once() -> None:
    endless: dict[str, Any] = {"title": "\u200b"}
    endless["items"] = [endless, {"anyOf": [endless, endless]}, {"title": "\u202e"}]
    assert found(endless) == [("/title", False), ("/items/2/title", False)]


def test_a_key_that_is_no_text_is_left_to_those_who_refuse_it() -> None:
    assert found({1: "\u200b", "title": "b\u200b"}) == [("/title", False)]


def test_what_stands_in_two_places_is_looked_at_by_the_rules_of_both() -> None:
    shared = {"title": "\u200b"}
    assert found({"default": shared, "items": shared}) == [("/items/title", False)]


def test_whatever_is_told_fast_is_right() -> None:
    for hidden in EVERY:
        documents: list[Any] = [
            {"properties": {"x": {"title": hidden.text}}},
            {"description": hidden.text},
            {"description": "a\n\\n" + hidden.text + '": '},
            {"x": {'"\\' + hidden.text: {"description": '"\\' + hidden.text + '\\"\\'}}},
        ]
        for document in documents:
            if found(document):
                assert not hides_nothing(document)
            if found(document) and hidden.is_sendable:
                assert may_hide(msgspec.json.encode(document))
                assert may_hide(json.dumps(document, indent=2).encode())
                assert may_hide(json.dumps(document, indent=2, ensure_ascii=False).encode())
        if hidden.is_sendable:
            file = {"name": hidden.text, "tools": [{"name": "a", "handler": {hidden.text: 1}}]}
            assert may_hide(json.dumps(file, indent=2).encode()) == bool(found(file, "file"))
            assert may_hide(json.dumps(file, indent=2, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    "document",
    [
        {"type": "object", "properties": {"a": {"type": "string", "description": 'One, two: "three" \\ four/five.'}}},
        {"pattern": "^\\d+\\.txt$", "description": "Über größere Äpfel, 日本語, עברית, 🚀"},
        {"properties": {}},
        True,
        5,
    ],
)
def test_a_plain_document_needs_no_second_look(document: Any) -> None:
    assert hides_nothing(document)
    assert not may_hide(json.dumps(document, indent=2, ensure_ascii=False).encode())
    assert not may_hide(json.dumps(document, indent="\t", ensure_ascii=False).replace("\n", "\r\n").encode())


def test_lines_need_no_second_look() -> None:
    assert hides_nothing({"description": 'One.\n\n\tTwo: "a": b\n', "properties": {"a": {}}})
    assert hides_nothing({"description": "One.\nTwo.", "properties": {"a\nb": {}}})
    assert hides_nothing({"description": "\n" * 400_000})


def test_bytes_that_may_hide_something_are_looked_at_again() -> None:
    for data in (b'{"a": "\x7f"}', b'{"a": "\\u0041"}', b'{"a": "\\n"}', '{"a": "\u200b"}'.encode()):
        assert may_hide(data)
    assert not may_hide(b"\xff")


@pytest.mark.parametrize("document", [{"a": object()}, {"a": "\ud800"}, {("a",): 1}])
def test_what_is_no_json_is_looked_at_again(document: Any) -> None:
    assert not hides_nothing(document)
