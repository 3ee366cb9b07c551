"""Shapes of valid schemas that some MCP clients stumble over, and where in a schema they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from toolstead.schema.explanation import escape_step
from toolstead.schema.references import walk_schemas
from toolstead.types.tool import JSONSchema

Found: TypeAlias = Iterable[tuple[str, str]]
"""JSON pointers of places, each with what stands there: the sentence goes on after "because"."""

_BESIDES_TYPE = ("$ref", "anyOf", "oneOf", "allOf", "enum")
_CHOICES = ("anyOf", "oneOf")
_DEFINITION = re.compile(r"#/\$defs/([^/]+)")
_BEYOND_RUST = re.compile(r"\(\?<?[=!]|\\[1-9]")
_USUAL_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_AUTOGEN_FORMATS = frozenset(
    {"uuid", "uuid1", "uuid2", "uuid3", "uuid4", "uuid5", "uri", "hostname", "ipv4", "ipv6", "ipv4-network"}
    | {"ipv6-network", "date-time", "date", "time", "duration", "int32", "int64", "float", "double", "decimal", "byte"}
    | {"binary", "password", "path", "json"}
)
_OPENAI_REFUSES = ("$ref", "anyOf", "oneOf", "allOf", "enum", "not")
DROPPED_BY_CODEX = frozenset(
    {"minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems", "not"}
    | {"minProperties", "maxProperties", "patternProperties", "propertyNames", "dependentRequired", "default"}
    | {"dependentSchemas", "dependencies", "unevaluatedItems", "unevaluatedProperties", "contentEncoding"}
    | {"contentMediaType"}
)
"""Keywords that Codex drops and a model should know."""
_TOLD_OF = DROPPED_BY_CODEX - {"default"} | {"if"}
"""A default need not be known: it holds for calls that do not give the argument."""


def _walk_fields(schema: JSONSchema) -> Iterator[tuple[str, str, Any]]:
    """The properties that these clients make typed fields of: pointer, name, schema. Those of the top level come first.

    They follow objects inside objects and lists, and definitions; not what stands in a choice.
    """
    yield from _walk_properties(schema, "")
    for name, definition in _mapping(schema.get("$defs")).items():
        yield from _walk_properties(_mapping(definition), f"/$defs/{escape_step(name)}")


def _walk_properties(schema: Mapping[str, Any], at: str) -> Iterator[tuple[str, str, Any]]:
    inner: list[tuple[Mapping[str, Any], str]] = []
    for name, value in _mapping(schema.get("properties")).items():
        place = f"{at}/properties/{escape_step(name)}"
        yield place, name, value
        node = _mapping(value)
        inner += [(node, place), (_mapping(node.get("items")), f"{place}/items")]
    for node, place in inner:
        if node.get("type") == "object" and not any(key in node for key in _BESIDES_TYPE):
            yield from _walk_properties(node, place)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def find_boolean_properties(schema: JSONSchema) -> Found:
    """Properties whose schema is true or false."""
    for name, value in _mapping(schema.get("properties")).items():
        if isinstance(value, bool):
            yield f"/properties/{escape_step(name)}", f'the schema of "{name}" is {str(value).lower()}'


def find_boolean_items(schema: JSONSchema) -> Found:
    """Arrays whose items are true or false."""
    for place, name, value in _walk_fields(schema):
        if isinstance(items := _mapping(value).get("items"), bool):
            yield f"{place}/items", f'the items of "{name}" are {str(items).lower()}'


def find_untyped(schema: JSONSchema) -> Found:
    """Fields, and choices of one, without a type."""
    for place, name, value in _walk_fields(schema):
        if isinstance(value, Mapping) and "type" not in value and not any(key in value for key in _BESIDES_TYPE):
            yield place, f'"{name}" has no "type"'
        node = _mapping(value)
        for key in _CHOICES:
            for number, branch in enumerate(node.get(key, ()) if "$ref" not in node else ()):
                if not any(keyword in _mapping(branch) for keyword in ("$ref", "enum", "type")):
                    yield f"{place}/{key}/{number}", f'a choice of "{name}" has no "type"'


def find_type_lists(schema: JSONSchema) -> Found:
    """Fields with a list of types."""
    for place, name, value in _walk_fields(schema):
        node = _mapping(value)
        for part, at in ((node, place), (_mapping(node.get("items")), f"{place}/items")):
            if isinstance(part.get("type"), list) and not any(key in node for key in _BESIDES_TYPE):
                yield f"{at}/type", f'the type of "{name}" is a list'


def find_unknown_formats(schema: JSONSchema) -> Found:
    """Fields with a format that autogen-ext does not know."""
    for place, name, value in _walk_fields(schema):
        node = _mapping(value)
        if "format" in node and node["format"] not in _AUTOGEN_FORMATS and not any(k in node for k in _BESIDES_TYPE):
            yield f"{place}/format", f'it does not take the format "{node["format"]}" of "{name}"'


def find_patterns(schema: JSONSchema) -> Found:
    """Patterns that Rust's engine does not take."""
    for place, name, value in _walk_fields(schema):
        pattern = _mapping(value).get("pattern")
        if isinstance(pattern, str) and _BEYOND_RUST.search(pattern):
            yield f"{place}/pattern", f'the pattern of "{name}" looks around itself or back'


def find_odd_field_names(schema: JSONSchema) -> Found:
    """Fields whose names a pydantic model cannot have."""
    for place, name, _ in _walk_fields(schema):
        if name.startswith("_") or name == "model_config":
            yield place, f'no field of theirs can be called "{name}"'


def find_loops(schema: JSONSchema) -> Found:
    """Definitions that refer to themselves, each loop once."""
    uses = {
        name: [found[1] for _, node in walk_schemas(_mapping(value)) if (found := _named_definition(node))]
        for name, value in _mapping(schema.get("$defs")).items()
    }
    is_open: dict[str, bool] = {}  # True while what a definition uses is being followed
    for start, first in uses.items():
        trail = [(start, iter(first))] if start not in is_open else []
        is_open.setdefault(start, True)
        while trail:
            name, rest = trail[-1]
            used = next(rest, None)
            if used is None:
                is_open[name] = False
                trail.pop()
            elif is_open.get(used):
                yield f"/$defs/{escape_step(used)}", f'the definition "{used}" refers to itself'
            elif used in uses and used not in is_open:
                is_open[used] = True
                trail.append((used, iter(uses[used])))


def find_other_references(schema: JSONSchema) -> Found:
    """References that do not lead to a definition."""
    for place, node in walk_schemas(schema):
        if isinstance(reference := node.get("$ref"), str) and place and not _named_definition(node):
            yield f"{place}/$ref", f'"{reference}" does not lead to a name under "$defs"'


def find_plain_definitions(schema: JSONSchema) -> Found:
    """Fields that refer to a definition which is no object."""
    definitions = _mapping(schema.get("$defs"))
    for place, name, value in _walk_fields(schema):
        if found := _named_definition(_mapping(value)):
            definition = _mapping(definitions.get(found[1]))
            if definition.get("type", "enum" if "enum" in definition else "object") not in {"object", "array"}:
                yield f"{place}/$ref", f'what "{name}" refers to is no object'


def _named_definition(node: Mapping[str, Any]) -> re.Match[str] | None:
    reference = node.get("$ref")
    return _DEFINITION.fullmatch(reference) if isinstance(reference, str) else None


def find_arguments_of_choices(schema: JSONSchema) -> Found:
    """Arguments that stand only in a choice at the top level."""
    return _find_unlisted(schema, _CHOICES)


def find_arguments_of_parts(schema: JSONSchema) -> Found:
    """Arguments that stand only in a part of `allOf`."""
    return _find_unlisted(schema, ("allOf",))


def _find_unlisted(schema: JSONSchema, keys: Iterable[str]) -> Found:
    """Properties that stand only in the branches of a keyword at the top level."""
    listed = _mapping(schema.get("properties"))
    for key in keys:
        for number, branch in enumerate(schema.get(key, ())):
            for name in _mapping(_mapping(branch).get("properties")):
                if name not in listed:
                    place = f"/{key}/{number}/properties/{escape_step(name)}"
                    yield place, f'"{name}" is not under the "properties" of the top level'


def find_refused_at_top(schema: JSONSchema) -> Found:
    """Keywords at the top level that OpenAI's API refuses."""
    for key in _OPENAI_REFUSES:
        if key in schema:
            yield f"/{key}", f'"{key}" stands at the top level'


def find_lists_of_anything(schema: JSONSchema) -> Found:
    """Arrays without `items`."""
    for place, node in walk_schemas(schema):
        kind = node.get("type")
        if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in node:
            yield place, f'the array at "{place}" has no "items"'


def find_odd_names(schema: JSONSchema) -> Found:
    """Arguments with names that Anthropic's API refuses."""
    for name in _mapping(schema.get("properties")):
        if not _USUAL_NAME.fullmatch(name):
            yield f"/properties/{escape_step(name)}", f'the API takes no argument named "{name}"'


def find_nothing(_schema: JSONSchema) -> Found:
    """No place at all."""
    return ()


def find_dropped_keywords(schema: JSONSchema) -> Found:
    """Keywords that Codex drops, where nothing says the same in words."""
    for outer, node in walk_schemas(schema):
        for name, value in _mapping(node.get("properties")).items():
            field, place = _mapping(value), f"{outer}/properties/{escape_step(name)}"
            if not field.get("description"):
                for part, at in ((field, place), (_mapping(field.get("items")), f"{place}/items")):
                    for key in sorted(_TOLD_OF.intersection(part)):
                        yield f"{at}/{key}", f'it does not pass on "{key}", and "{name}" has no description'
