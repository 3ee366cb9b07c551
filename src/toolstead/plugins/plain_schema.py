"""Schemas of plain signatures, made by hand: the same as pydantic's, without its half millisecond a tool.

Most tools take texts, numbers and switches. What is not of this kind goes to pydantic, whose import alone is
80 ms, of a start that takes 120; a test compares the two on every kind that is.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable
from inspect import Parameter
from typing import Any

_TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def plain_schema(
    parameters: Iterable[Parameter], hints: typing.Mapping[str, Any], texts: typing.Mapping[str, str]
) -> dict[str, Any] | None:
    """The schema of parameters that are all plain and none injected, or None when one is not."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        schema = _schema_of(hints.get(name))
        if schema is None or parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            return None
        if name in texts:
            schema["description"] = texts[name]
        if default is parameter.empty:
            required.append(name)
        elif type(default) in _TYPES and (type(default) is not float or math.isfinite(default)):
            schema["default"] = default
        else:
            return None
        properties[name] = schema
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _schema_of(annotation: Any) -> dict[str, Any] | None:
    if isinstance(annotation, type) and annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    if typing.get_origin(annotation) is list:
        (item,) = typing.get_args(annotation) or (None,)
        return {"type": "array", "items": {"type": _TYPES[item]}} if item in (str, bool) else None
    return None
