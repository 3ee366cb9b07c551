"""The loop: what is asked, what is told, what is kept, and where it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.kernel.scripted_model import (
    Bench,
    Hang,
    ScriptedModel,
    calls,
    check_whole,
    echo,
    failing,
    hanging,
    info,
    says,
    use,
)
from tests.virtual_time import run_virtually
from toolstead.errors import LimitError
from toolstead.kernel.activation import Limits
from toolstead.kernel.conversation import ModelReply, ToolAnswer, UserMessage
from toolstead.kernel.loop import CUT, converse
from toolstead.kernel.model import ModelDelta
from toolstead.types.result import ToolResult
from toolstead.types.run import Usage

USED = Usage(input_tokens=10, output_tokens=4, cost=0.25)


async def test_a_text_is_the_answer() -> None:
    bench = Bench(ScriptedModel(says("Hello."))).hear("hi")
    conclusion = await converse(bench.conversation, bench.activation)
    assert conclusion.text == "Hello."
    assert bench.conversation.messages == [UserMessage(text="hi"), ModelReply(text="Hello.")]
    (request,) = bench.model.requests
    assert request.instructions == "Be brief."
    assert request.messages == [UserMessage(text="hi")]
    assert request.tools is bench.offered
    assert request.max_tokens is None


async def test_a_call_is_made_and_its_answer_is_in_the_next_request() -> None:
    wanted = use("echo", id="toolu_7", n=1)
    bench = Bench(ScriptedModel(calls(wanted, text="Let me see."), says("Done."))).hear()
    assert (await converse(bench.conversation, bench.activation)).text == "Done."
    assert bench.called == [("echo", {"n": 1}, "toolu_7")]
    said, replied, answered = bench.model.requests[1].messages
    assert said == UserMessage(text="go")
    assert replied == ModelReply(text="Let me see.", calls=(wanted,))
    assert isinstance(answered, ToolAnswer)
    assert (answered.call, answered.is_error, bench.texts()) == (wanted, False, ["echo {'n': 1}"])


async def test_every_request_has_the_whole_history_and_the_same_tools() -> None:
    plays = [calls(use("echo", id=f"c{n}", n=n)) for n in range(2)]
    bench = Bench(ScriptedModel(*plays, says("Done."))).hear()
    await converse(bench.conversation, bench.activation)
    assert [len(request.messages) for request in bench.model.requests] == [1, 3, 5]
    assert all(request.tools is bench.offered for request in bench.model.requests)
    assert {request.instructions for request in bench.model.requests} == {"Be brief."}
    for earlier, later in zip(bench.model.requests, bench.model.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
    check_whole(bench.conversation.messages)


async def test_pieces_are_told_in_order_with_their_kind() -> None:
    steps = [ModelDelta("Hm", "thinking"), ModelDelta("He"), ModelDelta("llo"), ModelReply(text="Hello")]
    bench = Bench(ScriptedModel(steps)).hear()
    await converse(bench.conversation, bench.activation)
    assert bench.told == [
        ("thinking", {"text": "Hm"}),
        ("message.delta", {"text": "He"}),
        ("message.delta", {"text": "llo"}),
    ]


async def test_what_was_used_is_told_and_summed() -> None:
    bench = Bench(ScriptedModel(calls(use("echo"), usage=USED), says("Done.", usage=USED))).hear()
    conclusion = await converse(bench.conversation, bench.activation)
    assert bench.of("usage") == [{"inputTokens": 10, "outputTokens": 4, "cost": 0.25}] * 2
    assert conclusion.usage == Usage(input_tokens=20, output_tokens=8, cost=0.5)


async def test_an_answer_that_was_cut_says_so() -> None:
    bench = Bench(ScriptedModel(says("And then", cut=True))).hear()
    assert (await converse(bench.conversation, bench.activation)).text == f"And then\n{CUT}"
    assert bench.conversation.messages[-1] == ModelReply(text="And then", cut=True)


@pytest.mark.parametrize(
    ("limits", "limit", "words", "requests"),
    [
        (Limits(turns=3), "turns", ["3 turns", "runtime.kernel.max_turns"], 3),
        (Limits(tokens=28), "tokens", ["20 tokens in", "8 out", "limits.token_budget is 28", "turn 3"], 2),
        (Limits(cost=0.5), "cost", ["$0.5000", "limits.cost_budget is $0.50", "turn 3"], 2),
    ],
)
async def test_a_limit_stops_it_says_which_and_the_conversation_goes_on(
    limits: Limits, limit: str, words: list[str], requests: int
) -> None:
    bench = Bench(ScriptedModel(calls(use("echo"), usage=USED)), limits=limits).hear()
    with pytest.raises(LimitError) as caught:
        await converse(bench.conversation, bench.activation)
    assert caught.value.limit == limit
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert len(bench.model.requests) == requests
    check_whole(bench.conversation.messages)
    bench.model.plays = [says("Done.")]
    bench.hear("go on")
    assert (await converse(bench.conversation, bench.activation)).text == "Done."
    assert bench.model.requests[-1].messages[-1] == UserMessage(text="go on")
    check_whole(bench.conversation.messages)


async def test_near_the_end_of_the_budget_the_model_is_told_how_much_it_may_say() -> None:
    used = Usage(input_tokens=900, output_tokens=50)
    plays = [calls(use("echo"), usage=used), says("Done.")]
    bench = Bench(ScriptedModel(*plays), limits=Limits(tokens=32_000)).hear()
    await converse(bench.conversation, bench.activation)
    assert [request.max_tokens for request in bench.model.requests] == [None, 32_000 - 950]


def test_an_interrupt_keeps_what_was_said_and_the_next_turn_works() -> None:
    async def main() -> None:
        bench = Bench(ScriptedModel([ModelDelta("I thi"), ModelDelta("nk"), Hang()], says("Sure."))).hear()
        task = asyncio.create_task(converse(bench.conversation, bench.activation))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.conversation.messages == [UserMessage(text="go"), ModelReply(text="I think")]
        assert bench.model.open == 0
        assert bench.model.ends == ["CancelledError"]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        bench.hear("well?")
        assert (await converse(bench.conversation, bench.activation)).text == "Sure."

    run_virtually(main())


@pytest.mark.parametrize("steps", [[Hang()], [ModelDelta(" \n"), Hang()], [ModelDelta("Hm", "thinking"), Hang()]])
def test_an_interrupt_before_anything_was_said_leaves_nothing(steps: list[Any]) -> None:
    async def main() -> None:
        bench = Bench(ScriptedModel(steps)).hear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(converse(bench.conversation, bench.activation), 1)
        assert bench.conversation.messages == [UserMessage(text="go")]  # no API takes a reply without words
        assert bench.model.open == 0

    run_virtually(main())


def test_an_interrupt_while_the_request_is_being_closed_keeps_what_was_said() -> None:
    class Slow(ScriptedModel):
        async def stream_reply(self, request: Any) -> Any:
            try:
                async for piece in super().stream_reply(request):
                    yield piece
            finally:
                await asyncio.sleep(10)

    async def main() -> None:
        bench = Bench(Slow(says("Hello."))).hear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(converse(bench.conversation, bench.activation), 1)
        assert bench.conversation.messages == [UserMessage(text="go"), ModelReply(text="Hello.")]

    run_virtually(main())


def test_a_request_that_cannot_be_closed_costs_no_answer() -> None:
    class Stuck(ScriptedModel):
        async def stream_reply(self, request: Any) -> Any:
            try:
                async for piece in super().stream_reply(request):
                    yield piece
            finally:
                await asyncio.sleep(1e9)

    async def main() -> None:
        bench = Bench(Stuck(says("Hello.")), limits=Limits(stall=30)).hear()
        assert (await converse(bench.conversation, bench.activation)).text == "Hello."
        assert asyncio.get_running_loop().time() == 30

    run_virtually(main())


async def test_the_request_is_closed_when_the_reply_is_there() -> None:
    bench = Bench(ScriptedModel([*says("Hello."), ModelDelta("never read")])).hear()
    await converse(bench.conversation, bench.activation)
    assert bench.model.ends == ["GeneratorExit"]
    assert bench.model.open == 0


def test_what_was_made_in_an_earlier_reply_says_nothing_about_this_one() -> None:
    async def main() -> None:
        plays = [calls(use("echo", id="a"), use("echo", id="b")), calls(use("hang", id="c"), use("echo", id="d"))]
        bench = Bench(ScriptedModel(*plays), tools={"echo": echo, "hang": hanging}).hear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(converse(bench.conversation, bench.activation), 1)
        assert "what it had done by then is not known" in bench.texts()[2]
        assert "was not made" in bench.texts()[3]

    run_virtually(main())


def test_an_interrupt_while_calling_keeps_the_answers_that_are_there() -> None:
    async def main() -> None:
        wanted = [use("echo", id="a"), use("hang", id="b"), use("echo", id="c")]
        bench = Bench(ScriptedModel(calls(*wanted), says("Fine.")), tools={"echo": echo, "hang": hanging}).hear()
        task = asyncio.create_task(converse(bench.conversation, bench.activation))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        first, second, third = bench.texts()
        assert first == "echo {}"
        assert "what it had done by then is not known" in second
        assert "was not made" in third
        assert [answer.is_error for answer in bench.answers] == [False, True, True]
        assert [name for name, *_ in bench.called] == ["echo", "hang"]
        check_whole(bench.conversation.messages)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        bench.hear("and?")
        assert (await converse(bench.conversation, bench.activation)).text == "Fine."

    run_virtually(main())


async def test_what_the_user_says_during_the_last_answer_is_answered() -> None:
    bench = Bench(ScriptedModel()).hear()
    steer = bench.conversation.steered.append
    bench.model.plays = [[ModelDelta("A"), lambda: steer("and B?"), ModelReply(text="A")], says("B")]
    assert (await converse(bench.conversation, bench.activation)).text == "B"
    assert bench.model.requests[1].messages == [
        UserMessage(text="go"),
        ModelReply(text="A"),
        UserMessage(text="and B?"),
    ]
    assert not bench.conversation.steered


async def test_what_the_user_says_while_a_tool_runs_is_in_the_next_request() -> None:
    bench = Bench(ScriptedModel(calls(use("slow")), says("Both."))).hear()

    async def slow(input: Mapping[str, Any]) -> ToolResult:
        bench.conversation.steered.extend(["one", "two"])
        return await echo(input)

    bench.tools["slow"] = slow
    bench.offered = (info("slow"),)
    assert (await converse(bench.conversation, bench.activation)).text == "Both."
    assert bench.model.requests[1].messages[-2:] == [UserMessage(text="one"), UserMessage(text="two")]
    check_whole(bench.conversation.messages)


async def test_tools_that_change_meanwhile_are_in_the_next_request() -> None:
    bench = Bench(ScriptedModel(calls(use("echo")), calls(use("late", id="c2")), says("Done."))).hear()
    before = bench.offered

    async def growing(input: Mapping[str, Any]) -> ToolResult:
        bench.tools["late"] = echo
        bench.offered = (*bench.offered, info("late"))
        return await echo(input)

    bench.tools["echo"] = growing
    await converse(bench.conversation, bench.activation)
    offered = [request.tools for request in bench.model.requests]
    assert offered[0] is before
    assert offered[1] is offered[2] is bench.offered
    assert [name for name, *_ in bench.called] == ["echo", "late"]


async def test_a_tool_that_is_gone_meanwhile_is_not_called() -> None:
    bench = Bench(ScriptedModel(calls(use("echo"), use("old", id="c2")), says("Done."))).hear()

    async def shrinking(input: Mapping[str, Any]) -> ToolResult:
        bench.offered = (info("echo"),)
        return await echo(input)

    bench.tools |= {"echo": shrinking, "old": failing}
    bench.offered = (info("echo"), info("old"))
    await converse(bench.conversation, bench.activation)
    assert [name for name, *_ in bench.called] == ["echo"]
    assert "there is no tool 'old'" in bench.texts()[1]
