"""A copy of a tool's schema that a model's API takes, where it would drop or refuse the original.

Arguments are always validated against the original. The copy is what a model sees: it keeps as much as the API
takes, states the rest in the description and never forbids a call that the original allows. Every difference is
listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from toolstead.schema.phrases import describe_keyword, extend_description, show_value
from toolstead.schema.references import DEFINITIONS, Document, gather_definitions, has_address, map_schemas
from toolstead.schema.subset import cut_to_subset
from toolstead.types.tool import JSONSchema

_OPEN: Any = object()
_ANYTHING: Mapping[str, Any] = {}
_DEEPEST = 32
"""References that lead to references that lead to references: beyond this depth they are not followed."""
_SHAPED = frozenset({"properties", "required", "additionalProperties", "patternProperties"})
"""What a shape states."""
_FOLLOWED = ("$ref", "allOf", "anyOf", "oneOf")
_WRITTEN_OUT = ("$ref", "allOf")
_SILENT = _SHAPED.union(
    DEFINITIONS, _WRITTEN_OUT, ("type", "title", "$comment", "$anchor", "$dynamicAnchor", "default", "examples")
)
"""Keywords of a schema written out that need no words: already stated, or only a note."""
_CARRIED = ("description", "minProperties", "maxProperties", "propertyNames", "dependentRequired")
"""Keywords of a schema written out that can stand at the top level as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an API takes.

    Attributes:
        name: The API's name, for the log.
        refused: Keywords it refuses at the top level.
        property_names: What the names of properties at the top level must match, or None.
        properties_needed: Whether the top level must have `properties`, even without any.
        items_needed: Whether every array must say what its items are.
        knows_subset: Whether it knows only a part of JSON Schema; see `toolstead.schema.subset`.
    """

    name: str
    refused: frozenset[str] = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
    property_names: re.Pattern[str] | None = None
    properties_needed: bool = False
    items_needed: bool = False
    knows_subset: bool = False


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
        # subset.
        "gemini": Rules(name="gemini", knows_subset=True),
    }
)


def adapted_schema(schema: JSONSchema, rules: Rules) -> Adapted:
    """The input schema of a tool as an API takes it: the same object when nothing has to change."""
    changes: list[str] = []
    copy: JSONSchema = schema if rules.refused.isdisjoint(schema) else _flatten_forms(schema, rules, changes)
    if rules.property_names is not None:
        copy = _with_usual_names(copy, rules.property_names, rules.name, changes)
    if rules.properties_needed and "properties" not in copy:
        copy = {**copy, "properties": dict[str, Any]()}
        changes.append(f"/properties: added without any, because {rules.name} requires them")
    if rules.items_needed:
        bare, copy = copy, map_schemas(copy, _with_items, everywhere=True)
        if copy is not bare:
            changes.append(f"every array without items: items that may be anything, because {rules.name} requires them")
    if rules.knows_subset:
        copy = cut_to_subset(copy, rules.name, changes)
    return Adapted(schema=copy, changes=tuple(changes)) if changes else Adapted(schema=schema)


def _with_items(node: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = node.get("type")
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return {**node, "items": {}} if is_array and "items" not in node and "prefixItems" not in node else node


def _with_usual_names(
    top: Mapping[str, Any], names: re.Pattern[str], api: str, changes: list[str]
) -> Mapping[str, Any]:
    """The schema without the properties whose names are refused; the description names them."""
    odd = [name for name in top.get("properties", ()) if names.fullmatch(name) is None]
    if not odd:
        return top
    copy = dict(gather_definitions(top))
    properties: Mapping[str, Any] = copy["properties"]
    copy["properties"] = {name: schema for name, schema in properties.items() if name not in odd}
    closed = [key for key in ("additionalProperties", "unevaluatedProperties") if copy.pop(key, True) is not True]
    sentences = [f"Also takes {json.dumps(name)}: {show_value(properties[name])}." for name in odd]
    copy["description"] = extend_description(copy.get("description"), sentences)
    changes += [f"/{key}: left out, because not all properties can be named" for key in closed]
    changes += [f"/properties/{name}: moved to the description, because {api} does not take its name" for name in odd]
    return copy


def _flatten_forms(original: Mapping[str, Any], rules: Rules, changes: list[str]) -> Mapping[str, Any]:
    """A plain object: its choices stated in words, the properties of every form shown."""
    base = gather_definitions(original)
    if base is not original:
        changes.append("/$defs: what is referred to elsewhere was added, and what counts for nothing left out")
    refused = [key for key in base if key in rules.refused]
    for key in refused:
        how = "written out" if key in _WRITTEN_OUT else "moved to the description"
        changes.append(f"/{key}: {how}, because {rules.name} does not take it at the top level")
    followed = {key: value for key, value in base.items() if key in _FOLLOWED or key in _SHAPED}
    shape = _Flattener(base).shape_of(followed) or _own_shape(base)
    keywords = shape.to_keywords()
    added = [name for name in keywords.get("properties", ()) if name not in base.get("properties", ())]
    if added:
        forms = ", ".join(f"/{key}" for key in _FOLLOWED if key in base)
        changes.append(f"/properties: {', '.join(added)} shown from {forms}")
    gone = rules.refused.union(_SHAPED, DEFINITIONS)
    top = {"type": "object", **{key: value for key, value in base.items() if key not in gone}, **keywords}
    sentences = [describe_keyword(key, base[key]) for key in refused if key not in _WRITTEN_OUT]
    if "unevaluatedProperties" in top:
        sentences.append(describe_keyword("unevaluatedProperties", top.pop("unevaluatedProperties")))
        changes.append("/unevaluatedProperties: moved to the description, as are the keywords it depends on")
    for (key, _), value in shape.rest.items():
        if key in _CARRIED and key not in top:
            top[key] = value
        elif key != "description":
            sentences.append(describe_keyword(key, value))
    if sentences:
        top["description"] = extend_description(top.get("description"), sentences)
    return top | {key: base[key] for key in DEFINITIONS if key in base}


@dataclass(slots=True, kw_only=True)
class _Shape:
    """What is known of an object that may have several forms: whatever object fits the schema fits its shape too.

    Attributes:
        properties: Each with the schemas of which it fits one.
        required: Their names, in order.
        patterns: The schemas of properties by patterns of their names.
        others: The schema of all other properties, where there is one.
        rest: The keywords of the schema, and of those that hold beside it, that a shape does not state; by keyword
            and identity, so that what is merged twice is there once.
    """

    properties: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    required: dict[str, None] = field(default_factory=dict[str, None])
    patterns: Mapping[str, Any] = field(default_factory=dict[str, Any])
    others: Any = _OPEN
    rest: dict[tuple[str, int], Any] = field(default_factory=dict[tuple[str, int], Any])

    @property
    def is_closed(self) -> bool:
        """Whether no other properties may be given."""
        return self.others is False and not self.patterns

    def merge_shape(self, other: _Shape) -> None:
        """What holds for this shape and the other holds now; the first schema of a property is kept."""
        if not self.is_closed:
            self.properties |= {name: found for name, found in other.properties.items() if name not in self.properties}
        self.required |= other.required
        if self.others is _OPEN:
            self.others = other.others
        self.patterns = {**other.patterns, **self.patterns}
        self.rest |= other.rest

    def to_keywords(self) -> dict[str, Any]:
        """The shape as keywords of a schema."""
        properties = {
            name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in self.properties.items()
        }
        keywords = {"properties": properties, "required": list(self.required), "patternProperties": self.patterns}
        found: dict[str, Any] = {key: value for key, value in keywords.items() if value}
        return found if self.others is _OPEN else {**found, "additionalProperties": self.others}


class _Flattener:
    """Finds shapes in one document; each reference is followed once, so that loops end."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._document = Document(root)
        self._known: dict[str, _Shape | None] = {}
        self._depth = 0

    def shape_of(self, schema: Any) -> _Shape | None:
        """The shape of the objects that fit a schema, or None when none can."""
        if not isinstance(schema, Mapping):
            return None if schema is False else _Shape()
        node = cast("Mapping[str, Any]", schema)
        kind = node.get("type", "object")
        if has_address(node):  # its references would mean others elsewhere
            return _Shape()
        if kind != "object" and not (isinstance(kind, list) and "object" in kind):
            return None
        parts = [self._follow_reference(node["$ref"])] if "$ref" in node else []
        parts += [self.shape_of(branch) for branch in node.get("allOf", ())]
        parts += [_union_shape(list(map(self.shape_of, node[key]))) for key in ("anyOf", "oneOf") if key in node]
        shape = _own_shape(node)
        for part in parts:
            if part is None:
                return None
            shape.merge_shape(part)
        return shape

    def _follow_reference(self, reference: Any) -> _Shape | None:
        place = self._document.resolve_reference(reference)
        target = None if place is None else self._document.schema_at(place)
        if place is None or has_address(target):
            return _Shape(rest={("$ref", id(reference)): reference})
        if place not in self._known:
            if self._depth >= _DEEPEST:
                return _Shape()
            self._known[place] = _Shape()  # while it is being found: a loop states nothing more
            self._depth += 1
            self._known[place] = self.shape_of(target)
            self._depth -= 1
        return self._known[place]


def _own_shape(node: Mapping[str, Any]) -> _Shape:
    return _Shape(
        properties={name: [schema] for name, schema in node.get("properties", {}).items()},
        required=dict.fromkeys(node.get("required", ())),
        patterns=node.get("patternProperties", {}),
        others=node.get("additionalProperties", _OPEN),
        rest={(key, id(value)): value for key, value in node.items() if key not in _SILENT},
    )


def _union_shape(shapes: Sequence[_Shape | None]) -> _Shape | None:
    """What holds whichever of the forms an object has."""
    forms = [shape for shape in shapes if shape is not None]
    if not forms:
        return None
    both = _Shape(others=False if all(form.is_closed for form in forms) else _OPEN)
    for name in dict.fromkeys(name for form in forms for name in form.properties):
        # An open form that does not know the name takes anything of that name.
        found = [form.properties.get(name, [] if form.is_closed else [_ANYTHING]) for form in forms]
        both.properties[name] = _distinct_schemas(schema for schemas in found for schema in schemas)
    both.required = {name: None for name in forms[0].required if all(name in form.required for form in forms)}
    return both


def _distinct_schemas(schemas: Iterable[Any]) -> list[Any]:
    """Each schema once, the one that takes anything last."""
    # Compared as JSON: to Python, `{"const": 1}` and `{"const": true}` are equal.
    found = {json.dumps(schema, sort_keys=True): schema for schema in schemas}
    return sorted(found.values(), key=lambda schema: schema in ({}, True))
