"""Schemas that surely compile: what is taken for one compiles, and compiling waits for the first use."""

from __future__ import annotations

import random
from typing import Any

import jsonschema_rs
import pytest

from toolstead.errors import SchemaError
from toolstead.schema import compiled
from toolstead.schema.compiled import compile_input_schema, compile_schema
from toolstead.schema.plain import is_obviously_plain, plain_grammar

PROPERTY = {"type": "string", "enum": ["a", "b"], "default": "a", "description": "d", "minLength": 1}
COMMON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "one": PROPERTY,
        "many": {"type": "array", "items": {"type": ["integer", "null"], "minimum": 1}, "maxItems": 8},
        "inside": {"anyOf": [{"type": "object", "properties": {"x": {"const": {"deep": [1]}}}}, {"type": "null"}]},
        "named": {"type": "string", "pattern": r"^[a-z0-9_-]{2,5}(-\d+|\.x)*$"},
    },
    "required": ["one"],
    "additionalProperties": False,
}
OTHER = [
    True,
    {"$ref": "#/$defs/x"},
    {"$schema": "http://json-schema.org/draft-07/schema#"},
    {"$id": "urn:x"},
    {"type": "text"},
    {"type": []},
    {"type": ["string", "string"]},
    {"required": ["a", "a"]},
    {"required": True},
    {"properties": {"a": 5}},
    {"properties": {"a": {"type": "text"}}},
    {"items": [{}]},
    {"anyOf": []},
    {"minLength": -1},
    {"maximum": "5"},
    {"pattern": "("},
    {"pattern": "[z-a]"},
    {"pattern": "a{5,2}"},
    {"pattern": "(?:)*"},
    {"pattern": "(?=a)"},
    {"patternProperties": {"a": {}}},
    {"unknown": 1},
]
SIGNS = "^$.*+?|()[]{}\\-abz09_ @/:,;=#%!~'<>&\n"
TOKENS = (
    r"\d \w \s \D \. \- \/ \b \( \S [a-z] [^0-9_-] [A-Za-z0-9] {2} {2,} {1,5} {5,2} {0,9} {99} (?: (a|b) a-z 0-9 "
    "[a-f0-9] [^ (?=a) é"
)


def validator_of(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema, offline=True, validate_formats=False)


is_plain = validator_of(plain_grammar()).is_valid


def test_a_common_schema_is_plain() -> None:
    assert is_plain(COMMON)
    validator_of(COMMON)


def test_what_refers_elsewhere_or_may_be_wrong_is_not() -> None:
    for schema in OTHER:
        assert not is_plain(schema), schema
        assert not is_obviously_plain(schema), schema


def test_a_text_that_cannot_be_taken_over_is_not_plain_and_nothing_is_raised() -> None:
    assert not is_obviously_plain({"properties": {"\ud800": {}}})
    assert not is_obviously_plain({"default": float("nan")})


def test_whatever_is_taken_for_plain_compiles() -> None:
    chance = random.Random(11)
    values = [*OTHER, PROPERTY, COMMON, [], {}, "a", "string", 1, 2.0, 0, 10**30, None, False, ["a"], ["string"]]
    keys = [*COMMON, *PROPERTY, "items", "maxItems", "anyOf", "const", "examples", "minimum", "uniqueItems", "format"]
    plain = obvious = 0
    for _ in range(20_000):
        schema = {key: chance.choice(values) for key in chance.sample(keys, chance.randint(1, 3))}
        if is_obviously_plain(schema):
            obvious += 1
            validator_of(schema)
        if is_plain(schema):
            plain += 1
            validator_of(schema)
    assert plain > 500
    assert obvious > 200


def test_whatever_expression_is_taken_for_plain_compiles() -> None:
    chance = random.Random(12)
    pieces = [*SIGNS, *TOKENS.split()]
    plain = 0
    for _ in range(40_000):
        expression = "".join(chance.choices(pieces, k=chance.randint(1, 7)))
        if is_plain({"pattern": expression}):
            plain += 1
            validator_of({"pattern": expression})
    assert plain > 5_000


def test_a_plain_schema_of_a_file_is_compiled_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def counting(document: Any, registry: Any = None) -> Any:
        seen.append(document)
        return validator_of(document), True

    monkeypatch.setattr(compiled, "_validator_for", counting)
    schema = compile_input_schema(dict(COMMON), tool="t", owned=True, plain=True)
    assert schema.defaults is not None
    assert schema.defaults.fill_object({}) == {"one": "a"}
    assert not seen
    assert schema.is_valid({"one": "b"})
    assert not schema.is_valid({"one": "c"})
    assert schema.describe_problems({"one": "c"})
    assert len(seen) == 1
    with pytest.raises(AttributeError):
        getattr(schema, "nothing")  # noqa: B009 - a checker would refuse the name


def test_problems_can_be_asked_for_first() -> None:
    schema = compile_schema({"type": "integer"}, tool="t", owned=True, plain=True)
    assert schema.describe_problems("x")
    assert [finding.reason for finding in schema.find_problems("x")]
    assert schema.find_problems(5) == []


def test_what_is_shown_beside_a_schema_without_a_type_does_not_bind_it_later() -> None:
    schema = compile_input_schema({"properties": {"a": {"type": "string"}}}, tool="t", owned=True, plain=True)
    assert schema.document["type"] == "object"
    assert schema.is_valid([])


@pytest.mark.parametrize("schema", [{"properties": {"a": {"type": "text"}}}, {"properties": {"a": {"pattern": "("}}}])
def test_a_bad_schema_is_found_at_once(schema: Any) -> None:
    with pytest.raises(SchemaError):
        compile_input_schema(schema, tool="t", owned=True)


def test_a_schema_from_python_is_compiled_at_once_because_its_texts_may_be_none() -> None:
    with pytest.raises(SchemaError):
        compile_schema({"description": "\ud800"}, tool="t")
