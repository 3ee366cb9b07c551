"""Scripted model APIs, asked by the real clients: good answers, conversations, and how the server behaves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.unit.adapters.scripted.api_clients import (
    BOTH,
    REFUSED,
    Asking,
    Model,
    Results,
    User,
    connected,
    idle,
    refusal,
)
from toolstead.adapters.scripted import model_apis
from toolstead.adapters.scripted.script_file import parse_script
from toolstead.errors import ScriptError
from toolstead.testing import scripted_models

pytestmark = pytest.mark.requires("models")

WEATHER = """
- when: weather
  call: [{tool: today, input: {city: Bern}}, {tool: today, input: {city: "Zürich"}}]
- say: "It is {{result}} there."
- say: Good morning to you!
  usage: {inputTokens: 10, outputTokens: 2, cost: 1}
- say: Good evening.
"""


@BOTH
async def test_a_text_is_said_in_pieces_with_its_usage(asking: Asking, api: str, stream: bool) -> None:
    models, client = await asking(WEATHER, api)
    got = await client.ask(User("hello"), stream=stream)
    assert (got.text, got.calls, got.used) == ("Good morning to you!", [], (10, 2))
    assert got.stop in ("end_turn", "completed", "stop", "STOP")
    if stream:
        assert got.deltas == ["Good ", "morning ", "to ", "you!"]
    (request,) = models.requests
    assert (request.number, request.api, request.model) == (1, api, request.body.get("model", "gemini-test"))
    assert "scripted" in (request.headers.get("x-api-key"), request.headers.get("x-goog-api-key")) or (
        request.headers["authorization"] == "Bearer scripted"
    )
    await idle(models)


@BOTH
async def test_a_turn_calls_its_tools_and_answers_with_their_results(asking: Asking, api: str, stream: bool) -> None:
    _, client = await asking(WEATHER, api)
    got = await client.ask(User("the weather?"), stream=stream)
    assert (got.text, got.stop) == ("", got.stop)
    assert got.stop in ("tool_use", "completed", "tool_calls", "STOP")
    assert [(call.name, call.arguments) for call in got.calls] == [
        ("today", {"city": "Bern"}),
        ("today", {"city": "Zürich"}),
    ]
    assert len({call.id for call in got.calls}) == 2
    assert min(got.used) > 0
    if stream:
        assert len(got.deltas) >= (2 if api == "gemini" else 4)
    then = await client.ask(
        User("the weather?"), Model(calls=got.calls), Results(got.calls, ["rain", "sun"]), stream=stream
    )
    assert (then.text, then.calls) == ("It is sun there.", [])


async def test_every_user_text_is_answered_in_its_place(asking: Asking, api: str) -> None:
    _, client = await asking(WEATHER, api)
    said: list[Any] = [User("one")]
    for user, answer in [("two", "Good morning to you!"), ("three", "Good evening."), ("", "Good evening.")]:
        assert (await client.ask(*said)).text == answer
        said += [Model(answer), User(user)]


async def test_the_same_request_gets_the_same_answer(asking: Asking, api: str) -> None:
    _, client = await asking(WEATHER, api)
    said = [User("one"), Model("Good morning to you!"), User("two")]
    assert [(await client.ask(*said)).text for _ in range(3)] == ["Good evening."] * 3


async def test_a_message_between_results_and_reply_is_answered_by_itself(asking: Asking, api: str) -> None:
    _, client = await asking("- when: go\n  call: [{tool: today}]\n- say: done\n- say: 'no: {{prompt}}'", api)
    called = (await client.ask(User("go"))).calls
    got = await client.ask(User("go"), Model(calls=called), Results(called, ["x"]), User("stop"))
    assert got.text == "no: stop"


async def test_call_after_call_is_played_to_the_end(asking: Asking, api: str) -> None:
    script = "- call: [{tool: a}]\n- call: [{tool: b}]\n  say: '{{result}} of {{prompt}}'"
    _, client = await asking(script, api)
    said: list[Any] = [User("go")]
    names = []
    while (got := await client.ask(*said, tools=["a", "b"])).calls:
        names += [call.name for call in got.calls]
        said += [Model(calls=got.calls), Results(got.calls, [f"result {len(names)}"])]
    assert (names, got.text) == (["a", "b"], "result 2 of go")


async def test_without_a_turn_that_goes_on_the_last_result_is_the_answer(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]", api)
    called = (await client.ask(User("go"))).calls
    assert (await client.ask(User("go"), Model(calls=called), Results(called, ["it rains"]))).text == "it rains"


async def test_usage_is_told_once_for_a_turn(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}]\n  say: done\n  usage: {inputTokens: 7, outputTokens: 3}", api)
    first = await client.ask(User("go"))
    then = await client.ask(User("go"), Model(calls=first.calls), Results(first.calls, ["x"]))
    assert (first.used, then.used) == ((0, 0), (7, 3))


async def test_a_tool_is_found_behind_the_prefix_a_client_gave_it(asking: Asking, api: str) -> None:
    _, client = await asking("- call: [{tool: today}, {tool: other}]", api)
    got = await client.ask(User("go"), tools=["mcp__stead__today", "mcp__a__other", "mcp__b__other"])
    assert [call.name for call in got.calls] == ["mcp__stead__today", "other"]


async def test_conversations_at_once_do_not_touch_each_other(asking: Asking, api: str) -> None:
    models, client = await asking(WEATHER, api)

    async def talk(number: int) -> list[str]:
        said: list[Any] = [User(f"hello {number}")]
        answers = []
        for _ in range(3):
            answers.append((await client.ask(*said)).text)
            said += [Model(answers[-1]), User("and then?")]
        return answers

    talks = await asyncio.gather(*(talk(number) for number in range(8)))
    assert talks == [["Good morning to you!", "Good evening.", "Good evening."]] * 8
    assert len(models.requests) == 24
    await idle(models)


async def test_what_no_turn_answers_is_refused_with_the_runtimes_own_words(asking: Asking, api: str) -> None:
    _, client = await asking("- when: abc\n  say: x", api)
    with pytest.raises(REFUSED) as refused:
        await client.ask(User("xyz"))
    status, body = refusal(refused.value)
    assert status == 400
    assert "script: no turn answers 'xyz'; add one whose `when` is found in it" in body["error"]["message"]


async def test_fail_is_a_refusal_with_that_text(asking: Asking, api: str) -> None:
    _, client = await asking("- fail: out of order", api)
    with pytest.raises(REFUSED) as refused:
        await client.ask(User("hi"))
    status, body = refusal(refused.value)
    assert (status, body["error"]["message"]) == (400, "out of order")


@BOTH
@pytest.mark.parametrize("field", ["hang", "delay"])
async def test_silence_ends_at_once_when_the_client_leaves(asking: Asking, api: str, field: str, stream: bool) -> None:
    models, client = await asking(f"- say: hello\n  {field}: 3600", api)
    waiting = asyncio.create_task(client.ask(User("hi"), stream=stream))
    await idle(models, 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await idle(models)


async def test_silence_has_an_end(asking: Asking, api: str) -> None:
    _, client = await asking("- say: hello\n  hang: 0.01\n  delay: 0.01", api)
    assert (await client.ask(User("hi"))).text == "hello"


async def test_the_server_ends_with_its_block_whatever_is_under_way(api: str) -> None:
    async with AsyncExitStack() as clients:
        async with scripted_models("- say: hello\n  hang: 3600") as models:
            client = await clients.enter_async_context(connected(api, models))
            waiting = asyncio.create_task(client.ask(User("hi")))
            await idle(models, 1)
        assert models.active == 0
        with pytest.raises((httpx2.TransportError, openai.APIConnectionError, anthropic.APIConnectionError)):
            await waiting
        with pytest.raises((httpx2.TransportError, openai.APIConnectionError, anthropic.APIConnectionError)):
            await client.ask(User("hi"))


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/messages", ("type", "invalid_request_error")),
        ("/v1/messages/count_tokens", ("type", "invalid_request_error")),
        ("/v1/responses", ("type", "invalid_request_error")),
        ("/v1/chat/completions", ("type", "invalid_request_error")),
        ("/v1beta/models/m:generateContent", ("status", "INVALID_ARGUMENT")),
        ("/v1beta/models/m:streamGenerateContent", ("status", "INVALID_ARGUMENT")),
    ],
)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the body is no JSON"),
        (b"{", "the body is no JSON"),
        (b"\xff", "the body is no JSON"),
        (b"[" * 200_000, "the body is no JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "must be a JSON object with something in it"),
        (b'{"a": 1}', "a list with at least one object is required"),
        (b'{"messages": 1, "input": 1, "contents": 1}', "a list with at least one object is required"),
        (b'{"messages": [], "input": [], "contents": []}', "a list with at least one object is required"),
        (b'{"messages": [1], "input": [1], "contents": [1]}', ".0: an object is required"),
        (b'{"messages": [{}], "input": [{"type": "x"}], "contents": [{"role": "model"}]}', "no user text"),
        (
            b'{"messages": [{"role": []}], "input": [{"role": {}}], "contents": [{"role": "model", "parts": 1}]}',
            "no user",
        ),
    ],
)
async def test_a_malformed_body_is_refused(path: str, shape: tuple[str, str], content: bytes, said: str) -> None:
    async with scripted_models("- say: x") as models, httpx2.AsyncClient(base_url=models.url) as client:
        answer = await client.post(path, content=content)
        if path.endswith("count_tokens") and content.startswith(b'{"'):
            assert answer.json()["input_tokens"] >= 1
            return
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error[shape[0]] == shape[1]
        assert said in error["message"]
        assert len(models.requests) == 1


async def test_odd_parts_of_a_body_are_passed_over() -> None:
    odd: dict[str, Any] = {
        "messages": [{"role": "user", "content": [1, {"type": "text"}, {"text": 5}, {"text": "hi \ud800"}]}],
        "tools": [1, {"name": 5}, {"function": 3}],
    }
    script = "- say: 'you said {{prompt}}'"
    async with scripted_models(script) as models, httpx2.AsyncClient(base_url=models.url) as client:
        for path in ("/v1/messages", "/v1/chat/completions"):
            answer = await client.post(path, content=json.dumps(odd).encode())
            assert answer.status_code == 200
            assert "you said hi ?" in answer.text


async def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_apis, "LARGEST", 1_000)
    async with scripted_models("- say: x") as models, httpx2.AsyncClient(base_url=models.url) as client:
        for path, kind in [("/v1/messages", "request_too_large"), ("/v1/responses", "invalid_request_error")]:
            answer = await client.post(path, content=b" " * 2_000_000)
            assert (answer.status_code, answer.json()["error"]["type"]) == (413, kind)
        assert "1,000 bytes" in answer.json()["error"]["message"]
        assert models.requests == []


async def test_a_client_that_leaves_before_its_request_is_whole_asked_nothing() -> None:
    async with scripted_models("- say: x") as models:
        _, writer = await asyncio.open_connection("127.0.0.1", int(models.url.rpartition(":")[2]))
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        await idle(models, 1)
        writer.close()
        await writer.wait_closed()
        await idle(models)
        assert models.requests == []


async def test_a_body_that_is_packed_is_refused() -> None:
    async with scripted_models("- say: x") as models, httpx2.AsyncClient(base_url=models.url) as client:
        answer = await client.post("/v1/messages", content=b"x", headers={"content-encoding": "gzip"})
        assert "'gzip' is not understood" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "place", "value"),
    [
        ("/v1/message", "type", "invalid_request_error"),
        ("/v1/messages/batches", "type", "not_found_error"),
        ("/v1beta/models/m:embedContent", "status", "NOT_FOUND"),
    ],
)
async def test_an_unknown_path_is_told_what_is_served(path: str, place: str, value: str) -> None:
    async with scripted_models("- say: x") as models, httpx2.AsyncClient(base_url=models.url) as client:
        answer = await client.post(path, json={})
        assert (answer.status_code, answer.json()["error"][place]) == (404, value)
        assert f"POST {path} is not served" in answer.json()["error"]["message"]
        assert "/v1/chat/completions" in answer.json()["error"]["message"]


async def test_models_and_tokens_are_told() -> None:
    async with scripted_models("- say: x") as models, httpx2.AsyncClient(base_url=models.url) as client:
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "scripted"
        version = {"anthropic-version": "2023-06-01"}
        assert (await client.get("/v1/models", headers=version)).json()["data"][0]["type"] == "model"
        assert (await client.get("/v1beta/models")).json()["models"][0]["name"] == "models/scripted"
        posted = {"messages": [{"role": "user", "content": "hello"}]}
        assert (await client.post("/v1/messages/count_tokens", json=posted)).json()["input_tokens"] > 5
        assert (await client.post("/v1beta/models/m:countTokens", json=posted)).json()["totalTokens"] > 5


async def test_only_the_last_requests_are_kept() -> None:
    async with scripted_models("- say: x", kept=3) as models, httpx2.AsyncClient(base_url=models.url) as client:
        for _ in range(5):
            await client.post("/v1/messages", json={"messages": [{"role": "user", "content": "hello"}]})
        assert [request.number for request in models.requests] == [3, 4, 5]


async def test_what_agents_put_beside_the_words_of_a_person_is_not_answered() -> None:
    script = "- say: 'first: {{prompt}}'\n- say: 'second: {{prompt}}'"
    async with scripted_models(script) as models, httpx2.AsyncClient(base_url=models.url) as client:
        reminder = {"type": "text", "text": "<system-reminder>\nhush\n</system-reminder>"}
        content = [reminder, {"type": "text", "text": "hello"}, {"type": "text", "text": "you"}, reminder]
        messages = [{"role": "user", "content": content}, {"role": "system", "content": "nothing"}]
        answer = await client.post("/v1/messages", json={"messages": messages})
        assert answer.json()["content"][0]["text"] == "first: hello\nyou"
        given = [
            {"role": "user", "content": [{"text": "<environment_context>\nx\n</environment_context>"}]},
            {"role": "user", "content": [{"text": "# AGENTS.md instructions for here\n\nbe kind"}]},
            {"role": "user", "content": [{"text": "hello"}]},
        ]
        answer = await client.post("/v1/responses", json={"input": given})
        assert answer.json()["output"][0]["content"][0]["text"] == "first: hello"


async def test_calls_told_one_by_one_with_their_results_are_one_reply() -> None:
    script = "- call: [{tool: a}, {tool: b}]\n- call: [{tool: c}]\n- say: done"
    async with scripted_models(script) as models, httpx2.AsyncClient(base_url=models.url) as client:
        given: list[Any] = [{"role": "user", "content": "go"}]
        first = await client.post("/v1/responses", json={"input": given})
        for call in first.json()["output"]:
            given += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": "x"}]
        (then,) = (await client.post("/v1/responses", json={"input": given})).json()["output"]
        assert (len(given), then["name"]) == (5, "c")


async def test_a_tool_in_a_namespace_is_called_there() -> None:
    async with (
        scripted_models(
            "- call: [{tool: mcp__stead__today}, {tool: today}, {tool: patch, input: {input: x y}}]"
        ) as models,
        openai.AsyncOpenAI(base_url=f"{models.url}/v1", api_key="k", max_retries=0) as client,
    ):
        inner = {"type": "function", "name": "today", "parameters": {}}
        tools: list[Any] = [
            {"type": "namespace", "name": "mcp__stead", "tools": [inner]},
            {"type": "custom", "name": "patch"},
        ]
        async with client.responses.stream(model="m", input="go", tools=tools) as stream:
            kinds = [event.type async for event in stream]
            one, two, three = (await stream.get_final_response()).output
        assert (one.name, one.namespace) == (two.name, two.namespace) == ("today", "mcp__stead")
        assert (three.type, three.name, three.input) == ("custom_tool_call", "patch", "x y")
        assert "response.custom_tool_call_input.delta" in kinds


async def test_tools_that_stand_among_the_messages_are_offered_too() -> None:
    tools = [
        {"type": "namespace", "name": "mcp__stead", "tools": [{"type": "function", "name": "today", "parameters": {}}]},
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "patch"}]},
    ]
    given = [
        {"type": "additional_tools", "role": "developer", "tools": tools},
        {"type": "message", "role": "user", "content": "go"},
    ]
    async with (
        scripted_models("- call: [{tool: today}, {tool: patch, input: {input: x y}}]") as models,
        httpx2.AsyncClient(base_url=models.url) as client,
    ):
        one, two = (await client.post("/v1/responses", json={"model": "m", "input": given})).json()["output"]
        assert (one["name"], one["namespace"], one["type"]) == ("today", "mcp__stead", "function_call")
        assert (two["name"], two["namespace"], two["type"]) == ("patch", "functions", "custom_tool_call")
        assert two["input"] == "x y"


async def test_nothing_is_stored_for_a_later_request(asking: Asking) -> None:
    models, _ = await asking("- say: x", "openai")
    async with httpx2.AsyncClient(base_url=models.url) as client:
        answer = await client.post("/v1/responses", json={"input": "hi", "previous_response_id": "resp_1"})
        assert answer.status_code == 400
        assert "send the whole conversation" in answer.json()["error"]["message"]


async def test_lose_and_rotate_mean_nothing_here(asking: Asking, api: str) -> None:
    _, client = await asking("- lose: true\n- say: hello\n  lose: 3\n  rotate: true", api)
    assert (await client.ask(User("hi"))).text == "hello"


async def test_a_script_may_be_given_parsed_and_a_bad_one_is_refused() -> None:
    async with scripted_models(parse_script("- say: x")) as models:
        assert models.url.startswith("http://127.0.0.1:")
    with pytest.raises(ScriptError):
        async with scripted_models("nonsense"):
            pass


def test_importing_the_doubles_does_not_import_a_server() -> None:
    program = "import sys, toolstead.adapters.scripted.model_apis; print('uvicorn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "False\n"
