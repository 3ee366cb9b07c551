"""The frontmatter as JSON Schema, for editors: what `toolstead agents schema` prints.

The reader checks with code of its own, because every message needs its line; a test holds both together.
"""

from __future__ import annotations

from typing import Any

from toolstead.agents.agent_fields import LONGEST_DESCRIPTION, LONGEST_NAME, LONGEST_PATTERN, MOST_ITEMS
from toolstead.agents.custom_tool import PARAMETER_TYPES

_NAME = {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$", "maxLength": LONGEST_NAME}
_PATTERN = {"type": "string", "pattern": r"^[a-zA-Z0-9_*?\[\]!-]+$", "maxLength": LONGEST_PATTERN}
_MODEL = {"type": "string", "pattern": r"\S"}
_SCHEMA = {"type": "object"}
_COUNT = {"type": "integer", "minimum": 0}


def _object_schema(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _list_schema(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": MOST_ITEMS, "description": description}


_DESCRIPTION = {"type": "string", "maxLength": LONGEST_DESCRIPTION}
_PARAMETER = {
    "type": "object",
    "properties": {
        "type": {"enum": list(PARAMETER_TYPES)},
        "description": {"type": "string"},
        "required": {"type": "boolean", "default": False},
    },
    "required": ["type"],
}
CUSTOM_TOOL = _object_schema(
    {
        "name": {**_NAME, "description": "Its name; only this agent sees it."},
        "description": {**_DESCRIPTION, "description": "When to call it, for the model."},
        "prompt": {"type": "string", "pattern": r"\S", "description": "What the child is asked, with {{parameters}}."},
        "parameters": {
            "type": "object",
            "additionalProperties": _PARAMETER,
            "description": "Its arguments in the simple form.",
        },
        "input_schema": {**_SCHEMA, "description": "Its arguments as JSON Schema, instead of parameters."},
        "model": {**_MODEL, "description": "The child's model; by default that of the run."},
        "result_schema": {**_SCHEMA, "description": "JSON Schema that the answer must fit."},
        "tools": _list_schema(_PATTERN, "What the child may use; by default what the agent may."),
        "cache": {"type": "boolean", "default": False, "description": "Whether equal arguments reuse an answer."},
    },
    required=["name", "prompt"],
    **{"not": {"required": ["parameters", "input_schema"]}},
)
LIMITS = _object_schema(
    {
        "max_depth": {**_COUNT, "description": "How deep a tree of runs may be; the root is 0."},
        "max_fanout": {**_COUNT, "description": "Children of one run."},
        "max_descendants": {**_COUNT, "description": "Runs below a root."},
        "run_timeout": {"type": "number", "exclusiveMinimum": 0, "description": "Seconds that a run may take."},
        "token_budget": {**_COUNT, "description": "Tokens that a run may use."},
        "cost_budget": {"type": "number", "minimum": 0, "description": "USD that a run may spend."},
    },
    description="Limits of its own; what is left out comes from the settings.",
)
GATE = {
    "anyOf": [
        _object_schema(
            {"command": {"type": "string", "pattern": r"\S"}, "timeout": {"type": "number", "exclusiveMinimum": 0}},
            required=["command"],
        ),
        _object_schema(
            {"files": {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "minItems": 1}},
            required=["files"],
        ),
    ]
}
FRONTMATTER = _object_schema(
    {
        "name": {**_NAME, "description": "Its name; by default the file's."},
        "description": {**_DESCRIPTION, "description": "When to use it, for people and for other agents."},
        "model": {**_MODEL, "description": "Its model, such as sonnet or google:gemini-2.5-pro."},
        "runtime": {"type": "string", "pattern": r"\S", "description": "kernel, claude, codex or scripted."},
        "tools": _list_schema(
            {"anyOf": [_PATTERN, CUSTOM_TOOL]},
            "Names and patterns of its tools, and custom tools; with custom tools alone, it may use all.",
        ),
        "disallowed_tools": _list_schema(_PATTERN, "Names and patterns of tools that it may not use."),
        "agents": _list_schema(_NAME, "Whom it may delegate to; [] for nobody, absent for the settings' list."),
        "max_turns": {"type": "integer", "minimum": 1, "description": "Requests to the model that one run may make."},
        "limits": LIMITS,
        "result_schema": {**_SCHEMA, "description": "JSON Schema that the result of a task must fit."},
        "gates": _list_schema(GATE, "Commands and files that a task must pass."),
    }
)


def frontmatter_schema() -> dict[str, Any]:
    """The JSON Schema of an agent's frontmatter."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Frontmatter of a Toolstead agent",
        **FRONTMATTER,
    }
