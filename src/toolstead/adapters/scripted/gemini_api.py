"""The Gemini API (`generateContent`), as the scripted model APIs speak it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from toolstead.adapters.scripted.api_dialect import (
    ApiName,
    ApiRequest,
    Frame,
    Grievance,
    Line,
    OfferedTool,
    Refusal,
    RepliedLine,
    Reply,
    Returned,
    as_array,
    as_object,
    build_event,
    require_objects,
    text_of,
    user_lines,
)
from toolstead.adapters.scripted.script import split_text

_MALFORMED = "MALFORMED_FUNCTION_CALL"
_TYPE = "type.googleapis.com/google.rpc."


class GeminiApi:
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`.

    Arguments come whole here, as an object. So half of a call's JSON is what the API makes of it: an
    answer without content that ended with `MALFORMED_FUNCTION_CALL`.
    """

    name: ApiName = "gemini"

    def read(self, body: Mapping[str, Any], extra: Mapping[str, Any]) -> ApiRequest:
        """Understand a request."""
        lines: list[Line] = []
        for content in require_objects(body, "contents"):
            lines += _read_lines(content)
        return ApiRequest(
            model=text_of(extra.get("model")),
            lines=tuple(lines),
            tools=tuple(_read_tools(body)),
            streams=extra.get("streams") is True,
        )

    def stream_reply(self, request: ApiRequest, reply: Reply) -> Iterator[Frame]:
        """The answer as a stream."""
        whole = self.whole_reply(request, reply)
        parts: list[dict[str, Any]] = [{"text": piece} for piece in split_text(reply.text)]
        parts += [part for part in whole["candidates"][0]["content"].get("parts", []) if "functionCall" in part]
        for part in parts:
            candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
            yield build_event(whole | {"candidates": [candidate]}, delta=True, end="\r\n")
        ended = whole["candidates"][0] | {"content": {"role": "model"} if not parts else _text_part("")}
        yield build_event(whole | {"candidates": [ended]}, end="\r\n")

    def whole_reply(self, request: ApiRequest, reply: Reply) -> dict[str, Any]:
        """The answer in one piece."""
        half = any(call.half for call in reply.calls)
        parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
        if not half:
            parts += [
                {"functionCall": {"id": call.id, "name": call.tool.name, "args": dict(call.input)}}
                for call in reply.calls
            ]
        content: dict[str, Any] = {"parts": parts, "role": "model"} if parts else {"role": "model"}
        candidate: dict[str, Any] = {"content": content, "finishReason": _MALFORMED if half else "STOP", "index": 0}
        if half:
            call = reply.calls[0]
            candidate["finishMessage"] = f"Malformed function call: {call.tool.name}({call.arguments}"
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": reply.input_tokens,
                "candidatesTokenCount": reply.output_tokens,
                "totalTokenCount": reply.input_tokens + reply.output_tokens,
            },
            "modelVersion": request.model,
            "responseId": f"resp{reply.number:08d}",
        }

    def render_refusal(self, grievance: Grievance) -> Refusal:
        """An error in the API's own shape."""
        details: list[dict[str, Any]] = []
        headers: tuple[tuple[str, str], ...] = ()
        match grievance.kind:
            case "overloaded":
                code, status, text = 503, "UNAVAILABLE", "The model is overloaded. Please try again later."
            case "rate_limit":
                code, status = 429, "RESOURCE_EXHAUSTED"
                text = (
                    "You exceeded your current quota, please check your plan and billing details. "
                    f"Please retry in {grievance.retry_after}s."
                )
                details = [{"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{grievance.retry_after}s"}]
                headers = (("retry-after", str(grievance.retry_after)),)
            case "server_error":
                code, status = 500, "INTERNAL"
                text = (
                    "An internal error has occurred. Please retry or report in "
                    "https://developers.generativeai.google/guide/troubleshooting"
                )
            case "schema":
                code, status, tool = 400, "INVALID_ARGUMENT", grievance.tool
                where = f"tools[{tool.group}].function_declarations[{tool.place}]"
                text = f"* GenerateContentRequest.{where}.parameters.properties: should be non-empty for OBJECT type\n"
            case "overflow":
                code, status = 400, "INVALID_ARGUMENT"
                text = "The input token count (1204311) exceeds the maximum number of tokens allowed (1048576)."
            case "bad_key":
                code, status = 400, "INVALID_ARGUMENT"
                text = "API key not valid. Please pass a valid API key."
                details = [
                    {
                        "@type": f"{_TYPE}ErrorInfo",
                        "reason": "API_KEY_INVALID",
                        "domain": "googleapis.com",
                        "metadata": {"service": "generativelanguage.googleapis.com"},
                    }
                ]
            case "no_model":
                code, status = 404, "NOT_FOUND"
                text = (
                    f"models/{grievance.request.model} is not found for API version v1beta, or is not supported for "
                    "generateContent. Call ListModels to see the list of available models and their supported methods."
                )
            case "unknown":
                code, status, text = 404, "NOT_FOUND", grievance.text
            case "too_large":
                code, status, text = 413, "INVALID_ARGUMENT", grievance.text
            case "invalid":
                code, status, text = 400, "INVALID_ARGUMENT", grievance.text
        error: dict[str, Any] = {"code": code, "message": text, "status": status}
        if details:
            error["details"] = details
        return Refusal(status=code, body={"error": error}, headers=headers)


def _read_lines(content: dict[str, Any]) -> list[Line]:
    """A content; a text beside results comes after them."""
    parts = [as_object(part) for part in as_array(content.get("parts"))]
    spoken = [part["text"] for part in parts if isinstance(part.get("text"), str) and part.get("thought") is not True]
    if content.get("role") == "model":
        calls = tuple(
            text_of(_read_member(part, "functionCall").get("id")) for part in parts if _has_member(part, "functionCall")
        )
        return [RepliedLine(text="".join(spoken), calls=calls)]
    results: list[Line] = [
        Returned(text=_read_result(_read_member(part, "functionResponse").get("response")))
        for part in parts
        if _has_member(part, "functionResponse")
    ]
    return [*results, *(user_lines(spoken) if spoken or not results else [])]


def _read_result(response: object) -> str:
    """What a tool returned: the one value of the object it is wrapped in, or the object."""
    values = list(as_object(response).values())
    value = values[0] if len(values) == 1 else response
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for number, group in enumerate(map(as_object, as_array(body.get("tools")))):
        for place, tool in enumerate(as_array(group.get("functionDeclarations", group.get("function_declarations")))):
            yield OfferedTool(name=text_of(as_object(tool).get("name")), place=place, group=number)


def _read_member(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A member in either of the two spellings that the API takes."""
    return as_object(part.get(name, part.get(_snake_case(name))))


def _has_member(part: Mapping[str, Any], name: str) -> bool:
    return name in part or _snake_case(name) in part


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _text_part(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}], "role": "model"}
