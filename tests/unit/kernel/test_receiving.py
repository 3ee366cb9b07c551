"""What a hostile or silly API may send, and what becomes of it."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec
import pytest

from tests.unit.kernel.scripted_model import Bench, ScriptedModel, broken, calls, check_whole, echo, failing, says, use
from tests.virtual_time import run_virtually
from toolstead.errors import ModelError
from toolstead.kernel.activation import Limits
from toolstead.kernel.conversation import ModelReply, ToolUse, UserMessage
from toolstead.kernel.loop import converse
from toolstead.kernel.model import ModelDelta, ModelRequest
from toolstead.kernel.receiving import DEEPEST, clean_reply
from toolstead.types.content import whole_text
from toolstead.types.run import Usage

SMALL = Limits(reply=1000, calls=10)


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def _encodable(bench: Bench) -> None:
    """Everything that would be sent with the next request can be: no half characters, nothing too deep."""
    for message in bench.conversation.messages:
        msgspec.json.encode(message)


async def _rejected(bench: Bench) -> str:
    bench.hear()
    with pytest.raises(ModelError) as caught:
        await converse(bench.conversation, bench.activation)
    assert caught.value.fault == "rejected"
    assert bench.conversation.messages == [UserMessage(text="go")]
    assert not bench.called
    assert bench.model.open == 0
    return str(caught.value)


def test_a_good_reply_stays_the_same_object() -> None:
    for reply in (
        ModelReply(text="Hello."),
        ModelReply(text="Grüezi 😀", kept="signed"),
        ModelReply(
            text="",
            calls=(use("echo", id="a", n=[1, {"b": "ä", "c": None}]), broken("echo", "{", id="b")),
            kept="signed",
        ),
    ):
        assert clean_reply(reply, Limits(), model="m") is reply


async def test_a_million_calls_are_refused_and_none_is_made() -> None:
    reply = ModelReply(text="", calls=(use("echo"),) * 1_000_000)
    assert await _rejected(Bench(ScriptedModel([reply]))) == (
        "scripted:one made 1,000,000 calls at once; at most 256 are allowed, so none was run"
    )


async def test_as_many_calls_as_are_allowed_are_made() -> None:
    bench = Bench(ScriptedModel(calls(*(use("echo", id=f"c{n}") for n in range(10))), says("Done.")), limits=SMALL)
    await converse(bench.hear().conversation, bench.activation)
    assert len(bench.called) == 10


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(text="x" * 1001),
        ModelReply(text="ä" * 1001),
        ModelReply(text="", calls=(use("echo", text="x" * 1000),)),
        ModelReply(text="", calls=(broken("echo", "x" * 1000),)),
        ModelReply(text="", calls=(use("echo", text="\ud800" + "x" * 1000),)),
        ModelReply(text="", calls=(use("n" * 1001),)),
        ModelReply(text="", calls=tuple(use("echo", id=f"c{n}", text="x" * 300) for n in range(4))),
    ],
)
async def test_a_reply_of_any_size_is_refused(reply: ModelReply) -> None:
    assert "more than 1,000 characters" in await _rejected(Bench(ScriptedModel([reply]), limits=SMALL))


@pytest.mark.parametrize("piece", [ModelDelta("xy"), ModelDelta(""), ModelDelta("hm", "thinking")])
async def test_an_answer_without_end_is_ended(piece: ModelDelta) -> None:
    class Endless(ScriptedModel):
        async def stream_reply(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
            self.open += 1
            try:
                for _ in itertools.count():
                    yield piece
            finally:
                self.open -= 1

    bench = Bench(Endless(), limits=SMALL)
    assert "scripted:one sent more than" in await _rejected(bench)
    assert len(bench.told) <= 1000


def test_the_usual_bounds_leave_room_for_any_real_answer() -> None:
    assert Limits().reply >= 4_000_000
    assert Limits().calls >= 128


@pytest.mark.parametrize(
    "text", ["half \ud800", "\udfff half", "a\ud83d\ude00b"], ids=["high", "low", "a pair in two halves"]
)
async def test_half_characters_are_made_whole(text: str) -> None:
    bench = Bench(
        ScriptedModel([ModelDelta(text), ModelDelta(text, "thinking"), ModelReply(text=text, kept="has the same")])
    ).hear()
    conclusion = await converse(bench.conversation, bench.activation)
    assert conclusion.text == whole_text(text)
    assert {data["text"] for _, data in bench.told} == {whole_text(text)}
    assert bench.conversation.messages[-1] == ModelReply(text=whole_text(text))
    _encodable(bench)


def test_halves_are_joined_and_what_stands_alone_is_marked() -> None:
    assert whole_text("a\ud83d\ude00b") == "a😀b"
    assert whole_text("a\ud83db") == "a\ufffdb"
    text = "ä😀"
    assert whole_text(text) is text


@pytest.mark.parametrize("text", ["", " \n"])
async def test_a_call_without_any_arguments_is_one_with_none(text: str) -> None:
    bench = Bench(ScriptedModel(calls(broken("echo", text)), says("Done."))).hear()
    await converse(bench.conversation, bench.activation)
    assert bench.called == [("echo", {}, "c1")]


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_message_says_that_it_is_one(text: str) -> None:
    bench = Bench(ScriptedModel(says("Yes?"))).hear(text)
    await converse(bench.conversation, bench.activation)
    assert bench.model.requests[0].messages == [UserMessage(text="[an empty message]")]


async def test_what_the_user_says_is_made_whole_too() -> None:
    bench = Bench(ScriptedModel(says("Hello."))).hear("a\ud800")
    await converse(bench.conversation, bench.activation)
    assert bench.model.requests[0].messages == [UserMessage(text="a\ufffd")]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (use("echo", text="\ud800"), "the arguments of 'echo' are no JSON"),
        (use("echo", **{"\ud800": 1}), "the arguments of 'echo' are no JSON"),
        (use("echo", **_nested(100_000)), "nested too deeply"),
        (use("echo", **_nested(700)), "nested too deeply"),
        (use("echo", n=math.nan), "the arguments of 'echo' are no JSON"),
        (use("echo", n=[{"a": -math.inf}]), "the arguments of 'echo' are no JSON"),
        (use("echo", text=object()), "the arguments of 'echo' must be one JSON object"),
        (broken("echo", '{"a": "\ud800'), "the arguments of 'echo' are no JSON"),
        (broken("echo", '{"a":' * 100_000), "the arguments of 'echo' are no JSON"),
        (use("ec\ud800ho"), "there is no tool 'ec_ho_'; did you mean 'echo'?"),
        (use("ec ho"), "there is no tool 'ec_ho_'; did you mean 'echo'?"),
        (use("echo\n"), "there is no tool 'echo__'; did you mean 'echo'?"),
        (use(""), "there is no tool '_'"),
        (use("e" * 1_000_000), "there is no tool 'eee"),
    ],
    ids=itertools.count(),
)
async def test_calls_that_no_api_would_take_back_are_answered_and_never_kept(call: ToolUse, words: str) -> None:
    good = use("echo", id="good")
    reply = ModelReply(text="", calls=(call, good), kept="has the same")
    bench = Bench(ScriptedModel([reply], says("Done."))).hear()
    assert (await converse(bench.conversation, bench.activation)).text == "Done."
    assert words in bench.texts()[0]
    assert len(bench.texts()[0]) < 10_000
    assert [called[2] for called in bench.called] == ["good"]
    kept = bench.conversation.messages[1]
    assert isinstance(kept, ModelReply)
    assert len(kept.calls[0].name) <= 128
    check_whole(bench.conversation.messages)
    _encodable(bench)


@pytest.mark.parametrize("depth", [98, 99, 100, 101, 300, 500, 700, 800, 900, 950, 990, 1500])
async def test_arguments_of_any_depth_that_fail_crash_nothing(depth: int) -> None:
    """What one reader can just read, the next one, called from further down, cannot: so the bound is far from that."""
    bench = Bench(ScriptedModel(calls(use("fail", **_nested(depth))), says("Done.")), tools={"fail": failing}).hear()
    assert (await converse(bench.conversation, bench.activation)).text == "Done."
    assert bench.answers[0].is_error
    assert bool(bench.called) == (depth < DEEPEST)
    _encodable(bench)


async def test_broad_arguments_are_not_deep() -> None:
    wanted = use("echo", rows=[{"a": [1]}] * 500)
    bench = Bench(ScriptedModel(calls(wanted), says("Done."))).hear()
    await converse(bench.conversation, bench.activation)
    assert len(bench.called) == 1


async def test_a_refused_reply_is_paid() -> None:
    used = Usage(input_tokens=5, output_tokens=7)
    bench = Bench(ScriptedModel([ModelReply(text="x" * 1001, usage=used)]), limits=SMALL)
    await _rejected(bench)
    assert bench.of("usage") == [used.to_json()]


@pytest.mark.parametrize("ids", [["", ""], ["same", "same"], ["x" * 1_000_000, "y"], ["\ud800", "a\nb"], ["ä", "b"]])
async def test_ids_that_cannot_be_told_apart_are_replaced(ids: list[str]) -> None:
    wanted = tuple(use("echo", id=one, n=n) for n, one in enumerate(ids))
    bench = Bench(ScriptedModel([ModelReply(text="", calls=wanted, kept="has the same")], says("Done."))).hear()
    await converse(bench.conversation, bench.activation)
    check_whole(bench.conversation.messages)
    replied = bench.conversation.messages[1]
    assert isinstance(replied, ModelReply)
    assert replied.kept is None
    used = [called[2] for called in bench.called]
    assert used == [call.id for call in replied.calls]
    assert len(set(used)) == 2
    assert all(one and len(one) <= 256 and one.isascii() and one.isprintable() for one in used)
    assert [dict(given) for _, given, _ in bench.called] == [{"n": 0}, {"n": 1}]


async def test_usage_that_is_nonsense_is_told_and_counted_as_nothing() -> None:
    nonsense = Usage(input_tokens=-5, output_tokens=3, cost=math.nan)
    bench = Bench(ScriptedModel(says("Hello.", usage=nonsense))).hear()
    conclusion = await converse(bench.conversation, bench.activation)
    assert bench.of("usage") == [{"inputTokens": 0, "outputTokens": 3, "cost": 0.0}]
    assert conclusion.usage == Usage(output_tokens=3)


def test_a_flood_of_reading_calls_never_runs_more_than_the_limit_at_once() -> None:
    async def main() -> None:
        running = most = 0

        async def read(input: Mapping[str, Any]) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1
            return await echo(input)

        wanted = [use("read", id=f"c{n}") for n in range(256)]
        tools = {"read": read}
        bench = Bench(ScriptedModel(calls(*wanted), says("Done.")), tools=tools, reads=frozenset(tools)).hear()
        await converse(bench.conversation, bench.activation)
        assert (most, len(bench.called)) == (16, 256)

    run_virtually(main())
