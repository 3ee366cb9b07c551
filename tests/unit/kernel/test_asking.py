"""Getting a reply: again when that may help, shorter when it is too much, or not at all."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from typing import Any, cast

import pytest

from tests.unit.kernel.scripted_model import (
    Bench,
    Hang,
    ScriptedModel,
    Step,
    calls,
    check_whole,
    echo,
    failing,
    fault,
    info,
    says,
    use,
)
from tests.virtual_time import run_virtually
from toolstead.errors import ModelError, ModelFault
from toolstead.kernel.activation import Limits
from toolstead.kernel.asking import MOST_EMPTY
from toolstead.kernel.conversation import ModelReply, ToolAnswer, UserMessage
from toolstead.kernel.loop import converse
from toolstead.kernel.model import ModelDelta
from toolstead.types.content import Text
from toolstead.types.run import Answer, Usage


def _run(bench: Bench) -> tuple[Answer, float]:
    """The end, and the seconds it took."""

    async def main() -> tuple[Answer, float]:
        found = await converse(bench.conversation, bench.activation)
        assert bench.model.open == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found, asyncio.get_running_loop().time()

    return run_virtually(main())


def _fails(bench: Bench) -> tuple[ModelError, float]:
    async def main() -> tuple[ModelError, float]:
        with pytest.raises(ModelError) as caught:
            await converse(bench.conversation, bench.activation)
        assert bench.model.open == 0
        check_whole(bench.conversation.messages)
        return caught.value, asyncio.get_running_loop().time()

    return run_virtually(main())


@pytest.mark.parametrize("kind", ["busy", "rate", "server", "network"])
def test_what_passes_is_tried_again(kind: ModelFault, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ScriptedModel(fault(kind, "too busy"), says("Hello."))).hear()
    found, took = _run(bench)
    assert found.text == "Hello."
    assert 0.25 <= took <= 0.5
    assert "too busy; try 2 of 6 in" in caplog.text


def test_the_waits_grow_up_to_the_last_try() -> None:
    bench = Bench(ScriptedModel(fault("busy", "come later")), limits=Limits(attempts=5, first_wait=1)).hear()
    at = list[float]()
    bench.model.plays = [[lambda: at.append(asyncio.get_running_loop().time()), *fault("busy", "come later")]]
    error, _ = _fails(bench)
    assert "come later; 5 tries in " in str(error)
    assert error.fault == "busy"
    waits = [after - before for before, after in itertools.pairwise(at)]
    assert [0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits)] == [True] * 4


def test_no_wait_is_longer_than_the_longest() -> None:
    limits = Limits(attempts=12, first_wait=1, longest_wait=4)
    _, took = _fails(Bench(ScriptedModel(fault("server")), limits=limits).hear())
    assert took <= 1 + 2 + 9 * 4


def test_the_api_says_how_long_to_wait() -> None:
    found, took = _run(Bench(ScriptedModel(fault("rate", retry_after=17.25), says("Hello."))).hear())
    assert (found.text, took) == ("Hello.", 17.25)


def test_an_api_that_asks_for_too_much_is_given_up_at_once() -> None:
    error, took = _fails(Bench(ScriptedModel(fault("rate", "slow down", retry_after=121))).hear())
    assert took == 0
    assert str(error) == "slow down; it asks to wait 121 seconds, and the longest wait is 120"
    assert (error.fault, error.retry_after) == ("rate", 121)


@pytest.mark.parametrize("nonsense", [math.nan, -3.0])
def test_a_nonsensical_wait_is_ours_to_choose(nonsense: float) -> None:
    _, took = _run(Bench(ScriptedModel(fault("rate", retry_after=nonsense), says("Hello."))).hear())
    assert 0.25 <= took <= 0.5


@pytest.mark.parametrize("kind", ["rejected", "key", "name", "quota"])
def test_what_would_fail_again_fails_at_once(kind: ModelFault) -> None:
    bench = Bench(ScriptedModel(fault(kind, "no such thing"), says("Hello."))).hear()
    error, took = _fails(bench)
    assert (str(error), error.fault, took, len(bench.model.requests)) == ("no such thing", kind, 0, 1)
    assert bench.conversation.messages == [UserMessage(text="go")]


def test_a_stream_without_an_end_is_tried_again_and_its_pieces_say_which_try() -> None:
    bench = Bench(ScriptedModel([ModelDelta("Hel")], [ModelDelta("h", "thinking"), *says("Hello.")])).hear()
    found, _ = _run(bench)
    assert found.text == "Hello."
    (kind, notice) = bench.told.pop(1)
    assert (kind, notice["text"], 0.25 <= notice["retry"].pop("seconds") <= 0.5) == ("thinking", "", True)
    assert notice["retry"] == {"reason": "scripted:one ended its answer too early", "attempt": 2, "attempts": 6}
    assert bench.told == [
        ("message.delta", {"text": "Hel"}),
        ("thinking", {"text": "h", "attempt": 2}),
        ("message.delta", {"text": "Hello.", "attempt": 2}),
    ]
    assert bench.conversation.messages == [UserMessage(text="go"), ModelReply(text="Hello.")]


def test_a_stream_without_an_end_is_told_as_that() -> None:
    error, _ = _fails(Bench(ScriptedModel([ModelDelta("Hel")]), limits=Limits(attempts=1)).hear())
    assert "scripted:one ended its answer too early" in str(error)
    assert error.fault == "network"


def test_the_tries_of_each_reply_are_counted_anew() -> None:
    plays = [fault("busy"), calls(use("echo")), fault("busy"), says("Done.")]
    bench = Bench(ScriptedModel(*plays), limits=Limits(attempts=2)).hear()
    found, _ = _run(bench)
    assert found.text == "Done."
    assert bench.of("message.delta") == [{"text": "Done.", "attempt": 2}]


@pytest.mark.parametrize("steps", [[Hang()], [ModelDelta("Hel"), Hang()]])
def test_silence_is_given_up(steps: list[Step]) -> None:
    bench = Bench(ScriptedModel(steps, says("Hello.")), limits=Limits(stall=30, first_wait=0)).hear()
    found, took = _run(bench)
    assert (found.text, took) == ("Hello.", 30)
    assert bench.model.ends[0] == "CancelledError"


def test_silence_is_told_as_that() -> None:
    bench = Bench(ScriptedModel([Hang()]), limits=Limits(stall=30, attempts=1)).hear()
    error, _ = _fails(bench)
    assert str(error) == "scripted:one sent nothing for 30 seconds"
    assert error.fault == "network"


def test_a_slow_but_steady_answer_is_waited_for() -> None:
    steps: list[Step] = [step for _ in range(20) for step in (Hang(29), ModelDelta("."))]
    found, took = _run(Bench(ScriptedModel([*steps, ModelReply(text="." * 20)]), limits=Limits(stall=30)).hear())
    assert found.text == "." * 20
    assert took == 580


def test_a_timeout_of_the_adapter_is_no_stall() -> None:
    error, took = _fails(Bench(ScriptedModel([TimeoutError()]), limits=Limits(attempts=1)).hear())
    assert (str(error), took) == ("scripted:one took too long", 0)


def test_an_interrupt_while_waiting_for_the_next_try() -> None:
    async def main() -> None:
        bench = Bench(ScriptedModel(fault("rate", retry_after=60), says("Hello."))).hear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(converse(bench.conversation, bench.activation), 10)
        assert asyncio.get_running_loop().time() == 10
        assert bench.conversation.messages == [UserMessage(text="go")]
        assert bench.model.open == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        bench.hear("again")
        assert (await converse(bench.conversation, bench.activation)).text == "Hello."

    run_virtually(main())


def test_empty_answers_are_asked_again_and_paid(caplog: pytest.LogCaptureFixture) -> None:
    nothing: list[Step] = [ModelReply(text=" \n", usage=Usage(input_tokens=5, output_tokens=1))]
    bench = Bench(ScriptedModel(nothing, nothing, says("Hello."))).hear()
    found, _ = _run(bench)
    assert found == Answer(text="Hello.", usage=Usage(input_tokens=10, output_tokens=2))
    assert caplog.text.count("scripted:one answered with nothing") == 2
    assert bench.conversation.messages == [UserMessage(text="go"), ModelReply(text="Hello.")]


def test_a_model_that_never_says_anything_is_given_up() -> None:
    bench = Bench(ScriptedModel([ModelReply(text="")])).hear()
    error, _ = _fails(bench)
    assert str(error) == "scripted:one answered with nothing, 3 times; try another model, or ask for less"
    assert len(bench.model.requests) == MOST_EMPTY


def _fitting(bench: Bench, most: int) -> None:
    """The model takes no more than so many characters of history."""

    def check() -> None:
        size = 0
        for message in bench.model.requests[-1].messages:
            if isinstance(message, ToolAnswer):
                size += sum(len(part.text) for part in message.content if isinstance(part, Text))
            else:
                size += len(message.text)
        if size > most:
            raise ModelError(f"{size} are too many", fault="overflow")

    bench.model.plays = [[check, *says("Hello.")]]


def _long_talk(bench: Bench) -> None:
    for n in range(4):
        call = use("echo", id=f"c{n}")
        bench.hear(f"question {n} " + "q" * 1000)
        bench.conversation.messages.append(ModelReply(text="", calls=(call,)))
        bench.conversation.messages.append(ToolAnswer(call=call, content=(Text(f"result {n} " + "r" * 5000),)))
        bench.conversation.messages.append(ModelReply(text=f"answer {n} " + "a" * 1000, kept="signed"))
    bench.hear("the last question " + "l" * 1000)


def test_the_oldest_results_are_cut_first(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ScriptedModel())
    _long_talk(bench)
    _fitting(bench, 20_000)
    _run(bench)
    *earlier, last = bench.texts()
    assert all("left out" in text and "call it again" in text for text in earlier)
    assert earlier[0].startswith("result 0")
    assert len(last) == len("result 3 ") + 5000
    said = [message.text for message in bench.conversation.messages if isinstance(message, UserMessage | ModelReply)]
    assert not any("toolstead:" in text for text in said)
    assert "too long for scripted:one: the 3 oldest of 4 long tool results were shortened" in caplog.text
    check_whole(bench.conversation.messages)


def test_it_is_cut_until_it_fits_and_the_last_question_never(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ScriptedModel())
    _long_talk(bench)
    _fitting(bench, 5_600)
    _run(bench)
    assert all("left out" in text for text in bench.texts())
    assert bench.model.requests[-1].messages[-1] == UserMessage(text="the last question " + "l" * 1000)
    cuts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(cuts) == len(bench.model.requests) - 1
    assert ["tool results" in cut for cut in cuts] == sorted(("tool results" in cut for cut in cuts), reverse=True)
    assert "earlier messages" in cuts[-1]
    check_whole(bench.conversation.messages)


def test_what_cannot_be_cut_any_more_fails_with_words() -> None:
    bench = Bench(ScriptedModel())
    _long_talk(bench)
    _fitting(bench, 500)
    error, _ = _fails(bench)
    assert error.fault == "overflow"
    assert "too long for scripted:one" in str(error)
    assert "are too many" in str(error)
    assert "begin a new thread" in str(error)
    assert bench.conversation.messages[-1] == UserMessage(text="the last question " + "l" * 1000)


def _refusing(bench: Bench, *names: str) -> None:
    """The model's API takes no request with one of these tools in it."""

    def check() -> None:
        for tool in bench.model.requests[-1].tools:
            if tool.name in names and tool.description != "mended":
                raise ModelError(f"the schema of {tool.name} is bad", fault="schema", tool=tool.name)

    bench.model.plays = [[check, *steps] for steps in bench.model.plays]


def _offered(bench: Bench) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in bench.model.requests]


def test_a_tool_whose_schema_is_refused_is_left_out_and_the_others_stay(caplog: pytest.LogCaptureFixture) -> None:
    plays = [says("-"), calls(use("echo")), says("Done.")]
    bench = Bench(ScriptedModel(*plays), tools={"echo": echo, "odd": echo, "late": echo}).hear()
    _refusing(bench, "odd")
    _run(bench)
    assert _offered(bench) == [["echo", "odd", "late"], ["echo", "late"], ["echo", "late"]]
    assert bench.model.requests[1].tools is bench.model.requests[2].tools
    assert "scripted:one rejects the schema of 'odd', so the tool is left out: the schema of odd is bad" in caplog.text
    bench.hear("next")
    _run(bench)
    assert _offered(bench)[-1] == ["echo", "late"]


def test_several_refused_schemas_are_left_out_one_after_another() -> None:
    bench = Bench(ScriptedModel(says("Done.")), tools=dict.fromkeys(["a", "b", "c"], echo)).hear()
    _refusing(bench, "a", "c")
    found, _ = _run(bench)
    assert found.text == "Done."
    assert _offered(bench) == [["a", "b", "c"], ["b", "c"], ["b"]]


def test_a_refused_tool_is_offered_again_when_it_was_changed() -> None:
    bench = Bench(ScriptedModel(says("Done.")), tools={"echo": echo, "odd": echo}).hear()
    _refusing(bench, "odd")
    _run(bench)
    bench.offered = (bench.offered[0], info("odd", description="mended"))
    bench.hear("next")
    _run(bench)
    assert _offered(bench)[-1] == ["echo", "odd"]


def test_a_refused_tool_that_is_called_all_the_same_answers() -> None:
    bench = Bench(ScriptedModel(says("-"), calls(use("odd")), says("Done.")), tools={"echo": echo, "odd": echo}).hear()
    _refusing(bench, "odd")
    _run(bench)
    assert [name for name, *_ in bench.called] == ["odd"]
    assert bench.texts() == ["echo {}"]


@pytest.mark.parametrize("name", ["nobody", None])
def test_a_refused_schema_of_no_tool_of_ours_is_a_failure(name: str | None) -> None:
    bench = Bench(ScriptedModel(fault("schema", "tools.3 is bad", tool=name))).hear()
    error, _ = _fails(bench)
    assert (str(error), error.fault, len(bench.model.requests)) == ("tools.3 is bad", "schema", 1)


def test_a_refusal_of_what_was_left_out_already_ends() -> None:
    bench = Bench(ScriptedModel(fault("schema", "bad", tool="echo")), tools={"echo": echo, "other": failing}).hear()
    error, _ = _fails(bench)
    assert error.fault == "schema"
    assert len(bench.model.requests) == 2


def test_whatever_else_the_adapter_raises_passes_and_leaves_the_conversation_whole() -> None:
    async def main() -> None:
        bench = Bench(ScriptedModel([ModelDelta("He"), cast("Any", ZeroDivisionError())], says("Hello."))).hear()
        with pytest.raises(ZeroDivisionError):
            await converse(bench.conversation, bench.activation)
        assert bench.conversation.messages == [UserMessage(text="go")]
        bench.hear("again")
        assert (await converse(bench.conversation, bench.activation)).text == "Hello."

    run_virtually(main())
