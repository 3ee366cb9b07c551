"""The tools, prompts and resources that the MCP conformance suite expects, by its names.

They are written with the public API alone.

The first line on stdout is the address.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import zlib
from typing import Any

from toolstead import (
    Audio,
    Image,
    Plugin,
    PluginContext,
    Prompt,
    Text,
    Tool,
    ToolError,
    ToolMeta,
    ToolResult,
    Toolstead,
    tool,
)
from toolstead.plugins.contract import PromptArgument, Resource
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


def asking(text: str, key: str, field: str, kind: str = "string") -> Any:
    """The question of a scenario, under the key that the suite answers."""

    async def ask(meta: ToolMeta) -> Any:
        schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
        answer = await meta.client.elicit(text, schema, key=key)
        return answer.get("content", {}).get(field)

    return ask


WHO = asking("What is your name?", "user_name", "name")
STEPS = [
    asking("Step 1: What is your name?", "step1", "name"),
    asking("Step 2: What is your favorite color?", "step2", "color"),
]


async def greeting(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return f"Hello, {await WHO(meta)}!"


async def guessing(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return await meta.client.sample("What is the capital of France?", 100, key="capital_question")


async def confirming(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return f"state-ok: {await asking('Please confirm', 'confirm', 'ok', 'boolean')(meta)}"


async def stepping(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return ", ".join([str(await step(meta)) for step in STEPS])


async def whom_there_is(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    try:
        return str(await WHO(meta))
    except ToolError:
        return await meta.client.sample("What is your name?", 50)


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

    @tool
    async def test_trigger_prompt_change() -> str:
        """Register one more prompt."""
        name = f"grown_prompt_{next(numbers)}"
        stead.registry.register_prompts(Prompt(name=name, description="Grown.", handler=simple_prompt))
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
        test_trigger_prompt_change,
        plain("test_tool_with_progress", with_progress, progress=True),
        plain("test_tool_with_logging", with_logging, interactive=True),
        plain("test_logging_tool", with_logging, interactive=True),
        plain("test_sampling", sampling, parameters=prompt, interactive=True),
        plain("test_missing_capability", sampling, interactive=True),
        plain("test_elicitation", eliciting(PERSON), parameters=message, interactive=True),
        plain("test_streaming_elicitation", eliciting(PERSON), interactive=True),
        plain("test_elicitation_sep1034_defaults", eliciting(DEFAULTS), interactive=True),
        plain("test_elicitation_sep1330_enums", eliciting(ENUMS), interactive=True),
        plain("test_input_required_result_elicitation", greeting, interactive=True),
        plain("test_input_required_result_sampling", guessing, interactive=True),
        plain("test_input_required_result_request_state", confirming, interactive=True),
        plain("test_input_required_result_tampered_state", confirming, interactive=True),
        plain("test_input_required_result_multi_round", stepping, interactive=True),
        plain("test_input_required_result_capabilities", whom_there_is, interactive=True),
        plain("json_schema_2020_12_tool", echoing, schema=JSON_SCHEMA),
        plain("test_parameter_in_a_header", echoing, schema=IN_A_HEADER),
    ]


async def simple_prompt(ctx: PluginContext, arguments: dict[str, str]) -> str:
    return "This is a simple prompt for testing."


async def prompt_with_arguments(ctx: PluginContext, arguments: dict[str, str]) -> str:
    return f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"


async def prompt_with_resource(ctx: PluginContext, arguments: dict[str, str]) -> list[Any]:
    text = "Embedded resource content for testing."
    held = EmbeddedResource(uri=arguments["resourceUri"], content=text, mime_type="text/plain")
    return [held, "Please process the embedded resource above."]


async def prompt_with_image(ctx: PluginContext, arguments: dict[str, str]) -> list[Any]:
    return [Image(data=RED_PIXEL, mime_type="image/png"), "Please analyze the image above."]


async def complete_word(ctx: PluginContext, text: str, given: Any) -> list[str]:
    return [word for word in ("paris", "park", "party", "testing") if word.startswith(text)]


async def read_text(ctx: PluginContext, variables: Any) -> str:
    return "This is the content of the static text resource."


async def read_binary(ctx: PluginContext, variables: Any) -> bytes:
    return RED_PIXEL


async def read_template(ctx: PluginContext, variables: Any) -> str:
    found = variables["id"]
    return json.dumps({"id": found, "templateTest": True, "data": f"Data for ID: {found}"})


def argument(name: str) -> PromptArgument:
    return PromptArgument(name=name, description=f"{name}, for the suite.", required=True, complete=complete_word)


PROMPTS = [
    Prompt(name="test_simple_prompt", description="Simple.", handler=simple_prompt),
    Prompt(
        name="test_prompt_with_arguments",
        description="With arguments.",
        handler=prompt_with_arguments,
        arguments=[argument("arg1"), argument("arg2")],
    ),
    Prompt(
        name="test_prompt_with_embedded_resource",
        description="With a resource.",
        handler=prompt_with_resource,
        arguments=[argument("resourceUri")],
    ),
    Prompt(name="test_prompt_with_image", description="With an image.", handler=prompt_with_image),
]
RESOURCES = [
    Resource(uri="test://static-text", name="static-text", read=read_text, mime_type="text/plain"),
    Resource(uri="test://static-binary", name="static-binary", read=read_binary, mime_type="image/png"),
    Resource(uri="test://template/{id}/data", name="template", read=read_template, mime_type="application/json"),
]


async def main() -> None:
    plugin = Plugin(name="suite", resources=RESOURCES)
    async with Toolstead(plugins=[plugin]) as stead:
        stead.registry.register(*tools(stead))
        stead.registry.register_prompts(*PROMPTS)
        await stead.serve_http(port=0, on_ready=lambda address: print(address.url, flush=True))


if __name__ == "__main__":
    asyncio.run(main())
