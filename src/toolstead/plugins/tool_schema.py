"""The schemas of a tool's function: of its parameters, and of what it returns.

Pydantic makes them, and they are changed to what a model should read: no titles, and only defaults that are JSON.

Most tools take texts, numbers and switches. Their schemas are made by hand (`plain_schema`): the same as pydantic's,
without its half millisecond a tool and its import of 80 ms, of a start that takes 120. A test compares the two.
"""

from __future__ import annotations

import functools
import json
import math
import typing
from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

_TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs")
_VALUES = ("default", "const", "enum", "examples")


def plain_schema(
    parameters: Iterable[Parameter], hints: Mapping[str, Any], texts: Mapping[str, str]
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


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of what a model is made from."""
    return without_titles(model.model_json_schema(schema_generator=_schema_generator()))


def output_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The schema of what a value is turned into."""
    schema = without_titles(adapter.json_schema(mode="serialization", schema_generator=_schema_generator()))
    target = schema.get("$defs", {}).get(str(schema.get("$ref", "")).removeprefix("#/$defs/"), {})
    # A model that contains itself is a bare reference; readers look for the type beside it.
    return {"type": target["type"], **schema} if "type" in target else schema


def without_titles(schema: Any) -> Any:
    """The schema without titles: pydantic titles everything; a model learns nothing from it and pays for each."""
    match schema:
        case dict():
            return {
                key: _clean_member(key, value)
                for key, value in cast("dict[str, Any]", schema).items()
                if not (key == "title" and isinstance(value, str))
            }
        case list():
            return [without_titles(item) for item in cast("list[Any]", schema)]
        case _:
            return schema


def _clean_member(key: str, value: Any) -> Any:
    if key in _VALUES:
        return value
    if key in _NAMED and isinstance(value, dict):  # here `title` is the name of a property, or of a definition
        return {name: without_titles(item) for name, item in cast("dict[str, Any]", value).items()}
    return without_titles(value)


@functools.cache
def _schema_generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import PydanticSerializationError

    class Generator(GenerateJsonSchema):
        """Leaves out a default that is no JSON: the function fills it in itself."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as its parent has it

        def encode_default(self, dft: Any) -> Any:
            try:  # first: pydantic lets infinity and NaN pass, or makes null of them
                json.dumps(dft, allow_nan=False, skipkeys=True, default=_list_members)
            except ValueError as error:
                raise PydanticSerializationError(str(error)) from error
            return super().encode_default(dft)

    return Generator


def _list_members(value: Any) -> list[Any]:
    return list(cast("set[Any]", value)) if isinstance(value, set | frozenset) else []
