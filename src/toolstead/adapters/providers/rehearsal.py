"""A rehearsed answer, which makes an SDK build its types before an event loop has to wait for them.

OpenAI's SDK builds the types of its stream at the first event, for more than half a second.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

_RESPONSE: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "x", "annotations": []}],
        },
        {"type": "function_call", "id": "f", "call_id": "c", "name": "n", "arguments": "{}", "status": "completed"},
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    },
}
_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "response.created", "sequence_number": 0, "response": _RESPONSE},
    *(
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": index, "item": item}
        for index, item in enumerate(_RESPONSE["output"])
    ),
    {"type": "response.completed", "sequence_number": 3, "response": _RESPONSE},
)


@cache
def rehearse_responses() -> None:
    """Read one stream of the Responses API that was never sent; once in a process."""
    import httpx2
    from openai import OpenAI

    stream = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in _EVENTS)

    def answer_request(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=stream, headers={"content-type": "text/event-stream"})

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer_request), trust_env=False) as client,
        OpenAI(api_key="none", base_url="http://rehearsal.invalid", http_client=client, max_retries=0) as sdk_client,
    ):
        for _ in sdk_client.responses.create(model="m", input="x", stream=True):
            pass
