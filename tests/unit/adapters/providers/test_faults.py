from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.adapters.providers.asking import (
    ANTHROPIC,
    APIS,
    CHAT,
    GOOGLE,
    OPENAI,
    TOOLS,
    answer,
    canned,
    connected,
    events,
    listing,
)
from toolstead.adapters.providers.catalogue import find_model
from toolstead.errors import ModelError
from toolstead.testing import scripted_models

pytestmark = pytest.mark.requires("models")

TITLES = {name: find_model(name)[0].title for name in APIS}


def error_without_address(error: ModelError) -> str:
    return re.sub(r" at http://127\.0\.0\.1:\d+", "", str(error))


async def refusal(name: str, script: str) -> ModelError:
    async with scripted_models(script) as api, connected(name, api.environ()) as model:
        with pytest.raises(ModelError) as caught:
            await answer(model, "x")
    return caught.value


async def canned_refusal(name: str, body: Mapping[str, Any] | bytes, **how: Any) -> ModelError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    how = {"kind": "application/json", **how}
    async with canned(raw, **how) as told, connected(name, told) as model:
        with pytest.raises(ModelError) as caught:
            await answer(model, "x")
    return caught.value


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize(
    ("kind", "fault", "says"),
    [
        ("overloaded", "busy", "is busy (5"),
        ("rate_limit", "rate", "limits the rate of requests (429): "),
        ("server_error", "server", "failed (500): "),
        ("broken", "network", " broke off: "),
        ("overflow", "overflow", "the conversation is too long for the model (400): "),
        ("bad_key", "key", "refuses the key in "),
        ("no_model", "name", "does not know the model "),
    ],
)
async def test_what_an_api_meets_has_its_fault(name: str, kind: str, fault: str, says: str) -> None:
    error = await refusal(name, f"- {{say: one two three, fault: {{kind: {kind}}}}}")
    assert error.fault == fault
    assert str(error).removeprefix("the answer of ").startswith(TITLES[name])
    assert says in str(error)
    assert error.tool is None


@pytest.mark.parametrize("name", APIS)
async def test_the_time_to_wait_is_told(name: str) -> None:
    error = await refusal(name, "- {say: x, fault: {kind: rate_limit, retry_after: 7}}")
    assert error.retry_after == 7


@pytest.mark.parametrize("name", APIS)
async def test_a_schema_that_is_refused_names_its_tool(name: str) -> None:
    error = await refusal(name, "- {say: x, fault: {kind: schema, tool: look_up}}")
    assert (error.fault, error.tool) == ("schema", "look_up")
    assert "refuses the schema of tool 'look_up' (400): " in str(error)


@pytest.mark.parametrize("name", APIS)
async def test_any_other_refusal_has_the_words_of_the_api(name: str) -> None:
    error = await refusal(name, "- {fail: it is no good}")
    assert error.fault == "rejected"
    assert error_without_address(error) == f"{TITLES[name]} refuses the request (400): it is no good"


@pytest.mark.parametrize(
    ("name", "source"), [(ANTHROPIC, "ANTHROPIC_API_KEY"), (OPENAI, "OPENAI_API_KEY"), (GOOGLE, "GOOGLE_API_KEY")]
)
async def test_a_refused_key_names_where_it_came_from_and_is_not_shown(name: str, source: str) -> None:
    body = {
        "error": {
            "type": "x",
            "code": 401,
            "message": "Incorrect API key provided: the-key, or sk-abc***def, or ab**ef.",
        }
    }
    error = await canned_refusal(name, body, status=401)
    assert (error.fault, source in str(error)) == ("key", True)
    assert "toolstead keys set " in str(error)
    assert "Incorrect API key provided: …, or …, or …." in str(error)
    assert "the-key" not in str(error)
    assert "sk-" not in str(error)
    assert "ab**ef" not in str(error)


@pytest.mark.parametrize("name", APIS)
async def test_a_refusal_that_repeats_the_key_is_told_without_it(name: str) -> None:
    for status, fault in ((403, "key"), (400, "rejected")):
        body = {"error": {"type": "x", "message": "not for the-key nor sk-abc***def"}}
        error = await canned_refusal(name, body, status=status)
        assert error.fault == fault
        assert "not for … nor …" in str(error)


async def test_a_model_that_is_not_known_comes_with_the_nearest() -> None:
    script = "- {say: x, fault: {kind: no_model}}"
    async with scripted_models(script) as api, connected("anthropic:claude-sonet-5-5", api.environ()) as model:
        with pytest.raises(ModelError, match=r"'claude-sonet-5-5'.*did you mean 'claude-sonnet-5-5' or"):
            await answer(model, "x")


async def test_a_known_name_that_is_refused_is_not_offered_again() -> None:
    error = await refusal(ANTHROPIC, "- {say: x, fault: {kind: no_model}}")
    assert "did you mean 'claude-sonnet-" in str(error)
    assert "'claude-sonnet-5-5'" not in str(error).partition("did you mean")[2]


@pytest.mark.parametrize(
    ("name", "message", "parameter", "tool"),
    [
        (ANTHROPIC, "tools.1.custom.input_schema: JSON schema is invalid", None, "second"),
        (ANTHROPIC, "tools.7.custom.input_schema: JSON schema is invalid", None, None),
        (ANTHROPIC, "messages.3.content.0: tool_use ids were found without tool_result", None, None),
        (OPENAI, "Invalid schema for function 'look_up': nothing good", "tools[0].parameters", "look_up"),
        (OPENAI, "Invalid schema for a function: nothing good", "tools[1].parameters", "second"),
        (CHAT, "Invalid 'tools[2].function.parameters': object schema missing properties", None, "look_up"),
        (CHAT, "Say 'look_up' again", None, None),
        (GOOGLE, "* GenerateContentRequest.tools[0].function_declarations[1].parameters: bad", None, "second"),
        (GOOGLE, "* GenerateContentRequest.tools[2].function_declarations[0].parameters: bad", None, "look_up"),
    ],
)
async def test_a_tool_is_found_by_its_name_or_its_place(
    name: str, message: str, parameter: str | None, tool: str | None
) -> None:
    assert [one.name for one in TOOLS] == ["first", "second", "look_up"]
    body = {"error": {"type": "invalid_request_error", "code": 400, "message": message, "param": parameter}}
    error = await canned_refusal(name, body, status=400)
    assert (error.fault, error.tool) == ("schema" if tool else "rejected", tool)


@pytest.mark.parametrize(
    ("name", "status", "body", "fault"),
    [
        (ANTHROPIC, 400, {"error": {"type": "invalid_request_error", "message": "credit balance is too low"}}, "quota"),
        (OPENAI, 429, {"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}, "quota"),
        (CHAT, 402, {"error": {"message": "Insufficient credits"}}, "quota"),
        (ANTHROPIC, 413, {"error": {"type": "request_too_large", "message": "Request too large"}}, "overflow"),
        (ANTHROPIC, 400, {"error": {"message": "input length and `max_tokens` exceed context limit"}}, "overflow"),
        (CHAT, 408, {"error": {"message": "time is up"}}, "network"),
        (CHAT, 409, {"error": {"message": "conflict"}}, "server"),
        (CHAT, 418, {"error": {"message": "a teapot"}}, "rejected"),
        (OPENAI, 502, b"<html>bad gateway</html>", "server"),
        (GOOGLE, 503, b"<html>unavailable</html>", "busy"),
        (ANTHROPIC, 503, b"", "busy"),
        (GOOGLE, 504, b"", "server"),
    ],
)
async def test_statuses_and_codes_have_their_fault(
    name: str, status: int, body: Mapping[str, Any] | bytes, fault: str
) -> None:
    error = await canned_refusal(name, body, status=status)
    assert error.fault == fault, error


async def test_a_daily_limit_is_no_matter_of_waiting() -> None:
    violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}]
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota.", "details": details}}
    assert (await canned_refusal(GOOGLE, body, status=429)).fault == "quota"


async def test_gemini_says_in_the_body_how_long_to_wait() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.5s"}]
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota.", "details": details}}
    error = await canned_refusal(GOOGLE, body, status=429)
    assert (error.fault, error.retry_after) == ("rate", 12.5)


async def test_a_long_sentence_is_bounded() -> None:
    error = await canned_refusal(OPENAI, {"error": {"message": "no " * 2000}}, status=400)
    assert len(str(error)) < 600


START = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
ANTHROPIC_START = {"type": "message_start", "message": START | {"usage": {"input_tokens": 1, "output_tokens": 1}}}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
CHAT_START = CHUNK | {
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": None}]
}
WHOLE = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "output": [],
    "tools": [],
    "tool_choice": "auto",
}
OPENAI_START = {
    "type": "response.created",
    "sequence_number": 0,
    "response": WHOLE | {"status": "in_progress", "parallel_tool_calls": True},
}
GOOGLE_START = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}, "index": 0}]}


@pytest.mark.parametrize(
    ("name", "stream", "fault"),
    [
        (
            ANTHROPIC,
            events(
                ANTHROPIC_START,
                {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
                named=True,
            ),
            "busy",
        ),
        (
            ANTHROPIC,
            events(
                ANTHROPIC_START,
                {"type": "error", "error": {"type": "rate_limit_error", "message": "Too fast"}},
                named=True,
            ),
            "rate",
        ),
        (
            OPENAI,
            events(
                OPENAI_START,
                {"type": "error", "sequence_number": 1, "code": "server_error", "message": "Oh", "param": None},
                named=True,
            ),
            "server",
        ),
        (
            OPENAI,
            events(
                OPENAI_START,
                {
                    "type": "response.failed",
                    "sequence_number": 1,
                    "response": WHOLE
                    | {
                        "status": "failed",
                        "parallel_tool_calls": True,
                        "error": {"code": "rate_limit_exceeded", "message": "Too fast"},
                    },
                },
                named=True,
            ),
            "rate",
        ),
        (CHAT, events(CHAT_START, {"error": {"code": "rate_limit_exceeded", "message": "Too fast"}}), "rate"),
        (CHAT, events(CHAT_START, {"error": {"message": "Oh", "type": "odd"}}), "server"),
        (
            GOOGLE,
            events(
                GOOGLE_START, {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
            ),
            "busy",
        ),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_counts_the_same(name: str, stream: bytes, fault: str) -> None:
    error = await canned_refusal(name, stream, kind="text/event-stream")
    assert error.fault == fault, error


@pytest.mark.parametrize(
    ("name", "stream"),
    [
        (ANTHROPIC, events(ANTHROPIC_START, named=True)),
        (OPENAI, events(OPENAI_START, named=True)),
        (CHAT, events(CHAT_START)),
        (GOOGLE, events(GOOGLE_START)),
        (ANTHROPIC, b""),
        (OPENAI, b""),
        (CHAT, b""),
        (GOOGLE, b""),
        (ANTHROPIC, b"event: message_start\ndata: {half\n\n"),
        (OPENAI, b"data: {half\n\n"),
        (CHAT, b"data: {half\n\n"),
        (GOOGLE, b"data: {half\n\n"),
        (GOOGLE, b'data: {"usageMetadata": {"promptTokenCount": "many"}}\n\n'),
    ],
)
async def test_an_answer_that_has_no_end_or_cannot_be_read_is_a_network_fault(name: str, stream: bytes) -> None:
    error = await canned_refusal(name, stream, kind="text/event-stream")
    assert error.fault == "network", error


@pytest.mark.parametrize(
    ("name", "stream"),
    [
        (
            ANTHROPIC,
            events(
                ANTHROPIC_START,
                {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 1}},
                {"type": "message_stop"},
                named=True,
            ),
        ),
        (CHAT, events(CHAT_START, CHUNK | {"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]})),
        (GOOGLE, events(GOOGLE_START, {"candidates": [{"finishReason": "SAFETY", "index": 0}]})),
        (GOOGLE, events({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})),
    ],
)
async def test_an_answer_that_a_filter_stopped_is_rejected_with_words(name: str, stream: bytes) -> None:
    error = await canned_refusal(name, stream, kind="text/event-stream")
    assert error.fault == "rejected", error
    assert "content policy" in str(error)


CHAT_END = CHUNK | {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]}


async def test_a_connection_that_closes_after_the_end_of_the_answer_has_lost_nothing() -> None:
    stream = events(CHAT_START, CHAT_END)  # no [DONE], and fewer bytes than were announced
    async with canned(stream, missing=9) as told, connected(CHAT, told) as model:
        _, reply = await answer(model, "x")
    assert (reply.text, reply.finish) == ("Hel", "stop")


@pytest.mark.parametrize(
    ("answered", "says"),
    [
        (
            {"kind": "text/html"},
            "/chat/completions answered with a web page (text/html), not as an API does; is OPENAI_",
        ),
        (
            {"status": 302, "headers": {"location": "/login?key=the-key"}},
            "/chat/completions answered with a redirect to /login?key=… (302), not as an API does; is OPENAI_BASE_URL",
        ),
    ],
    ids=["page", "redirect"],
)
async def test_a_web_page_in_place_of_an_api_asks_for_the_right_address(answered: Mapping[str, Any], says: str) -> None:
    error = await canned_refusal(CHAT, b"<!doctype html><title>My site</title>", **answered)
    assert error.fault == "rejected"
    assert says in str(error)


async def test_an_unknown_model_is_answered_with_the_names_that_the_server_has() -> None:
    listed = {"data": [{"id": "qwen3:8b"}, {"id": "llama3.2:3b"}], "error": {"message": "model not found"}}

    async def ask_for(model_name: str) -> str:
        async with listing(json.dumps(listed).encode()) as told, connected(f"ollama:{model_name}", told) as model:
            with pytest.raises(ModelError) as caught:
                await answer(model, "x")
        return error_without_address(caught.value)

    assert (await ask_for("llama3.2:4b")).endswith("(404): model not found; did you mean 'llama3.2:3b'?")
    assert (await ask_for("zzz")).endswith("(404): model not found; it has llama3.2:3b, qwen3:8b")


async def test_a_malformed_call_of_gemini_is_worth_another_try() -> None:
    stream = events(GOOGLE_START, {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}]})
    error = await canned_refusal(GOOGLE, stream, kind="text/event-stream")
    assert error.fault == "server"
    assert "MALFORMED_FUNCTION_CALL" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "environ", "fault", "says"),
    [
        (404, "404 page not found", {}, "name", "/api/chat/completions does not exist (404): {hint}"),
        (
            404,
            '{"detail": "Not Found"}',
            {},
            "name",
            "/api/chat/completions does not exist (404): ",
        ),
        (404, '{"error": {"message": "model x not found"}}', {}, "name", "not know the model 'x' "),
        (
            502,
            "<html>\n<head><title>502 Bad Gateway</title><style>p {}</style></head><body><p>nginx</body></html>",
            {},
            "server",
            "failed (502): 502 Bad Gateway",
        ),
        (
            401,
            '{"error": {"message": "who are you"}}',
            {"OPENAI_API_KEY": ""},
            "key",
            "refuses the request (401): who are you (no key was sent: OPENAI_API_KEY is not set; `toolstead keys",
        ),
        (
            400,
            '{"error": {"message": "x:1b does not support tools"}}',
            {},
            "rejected",
            "does not support tools; use a model that calls tools, or ask this one without them: --set 'tools.allowed",
        ),
    ],
    ids=["no-path", "no-route", "no-model", "page", "no-key", "no-tools"],
)
async def test_what_a_server_of_ones_own_refuses_says_what_to_change(
    status: int, body: str, environ: Mapping[str, str], fault: str, says: str
) -> None:
    async with canned(
        body.encode(), status=status, kind="application/json" if body.startswith("{") else "text/html"
    ) as told:
        url = told["OPENAI_BASE_URL"].removesuffix("/v1")
        async with connected("openai-chat:x", {**told, "OPENAI_BASE_URL": f"{url}/api", **environ}) as model:
            with pytest.raises(ModelError) as caught:
                await answer(model, "x", tools=[])
    assert caught.value.fault == fault
    assert says.format(hint="OPENAI_BASE_URL should probably end in /v1") in str(caught.value)
