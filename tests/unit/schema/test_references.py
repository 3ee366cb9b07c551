"""How far the references of a schema lead."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.schema.references import may_expand_far


def chain_of_alternatives(length: int) -> dict[str, Any]:
    """Each definition refers to the next one twice, so that all of them stand for 2**length schemas."""
    definitions: dict[str, Any] = {"n0": {"type": "integer"}}
    for number in range(1, length):
        inner = {"$ref": f"#/$defs/n{number - 1}"}
        definitions[f"n{number}"] = {"anyOf": [{"items": inner}, {"minItems": 1, "items": inner}]}
    return {"$defs": definitions, "$ref": f"#/$defs/n{length - 1}"}


@pytest.mark.parametrize(
    ("schema", "far"),
    [
        ({"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}}}, False),
        (chain_of_alternatives(4), False),
        (chain_of_alternatives(20), True),
        ({"properties": {"x": {"$ref": "#"}}}, True),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"items": {"$ref": "#/$defs/a"}}}}, True),
        ({"properties": {"x": {"$ref": "elsewhere.json"}}}, True),
        ({"properties": {f"p{number}": {"$ref": "#/$defs/a"} for number in range(300)}, "$defs": {"a": {}}}, True),
    ],
)
def test_references_that_lead_back_or_multiply_are_found(schema: dict[str, Any], far: bool) -> None:
    assert may_expand_far(schema) is far
