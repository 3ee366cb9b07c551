"""Defaults: found once when a schema is compiled, filled in before a call is validated.

Filled for properties of the top level and of plain nested objects, never through `anyOf`,
`$ref` and their kin. A default that does not fit its own property is not filled.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping
from typing import Any, cast

from toolstead.schema.explanation import render_pointer

_INDIRECT = frozenset({"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if"})
_EASY = frozenset({"type", "default", "description", "title", "examples", "minimum", "maximum", "$comment", "enum"})
_NUMBERS = (int, float)
_KINDS: Mapping[type, str] = {list: "array", dict: "object"}
_IMMUTABLE = (str, int, float, bool, type(None))


class SchemaDefaults:
    """The defaults of one object, and of the plain objects inside it.

    Attributes:
        flat: Those that are immutable values of the object itself; most schemas have no others.
        has_deeper: Whether there are others, which `fill_deeper` fills in.
    """

    __slots__ = ("_copied", "_nested", "flat", "has_deeper")

    def __init__(self, plain: dict[str, Any], copied: dict[str, Any], nested: dict[str, SchemaDefaults]) -> None:
        self.flat = plain
        self._copied = copied
        self._nested = nested
        self.has_deeper = bool(copied or nested)

    @property
    def names(self) -> Collection[str]:
        """The properties of this object that are filled in."""
        return {**self.flat, **self._copied} if self._copied else self.flat

    def fill_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of the object with what it lacks filled in; the original is not touched."""
        filled = {**self.flat, **value}
        self.fill_deeper(filled)
        return filled

    def fill_deeper(self, filled: dict[str, Any]) -> None:
        """Fill in what is not `flat`: values that need a copy, and what objects inside this one lack."""
        for key, default in self._copied.items():
            if key not in filled:
                filled[key] = copy.deepcopy(default)
        for key, inner in self._nested.items():
            item = filled.get(key)
            if isinstance(item, dict):
                filled[key] = inner.fill_object(cast("dict[str, Any]", item))


def find_defaults(
    document: dict[str, Any], documents: Mapping[str, Any]
) -> tuple[SchemaDefaults | None, tuple[str, ...]]:
    """Find a schema's defaults, and warn of those that do not fit their own property."""
    warnings: list[str] = []
    defaults = _collect_defaults(document, (), warnings, document, documents)
    return defaults, tuple(warnings)


def _collect_defaults(
    schema: dict[str, Any],
    path: tuple[str, ...],
    warnings: list[str],
    document: dict[str, Any],
    documents: Mapping[str, Any],
) -> SchemaDefaults | None:
    """The defaults of one object schema; what does not fit becomes a warning."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    plain: dict[str, Any] = {}
    copied: dict[str, Any] = {}
    nested: dict[str, SchemaDefaults] = {}
    for key, inner in cast("dict[str, dict[str, Any] | bool]", properties).items():
        if not isinstance(inner, dict):
            continue
        below = (*path, "properties", key)
        if "default" in inner:
            default = inner["default"]
            fits = _fits_easily(inner, default)
            if fits or (fits is None and _fits_schema(inner, default, below, document, documents)):
                (plain if isinstance(default, _IMMUTABLE) else copied)[key] = default
            else:
                what = f"the default {json.dumps(default)[:80]} does not fit its own schema and is not filled in"
                warnings.append(f"{render_pointer(below)}: {what}")
        if "properties" in inner and inner.get("type", "object") == "object" and _INDIRECT.isdisjoint(inner):
            found = _collect_defaults(inner, below, warnings, document, documents)
            if found is not None:
                nested[key] = found
    return SchemaDefaults(plain, copied, nested) if plain or copied or nested else None


def _fits_schema(
    schema: dict[str, Any],
    default: Any,
    path: tuple[str, ...],
    document: dict[str, Any],
    documents: Mapping[str, Any],
) -> bool:
    """Whether a default fits its property's schema, read in its place in the document."""
    import jsonschema_rs

    registry = None
    text = json.dumps(schema)
    try:
        if "Ref" in text or '"$ref"' in text:
            address = str(document.get("$id") or "urn:toolstead:tool")
            registry = jsonschema_rs.Registry([(address, document), *documents.items()])
            schema = {"$ref": f"{address}#{render_pointer(path)}"}
        if "$schema" in document:
            schema = {"$schema": document["$schema"], **schema}
        validator = jsonschema_rs.validator_for(schema, offline=True, validate_formats=False, registry=registry)
        return validator.is_valid(default)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return False


def _fits_easily(schema: dict[str, Any], default: Any) -> bool | None:
    """The same for the keywords of nearly every default, None for others.

    1 µs where to compile and ask a validator takes 10: 0.14 s of the 0.5 s that 10,000 tools take to load. A test has
    both agree.
    """
    kind = schema.get("type")
    if not _EASY.issuperset(schema) or not (kind is None or isinstance(kind, str)):
        return None
    if isinstance(default, str):
        return kind in (None, "string") and default in schema.get("enum", (default,))
    if "enum" in schema:
        return None
    if isinstance(default, bool):
        return kind in (None, "boolean")
    if isinstance(default, _NUMBERS):
        if kind == "integer" and default != int(default):
            return False
        low, high = schema.get("minimum", default), schema.get("maximum", default)
        return kind in (None, "integer", "number") and low <= default <= high
    return kind in (None, _KINDS.get(type(cast("object", default)), "null"))
