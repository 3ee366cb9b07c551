"""Pydantic's schemas as a model should read them: without titles, and with defaults that are JSON."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs")
_VALUES = ("default", "const", "enum", "examples")


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
            if not _is_finite(dft):  # pydantic lets it pass, or makes null of it
                raise PydanticSerializationError("JSON has no infinity and no NaN")
            return super().encode_default(dft)

    return Generator


def _is_finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(_is_finite(item) for item in cast("dict[Any, Any]", value).values())
        case list() | tuple() | set() | frozenset():
            return all(_is_finite(item) for item in cast("list[Any]", value))
        case _:
            return True
