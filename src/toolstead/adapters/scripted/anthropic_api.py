"""The Anthropic Messages API, as the scripted model APIs speak it: `POST /v1/messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from toolstead.adapters.scripted.api_dialect import (
    ApiMessage,
    Dialect,
    Frame,
    OfferedTool,
    Reply,
    as_objects,
    build_event,
    content_texts,
    require_objects,
    text_of,
    user_messages,
)
from toolstead.adapters.scripted.script import split_text


def _read_messages(message: dict[str, Any]) -> list[ApiMessage]:
    """Read a message; a text beside results comes after them."""
    content = message.get("content")
    blocks = as_objects(content)
    match message.get("role"):
        case "user":
            results = [block.get("content") for block in blocks if block.get("type") == "tool_result"]
            return user_messages(content_texts(content), ("\n".join(content_texts(result)) for result in results))
        case "assistant":
            calls = tuple(text_of(block.get("id")) for block in blocks if block.get("type") == "tool_use")
            return [ApiMessage(role="model", text="".join(content_texts(content)), calls=calls)]
        case _:
            return []


def _read_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for place, tool in enumerate(as_objects(body.get("tools"))):
        yield OfferedTool(name=text_of(tool.get("name")), place=place)


def _build_reply(reply: Reply) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [
        {
            "type": "tool_use",
            "id": call.id,
            "name": call.tool.name,
            "input": call.arguments if call.half else dict(call.input),
        }
        for call in reply.calls
    ]
    return {
        "id": f"msg_{reply.number:08d}",
        "type": "message",
        "role": "assistant",
        "model": reply.request.model,
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": reply.output_tokens,
        },
    }


def _stream_reply(reply: Reply, whole: dict[str, Any]) -> Iterator[Frame]:
    usage = whole["usage"] | {"output_tokens": min(1, reply.output_tokens)}
    yield _build_event("message_start", message=whole | {"content": [], "stop_reason": None, "usage": usage})
    yield _build_event("ping")
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            opened = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in split_text(reply.text)]
        else:
            opened = block | {"input": {}}
            call = reply.calls[index - len(whole["content"])]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in call.pieces]
        yield _build_event("content_block_start", index=index, content_block=opened)
        for delta in deltas:
            yield _build_event("content_block_delta", is_delta=True, index=index, delta=delta)
        yield _build_event("content_block_stop", index=index)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _build_event("message_delta", delta=ended, usage={"output_tokens": reply.output_tokens})
    yield _build_event("message_stop")


def _build_event(kind: str, *, is_delta: bool = False, **data: Any) -> Frame:
    return build_event({"type": kind, **data}, name=kind, delta=is_delta)


def _build_error(status: int, kind: str, text: str) -> tuple[int, dict[str, Any]]:
    return status, {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_scripted"}


ANTHROPIC = Dialect(
    name="anthropic",
    read_items=partial(require_objects, name="messages"),
    read_messages=_read_messages,
    read_tools=_read_tools,
    build_reply=_build_reply,
    stream_reply=_stream_reply,
    errors={
        "overloaded": _build_error(529, "overloaded_error", "Overloaded"),
        "rate_limit": _build_error(
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 50 requests per minute.",
        ),
        "server_error": _build_error(500, "api_error", "Internal server error"),
        "schema": _build_error(
            400,
            "invalid_request_error",
            "tools.{tool.place}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
            "(https://json-schema.org/draft/2020-12). Learn more about tool use at "
            "https://docs.claude.com/en/docs/tool-use.",
        ),
        "overflow": _build_error(400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
        "bad_key": _build_error(401, "authentication_error", "invalid x-api-key"),
        "no_model": _build_error(404, "not_found_error", "model: {model}"),
        "unknown": _build_error(404, "not_found_error", "{text}"),
        "too_large": _build_error(413, "request_too_large", "{text}"),
        "invalid": _build_error(400, "invalid_request_error", "{text}"),
    },
    error_headers=((b"request-id", b"req_scripted"),),
)
