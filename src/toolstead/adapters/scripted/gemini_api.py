"""The Gemini API, as the scripted model APIs speak it.

`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`. Arguments come whole here, as an object. So
half of a call's JSON is what the API makes of it: an answer without content that ended with `MALFORMED_FUNCTION_CALL`.
A request with the tool `google_search` gets the links of its answer as grounding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from toolstead.adapters.scripted.api_dialect import (
    ApiMessage,
    Dialect,
    Frame,
    OfferedTool,
    Reply,
    as_object,
    as_objects,
    build_event,
    require_objects,
    text_of,
    user_messages,
)
from toolstead.adapters.scripted.script import split_text

_TYPE = "type.googleapis.com/google.rpc."
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\((https?://[^()\s]{1,2000})\)")


def _read_messages(content: dict[str, Any]) -> list[ApiMessage]:
    """Read a content; a text beside results comes after them."""
    parts = as_objects(content.get("parts"))
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and part.get("thought") is not True]
    if content.get("role") == "model":
        calls = tuple(text_of(call.get("id")) for call in _find_members(parts, "functionCall", "function_call"))
        return [ApiMessage(role="model", text="".join(texts), calls=calls)]
    responses = _find_members(parts, "functionResponse", "function_response")
    return user_messages(texts, (_read_result(response.get("response")) for response in responses))


def _find_members(parts: list[dict[str, Any]], camel: str, snake: str) -> list[dict[str, Any]]:
    """The members of this name, in either of the two spellings that the API takes."""
    return [as_object(part.get(camel, part.get(snake))) for part in parts if camel in part or snake in part]


def _read_result(response: object) -> str:
    """What a tool returned: the one value of the object it is wrapped in, or the object."""
    values = list(as_object(response).values())
    value = values[0] if len(values) == 1 else response
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for number, group in enumerate(as_objects(body.get("tools"))):
        for place, tool in enumerate(as_objects(group.get("functionDeclarations", group.get("function_declarations")))):
            yield OfferedTool(name=text_of(tool.get("name")), place=place, group=number)


def _build_reply(reply: Reply) -> dict[str, Any]:
    half = any(call.half for call in reply.calls)
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    if not half:
        parts += [
            {"functionCall": {"id": call.id, "name": call.tool.name, "args": dict(call.input)}} for call in reply.calls
        ]
    content: dict[str, Any] = {"parts": parts, "role": "model"} if parts else {"role": "model"}
    candidate: dict[str, Any] = {"content": content, "finishReason": "STOP", "index": 0}
    if half:
        call = reply.calls[0]
        candidate["finishReason"] = "MALFORMED_FUNCTION_CALL"
        candidate["finishMessage"] = f"Malformed function call: {call.tool.name}({call.arguments}"
    if _asks_for_search(reply.request.body):
        candidate["groundingMetadata"] = _ground_text(reply.text)
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": reply.input_tokens,
            "candidatesTokenCount": reply.output_tokens,
            "totalTokenCount": reply.input_tokens + reply.output_tokens,
        },
        "modelVersion": reply.request.model,
        "responseId": f"resp{reply.number:08d}",
    }


def _asks_for_search(body: Mapping[str, Any]) -> bool:
    return any("googleSearch" in group or "google_search" in group for group in as_objects(body.get("tools")))


def _ground_text(text: str) -> dict[str, Any]:
    """The pages that an answer rests on: the links in its lines; the rest of a line is what it took from them."""
    chunks: list[dict[str, Any]] = []
    supports: list[dict[str, Any]] = []
    for line in text.splitlines():
        links = _LINK.findall(line)
        said = _LINK.sub("", line).strip(" :-")
        if links and said:
            places = list(range(len(chunks), len(chunks) + len(links)))
            supports.append({"segment": {"text": said}, "groundingChunkIndices": places})
        chunks += [{"web": {"uri": url, "title": title}} for title, url in links]
    return {"groundingChunks": chunks, "groundingSupports": supports, "webSearchQueries": ["scripted"]}


def _stream_reply(reply: Reply, whole: dict[str, Any]) -> Iterator[Frame]:
    parts: list[dict[str, Any]] = [{"text": piece} for piece in split_text(reply.text)]
    parts += [part for part in whole["candidates"][0]["content"].get("parts", []) if "functionCall" in part]
    for part in parts:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        yield build_event(whole | {"candidates": [candidate]}, delta=True, end="\r\n")
    content = {"parts": [{"text": ""}], "role": "model"} if parts else {"role": "model"}
    yield build_event(whole | {"candidates": [whole["candidates"][0] | {"content": content}]}, end="\r\n")


def _build_error(code: int, status: str, text: str, *details: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    error: dict[str, Any] = {"code": code, "message": text, "status": status}
    return code, {"error": error | ({"details": list(details)} if details else {})}


GEMINI = Dialect(
    name="gemini",
    read_items=partial(require_objects, name="contents"),
    read_messages=_read_messages,
    read_tools=_read_tools,
    build_reply=_build_reply,
    stream_reply=_stream_reply,
    errors={
        "overloaded": _build_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "rate_limit": _build_error(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details. Please retry in {seconds}s.",
            {"@type": f"{_TYPE}RetryInfo", "retryDelay": "{seconds}s"},
        ),
        "server_error": _build_error(
            500,
            "INTERNAL",
            "An internal error has occurred. Please retry or report in "
            "https://developers.generativeai.google/guide/troubleshooting",
        ),
        "schema": _build_error(
            400,
            "INVALID_ARGUMENT",
            "* GenerateContentRequest.tools[{tool.group}].function_declarations[{tool.place}].parameters.properties: "
            "should be non-empty for OBJECT type\n",
        ),
        "overflow": _build_error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1204311) exceeds the maximum number of tokens allowed (1048576).",
        ),
        "bad_key": _build_error(
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            {
                "@type": f"{_TYPE}ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": {"service": "generativelanguage.googleapis.com"},
            },
        ),
        "no_model": _build_error(
            404,
            "NOT_FOUND",
            "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call "
            "ListModels to see the list of available models and their supported methods.",
        ),
        "unknown": _build_error(404, "NOT_FOUND", "{text}"),
        "too_large": _build_error(413, "INVALID_ARGUMENT", "{text}"),
        "invalid": _build_error(400, "INVALID_ARGUMENT", "{text}"),
    },
)
