"""The simple form of a schema: name → type, description, required."""

from __future__ import annotations

import pytest

from toolstead.errors import SchemaError
from toolstead.schema.compiled import schema_from_parameters

pytestmark = pytest.mark.promise("K1")


def test_parameters_become_properties_and_required_is_false_unless_said() -> None:
    schema = schema_from_parameters(
        {
            "text": {"type": "string", "description": "What.", "required": True},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        tool="t",
    )
    assert schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What."},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["text"],
    }


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"x": "string"}, "parameters.x: a mapping"),
        ({"x": {"type": "text"}}, "parameters.x.type: one of string, number"),
        ({"x": {}}, "parameters.x.type: one of string, number"),
        ({"x": {"type": "string", "required": "yes"}}, "parameters.x.required: true or false"),
    ],
)
def test_a_bad_parameter_is_refused_with_its_field(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(SchemaError, match=said.replace(".", r"\.")):
        schema_from_parameters(parameters, tool="t")
