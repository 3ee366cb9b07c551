from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, ThinkingPart

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
)
from toolstead.errors import ModelError
from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.testing import ScriptedModels, scripted_models
from toolstead.types.content import Audio, Content, EmbeddedResource, Image, ResourceLink, Text

pytestmark = pytest.mark.requires("models")

TALK = """
- when: hello
  say: Hello there, my old friend.
- when: find
  say: "Found: {{result}}"
  call:
    - {tool: look_up, input: {q: one, n: [1, {"x": null}]}}
    - {tool: look_up, input: {q: two}}
- say: Yes.
"""
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def sent(api: ScriptedModels) -> str:
    """The last request as text, with its JSON inside strings made plain."""
    return json.dumps(api.requests[-1].body).replace("\\", "")


async def ended(api: ScriptedModels) -> None:
    """Wait until the server answers nobody any more."""
    async with asyncio.timeout(10):
        while api.active:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", APIS)
async def test_text_comes_in_pieces_and_then_whole(name: str) -> None:
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        pieces, reply = await answer(model, "hello")
    assert reply.text == "Hello there, my old friend."
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == reply.text
    assert {piece.kind for piece in pieces} == {"text"}
    assert reply.calls == ()
    assert not reply.cut
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0
    assert 0 < reply.usage.cost < 0.01
    assert "Be brief." in sent(api)


@pytest.mark.parametrize("name", APIS)
async def test_calls_and_their_results_make_the_round(name: str) -> None:
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        said: list[Message] = [UserMessage(text="find")]
        _, reply = await answer(model, said)
        assert [(call.name, call.input) for call in reply.calls] == [
            ("look_up", {"q": "one", "n": [1, {"x": None}]}),
            ("look_up", {"q": "two"}),
        ]
        assert len({call.id for call in reply.calls}) == 2
        said += [reply, *(ToolAnswer(call=call, content=[Text(f"<{call.input['q']}>")]) for call in reply.calls)]
        _, last = await answer(model, said)
    assert last.text == "Found: <two>"
    for call in reply.calls:
        assert sent(api).count(call.id) >= 2, "the call and its result carry the model's own id"


@pytest.mark.parametrize("name", APIS)
async def test_a_history_that_another_program_kept_goes_out_the_same(name: str) -> None:
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        said: list[Message] = [UserMessage(text="find")]
        _, reply = await answer(model, said)
        results = [ToolAnswer(call=call, content=[Text("x")]) for call in reply.calls]
        await answer(model, [*said, reply, *results])
        kept = api.requests[-1].body
        stored = ModelReply(text=reply.text, calls=reply.calls)
        await answer(model, [*said, stored, *results])
    # Ids of a provider's own and signatures come from the provider alone; everything else is the same.
    assert _plain(api.requests[-1].body) == _plain(kept)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        own = {"thoughtSignature", "status"} | ({"id"} if value.get("type") in {"function_call", "message"} else set())
        return {key: _plain(one) for key, one in value.items() if key not in own}
    return [_plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", APIS)
async def test_an_error_of_a_tool_is_told_as_one(name: str) -> None:
    call = ToolUse(id="call_1", name="look_up", input={})
    said = [
        UserMessage(text="x"),
        ModelReply(text="", calls=(call,)),
        ToolAnswer(call=call, content=[Text("no")], is_error=True),
    ]
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        await answer(model, said)
    marks = {ANTHROPIC: '"is_error": true', GOOGLE: '{"error": "no"}'}
    assert marks.get(name, '{"error":"no"}') in sent(api)


@pytest.mark.parametrize("name", APIS)
async def test_what_the_user_said_while_tools_ran_comes_after_their_results(name: str) -> None:
    call = ToolUse(id="call_1", name="look_up", input={})
    said = [
        UserMessage(text="x"),
        ModelReply(text="", calls=(call,)),
        UserMessage(text="hurry"),
        ToolAnswer(call=call, content=[Text("result")]),
    ]
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        await answer(model, said)
    assert sent(api).index("result") < sent(api).index("hurry")


@pytest.mark.parametrize("name", APIS)
async def test_an_image_is_shown_and_the_rest_is_told_in_words(name: str) -> None:
    call = ToolUse(id="call_1", name="look_up", input={})
    content: list[Content] = [
        Text("before"),
        Image(data=PNG, mime_type="image/png"),
        Image(data=b"II*", mime_type="image/tiff"),
        Audio(data=b"123", mime_type="audio/wav"),
        ResourceLink(uri="file:///a", name="a", description="of all"),
        EmbeddedResource(uri="file:///b", content="inside b"),
        EmbeddedResource(uri="file:///c", content=b"\0\0", mime_type="application/x"),
    ]
    said = [UserMessage(text="x"), ModelReply(text="", calls=(call,)), ToolAnswer(call=call, content=content)]
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        await answer(model, said)
    text = sent(api)
    assert "iVBORw0KGgo" in text
    for words in (
        "before",
        "[an image, image/tiff, 3 bytes: this model cannot look at it]",
        "[a sound, audio/wav, 3 bytes: not shown]",
        "[a link to a: file:///a (of all)]",
        "inside b",
        "[file:///c, application/x, 2 bytes: not shown]",
    ):
        assert words in text


async def test_a_model_that_cannot_see_gets_images_in_words() -> None:
    call = ToolUse(id="call_1", name="look_up", input={})
    said = [
        UserMessage(text="x"),
        ModelReply(text="", calls=(call,)),
        ToolAnswer(call=call, content=[Image(data=PNG, mime_type="image/png")]),
    ]
    async with scripted_models(TALK) as api:
        told = {"DEEPSEEK_API_KEY": "k", "DEEPSEEK_BASE_URL": f"{api.url}/v1"}
        async with connected("deepseek:deepseek-chat", told) as model:
            model._images = frozenset()
            await answer(model, said)
    assert "[an image, image/png, 28 bytes" in sent(api)


@pytest.mark.parametrize("name", [ANTHROPIC, OPENAI, CHAT])
async def test_arguments_that_are_no_json_stay_text_and_can_be_answered(name: str) -> None:
    script = TALK + "- {when: half, call: [{tool: look_up, input: {q: abcdefgh}}], fault: {kind: half_json}}"
    async with scripted_models(script) as api, connected(name, api.environ()) as model:
        said: list[Message] = [UserMessage(text="half")]
        _, reply = await answer(model, said)
        (call,) = reply.calls
        assert call.input is None
        assert call.text.startswith('{"q"')
        said += [reply, ToolAnswer(call=call, content=[Text("that was no JSON")], is_error=True)]
        await answer(model, said)
    assert "that was no JSON" in sent(api)


@pytest.mark.parametrize("name", APIS)
async def test_an_empty_answer_is_a_reply_and_is_not_sent_again(name: str) -> None:
    script = "- {say: x, fault: {kind: empty}}\n- say: now"
    async with scripted_models(script) as api, connected(name, api.environ()) as model:
        said: list[Message] = [UserMessage(text="one")]
        _, reply = await answer(model, said)
        assert (reply.text, reply.calls) == ("", ())
        await answer(model, [*said, reply, UserMessage(text="two")])
    assert "assistant" not in sent(api)
    assert '"role": "model"' not in sent(api)


async def test_a_reply_that_was_only_thought_is_not_sent_again() -> None:
    thought = ThinkingPart(content="Hm.", signature="signed", provider_name="anthropic")
    kept = ModelResponse(parts=[thought], provider_name="anthropic", model_name="claude-sonnet-5-5")
    async with scripted_models(TALK) as api, connected(ANTHROPIC, api.environ()) as model:
        await answer(model, [UserMessage(text="x"), ModelReply(text="", kept=kept), UserMessage(text="hello")])
    assert [message["role"] for message in api.requests[0].body["messages"]] == ["user"]


@pytest.mark.parametrize("name", APIS)
async def test_the_limit_of_a_request_is_sent(name: str) -> None:
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        await answer(model, "hello", max_tokens=1234)
    assert ": 1234" in sent(api)


@pytest.mark.parametrize(
    ("model_name", "limit"),
    [("claude-sonnet-5-5", 128_000), ("claude-haiku-4-5", 64_000), ("claude-next-9", 32_000)],
)
async def test_anthropic_is_told_the_models_own_limit_or_a_sane_one(model_name: str, limit: int) -> None:
    async with scripted_models(TALK) as api, connected(f"anthropic:{model_name}", api.environ()) as model:
        await answer(model, "hello")
    assert api.requests[0].body["max_tokens"] == limit


async def test_anthropic_is_asked_to_cache_tools_instructions_and_the_conversation() -> None:
    async with scripted_models(TALK) as api, connected(ANTHROPIC, api.environ()) as model:
        await answer(model, "hello")
    body = api.requests[0].body
    assert body["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["tools"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["cache_control"]["type"] == "ephemeral"


@pytest.mark.parametrize("name", APIS)
async def test_without_instructions_or_tools_none_are_sent(name: str) -> None:
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        await answer(model, "hello", tools=(), instructions="")
    assert not {"tools", "system", "instructions", "systemInstruction"} & set(api.requests[0].body)


@pytest.mark.parametrize("name", APIS)
async def test_many_requests_run_at_once(name: str) -> None:
    async with scripted_models('- say: "to {{prompt}}"') as api, connected(name, api.environ()) as model:
        replies = await asyncio.gather(*(answer(model, f"number {number}") for number in range(12)))
        assert [reply.text for _, reply in replies] == [f"to number {number}" for number in range(12)]
        await ended(api)


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("fault", ["stall", ""])
async def test_closing_the_iterator_ends_the_request(name: str, fault: str) -> None:
    script = f"- {{say: one two three four, fault: {{kind: {fault}}}}}" if fault else "- {say: one two, hang: 600}"
    async with scripted_models(script) as api, connected(name, api.environ()) as model:
        stream = model.stream_reply(ModelRequest(instructions="", messages=[UserMessage(text="x")], tools=TOOLS))
        assert isinstance(await anext(stream), ModelDelta)
        assert api.active == 1
        await stream.aclose()
        await ended(api)


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("script", ["- {say: one two, hang: 600}", "- {say: one two, delay: 600}"])
async def test_cancelling_ends_the_request(name: str, script: str) -> None:
    async with scripted_models(script) as api, connected(name, api.environ()) as model:
        asking = asyncio.create_task(answer(model, "x"))
        async with asyncio.timeout(10):
            while not api.active:
                await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await ended(api)


async def test_a_model_without_a_price_is_named_once_and_counts_as_free(caplog: pytest.LogCaptureFixture) -> None:
    async with scripted_models(TALK) as api, connected("anthropic:claude-next-9", api.environ()) as model:
        with caplog.at_level(logging.WARNING, logger="toolstead.adapters.providers"):
            replies = [await answer(model, "hello") for _ in range(2)]
    assert [reply.usage.cost for _, reply in replies] == [0, 0]
    assert all(reply.usage.input_tokens for _, reply in replies)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "the price of anthropic:claude-next-9 is not known" in warning


THINKING = events(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 1},
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "signed"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "So"}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "max_tokens", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
    named=True,
)


async def test_thinking_is_a_piece_of_its_own_and_goes_back_signed() -> None:
    async with canned(THINKING) as told, connected(ANTHROPIC, told) as model:
        pieces, reply = await answer(model, "x")
    assert pieces == [ModelDelta("Hm.", "thinking"), ModelDelta("So")]
    assert reply.text == "So"
    assert isinstance(reply.kept, ModelResponse)
    assert any(isinstance(part, ThinkingPart) and part.signature == "signed" for part in reply.kept.parts)
    async with scripted_models(TALK) as api, connected(ANTHROPIC, api.environ()) as model:
        await answer(model, [UserMessage(text="x"), reply, UserMessage(text="hello")])
    assert {"type": "thinking", "thinking": "Hm.", "signature": "signed"} in api.requests[0].body["messages"][1][
        "content"
    ]


async def test_a_reply_at_the_limit_is_cut() -> None:
    async with canned(THINKING) as told, connected(ANTHROPIC, told) as model:
        _, reply = await answer(model, "x")
    assert reply.cut


@pytest.mark.parametrize("name", APIS)
async def test_a_reply_of_one_provider_can_be_sent_to_another(name: str) -> None:
    async with canned(THINKING) as told, connected(ANTHROPIC, told) as model:
        _, reply = await answer(model, "x")
    async with scripted_models(TALK) as api, connected(name, api.environ()) as model:
        _, last = await answer(model, [UserMessage(text="x"), reply, UserMessage(text="hello")])
    assert last.text == "Hello there, my old friend."
    assert ("signed" in sent(api)) is (name == ANTHROPIC)


async def test_after_closing_requests_fail_as_what_they_are() -> None:
    async with scripted_models(TALK) as api:
        async with connected(ANTHROPIC, api.environ()) as model:
            await answer(model, "hello")
        with pytest.raises((ModelError, RuntimeError)):
            await answer(model, "hello")
