"""The properties of an object that may have several forms, as one list of properties.

Whatever object fits the schema fits its shape too: a property that only some forms know is shown and may be
anything, and only what every form requires is required.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from toolstead.schema.references import Document, has_address

_OPEN: Any = object()
_DEEPEST = 32
"""References that lead to references that lead to references: beyond this depth they are not followed."""
HANDLED = frozenset({"properties", "required", "additionalProperties", "patternProperties"})
"""What a shape says."""


class Shape:
    """What is known of an object's properties: each with the schemas that it may fit."""

    __slots__ = ("others", "patterns", "properties", "required")

    def __init__(self) -> None:
        self.properties: dict[str, list[Any]] = {}
        self.required: dict[str, None] = {}
        self.patterns: dict[str, Any] = {}
        self.others: Any = _OPEN

    @property
    def is_closed(self) -> bool:
        """Whether no other properties may be given."""
        return self.others is False and not self.patterns

    def merge_shape(self, other: Shape) -> None:
        """What holds for this shape and the other holds now; the first schema of a property is kept."""
        for name, schemas in other.properties.items():
            if name not in self.properties and not self.is_closed:
                self.properties[name] = schemas
        self.required |= other.required
        if self.others is _OPEN:
            self.others = other.others
        self.patterns = other.patterns | self.patterns

    def to_keywords(self) -> dict[str, Any]:
        """The shape as keywords of a schema."""
        found: dict[str, Any] = {}
        if self.properties:
            found["properties"] = {name: _any_of(schemas) for name, schemas in self.properties.items()}
        if self.required:
            found["required"] = list(self.required)
        if self.patterns:
            found["patternProperties"] = self.patterns
        if self.others is not _OPEN:
            found["additionalProperties"] = self.others
        return found


class Flattener:
    """Finds shapes in one document; each reference is followed once, so that loops end."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._known: dict[str, Shape | None] = {}
        self._depth = 0

    def shape_of(self, schema: Any, *, keywords: Iterable[str] = ("$ref", "allOf", "anyOf", "oneOf")) -> Shape | None:
        """The shape of the objects that fit a schema, or None when none can.

        Args:
            schema: The schema.
            keywords: Which of the ways to other schemas to follow.
        """
        if not isinstance(schema, Mapping):
            return None if schema is False else Shape()
        node = cast("Mapping[str, Any]", schema)
        alone = "$ref" in node and self._document.reference_stands_alone
        kind = node.get("type", "object")
        if not alone and kind != "object" and not (isinstance(kind, list) and "object" in kind):
            return None
        shape = Shape() if alone else _own_shape(node)
        for key in keywords:
            if key not in node or (alone and key != "$ref"):
                continue
            value = node[key]
            if key == "$ref":
                found = [self._follow_reference(value)]
            elif key == "allOf":
                found = [self._form_of(branch) for branch in value]
            else:
                found = [_union_shape([self._form_of(branch) for branch in value])]
            for other in found:
                if other is None:
                    return None
                shape.merge_shape(other)
        return shape

    def _form_of(self, schema: Any) -> Shape | None:
        return Shape() if has_address(schema) else self.shape_of(schema)  # its references would mean others elsewhere

    def _follow_reference(self, reference: Any) -> Shape | None:
        place = self._document.resolve_reference(reference)
        target = None if place is None else self._document.schema_at(place)
        if place is None or target is None:
            return Shape()
        if place not in self._known:
            if self._depth >= _DEEPEST:
                return Shape()
            self._known[place] = Shape()  # while it is being found: a loop says nothing more
            self._depth += 1
            self._known[place] = self.shape_of(target)
            self._depth -= 1
        return self._known[place]


def _own_shape(node: Mapping[str, Any]) -> Shape:
    shape = Shape()
    properties: Mapping[str, Any] = node.get("properties") or {}
    shape.properties = {name: [schema] for name, schema in properties.items()}
    required = node.get("required")
    if isinstance(required, list):  # a boolean in the oldest drafts
        shape.required = dict.fromkeys(cast("list[str]", required))
    shape.patterns = dict(node.get("patternProperties") or {})
    shape.others = node.get("additionalProperties", _OPEN)
    return shape


def _union_shape(shapes: Sequence[Shape | None]) -> Shape | None:
    """What holds whichever of the forms an object has."""
    forms = [shape for shape in shapes if shape is not None]
    if not forms:
        return None
    both = Shape()
    for name in dict.fromkeys(name for form in forms for name in form.properties):
        schemas: list[Any] = []
        for form in forms:
            if name in form.properties:
                schemas.extend(form.properties[name])
            elif not form.is_closed:
                schemas.append({})  # this form takes anything of that name
        both.properties[name] = _distinct_schemas(schemas)
    both.required = {name: None for name in forms[0].required if all(name in form.required for form in forms)}
    if all(form.is_closed for form in forms):
        both.others = False
    return both


def _distinct_schemas(schemas: Iterable[Any]) -> list[Any]:
    """Each schema once, the one that takes anything last."""
    # Compared as JSON: to Python, `{"const": 1}` and `{"const": true}` are equal.
    found = {json.dumps(schema, sort_keys=True): schema for schema in schemas}
    return sorted(found.values(), key=lambda schema: schema in ({}, True))


def _any_of(schemas: Sequence[Any]) -> Any:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
