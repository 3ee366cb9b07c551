"""Faults of scripted model APIs: each in the words and with the status of the API it plays."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.unit.adapters.scripted.api_clients import (
    BOTH,
    REFUSED,
    Asking,
    Call,
    Got,
    Model,
    Results,
    User,
    idle,
    refusal,
)
from tests.unit.adapters.scripted.playing import Listener, opened
from toolstead.adapters.scripted.script import FAULT_KINDS, ScriptedFault
from toolstead.adapters.scripted.script_file import parse_script
from toolstead.errors import RuntimeFailureError, ScriptError

pytestmark = pytest.mark.requires("models")

BROKEN = (httpx2.TransportError, openai.APIConnectionError, anthropic.APIConnectionError)

# kind → API → status, and what the error has in which field
REFUSALS: dict[str, dict[str, tuple[int, dict[str, Any]]]] = {
    "overloaded": {
        "anthropic": (529, {"type": "overloaded_error", "message": "Overloaded"}),
        "openai": (503, {"code": "server_is_overloaded"}),
        "openai-chat": (503, {"code": "server_is_overloaded"}),
        "gemini": (503, {"status": "UNAVAILABLE", "message": "The model is overloaded. Please try again later."}),
    },
    "rate_limit": {
        "anthropic": (429, {"type": "rate_limit_error"}),
        "openai": (429, {"code": "rate_limit_exceeded", "type": "requests"}),
        "openai-chat": (429, {"code": "rate_limit_exceeded", "type": "requests"}),
        "gemini": (429, {"status": "RESOURCE_EXHAUSTED"}),
    },
    "server_error": {
        "anthropic": (500, {"type": "api_error", "message": "Internal server error"}),
        "openai": (500, {"type": "server_error"}),
        "openai-chat": (500, {"type": "server_error"}),
        "gemini": (500, {"status": "INTERNAL"}),
    },
    "schema": {
        "anthropic": (400, {"type": "invalid_request_error", "message": "tools.0.custom.input_schema: JSON schema is"}),
        "openai": (400, {"param": "tools[0].parameters", "message": "Invalid schema for function 'today': In"}),
        "openai-chat": (400, {"param": "tools[0].function.parameters", "code": "invalid_function_parameters"}),
        "gemini": (400, {"message": "* GenerateContentRequest.tools[0].function_declarations[0].parameters."}),
    },
    "overflow": {
        "anthropic": (400, {"message": "prompt is too long: "}),
        "openai": (400, {"code": "context_length_exceeded", "param": "input"}),
        "openai-chat": (400, {"code": "context_length_exceeded", "message": "This model's maximum context length is"}),
        "gemini": (400, {"status": "INVALID_ARGUMENT", "message": "The input token count ("}),
    },
    "bad_key": {
        "anthropic": (401, {"type": "authentication_error", "message": "invalid x-api-key"}),
        "openai": (401, {"code": "invalid_api_key", "message": "Incorrect API key provided: scr***ed."}),
        "openai-chat": (401, {"code": "invalid_api_key"}),
        "gemini": (400, {"status": "INVALID_ARGUMENT", "message": "API key not valid."}),
    },
    "no_model": {
        "anthropic": (404, {"type": "not_found_error", "message": "model: claude-test"}),
        "openai": (400, {"code": "model_not_found", "message": "The requested model 'gpt-test' does not exist."}),
        "openai-chat": (404, {"code": "model_not_found", "message": "The model `gpt-test` does not exist"}),
        "gemini": (404, {"status": "NOT_FOUND", "message": "models/gemini-test is not found for API version"}),
    },
}


async def refused(asked: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(REFUSED) as found:
        await asked
    return refusal(found.value)


@BOTH
@pytest.mark.parametrize("kind", REFUSALS)
async def test_a_refusal_is_the_apis_own_and_then_the_turn_goes_on(
    asking: Asking, api: str, kind: str, stream: bool
) -> None:
    models, client = await asking(f"- say: hello\n  fault: {{kind: {kind}, times: 2}}", api)
    expected, fields = REFUSALS[kind][api]
    for _ in range(2):
        status, body = await refused(client.ask(User("hi"), stream=stream))
        assert status == expected
        for name, value in fields.items():
            assert str(body["error"][name]).startswith(value)
    assert (await client.ask(User("hi"), stream=stream)).text == "hello"
    assert len(models.requests) == 3


@pytest.mark.parametrize(("given", "seconds"), [(", retry_after: 7", "7"), (", retry_after: 0.5", "0.5"), ("", "1")])
async def test_a_rate_limit_says_when_to_come_back(asking: Asking, api: str, given: str, seconds: str) -> None:
    models, client = await asking(f"- fault: {{kind: rate_limit{given}}}", api)
    with pytest.raises(REFUSED) as found:
        await client.ask(User("hi"))
    error: Any = found.value
    assert error.response.headers["retry-after"] == seconds
    if api == "gemini":
        assert error.details["error"]["details"][0]["retryDelay"] == f"{seconds}s"
    assert models.active == 0


async def test_a_bad_key_of_gemini_has_the_reason_that_tells_it_from_other_arguments(asking: Asking) -> None:
    _, client = await asking("- fault: {kind: bad_key}", "gemini")
    _, body = await refused(client.ask(User("hi")))
    assert body["error"]["details"][0]["reason"] == "API_KEY_INVALID"


async def test_a_turn_with_nothing_but_its_fault_is_passed_over_afterwards(asking: Asking, api: str) -> None:
    _, client = await asking("- fault: {kind: server_error}\n- say: one\n- say: two", api)
    assert (await refused(client.ask(User("hi"))))[0] == 500
    assert (await client.ask(User("hi"))).text == "one"
    assert (await client.ask(User("hi"), Model("one"), User("again"))).text == "two"


async def test_a_schema_is_refused_as_long_as_its_tool_is_offered(asking: Asking, api: str) -> None:
    script = "- fault: {kind: schema, tool: bad}\n- say: hello"
    _, client = await asking(script, api)
    for _ in range(3):
        status, body = await refused(client.ask(User("hi"), tools=["a", "b", "bad", "c"]))
        assert status == 400
        where = body["error"].get("param") or body["error"]["message"]
        assert "[2]" in where or "tools.2." in where
    assert (await client.ask(User("hi"), tools=["a", "b", "c"])).text == "hello"


async def test_a_conversation_is_too_long_as_long_as_it_is(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]\n  say: done\n  fault: {kind: overflow, over: 2000}", api)
    called = (await client.ask(User("hi"))).calls
    said = [User("hi"), Model(calls=called)]
    for _ in range(2):
        assert (await refused(client.ask(*said, Results(called, ["x" * 2000]))))[0] == 400
    assert (await client.ask(*said, Results(called, ["x"]))).text == "done"


@BOTH
async def test_a_broken_stream_ends_in_the_middle_of_the_text(asking: Asking, api: str, stream: bool) -> None:
    models, client = await asking("- say: one two three four\n  fault: {kind: broken}", api)
    got = Got()
    with pytest.raises(BROKEN):
        await client.ask(User("hi"), stream=stream, into=got)
    if stream:
        assert got.deltas == ["one ", "two "]
    await idle(models)
    assert (await client.ask(User("hi"), stream=stream)).text == "one two three four"


async def test_a_broken_stream_ends_in_the_middle_of_the_arguments(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today, input: {city: Bern}}]\n  fault: {kind: broken}", api)
    got = Got()
    with pytest.raises(BROKEN):
        await client.ask(User("hi"), into=got)
    assert "".join(got.deltas)
    assert '{"city": "Bern"}'.startswith("".join(got.deltas))
    assert len((await client.ask(User("hi"))).calls) == 1


async def test_a_turn_without_words_breaks_off_with_some(asking: Asking, api: str) -> None:
    _, client = await asking("- fault: {kind: broken}\n- say: hello", api)
    got = Got()
    with pytest.raises(BROKEN):
        await client.ask(User("hi"), into=got)
    assert got.deltas
    assert (await client.ask(User("hi"))).text == "hello"


@BOTH
async def test_a_stalled_stream_is_silent_until_the_client_leaves(asking: Asking, api: str, stream: bool) -> None:
    models, client = await asking("- say: one two three\n  fault: {kind: stall}", api)
    got = Got()
    waiting = asyncio.create_task(client.ask(User("hi"), stream=stream, into=got))
    await idle(models, 1)
    if stream:
        async with asyncio.timeout(20):
            while not got.deltas:
                await asyncio.sleep(0.01)
        assert got.deltas == ["one "]
    waiting.cancel()
    await asyncio.wait([waiting])
    await idle(models)
    assert (await client.ask(User("hi"), stream=stream)).text == "one two three"


@BOTH
async def test_an_empty_answer_is_a_proper_one_without_content(asking: Asking, api: str, stream: bool) -> None:
    _, client = await asking("- say: hello\n  fault: {kind: empty}", api)
    got = await client.ask(User("hi"), stream=stream)
    assert (got.text, got.calls, got.deltas) == ("", [], [])
    assert got.stop in ("end_turn", "completed", "stop", "STOP")
    assert (await client.ask(User("hi"), Model(""), stream=stream)).text == "hello"


@BOTH
async def test_half_of_the_arguments_arrive_and_the_call_is_made_again(asking: Asking, api: str, stream: bool) -> None:
    script = "- call: [{tool: today, input: {city: Bern}}]\n  fault: {kind: half_json}\n- say: 'It is {{result}}.'"
    _, client = await asking(script, api)
    half = await client.ask(User("hi"), stream=stream)
    said: list[Any] = [User("hi")]
    if api == "gemini":
        assert (half.calls, half.text, half.stop) == ([], "", "MALFORMED_FUNCTION_CALL")
    else:
        assert [call.arguments for call in half.calls] == ['{"city":']
        assert half.stop in ("tool_use", "completed", "tool_calls")
        half.calls[0].arguments = {}
        said += [Model(calls=half.calls), Results(half.calls, ["the arguments are no JSON"])]
    whole = await client.ask(*said, stream=stream)
    assert [call.arguments for call in whole.calls] == [{"city": "Bern"}]
    assert {call.id for call in whole.calls}.isdisjoint(call.id for call in half.calls)
    said += [Model(calls=whole.calls), Results(whole.calls, ["sun"])]
    assert (await client.ask(*said, stream=stream)).text == "It is sun."


async def test_the_turn_that_goes_on_may_have_its_own_fault(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]\n- say: done\n  fault: {kind: overloaded}", api)
    called = (await client.ask(User("hi"))).calls
    said = [User("hi"), Model(calls=called), Results(called, ["x"])]
    assert (await refused(client.ask(*said)))[0] in (503, 529)
    assert (await client.ask(*said)).text == "done"


async def test_a_fault_comes_before_the_calls_and_not_again_before_the_words(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]\n  say: done\n  fault: {kind: overloaded, times: 2}", api)
    for _ in range(2):
        await refused(client.ask(User("hi")))
    called = (await client.ask(User("hi"))).calls
    assert (await client.ask(User("hi"), Model(calls=called), Results(called, ["x"]))).text == "done"


async def test_a_fault_waits_for_the_beginning_of_its_turn(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]\n  say: done\n  fault: {kind: overloaded}", api)
    called = [Call("of_another_time", "today", {})]
    assert (await client.ask(User("hi"), Model(calls=called), Results(called, ["x"]))).text == "done"
    await refused(client.ask(User("hi")))


async def test_an_empty_answer_does_not_count_as_the_calls(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]\n  say: done", api)
    assert len((await client.ask(User("hi"), Model(""))).calls) == 1


async def test_words_and_calls_are_one_reply(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: a}]\n- call: [{tool: b}]\n- say: done", api)
    called = [Call("of_another_time", "a", {})]
    got = await client.ask(User("hi"), Model("let me see", called), Results(called, ["x"]))
    assert [call.name for call in got.calls] == ["b"]


async def test_a_delay_comes_once_for_a_turn(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]\n  say: done\n  delay: 3600", api)
    called = [Call("of_another_time", "today", {})]
    got = await asyncio.wait_for(client.ask(User("hi"), Model(calls=called), Results(called, ["x"])), 20)
    assert got.text == "done"


async def test_what_was_answered_already_is_answered_again(asking: Asking, api: str) -> None:
    _, client = await asking("- say: done\n- say: other", api)
    assert (await client.ask(User("hi"), Model("done"))).text == "done"


@pytest.mark.parametrize("kind", FAULT_KINDS)
async def test_the_runtime_has_no_such_faults_and_says_so(kind: str) -> None:
    _, session = await opened(f"- call: [{{tool: t}}]\n  fault: {{kind: {kind}}}")
    listener = Listener()
    with pytest.raises(RuntimeFailureError, match=f"script: turn 1: the fault '{kind}' is one of a model API"):
        await session.run(listener.turn("hi"))
    assert listener.called == []


def test_every_field_of_a_fault_is_read() -> None:
    turns = parse_script(
        "- fault: {kind: rate_limit, times: 3, retry_after: 1.5}\n- fault: {kind: schema, tool: x}\n"
        "- fault: {kind: overflow, over: 100}\n- say: x\n  fault: {kind: stall}"
    ).turns
    assert [turn.fault for turn in turns] == [
        ScriptedFault(kind="rate_limit", times=3, retry_after=1.5),
        ScriptedFault(kind="schema", tool="x"),
        ScriptedFault(kind="overflow", over=100),
        ScriptedFault(kind="stall"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- fault: broken", "s.yaml:1:10: turn 1: fault: a fault is a mapping with some of kind, times, retry_after"),
        ("- fault: {}", "s.yaml:1:10: turn 1: fault.kind: `kind`, which fault it is, is missing; there are overloaded"),
        ("- fault: {kind: brokn}", "s.yaml:1:17: turn 1: fault.kind: 'brokn' is no fault; there are overloaded, rate_"),
        ("- fault: {kind: 5}", "s.yaml:1:17: turn 1: fault.kind: text is needed, not '5'"),
        ("- fault: {knd: broken}", "s.yaml:1:11: turn 1: fault: 'knd' is no field of a fault; there are kind, times"),
        ("- fault: {kind: broken, times: x}", "s.yaml:1:32: turn 1: fault.times: a whole number from 1 to 1,000,000"),
        ("- fault: {kind: broken, times: 0}", "s.yaml:1:32: turn 1: fault.times: a whole number from 1 to 1,000,000"),
        ("- fault: {kind: broken, tool: x}", "s.yaml:1:31: turn 1: fault.tool: only schema has it, not broken"),
        ("- fault: {kind: broken, over: 1}", "s.yaml:1:31: turn 1: fault.over: only overflow has it, not broken"),
        ("- fault: {kind: empty, retry_after: 1}", "turn 1: fault.retry_after: only rate_limit has it, not empty"),
        ("- fault: {kind: rate_limit, retry_after: -1}", "turn 1: fault.retry_after: a number of seconds from 0 to"),
        ("- fault: {kind: overflow, over: 1.5}", "turn 1: fault.over: a number of bytes from 0 to"),
        ("- fault: {kind: schema, tool: x, times: 2}", "turn 1: fault.times: the request decides how often"),
        ("- fault: {kind: overflow, over: 1, times: 2}", "turn 1: fault.times: the request decides how often"),
        ("- fault: {kind: half_json}\n  say: x", "s.yaml:1:3: turn 1: fault: half_json cuts the arguments of a call"),
    ],
)
def test_a_bad_fault_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ScriptError) as refused:
        parse_script(text, source="s.yaml")
    assert said in str(refused.value)
