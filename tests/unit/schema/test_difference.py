"""What differs between two schemas, and which differences break callers."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.schema.difference import MOST_CHANGES, SchemaChange, compare_schemas

pytestmark = pytest.mark.promise("B4")

TEXT = {"type": "string"}
CLOSED = {"additionalProperties": False}
NUMBERS = {"additionalProperties": {"type": "integer"}}


def of(properties: Any = None, required: Any = None, **more: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", **more}
    if properties is not None:
        schema["properties"] = properties
    if required is not None:
        schema["required"] = required
    return schema


@pytest.mark.parametrize(
    ("before", "after", "pointer", "change"),
    [
        (of({"a": TEXT}), of({"a": TEXT}, ["a"]), "/required", "'a' is required now"),
        (of(), of(required=["a"]), "/required", "'a' is required now"),
        (of({}), of({"a": TEXT}, ["a"]), "/properties/a", "was added"),
        (of({"a": TEXT}, **CLOSED), of({}, **CLOSED), "/properties/a", "was removed"),
        (of({"a": TEXT}, **NUMBERS), of({}, **NUMBERS), "/properties/a", "was removed"),
        (of({"a": TEXT}), of({"a": {"type": "integer"}}), "/properties/a/type", 'type: "string" became "integer"'),
        (of({"a": {}}), of({"a": TEXT}), "/properties/a/type", 'type "string" was added'),
        (of({"a": {"type": ["string", "null"]}}), of({"a": TEXT}), "/properties/a/type", "became"),
        (of({"a": {"type": "number"}}), of({"a": {"type": "integer"}}), "/properties/a/type", "became"),
        (of({"a": {"enum": [1, 2]}}), of({"a": {"enum": [1]}}), "/properties/a/enum", "enum: [1, 2] became [1]"),
        (of({"a": TEXT}), of({"a": {**TEXT, "enum": ["x"]}}), "/properties/a/enum", 'enum ["x"] was added'),
        (of({"a": {"maximum": 9}}), of({"a": {"maximum": 8}}), "/properties/a/maximum", "maximum: 9 became 8"),
        (of({"a": {"minLength": 1}}), of({"a": {"minLength": 2}}), "/properties/a/minLength", "minLength: 1 became 2"),
        (of({"a": TEXT}), of({"a": {**TEXT, "minLength": 1}}), "/properties/a/minLength", "minLength 1 was added"),
        (of({"a": {"pattern": "a"}}), of({"a": {"pattern": "b"}}), "/properties/a/pattern", "became"),
        (of(), of(additionalProperties=False), "/additionalProperties", "additionalProperties false was added"),
        (of({"a": True}), of({"a": TEXT}), "/properties/a", 'true became {"type": "string"}'),
        (of({"a": TEXT}), of({"a": False}), "/properties/a", "became false"),
        (of({"a": {"items": {}}}), of({"a": {"items": TEXT}}), "/properties/a/items/type", "was added"),
        (of({"a": {**TEXT, "default": "x"}}, ["a"]), of({"a": TEXT}, ["a"]), "/properties/a", "no default any more"),
        (of(**{"$defs": {"x": {}}}), of(**{"$defs": {"x": TEXT}}), "/$defs/x/type", "was added"),
        (of({"a/b": {}}), of({"a/b": TEXT}), "/properties/a~1b/type", "was added"),
        (of(patternProperties={"^x": {}}), of(), "/patternProperties", "was removed"),
        (of(anyOf=[TEXT]), of(anyOf=[{}]), "/anyOf", "became"),
    ],
)
def test_what_may_no_longer_fit_breaks_callers(before: Any, after: Any, pointer: str, change: str) -> None:
    breaking = [found for found in compare_schemas(before, after) if found.breaking]
    assert [found.pointer for found in breaking] == [pointer]
    assert change in breaking[0].change


@pytest.mark.parametrize(
    ("before", "after", "pointer", "change"),
    [
        (of({"a": TEXT}, ["a"]), of({"a": TEXT}), "/required", "'a' is optional now"),
        (of({}), of({"a": TEXT}), "/properties/a", "was added"),
        (of({}), of({"a": {**TEXT, "default": ""}}, ["a"]), "/properties/a", "was added"),
        (of({"a": TEXT}), of({}), "/properties/a", "was removed"),
        (of({"a": TEXT}), of({"a": {"type": ["string", "null"]}}), "/properties/a/type", "became"),
        (of({"a": {"type": "integer"}}), of({"a": {"type": "number"}}), "/properties/a/type", "became"),
        (of({"a": {"type": ["integer", "null"]}}), of({"a": {"type": ["null", "number"]}}), "/properties/a/type", ""),
        (of({"a": {"enum": [1]}}), of({"a": {"enum": [1, 2]}}), "/properties/a/enum", "became"),
        (of({"a": {"enum": [1]}}), of({"a": {}}), "/properties/a/enum", "enum [1] was removed"),
        (of({"a": {"maximum": 8}}), of({"a": {"maximum": 9}}), "/properties/a/maximum", "became"),
        (of({"a": {"minimum": 2}}), of({"a": {"minimum": 1}}), "/properties/a/minimum", "became"),
        (of({"a": TEXT}), of({"a": {**TEXT, "description": "A."}}), "/properties/a/description", "was added"),
        (of({"a": TEXT}), of({"a": {**TEXT, "default": "x"}}), "/properties/a/default", "was added"),
        (of({"a": TEXT}), of({"a": {**TEXT, "format": "date"}}), "/properties/a/format", "was added"),
        (of(additionalProperties=False), of(), "/additionalProperties", "was removed"),
        (of(additionalProperties=False), of(additionalProperties=TEXT), "/additionalProperties", "became"),
        (of({"a": TEXT}), of({"a": True}), "/properties/a", "became true"),
    ],
)
def test_what_fitted_before_still_fits(before: Any, after: Any, pointer: str, change: str) -> None:
    (found,) = compare_schemas(before, after)
    assert (found.pointer, found.breaking) == (pointer, False)
    assert change in found.change


def test_what_is_required_with_a_default_breaks_nobody() -> None:
    filled = {**TEXT, "default": "x"}
    assert compare_schemas(of({"a": filled}), of({"a": filled}, ["a"])) == [
        SchemaChange(pointer="/required", change="'a' is required now", breaking=False)
    ]


def test_equal_schemas_and_definitions_that_come_and_go_are_no_difference() -> None:
    assert compare_schemas(of({"a": TEXT}, ["a"]), of({"a": TEXT}, ["a"])) == []
    assert compare_schemas(of(), of(**{"$defs": {"x": TEXT}})) == []


def test_the_number_of_differences_and_their_length_are_bounded() -> None:
    before = of({f"p{number}": TEXT for number in range(100)})
    after = of({f"p{number}": {"enum": ["x" * 1_000]} for number in range(100)})
    found = compare_schemas(before, after)
    assert len(found) == MOST_CHANGES
    assert found[0].pointer == "/properties/p0/type"
    assert all(len(change.change) < 200 for change in found)
    assert found[0].to_json() == {
        "pointer": "/properties/p0/type",
        "change": 'type "string" was removed',
        "breaking": False,
    }
