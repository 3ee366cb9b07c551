"""Tools as sent to Codex, with schemas that it does not distort.

Codex keeps few keywords of a schema, silently drops the rest, and narrows some shapes: a value without a type becomes
a string. Dropped keywords move into descriptions, and shapes that it would narrow are rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import mcp_types

from toolstead.adapters.mcp.wire import tool_for
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.schema.awkward_shapes import DROPPED_BY_CODEX
from toolstead.schema.phrases import describe_keyword, extend_description, show_value
from toolstead.schema.references import MANY, ONE, map_schemas
from toolstead.types.content import whole_text
from toolstead.types.tool import JSONSchema, ToolInfo

_CONDITION = ("if", "then", "else")
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_WHOLE = 4800
"""Bytes of a schema whose descriptions Codex keeps; of larger ones it drops them all."""
_MOST_TEXT = 8000
"""Characters about parameters that a tool's own description may take up in their place."""


def codex_copies() -> ToolCopies[mcp_types.Tool]:
    """Tools as MCP types; shared by all sessions of a runtime."""
    return ToolCopies(_copy_tool, "Codex")


def _copy_tool(tool: ToolInfo) -> tuple[mcp_types.Tool, tuple[str, ...]]:
    description, schema, changes = copy_for_codex(tool.description, tool.input_schema)
    # With its hints: calls that only read run at the same time, others one after another, in the model's order.
    copy = {"description": whole_text(description), "input_schema": schema, "output_schema": None, "title": None}
    return tool_for(tool, modern=True).model_copy(update=copy), changes


def copy_for_codex(description: str, schema: JSONSchema) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """A tool's description and schema for Codex, and the differences from the original."""
    adapted = adapted_schema(schema, RULES["openai"])
    cut = _SchemaCut()
    copy: dict[str, Any] = dict(map_schemas(adapted.schema, cut.cut_node, everywhere=True))
    changes = list(adapted.changes)
    if cut.dropped:
        changes.append(f"{', '.join(sorted(cut.dropped))}: moved into descriptions, because codex drops them")
    if cut.written:
        changes.append(f"{', '.join(sorted(cut.written))}: rewritten, because codex would narrow them")
    is_large = len(json.dumps(copy, separators=(",", ":"), default=str)) > _WHOLE
    if is_large and (text := _describe_parameters(copy)):
        description = extend_description(description, [text])
        changes.append("descriptions: moved into the tool's own, because codex drops those of a large schema")
    return description, copy, tuple(changes)


class _SchemaCut:
    """The adaptation of one schema for Codex."""

    def __init__(self) -> None:
        self.dropped: set[str] = set()
        self.written: set[str] = set()

    def cut_node(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adapt a schema whose subschemas are already adapted."""
        copy = dict(node)
        notes = self._cut_dropped(copy)
        if "const" in copy:
            copy["enum"] = [copy.pop("const")]
            self.written.add("const")
        values = copy.get("enum")
        if isinstance(values, list) and values and "type" not in copy:
            kinds = list(dict.fromkeys(_describe_kind(value) for value in cast("list[Any]", values)))
            copy["type"] = kinds[0] if len(kinds) == 1 else kinds
            self.written.add("enum without a type")
        if isinstance(copy.get("type"), str) and copy["type"] == "array" and "items" not in copy:
            copy["items"] = {}
        reference = copy.get("$ref")
        if isinstance(reference, str) and reference != "#" and not reference.startswith("#/"):
            notes.append(describe_keyword("$ref", copy.pop("$ref")))
            self.dropped.add("$ref to a name")
        self._write_out_booleans(copy)
        if notes:
            copy["description"] = extend_description(copy.get("description"), notes)
        return copy

    def _cut_dropped(self, copy: dict[str, Any]) -> list[str]:
        """Remove the keywords that Codex drops, and describe them in text."""
        notes: list[str] = []
        condition = {key: copy.pop(key) for key in _CONDITION if key in copy}
        if len(condition) > 1 and "if" in condition:
            notes.append(f"Must fit {show_value(condition)}.")
            self.dropped.add("if")
        for key in [key for key in copy if key in DROPPED_BY_CODEX]:
            value = copy.pop(key)
            if key == "prefixItems":
                copy["items"] = {}
            if key != "uniqueItems" or value:
                notes.append(describe_keyword(key, value))
                self.dropped.add(key)
        return notes

    def _write_out_booleans(self, copy: dict[str, Any]) -> None:
        """`true` and `false` in the place of a schema, which Codex reads as a string."""
        for key, value in copy.items():
            if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
                named = cast("Mapping[str, Any]", value).items()
                copy[key] = {name: self._written_out(inner) for name, inner in named}
            elif key in MANY and isinstance(value, list):
                copy[key] = [self._written_out(inner) for inner in cast("list[Any]", value)]
            elif key in ONE and isinstance(value, bool) and not key.startswith(("additional", "unevaluated")):
                copy[key] = self._written_out(value)

    def _written_out(self, schema: Any) -> Any:
        if not isinstance(schema, bool):
            return schema
        self.written.add(json.dumps(schema))
        return {} if schema else {"description": "Never given."}


def _describe_kind(value: Any) -> str:
    return next((name for kind, name in _TYPES.items() if isinstance(value, kind)), "string")


def _describe_parameters(schema: Mapping[str, Any]) -> str:
    """The parameter descriptions of a large schema, as text."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    lines = [schema["description"]] if isinstance(schema.get("description"), str) else []
    for name, inner in properties.items():
        description: Any = cast("Mapping[str, Any]", inner).get("description") if isinstance(inner, Mapping) else None
        if isinstance(description, str):
            lines.append(f"{name}: {description}")
    text = "\n".join(lines)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
