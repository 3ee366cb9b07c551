"""The OpenAI Responses API, as the scripted model APIs speak it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from toolstead.adapters.scripted.api_dialect import (
    ApiCall,
    ApiName,
    ApiRequest,
    Frame,
    Grievance,
    Line,
    MalformedError,
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


class OpenAIResponsesApi:
    """`POST /v1/responses`."""

    name: ApiName = "openai"

    def read(self, body: Mapping[str, Any], extra: Mapping[str, Any]) -> ApiRequest:
        """Understand a request."""
        if body.get("previous_response_id") or body.get("conversation"):
            raise MalformedError("previous_response_id: nothing is stored here; send the whole conversation as `input`")
        lines: list[Line] = []
        if isinstance(body.get("input"), str):
            lines += user_lines([body["input"]])
        else:
            for item in require_objects(body, "input"):
                lines += _read_lines(item)
        return ApiRequest(
            model=text_of(body.get("model")),
            lines=tuple(lines),
            tools=tuple(_read_tools(body)),
            streams=body.get("stream") is True,
        )

    def stream_reply(self, request: ApiRequest, reply: Reply) -> Iterator[Frame]:
        """The answer as a stream; its events are numbered."""
        for number, (kind, data) in enumerate(self._build_events(request, reply)):
            yield build_event(
                {"type": kind, "sequence_number": number, **data}, name=kind, delta=kind.endswith(".delta")
            )

    def _build_events(self, request: ApiRequest, reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
        whole = self.whole_reply(request, reply)
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

    def whole_reply(self, request: ApiRequest, reply: Reply) -> dict[str, Any]:
        """The answer in one piece."""
        output: list[dict[str, Any]] = []
        if reply.text:
            part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            output.append(
                {
                    "type": "message",
                    "id": f"msg_{reply.number:08d}",
                    "status": "completed",
                    "role": "assistant",
                    "content": [part],
                }
            )
        output += [_call(call) for call in reply.calls]
        return {
            "id": f"resp_{reply.number:08d}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": request.model,
            "output": output,
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

    def render_refusal(self, grievance: Grievance) -> Refusal:
        """An error in the API's own shape."""
        return render_openai_refusal(grievance, chat=False)


def _call(call: ApiCall) -> dict[str, Any]:
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


def _read_lines(item: dict[str, Any]) -> list[Line]:
    """An item of the input."""
    match item.get("type", "message"):
        case "message" if item.get("role") == "user":
            return [*user_lines(content_texts(item.get("content")))]
        case "message" if item.get("role") == "assistant":
            return [RepliedLine(text="".join(content_texts(item.get("content"))))]
        case "function_call" | "custom_tool_call":
            return [RepliedLine(calls=(text_of(item.get("call_id")),))]
        case "function_call_output" | "custom_tool_call_output":
            return [Returned(text="\n".join(content_texts(item.get("output"))))]
        case _:
            return []


def _read_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    """What is offered, what stands in a namespace or among the messages included."""
    spoken = [said for said in map(as_object, as_array(body.get("input"))) if said.get("type") == "additional_tools"]
    lists = (body.get("tools"), *(said.get("tools") for said in spoken))
    for place, tool in enumerate(as_object(tool) for tools in lists for tool in as_array(tools)):
        name = text_of(tool.get("name"))
        if tool.get("type") == "namespace":
            for inner in map(as_object, as_array(tool.get("tools"))):
                is_free = inner.get("type") == "custom"
                yield OfferedTool(name=text_of(inner.get("name")), place=place, namespace=name, is_free=is_free)
        else:
            yield OfferedTool(name=name, place=place, is_free=tool.get("type") == "custom")
