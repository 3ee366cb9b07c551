"""The tools that the MCP conformance suite expects, by its names, written with the public API alone.

The first line on stdout is the address.
"""

from __future__ import annotations

import asyncio
import itertools
import zlib
from typing import Any

from toolstead import Audio, Image, PluginContext, Text, Tool, ToolError, ToolMeta, ToolResult, Toolstead, tool
from toolstead.types.content import EmbeddedResource

SHORT = 0.05
"""Seconds between two messages of a tool, as the suite wants it."""


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


RED_PIXEL = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0]))
    + _chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    + _chunk(b"IEND", b"")
)
SILENCE = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\0\0\0\0"

JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


IN_A_HEADER = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


@tool
async def test_simple_text() -> str:
    """Answer with text."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> Image:
    """Answer with an image."""
    return Image(data=RED_PIXEL, mime_type="image/png")


@tool
async def test_audio_content() -> Audio:
    """Answer with a sound."""
    return Audio(data=SILENCE, mime_type="audio/wav")


@tool
async def test_embedded_resource() -> EmbeddedResource:
    """Answer with a resource."""
    text = "This is an embedded resource content."
    return EmbeddedResource(uri="test://embedded-resource", content=text, mime_type="text/plain")


@tool
async def test_multiple_content_types() -> ToolResult:
    """Answer with text, an image and a resource."""
    held = EmbeddedResource(
        uri="test://mixed-content-resource", content='{"test":"data","value":123}', mime_type="application/json"
    )
    image = Image(data=RED_PIXEL, mime_type="image/png")
    return ToolResult(content=[Text("Multiple content types test:"), image, held])


@tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


async def with_progress(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    for done in (0, 50, 100):
        await meta.report_progress(done, 100)
        await asyncio.sleep(SHORT)
    return "done"


async def with_logging(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await meta.client.log("info", line)
        await asyncio.sleep(SHORT)
    return "logged"


async def sampling(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return f"LLM response: {await meta.client.sample(input.get('prompt', 'Say hello.'), 100)}"


def eliciting(properties: dict[str, Any], *, say: str = "message") -> Any:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        answer = await meta.client.elicit(input.get(say, "Please answer."), schema)
        return f"User response: action={answer['action']}, content={answer.get('content')}"

    return handler


PERSON = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": title} for n, title in enumerate(["First", "Second", "Third"], start=1)]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": OPTIONS, "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def tools(stead: Toolstead) -> list[Tool]:
    """Everything that the suite calls."""
    numbers = itertools.count(1)

    async def echoing(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> ToolResult:
        return ToolResult.of_json(input)

    @tool
    async def test_trigger_tool_change() -> str:
        """Register one more tool."""
        name = f"grown_{next(numbers)}"
        stead.registry.register(Tool(name=name, description="Grown while clients listen.", handler=echoing))
        return name

    def plain(name: str, handler: Any, **more: Any) -> Tool:
        return Tool(name=name, description=f"{name}, for the conformance suite.", handler=handler, **more)

    prompt = {"prompt": {"type": "string", "required": True}}
    message = {"message": {"type": "string", "required": True}}
    return [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_trigger_tool_change,
        plain("test_tool_with_progress", with_progress, progress=True),
        plain("test_tool_with_logging", with_logging, interactive=True),
        plain("test_logging_tool", with_logging, interactive=True),
        plain("test_sampling", sampling, parameters=prompt, interactive=True),
        plain("test_missing_capability", sampling, interactive=True),
        plain("test_elicitation", eliciting(PERSON), parameters=message, interactive=True),
        plain("test_streaming_elicitation", eliciting(PERSON), interactive=True),
        plain("test_elicitation_sep1034_defaults", eliciting(DEFAULTS), interactive=True),
        plain("test_elicitation_sep1330_enums", eliciting(ENUMS), interactive=True),
        plain("json_schema_2020_12_tool", echoing, schema=JSON_SCHEMA),
        plain("test_parameter_in_a_header", echoing, schema=IN_A_HEADER),
    ]


async def main() -> None:
    async with Toolstead() as stead:
        stead.registry.register(*tools(stead))
        await stead.serve_http(port=0, on_ready=lambda address: print(address.url, flush=True))


if __name__ == "__main__":
    asyncio.run(main())
