"""The JSON shapes of this door's bodies, as JSON Schema. `/docs` shows them, and tests hold answers to them."""

from __future__ import annotations

from typing import Any

from toolyard.types.tool import SOURCES

Shape = dict[str, Any]


def ref(name: str) -> Shape:
    """A reference to a shape below."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(description: str, required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def _text(description: str) -> Shape:
    return {"type": "string", "description": description}


def _count(description: str) -> Shape:
    return {"type": "integer", "minimum": 0, "description": description}


def _list(items: Shape, description: str) -> Shape:
    return {"type": "array", "items": items, "description": description}


def _const(value: str) -> Shape:
    return {"type": "string", "const": value}


_DATA = {"type": "string", "contentEncoding": "base64", "description": "The bytes, in base64."}
_MIME = _text("Its media type, such as `image/png`.")
_NAMES = {"type": "string"}
_SCHEMA = {"type": "object", "description": "JSON Schema 2020-12, as the tool's author wrote it."}

SHAPES: dict[str, Shape] = {
    "Tool": _object(
        "A tool that can be called.",
        {
            "name": _text("Its name: letters, digits, `_` and `-`."),
            "description": _text("What it does, for the model."),
            "source": {"type": "string", "enum": list(SOURCES), "description": "The kind of source it came from."},
            "origin": _text("The module, file or address it came from."),
            "inputSchema": {**_SCHEMA, "description": "JSON Schema of its arguments."},
        },
        {
            "outputSchema": {"type": ["object", "boolean"], "description": "JSON Schema of its structured answer."},
            "pluginName": _text("The plugin, or the name inside a JSON tool file."),
            "agentName": _text("The agent whose file defines it."),
            "stale": {"type": "boolean", "description": "True when its file became bad and this is the last good one."},
        },
    ),
    "SetAside": _object(
        "Something that was set aside while the rest went on.",
        {"source": _text("The file or source."), "message": _text("What is wrong, and what would be right.")},
        {
            "toolName": _text("The tool, where one is meant."),
            "line": _count("The line, counted from 1."),
            "column": _count("The column, counted from 1."),
        },
    ),
    "ToolList": _object(
        "Every tool, and what was set aside.",
        {
            "tools": _list(ref("Tool"), "The tools, in a stable order."),
            "counts": _object(
                "How many there are, by source.",
                {"total": _count("All of them."), **{source: _count(f"From source `{source}`.") for source in SOURCES}},
            ),
            "generation": _count("Counts up with each change of the registry."),
            "quarantined": _list(ref("SetAside"), "What was set aside, and why."),
        },
    ),
    "CallRequest": {
        **_object(
            "A call.",
            {},
            {
                "input": {
                    "type": ["object", "null"],
                    "description": "The arguments, by the tool's own schema. Absent or null means `{}`.",
                },
                "threadId": {
                    "type": ["string", "null"],
                    "minLength": 1,
                    "maxLength": 200,
                    "description": "The conversation the call belongs to; `default` unless said.",
                },
            },
        ),
        "additionalProperties": False,
    },
    "Content": {
        "description": "One part of an answer, in MCP's shape.",
        "oneOf": [
            _object("Text.", {"type": _const("text"), "text": _text("The text.")}),
            _object("An image.", {"type": _const("image"), "data": _DATA, "mimeType": _MIME}),
            _object("A sound.", {"type": _const("audio"), "data": _DATA, "mimeType": _MIME}),
            _object(
                "Something to fetch.",
                {"type": _const("resource_link"), "uri": _text("Where it is."), "name": _text("What it is called.")},
                {"description": _text("What it is."), "mimeType": _MIME},
            ),
            _object(
                "Something handed over whole.",
                {
                    "type": _const("resource"),
                    "resource": _object(
                        "The resource: `text`, or `blob` in base64.",
                        {"uri": _text("Where it came from.")},
                        {"mimeType": _MIME, "text": _text("Its text."), "blob": _DATA},
                    ),
                },
            ),
        ],
    },
    "CallResult": _object(
        "What a tool answered, good or bad.",
        {
            "content": _list(ref("Content"), "What a model is shown, in order."),
            "isError": {"type": "boolean", "description": "True when the call failed; `content` says why."},
            "durationMs": {"type": "number", "minimum": 0, "description": "How long it took, in milliseconds."},
        },
        {"structuredContent": {"description": "The same answer as a JSON value, where the tool has one."}},
    ),
    "Reload": _object(
        "What a reload changed.",
        {
            "success": {"type": "boolean", "description": "True when nothing was set aside."},
            "toolCount": _count("How many tools can be called now."),
            "errors": _list(ref("SetAside"), "What was set aside, and why."),
            "added": _list(_NAMES, "Tools that are new."),
            "removed": _list(_NAMES, "Tools that are gone."),
            "changed": _list(_NAMES, "Tools that are not what they were."),
        },
        {
            "schemaChanges": {
                "type": "object",
                "description": "For a changed tool: what differs in its input schema, and whether it breaks callers.",
                "additionalProperties": _list(ref("SchemaChange"), "The differences."),
            }
        },
    ),
    "SchemaChange": _object(
        "One difference between two versions of an input schema.",
        {
            "pointer": _text("Where in the schema."),
            "change": _text("What differs."),
            "breaking": {"type": "boolean", "description": "Whether arguments that fitted may no longer fit."},
        },
    ),
    "Health": _object(
        "The server is up.",
        {
            "status": _const("ok"),
            "version": _text("Toolyard's version."),
            "generation": _count("The registry's generation."),
        },
    ),
    "Problem": _object(
        "An error, as RFC 9457 has it.",
        {
            "type": _text("Which kind of error: its place in this documentation."),
            "title": _text("The kind, in a few words."),
            "status": _count("The HTTP status."),
            "detail": _text("What was wrong with this very request, and what would be right."),
        },
        {
            "instance": _text("The path that was asked for."),
            "nearest": _list(_NAMES, "Names of tools like the one that was asked for."),
            "maxBody": _count("Bytes a body may have."),
            "id": _text("Where to look in the server's log."),
        },
    ),
}
