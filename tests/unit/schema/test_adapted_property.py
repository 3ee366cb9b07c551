"""An adapted copy never forbids what the original allows, whatever the schema."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstead.schema.adapted import RULES, adapted_schema

_NAMES = ("a", "b", "c", "odd name", "$ref")
_VALUES: tuple[Any, ...] = (None, True, False, 0, 1, 1.0, 2, 3.5, "", "a", "bb", "2020-01-01", [], [1], ["a", "a"], {})
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_REFERENCES = ("#", "#/$defs/one", "#/$defs/two", "#/definitions/three", "#/properties/a", "#/anyOf/0", "#/allOf/0")
_DRAFTS = (
    *(None,) * 4,
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
)


class _Author:
    """Writes small schemas and arguments of a few names and values, so that many of them fit."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        pick, few = self._pick, lambda: self._random.randint(0, 3)
        keywords: dict[str, Callable[[int], Any]] = {
            "type": lambda _: pick(_TYPES) if self._chance() else sorted({pick(_TYPES), pick(_TYPES)}),
            "properties": self._named,
            "required": lambda _: sorted({pick(_NAMES), pick(_NAMES)}),
            "additionalProperties": self.schema,
            "patternProperties": lambda depth: {pick(("^a", "b", ".")): self.schema(depth)},
            "anyOf": self._several,
            "oneOf": self._several,
            "allOf": self._several,
            "not": self.schema,
            "if": self.schema,
            "then": self.schema,
            "else": self.schema,
            "items": self.schema,
            "prefixItems": self._several,
            "contains": self.schema,
            "uniqueItems": lambda _: self._chance(),
            "minItems": lambda _: few(),
            "maxItems": lambda _: few(),
            "enum": lambda _: [pick(_VALUES) for _ in range(3)],
            "const": lambda _: pick(_VALUES),
            "minimum": lambda _: few(),
            "exclusiveMinimum": lambda _: few(),
            "exclusiveMaximum": lambda _: few(),
            "multipleOf": lambda _: few() + 1,
            "minLength": lambda _: few(),
            "pattern": lambda _: pick(("^a", "b$")),
            "format": lambda _: pick(("date", "email")),
            "minProperties": lambda _: few(),
            "propertyNames": self.schema,
            "dependentRequired": lambda _: {pick(_NAMES): [pick(_NAMES)]},
            "dependentSchemas": self._named,
            "unevaluatedProperties": self.schema,
            "$ref": lambda _: pick(_REFERENCES),
            "$anchor": lambda _: "here",
            "$id": lambda _: "https://elsewhere.example/",
            "description": lambda _: "Said.",
            "default": lambda _: pick(_VALUES),
            "x-mine": lambda _: pick(_VALUES),
        }
        self._keywords = keywords
        self._likely = ("properties", "required", "anyOf", "oneOf", "allOf", "$ref", "type", "additionalProperties")

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = self._node(3, most=5)
        document["type"] = "object"  # as every tool's schema is shown
        document["$defs"] = {"one": self.schema(2), "two": self.schema(2)}
        document["definitions"] = {"three": self.schema(2)}
        draft = self._pick(_DRAFTS)
        if draft is not None and "draft-04" in draft:
            del document["$defs"]  # which it does not know, and so what stands there may be no schema
        return document if draft is None else {"$schema": draft, **document}

    def arguments(self) -> dict[str, Any]:
        return {self._pick(_NAMES): self._value(2) for _ in range(self._random.randint(0, 3))}

    def schema(self, depth: int) -> Any:
        if self._random.random() < 0.08:
            return self._chance()
        return self._node(depth - 1, most=3)

    def _node(self, depth: int, *, most: int) -> dict[str, Any]:
        if depth <= 0:
            return {"type": self._pick(_TYPES)} if self._chance() else {}
        chosen = {self._pick(self._likely if self._chance() else sorted(self._keywords)) for _ in range(most)}
        return {key: self._keywords[key](depth) for key in sorted(chosen)[: self._random.randint(0, most)]}

    def _several(self, depth: int) -> list[Any]:
        return [self.schema(depth) for _ in range(self._random.randint(1, 3))]

    def _named(self, depth: int) -> dict[str, Any]:
        return {self._pick(_NAMES): self.schema(depth) for _ in range(self._random.randint(0, 3))}

    def _value(self, depth: int) -> Any:
        if depth and self._random.random() < 0.3:
            return {self._pick(_NAMES): self._value(depth - 1) for _ in range(2)}
        if depth and self._random.random() < 0.2:
            return [self._value(depth - 1) for _ in range(self._random.randint(0, 3))]
        return self._pick(_VALUES)

    def _pick(self, choices: Any) -> Any:
        return self._random.choice(choices)

    def _chance(self) -> bool:
        return self._random.random() < 0.5


def _compiled(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema, offline=True, validate_formats=False)


def _check(seed: int, api: str) -> bool:
    """Whether the seed gave a schema with arguments that fit it."""
    author = _Author(seed)
    document = author.document()
    try:
        original = _compiled(document)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return False
    adapted = adapted_schema(document, RULES[api])
    copy = _compiled(adapted.schema)
    fitting = [arguments for arguments in (author.arguments() for _ in range(20)) if original.is_valid(arguments)]
    for arguments in fitting:
        assert copy.is_valid(arguments), f"{document}\n{adapted}\n{arguments}"
    assert (adapted.schema is document) == (not adapted.changes)
    again = adapted_schema(adapted.schema, RULES[api])
    assert again.changes == (), f"{document}\n{adapted}\n{again}"
    assert again.schema is adapted.schema
    return bool(fitting)


@pytest.mark.parametrize("api", sorted(RULES))
@given(seed=st.integers(0, 2**40))
@settings(max_examples=120, deadline=None)
def test_what_fits_the_original_fits_the_copy_and_a_copy_is_not_adapted_again(api: str, seed: int) -> None:
    _check(seed, api)


def test_most_of_these_schemas_are_schemas_that_something_fits() -> None:
    assert sum(_check(seed, "gemini") for seed in range(200)) > 60
