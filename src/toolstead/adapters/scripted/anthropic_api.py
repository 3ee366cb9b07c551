"""The Anthropic Messages API, as the scripted model APIs speak it."""

from __future__ import annotations

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
from toolstead.adapters.scripted.script import split_text


class AnthropicApi:
    """`POST /v1/messages`."""

    name: ApiName = "anthropic"

    def read(self, body: Mapping[str, Any], extra: Mapping[str, Any]) -> ApiRequest:
        """Understand a request."""
        lines: list[Line] = []
        for message in require_objects(body, "messages"):
            lines += _read_lines(message)
        tools = [OfferedTool(name=text_of(as_object(tool).get("name")), place=i) for i, tool in _read_tools(body)]
        return ApiRequest(
            model=text_of(body.get("model")),
            lines=tuple(lines),
            tools=tuple(tools),
            streams=body.get("stream") is True,
        )

    def stream_reply(self, request: ApiRequest, reply: Reply) -> Iterator[Frame]:
        """The answer as a stream."""
        whole = self.whole_reply(request, reply)
        opened: dict[str, Any] = whole | {
            "content": [],
            "stop_reason": None,
            "usage": whole["usage"] | {"output_tokens": 1},
        }
        yield _build_event("message_start", message=opened)
        yield _build_event("ping")
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                yield _build_event("content_block_start", index=index, content_block={"type": "text", "text": ""})
                deltas = [{"type": "text_delta", "text": piece} for piece in split_text(reply.text)]
            else:
                call = reply.calls[index - len(whole["content"])]
                yield _build_event("content_block_start", index=index, content_block=block | {"input": {}})
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in call.pieces]
            for delta in deltas:
                yield _build_event("content_block_delta", is_delta=True, index=index, delta=delta)
            yield _build_event("content_block_stop", index=index)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield _build_event("message_delta", delta=ended, usage={"output_tokens": reply.output_tokens})
        yield _build_event("message_stop")

    def whole_reply(self, request: ApiRequest, reply: Reply) -> dict[str, Any]:
        """The answer in one piece."""
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
            "model": request.model,
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

    def render_refusal(self, grievance: Grievance) -> Refusal:
        """An error in the API's own shape."""
        headers: tuple[tuple[str, str], ...] = ()
        match grievance.kind:
            case "overloaded":
                status, kind, text = 529, "overloaded_error", "Overloaded"
            case "rate_limit":
                status, kind = 429, "rate_limit_error"
                text = "This request would exceed your organization's rate limit of 50 requests per minute."
                headers = (("retry-after", str(grievance.retry_after)),)
            case "server_error":
                status, kind, text = 500, "api_error", "Internal server error"
            case "schema":
                status, kind = 400, "invalid_request_error"
                text = (
                    f"tools.{grievance.tool.place}.custom.input_schema: JSON schema is invalid. It must match JSON "
                    "Schema draft 2020-12 (https://json-schema.org/draft/2020-12). Learn more about tool use at "
                    "https://docs.claude.com/en/docs/tool-use."
                )
            case "overflow":
                status, kind = 400, "invalid_request_error"
                text = "prompt is too long: 208310 tokens > 200000 maximum"
            case "bad_key":
                status, kind, text = 401, "authentication_error", "invalid x-api-key"
            case "no_model":
                status, kind, text = 404, "not_found_error", f"model: {grievance.request.model}"
            case "unknown":
                status, kind, text = 404, "not_found_error", grievance.text
            case "too_large":
                status, kind, text = 413, "request_too_large", grievance.text
            case "invalid":
                status, kind, text = 400, "invalid_request_error", grievance.text
        body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_scripted"}
        return Refusal(status=status, body=body, headers=(("request-id", "req_scripted"), *headers))


def _read_lines(message: dict[str, Any]) -> list[Line]:
    """A message; a text beside results comes after them."""
    content = message.get("content")
    blocks = [as_object(block) for block in as_array(content)]
    match message.get("role"):
        case "user":
            results: list[Line] = [
                Returned(text="\n".join(content_texts(block.get("content"))))
                for block in blocks
                if block.get("type") == "tool_result"
            ]
            spoken = content_texts(content)
            return [*results, *(user_lines(spoken) if spoken or not results else [])]
        case "assistant":
            calls = tuple(text_of(block.get("id")) for block in blocks if block.get("type") == "tool_use")
            return [RepliedLine(text="".join(content_texts(content)), calls=calls)]
        case _:
            return []


def _read_tools(body: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    yield from enumerate(as_array(body.get("tools")))


def _build_event(kind: str, *, is_delta: bool = False, **data: Any) -> Frame:
    return build_event({"type": kind, **data}, name=kind, delta=is_delta)
