"""What differs between two versions of an input schema, and which differences break callers.

A change breaks callers when arguments that fitted before may no longer fit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, cast

from toolstead.schema.explanation import escape_step, shorten_text
from toolstead.types.tool import SchemaChange

MOST_CHANGES = 20
_SILENT = frozenset(
    {"description", "title", "examples", "default", "deprecated", "readOnly", "writeOnly", "format", "$comment"}
    | {"contentMediaType", "contentEncoding", "contentSchema"}
)
_DEFINITIONS = ("$defs", "definitions")
_SCHEMAS = frozenset({"items", "additionalProperties", "propertyNames", "contains"})
_NARROWER_WITHOUT = frozenset({"patternProperties", "prefixItems", "minContains"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_BOUNDS = _UPPER | {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}


def compare_schemas(before: Any, after: Any) -> list[SchemaChange]:
    """The differences, a bounded number of them, those of properties first."""
    found: list[SchemaChange] = []
    _compare_schemas(before, after, "", found)
    return found[:MOST_CHANGES]


def _compare_schemas(before: Any, after: Any, pointer: str, found: list[SchemaChange]) -> None:
    if before == after or len(found) >= MOST_CHANGES:
        return
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        breaking = after is not True and before is not False
        _add(found, pointer, f"{_show_value(before)} became {_show_value(after)}", breaking=breaking)
        return
    old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    _compare_properties(old, new, pointer, found)
    _compare_required(old, new, pointer, found)
    for key in dict.fromkeys((*old, *new)):
        if key in ("properties", "required") or old.get(key) == new.get(key):
            continue
        if key in _DEFINITIONS:
            was, now = old.get(key, {}), new.get(key, {})
            for name in (name for name in was if name in now):
                _compare_schemas(was[name], now[name], f"{pointer}/{key}/{escape_step(name)}", found)
        elif key in _SCHEMAS and key in old and key in new:
            _compare_schemas(old[key], new[key], f"{pointer}/{key}", found)
        else:
            _compare_keyword(key, old, new, pointer, found)


def _compare_properties(
    old: Mapping[str, Any], new: Mapping[str, Any], pointer: str, found: list[SchemaChange]
) -> None:
    was: dict[str, Any] = old.get("properties") or {}
    now: dict[str, Any] = new.get("properties") or {}
    needed: Collection[str] = new.get("required") or ()
    closed = new.get("additionalProperties", True) not in (True, {})
    for name, schema in was.items():
        place = f"{pointer}/properties/{escape_step(name)}"
        if name not in now:
            _add(found, place, "was removed", breaking=closed)
            continue
        if name in needed and _has_default(schema) and not _has_default(now[name]):
            _add(found, place, "is required, and has no default any more", breaking=True)
        _compare_schemas(schema, now[name], place, found)
    for name, schema in now.items():
        if name not in was:
            required = name in needed and not _has_default(schema)
            _add(found, f"{pointer}/properties/{escape_step(name)}", "was added", breaking=required)


def _compare_required(old: Mapping[str, Any], new: Mapping[str, Any], pointer: str, found: list[SchemaChange]) -> None:
    was, now = set(old.get("required") or ()), set(new.get("required") or ())
    known: Mapping[str, Any] = old.get("properties") or {}
    described: Mapping[str, Any] = new.get("properties") or {}
    for name in sorted(now - was):
        if name in known or name not in described:  # a new property is reported as added
            _add(
                found,
                f"{pointer}/required",
                f"{name!r} is required now",
                breaking=not _has_default(described.get(name)),
            )
    for name in sorted(was - now):
        _add(found, f"{pointer}/required", f"{name!r} is optional now", breaking=False)


def _compare_keyword(
    key: str, old: Mapping[str, Any], new: Mapping[str, Any], pointer: str, found: list[SchemaChange]
) -> None:
    was, now = old.get(key), new.get(key)
    if key not in new:
        change, breaking = f"{key} {_show_value(was)} was removed", key in _NARROWER_WITHOUT
    else:
        change = (
            f"{key}: {_show_value(was)} became {_show_value(now)}"
            if key in old
            else f"{key} {_show_value(now)} was added"
        )
        breaking = now is not True and key not in _SILENT
        if key in _BOUNDS and isinstance(was, int | float) and isinstance(now, int | float):
            breaking = now < was if key in _UPPER else now > was
        elif key in ("enum", "type") and key in old:
            # A number takes what was an integer.
            accepted = [*_as_list(now), "integer"] if key == "type" and "number" in _as_list(now) else _as_list(now)
            breaking = any(item not in accepted for item in _as_list(was))
    _add(found, f"{pointer}/{key}", change, breaking=breaking)


def _add(found: list[SchemaChange], pointer: str, change: str, *, breaking: bool) -> None:
    found.append(SchemaChange(pointer=pointer or "/", change=change, breaking=breaking))


def _has_default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _show_value(value: Any) -> str:
    return shorten_text(json.dumps(value, ensure_ascii=False), 60)
