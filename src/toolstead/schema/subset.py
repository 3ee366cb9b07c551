"""The part of JSON Schema that Gemini's `parametersJsonSchema` knows, and schemas cut to it.

Documented: $id, $defs, $ref, $anchor, type, format, title, description, enum of strings and numbers, items,
prefixItems, minItems, maxItems, minimum, maximum, anyOf, oneOf (read as anyOf), properties, additionalProperties,
required, propertyOrdering; beside `$ref` nothing but keywords with a `$`; cyclic references only within properties
that are not required. Others are ignored or fail the whole request, so what they ask for is stated in the
description.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

from toolstead.schema.explanation import escape_step
from toolstead.schema.phrases import describe_keyword, extend_description, show_value
from toolstead.schema.references import (
    Node,
    find_draft,
    gather_definitions,
    has_address,
    map_children,
    read_last_name,
    walk_schemas,
)

_KNOWN = frozenset(
    {"type", "title", "description", "required", "propertyOrdering", "minItems", "maxItems", "minimum", "maximum"}
    | {"anyOf", "items", "prefixItems", "properties", "additionalProperties"}
)
_FORMATS = frozenset({"date-time", "date", "time", "float", "double", "int32", "int64"})
"""Formats it documents; "only 'enum' and 'date-time' are supported" was its answer to others."""
_ASKING = frozenset(
    {"$dynamicRef", "$recursiveRef", "contains", "contentEncoding", "contentMediaType", "default", "dependencies"}
    | {"dependentRequired", "dependentSchemas", "format", "maxContains", "maxLength", "maxProperties", "minContains"}
    | {"minLength", "minProperties", "multipleOf", "not", "pattern", "patternProperties", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties", "uniqueItems", "enum", "const", "oneOf"}
)
"""Keywords it does not know and a model should: stated in words."""
_NOTES = frozenset({"title", "description", "$comment"})
_SINCE = {"const": 6, "prefixItems": 2020}
"""The drafts that have a keyword; earlier ones ignore it."""
_BOUNDS = (("exclusiveMinimum", "minimum", max), ("exclusiveMaximum", "maximum", min))


def cut_to_subset(schema: Mapping[str, Any], api: str, changes: list[str]) -> Mapping[str, Any]:
    """A copy of a schema cut to the subset; each difference is added to `changes`."""
    document = gather_definitions(schema, homes=("$defs",))
    if document is not schema:
        changes.append("/$defs: has all that is referred to")
    return _SubsetCut(document, api, changes).cut_document()


class _SubsetCut:
    """One document on its way into the subset."""

    def __init__(self, root: Mapping[str, Any], api: str, changes: list[str]) -> None:
        self._root = root
        self._draft = find_draft(root)
        self._definitions: Mapping[str, Any] = {
            name: schema for name, schema in root.get("$defs", {}).items() if not has_address(schema)
        }
        self._api = api
        self._changes = changes

    def cut_document(self) -> Mapping[str, Any]:
        top = self._cut_schema(self._root, "")
        if "$defs" in self._root:
            top["$defs"] = {
                name: self._cut_schema(schema, f"/$defs/{escape_step(name)}")
                for name, schema in self._definitions.items()
            }
            self._loosen_loops(top["$defs"])
        return top

    def _cut_schema(self, schema: Any, at: str) -> Node:
        """A schema cut to the subset, with all schemas inside it."""
        if not isinstance(schema, Mapping):
            self._record_change(at, "true became {}" if schema else "false moved to the description")
            return {} if schema else {"description": "Never given."}
        given = cast("Mapping[str, Any]", schema)
        if at and has_address(given):
            self._record_change(at, "moved to the description, because it has an address of its own")
            return {"description": f"Must fit {show_value(given)}."}
        node = {key: value for key, value in given.items() if key != "$ref" and self._draft >= _SINCE.get(key, 0)}
        sentences = self._rewrite_keywords(node, at)
        for key in [key for key, value in node.items() if not _is_known(key, value)]:
            value = node.pop(key)
            if key in _ASKING and (key != "uniqueItems" or value):
                sentences.append(describe_keyword(key, value))
                self._record_change(f"{at}/{key}", f"moved to the description, because {self._api} does not know it")
            elif at or key != "$defs":
                self._record_change(f"{at}/{key}", f"left out, because {self._api} does not know it")
        if sentences:
            node["description"] = extend_description(node.get("description"), sentences)
        if "$ref" in given:
            self._add_reference(node, given["$ref"], f"{at}/$ref")
        return dict(map_children(node, lambda inner, path: self._cut_inner(inner, at, path)))

    def _cut_inner(self, schema: Any, at: str, path: str) -> Any:
        is_taken = path == "/additionalProperties" and isinstance(schema, bool)
        return schema if is_taken else self._cut_schema(schema, at + path)

    def _rewrite_keywords(self, node: Node, at: str) -> list[str]:
        """Rewrite what the subset can express in another way; returns what is lost by it, in words."""
        sentences = self._rewrite_all_of(node, at) if "allOf" in node else []
        if "oneOf" in node and "anyOf" not in node:
            node["anyOf"] = node.pop("oneOf")
            # Forms that say less may overlap: read strictly, the copy would refuse what fits two.
            sentences.append("Fits exactly one of the forms.")
            self._record_change(f"{at}/oneOf", f"became anyOf, because {self._api} reads it so")
        if "const" in node and "enum" not in node and _is_known("enum", [node["const"]]):
            node["enum"] = [node.pop("const")]
            self._record_change(f"{at}/const", "became an enum of one")
        for key, inclusive, tightest in _BOUNDS:
            limit = node.pop(key, None)
            if isinstance(limit, bool):  # draft 4: whether the other bound is exclusive
                limit = node.get(inclusive) if limit else None
            if limit is not None:
                sentences.append(describe_keyword(key, limit))
                node[inclusive] = tightest(limit, node.get(inclusive, limit))
                self._record_change(f"{at}/{key}", f"became {inclusive}; the description has the exact bound")
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node["items"]
            node["items"] = node.pop("additionalItems", True)
            self._record_change(f"{at}/items", "a list became prefixItems")
        if "patternProperties" in node and node.get("additionalProperties", True) is not True:
            sentences.append(describe_keyword("additionalProperties", node.pop("additionalProperties")))
        condition = {key: node.pop(key) for key in ("if", "then", "else") if key in node}
        if condition:
            sentences += [f"Must fit {show_value(condition)}."] if "if" in condition and len(condition) > 1 else []
            self._record_change(f"{at}/{', '.join(condition)}", f"left out, because {self._api} does not know it")
        return sentences + self._require_known(node, at)

    def _rewrite_all_of(self, node: Node, at: str) -> list[str]:
        """State `allOf` in words, and show its first part as a choice of one where no other choice stands."""
        branches: list[Any] = node.pop("allOf")
        if "anyOf" not in node and "oneOf" not in node:
            node["anyOf"], branches = branches[:1], branches[1:]
        schemas = [cast("Mapping[str, Any]", branch) for branch in branches if isinstance(branch, Mapping)]
        parts = [{key: value for key, value in schema.items() if key not in _NOTES} for schema in schemas]
        how = "moved to the description" if any(parts) else "became a choice of one"
        self._record_change(f"{at}/allOf", f"{how}, because {self._api} does not know it")
        return [describe_keyword("allOf", [part for part in parts if part])] if any(parts) else []

    def _require_known(self, node: Node, at: str) -> list[str]:
        """Require only what `properties` names: "property is not defined" refuses others."""
        unknown = [name for name in node.get("required", ()) if name not in node.get("properties", ())]
        if not unknown:
            return []
        _remove_required(node, unknown)
        how = f"{', '.join(unknown)} moved to the description, because {self._api} requires them among the properties"
        self._record_change(f"{at}/required", how)
        return [describe_keyword("required", unknown)]

    def _add_reference(self, node: Node, reference: str, here: str) -> None:
        """Put a reference into a schema; beside others, as a choice of one."""
        is_known = reference.startswith("#/$defs/") and read_last_name(reference) in self._definitions
        if is_known and not node:
            node["$ref"] = reference
        elif is_known and "anyOf" not in node:
            node["anyOf"] = [{"$ref": reference}]
            self._record_change(here, "became a choice of one, because nothing may stand beside it")
        else:
            node["description"] = extend_description(node.get("description"), [describe_keyword("$ref", reference)])
            why = "a choice stands beside it" if is_known else "it leads elsewhere"
            self._record_change(here, f"moved to the description, because {why}")

    def _loosen_loops(self, definitions: Mapping[str, Node]) -> None:
        """Require no property that leads back to its own definition: such are refused."""
        loops = _find_loops({name: _find_references(node) for name, node in definitions.items()})
        for name in loops:
            for at, inner in walk_schemas(definitions[name], f"/$defs/{escape_step(name)}"):
                required = inner.get("required", ())
                back = [key for key in required if loops & _find_references(inner["properties"][key])]
                if back:
                    node = cast("Node", inner)
                    _remove_required(node, back)
                    node["description"] = extend_description(
                        node.get("description"), [describe_keyword("required", back)]
                    )
                    self._record_change(f"{at}/required", f"{', '.join(back)} moved to the description, being a loop")

    def _record_change(self, here: str, what: str) -> None:
        self._changes.append(f"{here}: {what}")


def _is_known(key: str, value: Any) -> bool:
    match key:
        case "format":
            return value in _FORMATS
        case "enum":
            return all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in value)
        case _:
            return key in _KNOWN


def _remove_required(node: Node, names: list[str]) -> None:
    node["required"] = [name for name in node["required"] if name not in names]
    if not node["required"]:
        del node["required"]


def _find_references(node: Node) -> set[str]:
    return {read_last_name(inner["$ref"]) for _, inner in walk_schemas(node) if "$ref" in inner}


def _find_loops(leads: Mapping[str, set[str]]) -> set[str]:
    """The names that lead back to themselves, and those on the way from one such to another."""
    back: dict[str, set[str]] = {name: set() for name in leads}
    for name, others in leads.items():
        for other in others:
            back[other].add(name)
    return _find_blocked(leads) & _find_blocked(back)


def _find_blocked(leads: Mapping[str, set[str]]) -> set[str]:
    """The names that lead to a loop."""
    sorter = TopologicalSorter(leads)
    with suppress(CycleError):
        sorter.prepare()
    free: set[str] = set()
    while ready := sorter.get_ready():
        free.update(ready)
        sorter.done(*ready)
    return leads.keys() - free
