"""OpenAI's two APIs, as the scripted model APIs speak them: Responses, and Chat Completions, which many servers speak.

`POST /v1/responses` and `POST /v1/chat/completions`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from toolstead.adapters.scripted.api_dialect import (
    ApiCall,
    ApiMessage,
    Dialect,
    Frame,
    MalformedError,
    OfferedTool,
    RefusalKind,
    Reply,
    as_object,
    as_objects,
    build_event,
    content_texts,
    require_objects,
    text_of,
    user_messages,
)
from toolstead.adapters.scripted.script import split_text


def _read_input(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    if body.get("previous_response_id") or body.get("conversation"):
        raise MalformedError("previous_response_id: nothing is stored here; send the whole conversation as `input`")
    if isinstance(body.get("input"), str):
        return [{"role": "user", "content": body["input"]}]
    return require_objects(body, "input")


def _read_item(item: dict[str, Any]) -> list[ApiMessage]:
    """Read an item of the input."""
    match item.get("type", "message"):
        case "message" if item.get("role") == "user":
            return user_messages(content_texts(item.get("content")))
        case "message" if item.get("role") == "assistant":
            return [ApiMessage(role="model", text="".join(content_texts(item.get("content"))))]
        case "function_call" | "custom_tool_call":
            return [ApiMessage(role="model", calls=(text_of(item.get("call_id")),))]
        case "function_call_output" | "custom_tool_call_output":
            return [ApiMessage(role="tool", text="\n".join(content_texts(item.get("output"))))]
        case _:
            return []


def _read_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    """The tools of the request, of its namespaces and of its messages."""
    among = [item.get("tools") for item in as_objects(body.get("input")) if item.get("type") == "additional_tools"]
    for place, tool in enumerate(tool for tools in (body.get("tools"), *among) for tool in as_objects(tools)):
        is_namespace = tool.get("type") == "namespace"
        for inner in as_objects(tool.get("tools")) if is_namespace else [tool]:
            yield OfferedTool(
                name=text_of(inner.get("name")),
                place=place,
                namespace=text_of(tool.get("name")) if is_namespace else None,
                is_free=inner.get("type") == "custom",
            )


def _build_response(reply: Reply) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
    message: dict[str, Any] = {
        "type": "message",
        "id": f"msg_{reply.number:08d}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    return {
        "id": f"resp_{reply.number:08d}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": reply.request.model,
        "output": [*([message] if reply.text else []), *map(_build_call, reply.calls)],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _build_call(call: ApiCall) -> dict[str, Any]:
    """A call as an item of the output."""
    item: dict[str, Any] = {
        "type": "custom_tool_call" if call.tool.is_free else "function_call",
        "id": f"fc_{call.id}",
        "call_id": call.id,
        "name": call.tool.name,
        "status": "completed",
    }
    if call.tool.namespace is not None:
        item["namespace"] = call.tool.namespace
    if call.tool.is_free:
        return item | {"input": text_of(call.input.get("input")) or call.arguments}
    return item | {"arguments": call.arguments}


def _stream_response(reply: Reply, whole: dict[str, Any]) -> Iterator[Frame]:
    for number, (kind, data) in enumerate(_list_events(reply, whole)):
        yield build_event({"type": kind, "sequence_number": number, **data}, name=kind, delta=kind.endswith(".delta"))


def _list_events(reply: Reply, whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    begun: dict[str, Any] = whole | {"status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(whole["output"]):
        here = {"item_id": item["id"], "output_index": index}
        opened = item | {"status": "in_progress"}
        if item["type"] == "message":
            text = here | {"content_index": 0}
            part = item["content"][0]
            yield "response.output_item.added", {"output_index": index, "item": opened | {"content": []}}
            yield "response.content_part.added", text | {"part": part | {"text": ""}}
            for piece in split_text(reply.text):
                yield "response.output_text.delta", text | {"delta": piece, "logprobs": []}
            yield "response.output_text.done", text | {"text": reply.text, "logprobs": []}
            yield "response.content_part.done", text | {"part": part}
        else:
            call = reply.calls[index - len(whole["output"])]
            field = "input" if call.tool.is_free else "arguments"
            kind = "custom_tool_call_input" if call.tool.is_free else "function_call_arguments"
            yield "response.output_item.added", {"output_index": index, "item": opened | {field: ""}}
            for piece in split_text(item[field]) if call.tool.is_free else call.pieces:
                yield f"response.{kind}.delta", here | {"delta": piece}
            yield f"response.{kind}.done", here | {field: item[field], "name": call.tool.name}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": whole}


def _read_chat_message(message: dict[str, Any]) -> list[ApiMessage]:
    texts = content_texts(message.get("content"))
    match message.get("role"):
        case "user":
            return user_messages(texts)
        case "assistant":
            calls = tuple(text_of(call.get("id")) for call in as_objects(message.get("tool_calls")))
            return [ApiMessage(role="model", text="".join(texts), calls=calls)]
        case "tool":
            return [ApiMessage(role="tool", text="\n".join(texts))]
        case _:
            return []


def _read_chat_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for place, tool in enumerate(as_objects(body.get("tools"))):
        yield OfferedTool(name=text_of(as_object(tool.get("function")).get("name")), place=place)


def _build_completion(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    finish = "tool_calls" if reply.calls else "stop"
    return {
        "id": f"chatcmpl-{reply.number:08d}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": reply.request.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _stream_completion(reply: Reply, whole: dict[str, Any]) -> Iterator[Frame]:
    common = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def build_chunk(delta: dict[str, Any], *, finish: str | None = None, is_delta: bool = False) -> Frame:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return build_event(common | {"choices": [choice]}, delta=is_delta)

    yield build_chunk({"role": "assistant", "content": None if reply.calls else ""})
    for piece in split_text(reply.text):
        yield build_chunk({"content": piece}, is_delta=True)
    for index, call in enumerate(reply.calls):
        named = {"index": index, "id": call.id, "type": "function"}
        yield build_chunk({"tool_calls": [named | {"function": {"name": call.tool.name, "arguments": ""}}]})
        for piece in call.pieces:
            yield build_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, is_delta=True)
    yield build_chunk({}, finish=whole["choices"][0]["finish_reason"])
    if as_object(reply.request.body.get("stream_options")).get("include_usage") is True:
        yield build_event(common | {"choices": [], "usage": whole["usage"]})
    yield Frame(data=b"data: [DONE]\n\n")


def _build_error(
    status: int, text: str, *, kind: str = "invalid_request_error", code: str | None = None, param: str | None = None
) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": text, "type": kind, "param": param, "code": code}}


_INVALID_SCHEMA = "Invalid schema for function '{tool.name}': In context=(), object schema missing properties."
_ERRORS: Mapping[RefusalKind, tuple[int, dict[str, Any]]] = {
    "overloaded": _build_error(
        503,
        "Our servers are currently overloaded. Please try again later.",
        kind="service_unavailable_error",
        code="server_is_overloaded",
    ),
    "rate_limit": _build_error(
        429,
        "Rate limit reached for {model} in organization org-scripted on requests per min (RPM): Limit 3, Used 3, "
        "Requested 1. Please try again in {seconds}s.",
        kind="requests",
        code="rate_limit_exceeded",
    ),
    "server_error": _build_error(
        500, "The server had an error while processing your request. Sorry about that!", kind="server_error"
    ),
    "bad_key": _build_error(
        401,
        "Incorrect API key provided: {key}. You can find your API key at https://platform.openai.com/account/api-keys.",
        code="invalid_api_key",
    ),
    "unknown": _build_error(404, "{text}"),
    "too_large": _build_error(413, "{text}"),
    "invalid": _build_error(400, "{text}"),
}
_HEADERS = ((b"x-request-id", b"req_scripted"),)

OPENAI = Dialect(
    name="openai",
    read_items=_read_input,
    read_messages=_read_item,
    read_tools=_read_tools,
    build_reply=_build_response,
    stream_reply=_stream_response,
    errors={
        **_ERRORS,
        "schema": _build_error(
            400, _INVALID_SCHEMA, code="invalid_function_parameters", param="tools[{tool.place}].parameters"
        ),
        "overflow": _build_error(
            400,
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
            param="input",
        ),
        "no_model": _build_error(
            400, "The requested model '{model}' does not exist.", code="model_not_found", param="model"
        ),
    },
    error_headers=_HEADERS,
)
OPENAI_CHAT = Dialect(
    name="openai-chat",
    read_items=partial(require_objects, name="messages"),
    read_messages=_read_chat_message,
    read_tools=_read_chat_tools,
    build_reply=_build_completion,
    stream_reply=_stream_completion,
    errors={
        **_ERRORS,
        "schema": _build_error(
            400, _INVALID_SCHEMA, code="invalid_function_parameters", param="tools[{tool.place}].function.parameters"
        ),
        "overflow": _build_error(
            400,
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 141237 tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
            param="messages",
        ),
        "no_model": _build_error(
            404, "The model `{model}` does not exist or you do not have access to it.", code="model_not_found"
        ),
    },
    error_headers=_HEADERS,
)
