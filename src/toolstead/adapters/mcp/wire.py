"""Conversion of tools, results and content to MCP types, for every protocol version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mcp_types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolstead.types.content import (
    Audio,
    Content,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    whole_json,
    whole_text,
)
from toolstead.types.result import ToolResult
from toolstead.types.sent import base64_text
from toolstead.types.tool import NO_HINTS, Annotations, ToolInfo


def is_modern(version: str) -> bool:
    """Whether a protocol version is stateless (2026-07-28 and later)."""
    return version in MODERN_PROTOCOL_VERSIONS


def tool_for(info: ToolInfo, modern: bool) -> mcp_types.Tool:
    """Convert a tool for `tools/list`.

    Handshake versions allow only objects as structured content, so an output schema of another
    type is left out there; the text content has the same value.
    """
    output = info.output_schema
    if output is not None and not (modern or output.get("type") == "object"):
        output = None
    return mcp_types.Tool(
        name=info.name,
        title=None if info.title is None else whole_text(info.title),
        description=whole_text(info.description),
        input_schema=cast("dict[str, Any]", info.input_schema),
        output_schema=cast("dict[str, Any] | None", output),
        annotations=_wire_annotations(info.annotations),
    )


def result_for(result: ToolResult, *, modern: bool) -> mcp_types.CallToolResult:
    """Convert a result for `tools/call`."""
    structured = result.structured
    if structured is not None and not (modern or isinstance(structured, Mapping)):
        structured = None
    return mcp_types.CallToolResult(
        content=[wire_block(part) for part in result.content],
        structured_content=None if structured is None else whole_json(structured),
        is_error=result.is_error,
    )


def _wire_annotations(given: Annotations) -> mcp_types.ToolAnnotations | None:
    if given == NO_HINTS:
        return None
    return mcp_types.ToolAnnotations(
        read_only_hint=given.read_only,
        destructive_hint=given.destructive,
        idempotent_hint=given.idempotent,
        open_world_hint=given.open_world,
    )


def wire_block(part: Content) -> mcp_types.ContentBlock:
    """Convert one piece of content."""
    match part:
        case Text(text=text):
            return mcp_types.TextContent(type="text", text=whole_text(text))
        case Image(data=data, mime_type=kind):
            return mcp_types.ImageContent(type="image", data=base64_text(data), mime_type=kind)
        case Audio(data=data, mime_type=kind):
            return mcp_types.AudioContent(type="audio", data=base64_text(data), mime_type=kind)
        case ResourceLink():
            return mcp_types.ResourceLink(
                type="resource_link",
                uri=part.uri,
                name=part.name,
                description=part.description,
                mime_type=part.mime_type,
            )
        case EmbeddedResource():
            return mcp_types.EmbeddedResource(type="resource", resource=resource_contents_for(part))


def resource_contents_for(
    part: EmbeddedResource,
) -> mcp_types.TextResourceContents | mcp_types.BlobResourceContents:
    """Convert the contents of a resource."""
    if isinstance(part.content, str):
        return mcp_types.TextResourceContents(uri=part.uri, mime_type=part.mime_type, text=whole_text(part.content))
    return mcp_types.BlobResourceContents(uri=part.uri, mime_type=part.mime_type, blob=base64_text(part.content))
