"""A tool whose arguments are of every kind, and which answers with what arrived."""

from __future__ import annotations

import json
from typing import Any

from toolstead import Plugin, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "Any text.", "minLength": 2},
        "word": {"enum": ["red", "green"]},
        "whole": {"type": "integer", "minimum": 1, "maximum": 9},
        "part": {"type": "number"},
        "yes": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
        "either": {"oneOf": [{"title": "a number", "type": "integer"}, {"title": "a name", "type": "string"}]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "known": {"$ref": "#/$defs/known"},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
        "fallback": {"type": "string", "default": "as before"},
        "fixed": {"const": "always"},
        "any": {},
    },
    "required": ["text"],
    "$defs": {"known": {"type": "string", "description": "A shared shape."}},
}


async def repeat(_: PluginContext, input: dict[str, Any], __: ToolMeta) -> str:
    return json.dumps(input, sort_keys=True)


plugin = Plugin(
    name="shapes",
    version="1.0.0",
    tools=[Tool(name="repeat", description="Answer with what arrived.", schema=SCHEMA, handler=repeat)],
)
