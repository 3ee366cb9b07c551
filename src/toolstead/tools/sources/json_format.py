"""The format of JSON tool files, as JSON Schema: what `toolstead tools schema` prints.

The loader checks a whole file at once where all its schemas are plain. Else, and where something is wrong, it checks
with the same pieces, one after another, so that every message is about the handler in question and not about all
possible ones.
"""

from __future__ import annotations

from typing import Any

from toolstead.schema.compiled import CompiledSchema, compile_schema
from toolstead.schema.plain import plain_grammar

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_NAMES = {"type": "array", "items": {"type": "string"}}
_MILLISECONDS = {"type": "integer", "minimum": 1, "maximum": 86_400_000}
_BYTES = {"type": "integer", "minimum": 1_024, "maximum": 1_073_741_824}


def _object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


SHELL: dict[str, Any] = _object_schema(
    {
        "type": {"const": "shell"},
        "command": {**_TEXT, "description": "Program and arguments, with {{parameters}}; no shell is started."},
        "timeout": {**_MILLISECONDS, "default": 30_000, "description": "Milliseconds."},
        "cwd": {**_TEXT, "description": "The folder it runs in; relative to the project's root, which is the default."},
        "env": {**_TEXTS, "description": "Added to the environment; ${NAME} takes a secret from the user's."},
        "stdin": {"type": "string", "description": "Text for its input, with {{parameters}}."},
        "okStatus": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 255},
            "minItems": 1,
            "default": [0],
            "description": "Exit statuses that are answers and no errors, such as [0, 1] for grep.",
        },
        "maxOutput": {**_BYTES, "description": "Bytes of output that are kept."},
        "stream": {"type": "boolean", "default": False, "description": "Report each line of output as progress."},
        "allowLeadingDash": {**_NAMES, "description": "Parameters whose values may begin with a dash."},
        "allowScript": {**_NAMES, "description": "Parameters whose values may be run as code. Dangerous."},
    },
    ["type", "command"],
)
HTTP: dict[str, Any] = _object_schema(
    {
        "type": {"const": "http"},
        "url": {**_TEXT, "description": "The address, with {{parameters}}."},
        "method": {"enum": ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], "default": "POST"},
        "headers": {**_TEXTS, "description": "Sent along; ${NAME} takes a secret from the user's environment."},
        "timeout": {**_MILLISECONDS, "default": 10_000, "description": "Milliseconds."},
        "allowedHosts": {**_NAMES, "description": "Hosts (or host:port) it may reach although they are private."},
        "maxOutput": {**_BYTES, "description": "Bytes of the answer that are kept."},
    },
    ["type", "url"],
)
FILE_READ: dict[str, Any] = _object_schema(
    {
        "type": {"const": "file-read"},
        "basePath": {**_TEXT, "description": "The folder it reads from; relative to the project's root."},
        "maxSize": {"type": "integer", "minimum": 1, "default": 1_048_576, "description": "Bytes of the largest file."},
    },
    ["type", "basePath"],
)
HANDLERS: dict[str, dict[str, Any]] = {"shell": SHELL, "http": HTTP, "file-read": FILE_READ}

ANNOTATIONS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "readOnlyHint": {"type": "boolean"},
        "destructiveHint": {"type": "boolean"},
        "idempotentHint": {"type": "boolean"},
        "openWorldHint": {"type": "boolean"},
    },
    "additionalProperties": False,
}
EXPECTED: dict[str, Any] = {
    "type": ["string", "object"],
    "properties": {"contains": {"type": "string"}, "schema": {"type": ["object", "boolean"]}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "description": 'The exact text, or {"contains": text}, or {"schema": JSON Schema} for an answer that is JSON.',
}
EXAMPLE = _object_schema(
    {
        "input": {"type": "object", "description": "The arguments of the call."},
        "expect": EXPECTED,
        "run": {
            "type": "boolean",
            "default": True,
            "description": "false: `toolstead tools test` builds it and does not run it.",
        },
    },
    ["input"],
)
TOOL: dict[str, Any] = _object_schema(
    {
        "name": {
            "type": "string",
            "pattern": "^[a-zA-Z0-9_-]+$",
            "maxLength": 64,
            "description": "Letters, digits, _ and -, such as list-todos.",
        },
        "description": {**_TEXT, "description": "What it does, for the model."},
        "inputSchema": {"type": "object", "description": "JSON Schema of the arguments."},
        "handler": {
            "type": "object",
            "properties": {"type": {"enum": list(HANDLERS), "description": "One of shell, http, file-read."}},
            "required": ["type"],
            "description": 'How it runs, such as {"type": "shell", "command": "rg {{pattern}}"}.',
        },
        "outputSchema": {"type": "object", "description": "JSON Schema of the structured answer."},
        "annotations": ANNOTATIONS,
        "examples": {"type": "array", "items": EXAMPLE},
    },
    ["name", "description", "inputSchema", "handler"],
)
FILE: dict[str, Any] = _object_schema(
    {
        "$schema": {"type": "string"},
        "name": {**_TEXT, "maxLength": 64, "description": "The collection's name."},
        "version": {"type": "string"},
        "tools": {"type": "array", "description": "A list of tools."},
    },
    ["name", "tools"],
)


def format_schema() -> dict[str, Any]:
    """The whole format as one JSON Schema, for editors and people."""
    handler = {
        **TOOL["properties"]["handler"],
        "allOf": [
            {
                "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in HANDLERS
        ],
    }
    tool = {**TOOL, "properties": {**TOOL["properties"], "handler": handler}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Toolstead tool file",
        **FILE,
        "properties": {
            **FILE["properties"],
            "tools": {**FILE["properties"]["tools"], "items": {"$ref": "#/$defs/tool"}},
        },
        "$defs": {"tool": tool, **HANDLERS},
    }


def _common_format() -> dict[str, Any]:
    """The format of a file in which every schema is plain, as in nearly every file: one check for all of it."""
    whole = format_schema()
    tool = whole["$defs"]["tool"]
    plain = {name: {"$ref": "#/$defs/plain"} for name in ("inputSchema", "outputSchema")}
    defs = {**whole["$defs"], "tool": {**tool, "properties": {**tool["properties"], **plain}}}
    return {**whole, "$defs": {**defs, "plain": plain_grammar("#/$defs/plain")}}


class Checks:
    """The format's pieces, compiled once for each process that reads files."""

    def __init__(self) -> None:
        self.common = _compile_format(_common_format())
        self.file = _compile_format(FILE)
        self.tool = _compile_format(TOOL)
        self.handlers = {kind: _compile_format(schema) for kind, schema in HANDLERS.items()}


def _compile_format(schema: dict[str, Any]) -> CompiledSchema:
    return compile_schema(schema, tool="tool file", field="format")
