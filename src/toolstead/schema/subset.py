"""The part of JSON Schema that Gemini's `parametersJsonSchema` knows, and schemas cut to it.

Documented: $id, $defs, $ref, $anchor, type, format, title, description, enum of strings and numbers, items,
prefixItems, minItems, maxItems, minimum, maximum, anyOf, oneOf (read as anyOf), properties, additionalProperties,
required, propertyOrdering; beside `$ref` nothing but keywords with a `$`; cyclic references only within properties
that are not required. Others are ignored or fail the whole request, so what they ask for is stated in the
description.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from toolstead.schema.phrases import describe_keyword, extend_description, show_value
from toolstead.schema.references import (
    Document,
    Node,
    child_schemas,
    escape_step,
    find_loops,
    has_address,
    last_name,
    quote_pointer,
)

_TAKEN = frozenset({"type", "title", "description", "required", "propertyOrdering"})
_BOUNDS = frozenset({"minItems", "maxItems", "minimum", "maximum"})
_FORMATS = frozenset({"date-time", "date", "time", "float", "double", "int32", "int64"})
"""Formats it documents; "only 'enum' and 'date-time' are supported" was its answer to others."""
_ASKING = frozenset(
    {"$dynamicRef", "$recursiveRef", "contains", "contentEncoding", "contentMediaType", "default", "dependencies"}
    | {"dependentRequired", "dependentSchemas", "format", "maxContains", "maxLength", "maxProperties", "minContains"}
    | {"minLength", "minProperties", "multipleOf", "not", "pattern", "patternProperties", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties", "uniqueItems"}
)
"""Keywords it does not know and a model should: stated in words."""
_NOTES = frozenset({"title", "description", "$comment", "type"})
"""Keywords that need no words: notes, and the type, which is shown."""
_CONST_SINCE, _PREFIX_ITEMS_SINCE = 6, 2020


@dataclass(frozen=True, slots=True)
class Subset:
    """The subset; a value, so that rules can hold it."""

    def apply_subset(self, schema: Mapping[str, Any], api: str, changes: list[str]) -> Mapping[str, Any]:
        """A copy of a schema cut to the subset; each difference is added to `changes`."""
        return _SubsetCut(schema, api, changes).cut_document()


@dataclass(slots=True, kw_only=True)
class _SubsetPlace:
    """A schema that is being cut.

    Attributes:
        source: The schema.
        at: Its JSON pointer.
        followed: Whether references in it start from the document's own address.
        cut: What is taken of it.
        said: What the description states in words.
    """

    source: Mapping[str, Any]
    at: str
    followed: bool
    cut: Node = field(default_factory=dict[str, Any])
    said: list[str] = field(default_factory=list[str])


class _SubsetCut:
    """One document on its way into the subset."""

    def __init__(self, root: Mapping[str, Any], api: str, changes: list[str]) -> None:
        self._document = Document(root)
        self._api = api
        self._changes = changes
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []

    def cut_document(self) -> Mapping[str, Any]:
        root = self._document.root
        for container in ("$defs", "definitions"):
            for name in root.get(container) or ():
                place = f"/{container}/{escape_step(name)}"
                if self._document.schema_at(place) is None:
                    self._record_change(place, "left out, because it has an address of its own")
                else:
                    self._define_place(place)
        if "definitions" in root:
            self._record_change("/definitions", "moved to $defs")
        top = self._cut_schema(root, "", followed=True)
        found: dict[str, Node] = {}
        while self._waiting:
            place = self._waiting.pop()
            found[self._names[place]] = self._cut_schema(self._document.schema_at(place), place, followed=True)
        if self._names or "$defs" in root:
            top["$defs"] = {name: found[name] for name in self._names.values()}
            self._loosen_loops(top["$defs"])
        return top

    def _cut_schema(self, schema: Any, at: str, *, followed: bool) -> Node:
        """A schema cut to the subset."""
        if not isinstance(schema, Mapping):
            self._record_change(at, "true became {}" if schema else "false moved to the description")
            return {} if schema else {"description": "Never given."}
        node = cast("Mapping[str, Any]", schema)
        followed = followed and (not at or not has_address(node))
        if "$ref" in node and self._document.reference_stands_alone:
            node = {key: node[key] for key in node if key in ("$ref", "title", "description", "default")}
        if "allOf" in node:
            node = self._without_all_of(node, at)
        place = _SubsetPlace(source=node, at=at, followed=followed)
        for key, value in node.items():
            if key in _TAKEN:
                place.cut[key] = value
            elif key in _BOUNDS:
                place.cut.setdefault(key, value)
            else:
                self._cut_keyword(key, value, place)
        if at and ("$defs" in node or "definitions" in node):
            self._record_change(f"{at}/$defs", "left out; what is referred to stands at the top level")
        self._requires_known(place)
        if place.said:
            place.cut["description"] = extend_description(place.cut.get("description"), place.said)
        if "$ref" in node:
            self._add_reference(node["$ref"], place)
        return place.cut

    def _cut_keyword(self, key: str, value: Any, place: _SubsetPlace) -> None:
        match key:
            case "properties":
                named = cast("Mapping[str, Any]", value).items()
                place.cut[key] = {
                    name: self._cut_inner(place, f"properties/{escape_step(name)}", inner) for name, inner in named
                }
            case "prefixItems" if self._document.draft >= _PREFIX_ITEMS_SINCE:
                place.cut[key] = [self._cut_inner(place, f"prefixItems/{n}", inner) for n, inner in enumerate(value)]
            case "additionalProperties":
                self._cut_additional(value, place)
            case "items":
                self._cut_items(value, place)
            case "anyOf" | "oneOf":
                self._cut_choice(key, value, place)
            case "enum":
                self._cut_values(key, value, place)
            case "const" if self._document.draft >= _CONST_SINCE:
                self._cut_values(key, value, place)
            case "exclusiveMinimum" | "exclusiveMaximum":
                self._cut_bound(key, value, place)
            case _:
                self._cut_unknown(key, value, place)

    def _cut_unknown(self, key: str, value: Any, place: _SubsetPlace) -> None:
        here = f"{place.at}/{key}"
        if key == "format" and value in _FORMATS:
            place.cut[key] = value
        elif key == "if" and ("then" in place.source or "else" in place.source):
            parts = {name: place.source[name] for name in ("if", "then", "else") if name in place.source}
            place.said.append(f"Must fit {show_value(parts)}.")
            self._note_change(here)
        elif key in _ASKING and (key != "uniqueItems" or value):
            place.said.append(describe_keyword(key, value))
            self._note_change(here)
        elif key not in ("$ref", "$defs", "definitions"):
            self._record_change(here, f"left out, because {self._api} does not know it")

    def _cut_inner(self, place: _SubsetPlace, path: str, schema: Any) -> Node:
        return self._cut_schema(schema, f"{place.at}/{path}", followed=place.followed)

    def _cut_additional(self, value: Any, place: _SubsetPlace) -> None:
        """`additionalProperties`, which also takes what `patternProperties` took."""
        patterns: Mapping[str, Any] = place.source.get("patternProperties") or {}
        forms = [] if isinstance(value, bool) else [self._cut_inner(place, "additionalProperties", value)]
        if value is True or not patterns:
            place.cut["additionalProperties"] = forms[0] if forms else value
            return
        forms += [
            self._cut_inner(place, f"patternProperties/{escape_step(name)}", inner) for name, inner in patterns.items()
        ]
        place.cut["additionalProperties"] = forms[0] if len(forms) == 1 else {"anyOf": forms}
        self._record_change(f"{place.at}/additionalProperties", "takes what patternProperties took")

    def _cut_items(self, value: Any, place: _SubsetPlace) -> None:
        here = f"{place.at}/items"
        prefix: Any = place.source.get("prefixItems") if self._document.draft >= _PREFIX_ITEMS_SINCE else None
        if isinstance(value, list):
            prefix = cast("list[Any]", value)
            place.cut["prefixItems"] = [self._cut_inner(place, f"items/{n}", inner) for n, inner in enumerate(prefix)]
            self._record_change(here, "a list became prefixItems")
            value = place.source.get("additionalItems", True)
        if value is False:
            most = min(len(prefix or ()), place.source.get("maxItems", len(prefix or ())))
            place.cut["maxItems"] = most
            self._record_change(here, f"false became maxItems {most}")
        elif value is True:
            self._record_change(here, "true left out, because it asks for nothing")
        else:
            place.cut["items"] = self._cut_inner(place, "items", value)

    def _cut_choice(self, key: str, value: list[Any], place: _SubsetPlace) -> None:
        here = f"{place.at}/{key}"
        forms = [self._cut_inner(place, f"{key}/{n}", inner) for n, inner in enumerate(value) if inner is not False]
        if not forms or (key == "oneOf" and "anyOf" in place.source):
            place.said.append(describe_keyword(key, value))
            self._note_change(here)
            return
        place.cut["anyOf"] = forms
        if len(forms) < len(value):
            self._record_change(here, "forms that nothing fits left out")
        if key == "oneOf":  # forms that say less may overlap: read strictly, the copy would refuse what fits two
            place.said.append("Fits exactly one of the forms.")
            self._record_change(here, f"became anyOf, because {self._api} reads it so")

    def _cut_values(self, key: str, value: Any, place: _SubsetPlace) -> None:
        """`enum` and `const`: an enum of strings and numbers, or stated in words."""
        values: list[Any] = value if key == "enum" else [value]
        plain = all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in values)
        if not plain or (key == "const" and "enum" in place.source):
            place.said.append(describe_keyword(key, value))
            self._note_change(f"{place.at}/{key}")
            return
        place.cut["enum"] = values
        if key == "const":
            self._record_change(f"{place.at}/const", "became an enum of one")

    def _cut_bound(self, key: str, value: Any, place: _SubsetPlace) -> None:
        """An exclusive bound: stated in words, and shown as the inclusive one."""
        inclusive, tightest = ("minimum", max) if key == "exclusiveMinimum" else ("maximum", min)
        self._record_change(f"{place.at}/{key}", f"became {inclusive}; the description has the exact bound")
        if not isinstance(value, bool):
            place.said.append(describe_keyword(key, value))
            place.cut[inclusive] = tightest(value, place.source.get(inclusive, value))
        elif value and inclusive in place.source:  # draft 4: whether the other bound is exclusive
            place.said.append(describe_keyword(key, place.source[inclusive]))

    def _requires_known(self, place: _SubsetPlace) -> None:
        """Require only what `properties` names: "property is not defined" refuses others."""
        required = cast("list[str]", place.cut.get("required") or [])
        unknown = [name for name in required if name not in (place.cut.get("properties") or {})]
        if unknown:
            place.said.append(describe_keyword("required", unknown))
            _add_required(place.cut, [name for name in required if name not in unknown])
            told_of = f"{', '.join(unknown)} moved to the description"
            self._record_change(
                f"{place.at}/required", f"{told_of}, because {self._api} requires them among the properties"
            )

    def _without_all_of(self, node: Mapping[str, Any], at: str) -> Mapping[str, Any]:
        """A schema whose `allOf` is stated in words, its first part shown as a choice of one where no other stands."""
        branches: list[Any] = node["allOf"]
        rest = {key: value for key, value in node.items() if key != "allOf"}
        schemas = [cast("Mapping[str, Any]", branch) for branch in branches if isinstance(branch, Mapping)]
        kinds = [branch["type"] for branch in schemas if "type" in branch and "$ref" not in branch]
        if kinds and len(branches) > 1:
            rest.setdefault("type", kinds[0])
        unshown = branches
        if "anyOf" not in rest and "oneOf" not in rest:
            rest["anyOf"], unshown = branches[:1], branches[1:]
        schemas = [cast("Mapping[str, Any]", branch) for branch in unshown if isinstance(branch, Mapping)]
        unsaid = [{key: value for key, value in branch.items() if key not in _NOTES} for branch in schemas]
        if any(unsaid):
            rest["description"] = extend_description(
                rest.get("description"), [describe_keyword("allOf", [one for one in unsaid if one])]
            )
        how = "moved to the description" if any(unsaid) else "became a choice of one"
        self._record_change(f"{at}/allOf", f"{how}, because {self._api} does not know it")
        return rest

    def _add_reference(self, reference: Any, place: _SubsetPlace) -> None:
        """Put a reference into a schema; beside others, as a choice of one."""
        here = f"{place.at}/$ref"
        target = self._document.resolve_reference(reference) if place.followed else None
        if target is None or self._document.schema_at(target) is None:
            place.cut["description"] = extend_description(
                place.cut.get("description"), [describe_keyword("$ref", reference)]
            )
            self._record_change(here, "moved to the description, because it leads elsewhere")
            return
        written = f"#/$defs/{quote_pointer(escape_step(self._define_place(target)))}"
        if self._document.resolve_reference(written) == target and reference.startswith("#/"):
            written = reference
        else:
            self._record_change(here, f"{reference} became {written}")
        if not place.cut:
            place.cut["$ref"] = written
        elif "anyOf" not in place.cut:
            place.cut["anyOf"] = [{"$ref": written}]
            self._record_change(here, "became a choice of one, because nothing may stand beside it")
        else:
            place.cut["description"] = extend_description(
                place.cut.get("description"), [describe_keyword("$ref", written)]
            )
            self._record_change(here, "moved to the description, because a choice stands beside it")

    def _define_place(self, place: str) -> str:
        """The name of the definition that holds what stands at a place."""
        if place not in self._names:
            wanted = place.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~") or "root"
            taken = {*self._names.values()}
            free = (wanted, *(f"{wanted}{n}" for n in range(2, len(taken) + 3)))
            self._names[place] = next(name for name in free if name not in taken)
            self._waiting.append(place)
        return self._names[place]

    def _loosen_loops(self, definitions: Mapping[str, Node]) -> None:
        """Require no property that leads back to its own definition: such are refused."""
        loop = find_loops({name: {*_find_references(node)} for name, node in definitions.items()})
        for name, node in definitions.items():
            for at, inner in _walk_nodes(node, f"/$defs/{escape_step(name)}"):
                required = cast("list[str]", inner.get("required") or [])
                back = [
                    key
                    for key in required
                    if any(loop.get(other) == loop[name] for other in _find_references(inner["properties"][key]))
                ]
                if back:
                    _add_required(inner, [key for key in required if key not in back])
                    inner["description"] = extend_description(
                        inner.get("description"), [describe_keyword("required", back)]
                    )
                    self._record_change(f"{at}/required", f"{', '.join(back)} moved to the description, being a loop")

    def _note_change(self, here: str) -> None:
        self._record_change(here, f"moved to the description, because {self._api} does not know it")

    def _record_change(self, here: str, what: str) -> None:
        self._changes.append(f"{here}: {what}")


def _add_required(node: Node, names: list[str]) -> None:
    if names:
        node["required"] = names
    else:
        del node["required"]


def _walk_nodes(node: Node, at: str) -> Iterator[tuple[str, Node]]:
    yield at, node
    for path, inner in child_schemas(node):
        if isinstance(inner, dict):
            yield from _walk_nodes(cast("Node", inner), at + path)


def _find_references(node: Node) -> Iterator[str]:
    for _, inner in _walk_nodes(node, ""):
        if "$ref" in inner:
            yield last_name(inner["$ref"])
