"""The places of a schema document: the schemas inside it, and what its references point to.

Only references inside a document are followed; nothing is fetched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain, count
from typing import Any, cast
from urllib.parse import quote, unquote

from toolstead.schema.explanation import escape_step

ONE = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that hold a schema; `items` may also be a list of them in old drafts."""
MANY = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
NAMED = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
DEFINITIONS = ("$defs", "definitions")
_DRAFTS = {"draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019}
_SIBLINGS_COUNT = 2019
"""The first draft in which keywords beside `$ref` count."""
_BESIDE_A_REFERENCE = frozenset({"$ref", "$schema", "$id", "$comment", "title", "description", "default", *DEFINITIONS})
"""What counts beside `$ref` even in older drafts."""
_MOST_REFERENCES, _MOST_EXPANDED = 200, 1_000
_OF_THE_ROOT = frozenset({"$schema", "$id", "id", "$vocabulary", *DEFINITIONS})
"""What a copy of the root, as a definition inside it, leaves out."""

Node = dict[str, Any]


class Document:
    """A schema with the references inside it."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        address = root.get("$id")
        self._address = address.rstrip("#") if isinstance(address, str) else ""
        self._anchors: dict[str, str] | None = None

    def resolve_reference(self, reference: Any) -> str | None:
        """The JSON pointer of the schema that a reference inside this document means, or None for others."""
        if not isinstance(reference, str):
            return None
        if self._address and reference.startswith(self._address):
            reference = reference[len(self._address) :] or "#"
        if not reference.startswith("#"):
            return None
        place: str | None = unquote(reference[1:])
        if place and not place.startswith("/"):
            if self._anchors is None:
                found = ((node.get("$anchor"), at) for at, node in walk_schemas(self._root))
                self._anchors = {anchor: at for anchor, at in found if isinstance(anchor, str)}
            place = self._anchors.get(place)
        return place if place is not None and self.schema_at(place) is not None else None

    def schema_at(self, place: str) -> Any:
        """The schema at a JSON pointer, or None where there is none, or one with an address of its own around it."""
        node: Any = self._root
        for step in place.split("/")[1:]:
            if node is not self._root and has_address(node):
                return None
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = cast("Mapping[str, Any]", node).get(key)
            elif isinstance(node, list) and key.isdigit() and int(key) < len(cast("list[Any]", node)):
                node = cast("list[Any]", node)[int(key)]
            else:
                return None
        return cast("Any", node) if isinstance(node, Mapping | bool) else None


def find_draft(root: Mapping[str, Any]) -> int:
    """The draft a document is written in: 4, 6, 7, 2019 or 2020."""
    named = str(root.get("$schema"))
    return next((draft for mark, draft in _DRAFTS.items() if mark in named), 2020)


def has_address(node: Any) -> bool:
    """Whether references inside a schema start from its own address; `id` is how the oldest draft spells it."""
    if not isinstance(node, Mapping):
        return False
    schema = cast("Mapping[str, Any]", node)
    return isinstance(schema.get("$id"), str) or isinstance(schema.get("id"), str)


def walk_schemas(node: Mapping[str, Any], place: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """A schema and all schemas inside it, except those with an address of their own, each with its JSON pointer."""
    found = [(place, node)]

    def walk_inner(inner: Any, path: str) -> Any:
        if isinstance(inner, Mapping) and not has_address(inner):
            found.extend(walk_schemas(cast("Mapping[str, Any]", inner), place + path))
        return cast("Any", inner)

    map_children(node, walk_inner)
    return found


def may_expand_far(root: Mapping[str, Any]) -> bool:
    """Whether references lead back to where they stand, or out of the document, or stand for very many schemas."""
    document = Document(root)
    references = [
        (place, document.resolve_reference(node["$ref"])) for place, node in walk_schemas(root) if "$ref" in node
    ]
    if len(references) > _MOST_REFERENCES:
        return True
    sizes: dict[str, float] = {}

    def measure(place: str) -> float:
        if place not in sizes:
            sizes[place] = math.inf  # until it is known: whoever asks meanwhile is inside it
            within = [target for at, target in references if at == place or at.startswith(f"{place}/")]
            sizes[place] = 1 + sum(math.inf if target is None else measure(target) for target in within)
        return sizes[place]

    return measure("") > _MOST_EXPANDED


def map_children(node: Mapping[str, Any], change: Callable[[Any, str], Any]) -> Mapping[str, Any]:
    """A copy in which every schema directly inside was changed; the same object when none did.

    Args:
        node: The schema.
        change: Called with each schema and its path from the node; returns the same object when it does not change.
    """
    is_changed = False

    def change_one(inner: Any, path: str) -> Any:
        nonlocal is_changed
        changed = change(inner, path)
        is_changed |= changed is not inner
        return changed

    fresh: Node = {}
    for key, value in node.items():
        if key in NAMED and isinstance(value, Mapping):
            named = cast("Mapping[str, Any]", value).items()
            fresh[key] = {name: change_one(inner, f"/{key}/{escape_step(name)}") for name, inner in named}
        elif key in MANY and isinstance(value, list):
            fresh[key] = [change_one(inner, f"/{key}/{n}") for n, inner in enumerate(cast("list[Any]", value))]
        elif key in ONE:
            fresh[key] = change_one(value, f"/{key}")
    return {**node, **fresh} if is_changed else node


def map_schemas(
    node: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, everywhere: bool = False
) -> Any:
    """A copy in which every schema was changed, the inner ones first; the same object when none did.

    Args:
        node: The schema.
        change: What to make of each schema; the same object when it does not change.
        everywhere: Whether schemas with an address of their own are changed too.
    """

    def map_inner(inner: Any, _: str) -> Any:
        return map_schemas(inner, change, everywhere=everywhere) if everywhere or not has_address(inner) else inner

    return change(map_children(cast("Mapping[str, Any]", node), map_inner)) if isinstance(node, Mapping) else node


def gather_definitions(root: Mapping[str, Any], homes: Collection[str] = DEFINITIONS) -> Mapping[str, Any]:
    """A document whose inner references all lead to its definitions; the same object when they do already.

    Its top level can then change while `"$ref": "#"` still means what it meant. What older drafts ignore beside a
    reference is left out.

    Args:
        root: The document.
        homes: The keywords whose definitions stay; others become `$defs`.
    """
    document = Document(root)
    names: dict[str, str] = {}
    taken: set[str] = set(root.get("$defs") or ())
    free: dict[str, Iterator[str]] = {}  # the spellings of a name that are left, so that thousands cost no search

    def name_place(place: str) -> str:
        if place not in names:
            wanted = place.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~") or "whole"
            spellings = free.setdefault(wanted, chain([wanted], (f"{wanted}{n}" for n in count(2))))
            names[place] = next(name for name in spellings if name not in taken)
            taken.add(names[place])
        return names[place]

    def lead_to_definition(node: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$anchor" in node:  # no reference needs it any more, and a definition may be a second copy
            node = {key: value for key, value in node.items() if key != "$anchor"}
        place = document.resolve_reference(node.get("$ref"))
        if place is None:
            return node
        if place.count("/") != 2 or place.split("/")[1] not in homes:
            place = f"/$defs/{escape_step(name_place(place))}"
        reference = "#" + quote(place, safe="/~!$&'()*+,;=:@-._")
        return node if node["$ref"] == reference else {**node, "$ref": reference}

    copy: Mapping[str, Any] = map_schemas(root, lead_to_definition)
    if names:
        gathered = {name: Document(copy).schema_at(place) for place, name in names.items()}
        if "" in names:
            gathered[names[""]] = {key: value for key, value in copy.items() if key not in _OF_THE_ROOT}
        kept = {key: value for key, value in copy.items() if key != "$dynamicAnchor"}
        copy = {**kept, "$defs": {**kept.get("$defs", {}), **gathered}}
    return copy if find_draft(root) >= _SIBLINGS_COUNT else map_schemas(copy, _without_siblings)


def _without_siblings(node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node or _BESIDE_A_REFERENCE.issuperset(node):
        return node
    return {key: value for key, value in node.items() if key in _BESIDE_A_REFERENCE}


def read_last_name(reference: str) -> str:
    """The name at the end of a reference."""
    return unquote(reference.rsplit("/", 1)[-1]).replace("~1", "/").replace("~0", "~")
