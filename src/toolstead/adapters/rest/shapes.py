"""The JSON shapes of this door's bodies, as JSON Schema. `/docs` shows them, and tests hold answers to them."""

from __future__ import annotations

from typing import Any

from toolstead.types.tool import SOURCES

Shape = dict[str, Any]


def ref(name: str) -> Shape:
    """A reference to a shape below."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(description: str, required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object: members that are always there, and others."""
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def text(description: str) -> Shape:
    """A string."""
    return {"type": "string", "description": description}


def count(description: str) -> Shape:
    """A whole number from 0."""
    return {"type": "integer", "minimum": 0, "description": description}


def list_of(items: Shape, description: str) -> Shape:
    """A list."""
    return {"type": "array", "items": items, "description": description}


def const(value: str) -> Shape:
    """Exactly this string."""
    return {"type": "string", "const": value}


_DATA = {"type": "string", "contentEncoding": "base64", "description": "The bytes, in base64."}
_MIME = text("Its media type, such as `image/png`.")
_NAMES = {"type": "string"}
_SCHEMA = {"type": "object", "description": "JSON Schema 2020-12, as the tool's author wrote it."}

SHAPES: dict[str, Shape] = {
    "Tool": object_of(
        "A tool that can be called.",
        {
            "name": text("Its name: letters, digits, `_` and `-`."),
            "description": text("What it does, for the model."),
            "source": {"type": "string", "enum": list(SOURCES), "description": "The kind of source it came from."},
            "origin": text("The module, file or address it came from."),
            "inputSchema": {**_SCHEMA, "description": "JSON Schema of its arguments."},
        },
        {
            "outputSchema": {"type": ["object", "boolean"], "description": "JSON Schema of its structured answer."},
            "pluginName": text("The plugin, or the name inside a JSON tool file."),
            "agentName": text("The agent whose file defines it."),
            "stale": {"type": "boolean", "description": "True when its file became bad and this is the last good one."},
        },
    ),
    "SetAside": object_of(
        "Something that was set aside while the rest went on.",
        {"source": text("The file or source."), "message": text("What is wrong, and what would be right.")},
        {
            "toolName": text("The tool, where one is meant."),
            "line": count("The line, counted from 1."),
            "column": count("The column, counted from 1."),
        },
    ),
    "ToolList": object_of(
        "Every tool, and what was set aside.",
        {
            "tools": list_of(ref("Tool"), "The tools, in a stable order."),
            "counts": object_of(
                "How many there are, by source.",
                {"total": count("All of them."), **{source: count(f"From source `{source}`.") for source in SOURCES}},
            ),
            "generation": count("Counts up with each change of the registry."),
            "quarantined": list_of(ref("SetAside"), "What was set aside, and why."),
        },
    ),
    "CallRequest": {
        **object_of(
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
            object_of("Text.", {"type": const("text"), "text": text("The text.")}),
            object_of("An image.", {"type": const("image"), "data": _DATA, "mimeType": _MIME}),
            object_of("A sound.", {"type": const("audio"), "data": _DATA, "mimeType": _MIME}),
            object_of(
                "Something to fetch.",
                {"type": const("resource_link"), "uri": text("Where it is."), "name": text("What it is called.")},
                {"description": text("What it is."), "mimeType": _MIME},
            ),
            object_of(
                "Something handed over whole.",
                {
                    "type": const("resource"),
                    "resource": object_of(
                        "The resource: `text`, or `blob` in base64.",
                        {"uri": text("Where it came from.")},
                        {"mimeType": _MIME, "text": text("Its text."), "blob": _DATA},
                    ),
                },
            ),
        ],
    },
    "CallResult": object_of(
        "What a tool answered, good or bad.",
        {
            "content": list_of(ref("Content"), "What a model is shown, in order."),
            "isError": {"type": "boolean", "description": "True when the call failed; `content` says why."},
            "durationMs": {"type": "number", "minimum": 0, "description": "How long it took, in milliseconds."},
        },
        {
            "structuredContent": {"description": "The same answer as a JSON value, where the tool has one."},
            "handle": text("Where the whole answer is kept, when this is a part: `GET /api/results/{handle}`."),
        },
    ),
    "Reload": object_of(
        "What a reload changed.",
        {
            "success": {"type": "boolean", "description": "True when nothing was set aside."},
            "toolCount": count("How many tools can be called now."),
            "errors": list_of(ref("SetAside"), "What was set aside, and why."),
            "added": list_of(_NAMES, "Tools that are new."),
            "removed": list_of(_NAMES, "Tools that are gone."),
            "changed": list_of(_NAMES, "Tools that are not what they were."),
        },
        {
            "schemaChanges": {
                "type": "object",
                "description": "For a changed tool: what differs in its input schema, and whether it breaks callers.",
                "additionalProperties": list_of(ref("SchemaChange"), "The differences."),
            }
        },
    ),
    "SchemaChange": object_of(
        "One difference between two versions of an input schema.",
        {
            "pointer": text("Where in the schema."),
            "change": text("What differs."),
            "breaking": {"type": "boolean", "description": "Whether arguments that fitted may no longer fit."},
        },
    ),
    "Health": object_of(
        "The server is up.",
        {
            "status": const("ok"),
            "version": text("Toolstead's version."),
            "generation": count("The registry's generation."),
            "runtime": {
                "type": ["string", "null"],
                "description": "What answers where nothing else is said; null when none can be had.",
            },
            "runtimeReason": text("Why this one, empty when the settings name it; or what would be needed for one."),
            "sessions": object_of(
                "The warm connections to runtimes, counted since the server began.",
                {
                    "idle": count("Wait for a message."),
                    "live": count("All that are open."),
                    "hits": count("Messages that found theirs open."),
                    "misses": count("Messages for which one had to be opened."),
                    "rebuilt": count("Messages that found one built with something else."),
                    "evicted": count("Ended: too old, too many, or broken."),
                },
            ),
        },
    ),
    "Problem": object_of(
        "An error, as RFC 9457 has it.",
        {
            "type": text("Which kind of error: its place in this documentation."),
            "title": text("The kind, in a few words."),
            "status": count("The HTTP status."),
            "detail": text("What was wrong with this very request, and what would be right."),
        },
        {
            "instance": text("The path that was asked for."),
            "nearest": list_of(_NAMES, "Names of tools like the one that was asked for."),
            "maxBody": count("Bytes a body may have."),
            "id": text("Where to look in the server's log."),
        },
    ),
}
