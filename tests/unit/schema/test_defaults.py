"""Defaults: where they are filled, where never, and what happens to a bad one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from toolstead.schema.compiled import compile_input_schema
from toolstead.schema.defaults import _fits_easily, _fits_schema  # pyright: ignore[reportPrivateUsage] - compared here

pytestmark = pytest.mark.promise("S1")


def filled(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    compiled = compile_input_schema(schema, tool="t")
    return compiled.defaults.fill_object(given) if compiled.defaults else given


def test_a_missing_property_takes_its_default_and_a_given_one_keeps_its_value() -> None:
    schema = {"properties": {"n": {"type": "integer", "default": 5}, "flag": {"default": False}}}
    assert filled(schema, {}) == {"n": 5, "flag": False}
    assert filled(schema, {"n": 7, "flag": True}) == {"n": 7, "flag": True}
    assert filled(schema, {"n": None})["n"] is None


def test_plain_nested_objects_are_filled_where_they_are_given() -> None:
    schema = {"properties": {"o": {"type": "object", "properties": {"k": {"default": 1}}}}}
    assert filled(schema, {"o": {}}) == {"o": {"k": 1}}
    assert filled(schema, {}) == {}
    assert filled(schema, {"o": "not an object"}) == {"o": "not an object"}


def test_a_default_object_is_filled_too_and_never_shared_between_calls() -> None:
    schema = {"properties": {"o": {"type": "object", "default": {"l": []}, "properties": {"k": {"default": 1}}}}}
    first = filled(schema, {})
    assert first == {"o": {"l": [], "k": 1}}
    compiled = compile_input_schema(schema, tool="t")
    assert compiled.defaults is not None
    compiled.defaults.fill_object({})["o"]["l"].append("leak")
    assert compiled.defaults.fill_object({}) == {"o": {"l": [], "k": 1}}


def test_nothing_is_filled_through_alternatives_or_references() -> None:
    inner = {"type": "object", "properties": {"k": {"default": 1}}}
    schema = {"properties": {"a": {"anyOf": [inner]}, "r": {"$ref": "#/$defs/I"}}, "$defs": {"I": inner}}
    assert filled(schema, {"a": {}, "r": {}}) == {"a": {}, "r": {}}


def test_a_default_beside_alternatives_or_a_reference_is_the_propertys_own() -> None:
    schema = {
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "r": {"$ref": "#/$defs/S", "default": "x"},
        },
        "$defs": {"S": {"type": "string"}},
    }
    assert filled(schema, {}) == {"a": None, "r": "x"}


def test_a_default_that_does_not_fit_is_not_filled_and_warned_about() -> None:
    schema = {
        "properties": {"n": {"type": "integer", "default": "five"}, "r": {"$ref": "#/$defs/S", "default": 3}},
        "$defs": {"S": {"type": "string"}},
    }
    compiled = compile_input_schema(schema, tool="t")
    assert compiled.defaults is None
    assert [warning.split(":")[0] for warning in compiled.warnings] == ["/properties/n", "/properties/r"]


def test_the_callers_own_object_is_never_changed() -> None:
    schema = {"properties": {"o": {"type": "object", "properties": {"k": {"default": 1}}}, "n": {"default": 2}}}
    given: dict[str, Any] = {"o": {}}
    filled(schema, given)
    assert given == {"o": {}}


def test_odd_property_names_find_their_own_schema() -> None:
    schema = {
        "properties": {"a/b~c": {"$ref": "#/$defs/S", "default": "x"}},
        "$defs": {"S": {"type": "string"}},
    }
    assert filled(schema, {}) == {"a/b~c": "x"}


def test_a_default_beside_a_reference_to_a_document_of_the_application_is_filled() -> None:
    documents = {"https://example.test/name.json": {"type": "string", "maxLength": 3}}
    schema = {"properties": {"a": {"$ref": "https://example.test/name.json", "default": "abc"}}}
    compiled = compile_input_schema(schema, tool="t", documents=documents)
    assert compiled.flat_defaults == {"a": "abc"}
    assert compiled.warnings == ()


def test_whether_a_default_fits_is_told_fast_as_a_validator_would() -> None:
    values = [None, True, False, 0, 1, 5, 2.0, 2.5, "", "a", "b", [], [1], {}, {"a": 1}]
    kinds = [None, "string", "integer", "number", "boolean", "array", "object", "null", ["string", "null"]]
    bounds: list[dict[str, Any]] = [{}, {"minimum": 1}, {"maximum": 2}, {"enum": ["a", 1]}, {"minLength": 1}]
    told = 0
    for kind, bound, value in itertools.product(kinds, bounds, values):
        schema = {**({} if kind is None else {"type": kind}), **bound, "default": value}
        quick = _fits_easily(schema, value)
        if quick is not None:
            told += 1
            assert quick == _fits_schema(schema, value, (), {}, {}), schema
    assert told > 300
