"""Simple `parameters` maps become schemas: name → type, description, required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolstead.errors import SchemaError

_KINDS = ("string", "number", "integer", "boolean", "object", "array", "null")


def schema_from_parameters(parameters: Mapping[str, Any], *, tool: str) -> dict[str, Any]:
    """Turn `{"text": {"type": "string", "description": "…", "required": True}}` into a schema.

    `required` is false by default. Anything else in a parameter is kept as its schema.

    Raises:
        SchemaError: They or one of them is no mapping; one has no known type; `required` is no boolean.
    """
    if not isinstance(parameters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - definitions come from people
        raise SchemaError(
            tool=tool, field="parameters", reason=f"a mapping of names is needed, not {type(parameters).__name__}"
        )
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, given in parameters.items():
        field = f"parameters.{name}"
        if not isinstance(given, Mapping):
            raise SchemaError(
                tool=tool, field=field, reason=f'a mapping such as {{"type": "string"}} is needed, not {given!r}'
            )
        parameter = dict(cast("Mapping[str, Any]", given))
        needed = parameter.pop("required", False)
        if not isinstance(needed, bool):
            raise SchemaError(tool=tool, field=f"{field}.required", reason=f"true or false is needed, not {needed!r}")
        if parameter.get("type") not in _KINDS:
            raise SchemaError(
                tool=tool,
                field=f"{field}.type",
                reason=f"one of {', '.join(_KINDS)} is needed, not {parameter.get('type')!r}",
            )
        properties[name] = parameter
        if needed:
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema
