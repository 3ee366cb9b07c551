"""What differs between two versions of an input schema, and which differences break callers.

A change breaks callers when arguments that fitted before may no longer fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

MOST_CHANGES = 20
_SILENT = frozenset({"description", "title", "examples", "default", "$comment", "deprecated"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One difference: where, what, and whether callers may break."""

    pointer: str
    change: str
    breaking: bool

    def to_json(self) -> dict[str, Any]:
        """The shape of an entry of `schemaChanges`."""
        return {"pointer": self.pointer, "change": self.change, "breaking": self.breaking}


def compare_schemas(before: Any, after: Any) -> list[SchemaChange]:
    """The differences, a bounded number of them, outermost first."""
    found: list[SchemaChange] = []
    _compare(before, after, "", found)
    return found[:MOST_CHANGES]


def _compare(before: Any, after: Any, pointer: str, found: list[SchemaChange]) -> None:
    if before == after or len(found) >= MOST_CHANGES:
        return
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        _add(found, pointer, f"{_shown(before)} became {_shown(after)}", breaking=after is not True)
        return
    old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    _properties(old, new, pointer, found)
    _required(old, new, pointer, found)
    for key in dict.fromkeys((*old, *new)):
        if key in ("properties", "required") or old.get(key) == new.get(key):
            continue
        if key == "items" and key in old and key in new:
            _compare(old[key], new[key], f"{pointer}/items", found)
            continue
        _keyword(key, old, new, pointer, found)


def _properties(old: Mapping[str, Any], new: Mapping[str, Any], pointer: str, found: list[SchemaChange]) -> None:
    was: dict[str, Any] = old.get("properties") or {}
    now: dict[str, Any] = new.get("properties") or {}
    closed = new.get("additionalProperties") is False
    for name, schema in was.items():
        place = f"{pointer}/properties/{name}"
        if name not in now:
            _add(found, place, "was removed", breaking=closed)
        else:
            _compare(schema, now[name], place, found)
    for name in now:
        if name not in was:
            required = name in (new.get("required") or ())
            _add(found, f"{pointer}/properties/{name}", "was added", breaking=required)


def _required(old: Mapping[str, Any], new: Mapping[str, Any], pointer: str, found: list[SchemaChange]) -> None:
    was, now = set(old.get("required") or ()), set(new.get("required") or ())
    known: Mapping[str, Any] = old.get("properties") or {}
    for name in sorted(now - was):
        if name in known:
            _add(found, f"{pointer}/required", f"{name!r} is required now", breaking=True)
    for name in sorted(was - now):
        _add(found, f"{pointer}/required", f"{name!r} is optional now", breaking=False)


def _keyword(key: str, old: Mapping[str, Any], new: Mapping[str, Any], pointer: str, found: list[SchemaChange]) -> None:
    was, now = old.get(key), new.get(key)
    change = f"{key}: {_shown(was)} became {_shown(now)}"
    if key not in new:
        _add(found, f"{pointer}/{key}", f"{key} {_shown(was)} was removed", breaking=False)
    elif key in _SILENT:
        _add(found, f"{pointer}/{key}", change, breaking=False)
    elif key in _UPPER and isinstance(was, int | float) and isinstance(now, int | float):
        _add(found, f"{pointer}/{key}", change, breaking=now < was)
    elif key in _LOWER and isinstance(was, int | float) and isinstance(now, int | float):
        _add(found, f"{pointer}/{key}", change, breaking=now > was)
    elif key in ("enum", "type"):
        kept = all(item in _as_list(now) for item in _as_list(was)) if key in old else False
        wider = key == "type" and "number" in _as_list(now) and _as_list(was) == ["integer"]
        _add(found, f"{pointer}/{key}", change, breaking=not (kept or wider))
    else:
        _add(found, f"{pointer}/{key}", change, breaking=now is not True)


def _add(found: list[SchemaChange], pointer: str, change: str, *, breaking: bool) -> None:
    found.append(SchemaChange(pointer=pointer or "/", change=change, breaking=breaking))


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
