"""The places of a schema document: the schemas inside it, and what its references point to.

Only references inside a document are followed; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote, unquote

ONE = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that hold a schema; `items` may also be a list of them in old drafts."""
MANY = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
NAMED = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
_REFERENCES = ("$ref", "$recursiveRef", "$dynamicRef")
_DRAFTS = {"draft-03": 4, "draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019}
_SIBLINGS_COUNT = 2019
"""The first draft in which keywords beside `$ref` count."""

Node = dict[str, Any]


class Document:
    """A schema with the references inside it.

    Attributes:
        root: The schema.
        draft: The year of its draft, or its number for the drafts before the years.
    """

    __slots__ = ("_address", "_anchors", "draft", "root")

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.draft = draft_of(root)
        address = root.get("$id")
        self._address = address.rstrip("#") if isinstance(address, str) else ""
        self._anchors: dict[str, str] | None = None

    @property
    def reference_stands_alone(self) -> bool:
        """Whether keywords beside `$ref` mean nothing, as in old drafts."""
        return self.draft < _SIBLINGS_COUNT

    def resolve_reference(self, reference: Any) -> str | None:
        """The JSON pointer that a reference inside this document means, or None for others."""
        if not isinstance(reference, str):
            return None
        if self._address and reference.startswith(self._address):
            reference = reference[len(self._address) :] or "#"
        if not reference.startswith("#"):
            return None
        fragment = unquote(reference[1:])
        if not fragment or fragment.startswith("/"):
            return fragment
        if self._anchors is None:
            found = ((node.get("$anchor"), at) for at, node in walk_schemas(self.root))
            self._anchors = {anchor: at for anchor, at in found if isinstance(anchor, str)}
        return self._anchors.get(fragment)

    def schema_at(self, place: str) -> Any:
        """The schema at a JSON pointer, or None where there is none, or one with an address of its own."""
        node: Any = self.root
        for step in place.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = cast("Mapping[str, Any]", node).get(key)
            elif isinstance(node, list) and key.isdigit() and int(key) < len(cast("list[Any]", node)):
                node = cast("list[Any]", node)[int(key)]
            else:
                return None
            if has_address(node):
                return None
        return cast("Any", node) if isinstance(node, Mapping | bool) else None


def draft_of(root: Mapping[str, Any]) -> int:
    """The draft a document is written in: 4, 6, 7, 2019 or 2020."""
    named = root.get("$schema")
    if not isinstance(named, str):
        return 2020
    return next((draft for mark, draft in _DRAFTS.items() if mark in named), 2020)


def has_address(node: Any) -> bool:
    """Whether references inside a schema start from its own address; `id` is how the oldest draft spells it."""
    if not isinstance(node, Mapping):
        return False
    schema = cast("Mapping[str, Any]", node)
    return isinstance(schema.get("$id"), str) or isinstance(schema.get("id"), str)


def child_schemas(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a schema, each with its path from there."""
    for key, value in node.items():
        if key in NAMED and isinstance(value, Mapping):
            for name, inner in cast("Mapping[str, Any]", value).items():
                yield f"/{key}/{escape_step(name)}", inner
        elif key in MANY and isinstance(value, list):
            for index, inner in enumerate(cast("list[Any]", value)):
                yield f"/{key}/{index}", inner
        elif key in ONE:
            yield f"/{key}", value


def walk_schemas(node: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A schema and all schemas inside it, except those with an address of their own."""
    yield place, node
    for path, inner in child_schemas(node):
        if isinstance(inner, Mapping) and not has_address(inner):
            yield from walk_schemas(cast("Mapping[str, Any]", inner), place + path)


def map_schemas(
    node: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, everywhere: bool = False
) -> Any:
    """A copy in which every schema was changed, the inner ones first; what did not change is not copied.

    Args:
        node: The schema.
        change: What to make of each schema; the same object when it does not change.
        everywhere: Whether schemas with an address of their own are changed too.
    """
    if not isinstance(node, Mapping):
        return node
    schema = cast("Mapping[str, Any]", node)

    def map_item(item: Any) -> Any:
        return map_schemas(item, change, everywhere=everywhere) if everywhere or not has_address(item) else item

    fresh: Node = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, Mapping):
            named = cast("Mapping[str, Any]", value)
            changed = {name: map_item(item) for name, item in named.items()}
            if any(changed[name] is not named[name] for name in named):
                fresh[key] = changed
        elif key in MANY and isinstance(value, list):
            listed = cast("list[Any]", value)
            inner = [map_item(item) for item in listed]
            if any(one is not other for one, other in zip(inner, listed, strict=True)):
                fresh[key] = inner
        elif key in ONE:
            single = map_item(value)
            if single is not value:
                fresh[key] = single
    return change({**schema, **fresh} if fresh else schema)


def kept_whole(document: Document, gone: frozenset[str]) -> Mapping[str, Any]:
    """The document with its own root kept as a definition, where references mean the root or what will be gone.

    Its top level can then change while `"$ref": "#"` still means what it meant.
    """
    root = document.root

    def means_root(node: Mapping[str, Any]) -> bool:
        return any(_is_root(document.resolve_reference(node.get(key)), gone) for key in _REFERENCES if key in node)

    if not any(means_root(node) for _, node in walk_schemas(root)):
        return root
    container = "definitions" if "definitions" in root and "$defs" not in root else "$defs"
    taken: Mapping[str, Any] = root.get(container) or {}
    name = next(name for name in ("whole", *(f"whole{n}" for n in range(2, len(taken) + 3))) if name not in taken)
    home = f"#/{container}/{name}"

    def move_references(node: Mapping[str, Any]) -> Mapping[str, Any]:
        fresh: Node = {}
        for key in _REFERENCES:
            place = document.resolve_reference(node.get(key)) if key in node else None
            if _is_root(place, gone):
                fresh["$ref"] = home + quote_pointer(place or "")
        if not fresh:
            return node
        return {key: value for key, value in node.items() if key not in _REFERENCES} | fresh

    apart = ("$schema", "$id", "id", "$vocabulary", "$defs", "definitions")
    copy: Node = dict(map_schemas(root, move_references))
    whole = {key: value for key, value in copy.items() if key not in apart}
    for key in ("$anchor", "$dynamicAnchor", "$recursiveAnchor"):
        copy.pop(key, None)
    copy[container] = {**(copy.get(container) or {}), name: whole}
    return copy


def _is_root(place: str | None, gone: frozenset[str]) -> bool:
    return place is not None and (not place or place.split("/")[1] in gone)


def escape_step(name: str) -> str:
    """A name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def quote_pointer(place: str) -> str:
    """A JSON pointer as part of a reference."""
    return quote(place, safe="/~!$&'()*+,;=:@-._")


def last_name(reference: str) -> str:
    """The name at the end of a reference."""
    return unquote(reference.rsplit("/", 1)[-1]).replace("~1", "/").replace("~0", "~")


def find_loops(leads: Mapping[str, set[str]]) -> dict[str, int]:
    """A number for each name: names that lead to each other have the same (strong components, after Kosaraju)."""
    back: dict[str, list[str]] = {name: [] for name in leads}
    for name, others in leads.items():
        for other in others:
            back[other].append(name)
    order: list[str] = []
    seen: set[str] = set()
    for start in leads:
        waiting: list[tuple[str, bool]] = [(start, False)]
        while waiting:
            name, done = waiting.pop()
            if done:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                waiting.append((name, True))
                waiting += [(other, False) for other in leads[name]]
    number: dict[str, int] = {}
    for count, start in enumerate(reversed(order)):
        group = [start]
        while group:
            name = group.pop()
            if name not in number:
                number[name] = count
                group += back[name]
    return number
