"""The OpenAI Chat Completions API, as the scripted model APIs speak it; many servers speak it, too."""

from __future__ import annotations

import time
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
    content_texts,
    require_objects,
    text_of,
    user_lines,
)
from toolstead.adapters.scripted.openai_errors import render_openai_refusal
from toolstead.adapters.scripted.script import split_text

_DONE = Frame(data=b"data: [DONE]\n\n")


class OpenAIChatApi:
    """`POST /v1/chat/completions`."""

    name: ApiName = "openai-chat"

    def read(self, body: Mapping[str, Any], extra: Mapping[str, Any]) -> ApiRequest:
        """Understand a request."""
        lines: list[Line] = []
        for message in require_objects(body, "messages"):
            lines += _read_lines(message)
        tools = [
            OfferedTool(name=text_of(as_object(as_object(tool).get("function")).get("name")), place=place)
            for place, tool in enumerate(as_array(body.get("tools")))
        ]
        return ApiRequest(
            model=text_of(body.get("model")),
            lines=tuple(lines),
            tools=tuple(tools),
            streams=body.get("stream") is True,
            extra={"usage": as_object(body.get("stream_options")).get("include_usage") is True},
        )

    def stream_reply(self, request: ApiRequest, reply: Reply) -> Iterator[Frame]:
        """The answer as a stream."""
        whole = self.whole_reply(request, reply)
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
        if request.extra.get("usage"):
            yield build_event(common | {"choices": [], "usage": whole["usage"]})
        yield _DONE

    def whole_reply(self, request: ApiRequest, reply: Reply) -> dict[str, Any]:
        """The answer in one piece."""
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
            "model": request.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": reply.input_tokens,
                "completion_tokens": reply.output_tokens,
                "total_tokens": reply.input_tokens + reply.output_tokens,
            },
        }

    def render_refusal(self, grievance: Grievance) -> Refusal:
        """An error in the API's own shape."""
        return render_openai_refusal(grievance, chat=True)


def _read_lines(message: dict[str, Any]) -> list[Line]:
    match message.get("role"):
        case "user":
            return [*user_lines(content_texts(message.get("content")))]
        case "assistant":
            calls = tuple(text_of(as_object(call).get("id")) for call in as_array(message.get("tool_calls")))
            return [RepliedLine(text="".join(content_texts(message.get("content"))), calls=calls)]
        case "tool":
            return [Returned(text="\n".join(content_texts(message.get("content"))))]
        case _:
            return []
