"""A copy of a tool's schema that a model's API takes, where it would drop or refuse the original.

Arguments are always validated against the original. The copy is what a model sees: it keeps as much as the API
takes, states the rest in the description and never forbids a call that the original allows. Every difference is
listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from toolstead.schema.flattened import HANDLED, Flattener
from toolstead.schema.phrases import describe_keyword, extend_description, show_value
from toolstead.schema.references import MANY, NAMED, ONE, Document, kept_whole, map_schemas
from toolstead.schema.subset import Subset
from toolstead.types.tool import JSONSchema

_FOLLOWED = ("$ref", "allOf", "anyOf", "oneOf")
_DEFINITIONS = ("$defs", "definitions")
_WRITTEN_OUT_ELSEWHERE = HANDLED.union(
    _DEFINITIONS, ("$ref", "allOf", "type", "title", "$comment", "$anchor", "$dynamicAnchor", "default", "examples")
)
"""Keywords of a schema written out that need no words: already stated, or only a note."""
_CARRIED = ("minProperties", "maxProperties", "propertyNames", "dependentRequired")
"""Keywords of a schema written out that can stand at the top level as they are."""
_BESIDE_A_REFERENCE = frozenset({"$schema", "$id", "$comment", "title", "description", *_DEFINITIONS})
"""What counts beside `$ref` even in old drafts."""
_INSIDE = ONE | MANY | NAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an API takes.

    Attributes:
        name: The API's name, for the log.
        refused: Keywords it refuses at the top level.
        property_names: What the names of properties at the top level must match, or None.
        properties_needed: Whether the top level must have `properties`, even without any.
        items_needed: Whether every array must say what its items are.
        subset: What it knows of JSON Schema, or None when it takes all of it.
    """

    name: str
    refused: frozenset[str] = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
    property_names: re.Pattern[str] | None = None
    properties_needed: bool = False
    items_needed: bool = False
    subset: Subset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """A schema that an API takes.

    Attributes:
        schema: The original itself when the API takes it unchanged, else a copy.
        changes: What differs, each with its JSON pointer and the reason; empty for the original.
    """

    schema: JSONSchema
    changes: tuple[str, ...] = ()


RULES: Mapping[str, Rules] = MappingProxyType(
    {
        # "input_schema does not support oneOf, allOf, or anyOf at the top level", and "Property keys should match
        # pattern", which applies to the top level only. Everything below it passes unchanged.
        "anthropic": Rules(name="anthropic", property_names=re.compile(r"[a-zA-Z0-9_.-]{1,64}")),
        # "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level", "object
        # schema missing properties", and at any depth "array schema missing items". For functions that are not strict.
        "openai": Rules(
            name="openai",
            refused=frozenset({"$ref", "allOf", "anyOf", "oneOf", "enum", "not"}),
            properties_needed=True,
            items_needed=True,
        ),
        # `parametersJsonSchema` "must describe an object where the properties are the parameters", in a documented
        # subset; see `Subset`.
        "gemini": Rules(name="gemini", subset=Subset()),
    }
)


def adapted_schema(schema: JSONSchema, rules: Rules) -> Adapted:
    """The schema as an API takes it: the same object when nothing has to change."""
    changes: list[str] = []
    copy = schema
    if not _top_level_is_taken(schema, rules):
        copy = _with_plain_top_level(schema, rules, changes)
    if rules.items_needed and _has_bare_array(copy):
        copy = map_schemas(copy, lambda node: {**node, "items": {}} if _is_bare_array(node) else node, everywhere=True)
        changes.append(f"every array without items: items that may be anything, because {rules.name} requires them")
    if rules.subset is not None:
        copy = rules.subset.apply_subset(copy, rules.name, changes)
    return Adapted(schema=copy, changes=tuple(dict.fromkeys(changes))) if changes else Adapted(schema=schema)


def _top_level_is_taken(schema: Any, rules: Rules) -> bool:
    if not isinstance(schema, Mapping):
        return False
    top = cast("Mapping[str, Any]", schema)
    if top.get("type") != "object" or not rules.refused.isdisjoint(top):
        return False
    properties = top.get("properties")
    if properties is None:
        return not rules.properties_needed
    return rules.property_names is None or all(map(rules.property_names.fullmatch, properties))


def _with_plain_top_level(schema: Any, rules: Rules, changes: list[str]) -> dict[str, Any]:
    """The schema as a plain object: its choices stated in words, their properties shown."""
    if not isinstance(schema, Mapping):
        changes.append(f": {json.dumps(schema)} became an object, because {rules.name} takes nothing else")
        schema = {} if schema else {"description": "No arguments fit."}
    original = cast("Mapping[str, Any]", schema)
    top = dict(original)
    if not rules.refused.isdisjoint(top) or top.get("type") != "object":
        top = _flatten_forms(original, rules, changes)
    if rules.property_names is not None and not all(map(rules.property_names.fullmatch, top.get("properties", ()))):
        top = _with_usual_names(top, rules.property_names, rules.name, changes)
    if rules.properties_needed and "properties" not in top:
        top["properties"] = {}
        changes.append(f"/properties: added without any, because {rules.name} requires them")
    return top


def _flatten_forms(original: Mapping[str, Any], rules: Rules, changes: list[str]) -> dict[str, Any]:
    """A plain object with the properties of every form."""
    base = kept_whole(Document(original), rules.refused)
    if base is not original:
        changes.append("/$defs: the original's own top level, which is referred to, was added")
    if original.get("type") != "object":
        changes.append(f'/type: "object", because {rules.name} requires it')
    document = Document(base)
    alone = "$ref" in base and document.reference_stands_alone
    top: dict[str, Any] = {"type": "object"} | {
        key: value
        for key, value in base.items()
        if key not in rules.refused and key != "type" and (not alone or key in _BESIDE_A_REFERENCE)
    }
    refused = [key for key in base if key in rules.refused]
    if not refused:
        return top
    for key in refused:
        how = "written out" if key in ("$ref", "allOf") else "moved to the description"
        changes.append(f"/{key}: {how}, because {rules.name} does not take it at the top level")
    sentences = [describe_keyword(key, base[key]) for key in refused if key not in ("$ref", "allOf") and not alone]
    place = document.resolve_reference(base.get("$ref"))
    if "$ref" in base and (place is None or document.schema_at(place) is None):
        sentences.append(describe_keyword("$ref", base["$ref"]))
    followed = [key for key in _FOLLOWED if key in refused]
    _show_properties(top, base, document, followed, changes)
    if followed and "unevaluatedProperties" in top:
        sentences.append(describe_keyword("unevaluatedProperties", top.pop("unevaluatedProperties")))
        changes.append("/unevaluatedProperties: moved to the description, as are the keywords it depends on")
    for node in _written_out(base, document, followed):
        for key in (key for key in node if key not in _WRITTEN_OUT_ELSEWHERE):
            if key not in top and (key == "description" or key in _CARRIED):
                top[key] = node[key]
            elif key != "description":
                sentences.append(describe_keyword(key, node[key]))
    if sentences:
        top["description"] = extend_description(top.get("description"), sentences)
    last = {key: top.pop(key) for key in _DEFINITIONS if key in top}  # as people write them
    return top | last


def _show_properties(
    top: dict[str, Any], base: Mapping[str, Any], document: Document, followed: list[str], changes: list[str]
) -> None:
    """Give the top level what holds in every form, and the properties of all of them."""
    flattener = Flattener(document)
    shape = flattener.shape_of({**base, "type": "object"}, keywords=followed) or flattener.shape_of(top, keywords=())
    keywords = shape.to_keywords() if shape is not None else {}
    for key in HANDLED:
        top.pop(key, None)
    top |= keywords
    added = [name for name in keywords.get("properties", ()) if name not in (base.get("properties") or {})]
    if added:
        changes.append(f"/properties: {', '.join(added)} shown from {', '.join(f'/{key}' for key in followed)}")


def _written_out(base: Mapping[str, Any], document: Document, followed: list[str]) -> Iterator[Mapping[str, Any]]:
    """The schemas that hold beside the top level: what it refers to, and all of `allOf`; each once."""
    seen: set[str] = set()
    waiting: list[tuple[Mapping[str, Any], list[str]]] = [(base, followed)]
    while waiting:
        node, keys = waiting.pop(0)
        alone = "$ref" in node and document.reference_stands_alone
        if node is not base and not alone:
            yield node
        found: list[Any] = [] if alone or "allOf" not in keys else list(node.get("allOf") or ())
        place = document.resolve_reference(node.get("$ref")) if "$ref" in keys else None
        if place is not None and place not in seen:
            seen.add(place)
            found.append(document.schema_at(place))
        waiting += [
            (cast("Mapping[str, Any]", inner), ["$ref", "allOf"]) for inner in found if isinstance(inner, Mapping)
        ]


def _with_usual_names(top: dict[str, Any], names: re.Pattern[str], api: str, changes: list[str]) -> dict[str, Any]:
    """The schema without the properties whose names are refused; the description names them."""
    copy = dict(kept_whole(Document(top), frozenset({"properties"})))
    properties: Mapping[str, Any] = copy["properties"]
    odd = {name: schema for name, schema in properties.items() if names.fullmatch(name) is None}
    copy["properties"] = {name: schema for name, schema in properties.items() if name not in odd}
    closed = [key for key in ("additionalProperties", "unevaluatedProperties") if copy.pop(key, True) is not True]
    said = [f"Also takes {json.dumps(name)}: {show_value(schema)}." for name, schema in odd.items()]
    copy["description"] = extend_description(copy.get("description"), said)
    changes += [f"/{key}: left out, because not all properties can be named" for key in closed]
    changes += [f"/properties/{name}: moved to the description, because {api} does not take its name" for name in odd]
    return copy


def _is_bare_array(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    if kind != "array" and not (isinstance(kind, list) and "array" in kind):
        return False
    return "items" not in node and "prefixItems" not in node


def _has_bare_array(schema: Mapping[str, Any]) -> bool:
    """Whether an array has no `items`; called for every schema, so plain ones must be quick."""
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, bool):
            continue
        if _is_bare_array(node):
            return True
        for key in node:
            if key in _INSIDE:
                value = node[key]
                if key in NAMED:
                    waiting.extend(inner for inner in value.values() if not isinstance(inner, list))
                elif isinstance(value, list):
                    waiting.extend(cast("list[Any]", value))
                else:
                    waiting.append(value)
    return False
