"""Carrying out calls: which run side by side, what cannot be called, what fails again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.kernel.scripted_model import (
    Bench,
    ScriptedModel,
    broken,
    calls,
    check_whole,
    echo,
    failing,
    hanging,
    says,
    use,
)
from tests.virtual_time import run_virtually
from toolstead.errors import LimitError
from toolstead.kernel.activation import Limits
from toolstead.kernel.conversation import ToolUse
from toolstead.kernel.loop import converse
from toolstead.types.content import Image, Text
from toolstead.types.result import ToolResult


async def _answered(*wanted: ToolUse, **given: Any) -> Bench:
    """Make these calls in one reply."""
    bench = Bench(ScriptedModel(calls(*wanted), says("Done.")), **given).hear()
    await converse(bench.conversation, bench.activation)
    check_whole(bench.conversation.messages)
    return bench


class Gauge:
    """A tool that counts how many run at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.order: list[str] = []

    async def __call__(self, input: Mapping[str, Any]) -> ToolResult:
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(f"{input['n']} begins")
        await asyncio.sleep(10 - input["n"])
        self.order.append(f"{input['n']} ends")
        self.now -= 1
        return ToolResult(content=(Text(f"number {input['n']}"),))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (use("ehco"), "there is no tool 'ehco'; did you mean 'echo'?"),
        (use("zzz"), "there is no tool 'zzz'; the tools are echo, fail"),
        (broken("echo", '{"n": 1'), "the arguments of 'echo' are no JSON: Input data was truncated"),
        (broken("echo", '{"n": 1'), """They were: '{"n": 1'. Send one JSON object"""),
        (broken("echo", "[1, 2]"), "the arguments of 'echo' must be one JSON object, not list"),
        (broken("echo", "[" * 100_000), "the arguments of 'echo' are no JSON"),
    ],
)
async def test_what_cannot_be_called_is_answered_told_and_logged(
    call: ToolUse, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await _answered(call, tools={"echo": echo, "fail": failing})
    assert not bench.called
    (answer,) = bench.answers
    assert answer.is_error
    assert words in bench.texts()[0]
    (used,), (result,) = bench.of("tool_use"), bench.of("tool_result")
    assert (used["callId"], used["name"], used["input"]) == ("c1", call.name, {})
    assert (result["callId"], result["name"], result["isError"]) == ("c1", call.name, True)
    assert words in result["content"]
    assert words in caplog.text
    assert len(bench.texts()[0]) < 1000


async def test_with_no_tools_at_all_that_is_said() -> None:
    bench = await _answered(use("echo"), tools={})
    assert bench.texts() == ["there is no tool 'echo'; the tools are none"]


async def test_answers_stand_in_the_order_of_the_calls_with_all_their_parts() -> None:
    picture = Image(data=b"\x89", mime_type="image/png")

    async def paint(input: Mapping[str, Any]) -> ToolResult:
        return ToolResult(content=(Text("here"), picture))

    wanted = [use("paint", id="a"), use("nobody", id="b"), use("echo", id="c", n=1)]
    bench = await _answered(*wanted, tools={"echo": echo, "paint": paint})
    assert [answer.call.id for answer in bench.answers] == ["a", "b", "c"]
    assert bench.answers[0].content == (Text("here"), picture)


def test_neighbours_that_only_read_run_at_once() -> None:
    async def main() -> None:
        barrier = asyncio.Barrier(3)

        async def meet(input: Mapping[str, Any]) -> ToolResult:
            await barrier.wait()  # nobody comes through before all three are there
            return await echo(input)

        wanted = [use("meet", id=f"c{n}", n=n) for n in range(3)]
        bench = await _answered(*wanted, tools={"meet": meet}, reads=frozenset({"meet"}))
        assert bench.texts() == [f"echo {{'n': {n}}}" for n in range(3)]

    run_virtually(main())


def test_what_may_change_something_runs_alone_and_in_order() -> None:
    async def main() -> None:
        gauge = Gauge()
        wanted = [use("write", id=f"c{n}", n=n) for n in range(3)]
        await _answered(*wanted, tools={"write": gauge})
        assert gauge.order == [f"{n} {what}" for n in range(3) for what in ("begins", "ends")]

    run_virtually(main())


def test_readers_wait_for_a_writer_before_them_and_it_for_readers_before_it() -> None:
    async def main() -> None:
        gauge = Gauge()
        wanted = [use(name, id=f"c{n}", n=n) for n, name in enumerate(["read", "read", "write", "read", "read"])]
        bench = await _answered(*wanted, tools={"read": gauge, "write": gauge}, reads=frozenset({"read"}))
        assert [line for line in gauge.order if line[0] in "01"] == gauge.order[:4]
        assert gauge.order[4:6] == ["2 begins", "2 ends"]
        assert gauge.order[6:8] == ["3 begins", "4 begins"]
        assert bench.texts() == [f"number {n}" for n in range(5)]

    run_virtually(main())


def test_no_more_than_the_limit_run_at_once() -> None:
    async def main() -> None:
        gauge = Gauge()
        wanted = [use("read", id=f"c{n}", n=n) for n in range(8)]
        limits = Limits(parallel=3)
        bench = await _answered(*wanted, tools={"read": gauge}, reads=frozenset({"read"}), limits=limits)
        assert gauge.most == 3
        assert bench.texts() == [f"number {n}" for n in range(8)]

    run_virtually(main())


@pytest.mark.parametrize("reads", [frozenset[str](), frozenset({"bad", "echo"})])
async def test_a_call_that_raises_leaves_the_conversation_whole(reads: frozenset[str]) -> None:
    async def bad(input: Mapping[str, Any]) -> ToolResult:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    wanted = [use("echo", id="a"), use("bad", id="b"), use("echo", id="c")]
    bench = Bench(ScriptedModel(calls(*wanted), says("Fine.")), tools={"echo": echo, "bad": bad}, reads=reads).hear()
    with pytest.raises((ZeroDivisionError, ExceptionGroup)):
        await converse(bench.conversation, bench.activation)
    check_whole(bench.conversation.messages)
    assert bench.texts()[0] == "echo {}"
    assert "what it had done by then is not known" in bench.texts()[1]
    bench.hear("and?")
    assert (await converse(bench.conversation, bench.activation)).text == "Fine."


@pytest.mark.parametrize("reads", [frozenset[str](), frozenset({"bad", "echo"})])
async def test_a_tool_that_cancels_itself_fails_alone(reads: frozenset[str]) -> None:
    async def bad(input: Mapping[str, Any]) -> ToolResult:
        raise asyncio.CancelledError

    wanted = [use("bad", id="a"), use("echo", id="b")]
    bench = await _answered(*wanted, tools={"echo": echo, "bad": bad}, reads=reads)
    assert "what it had done by then is not known" in bench.texts()[0]
    assert bench.texts()[1] == "echo {}"
    assert [answer.is_error for answer in bench.answers] == [True, False]


def test_an_interrupt_reaches_every_call_that_runs_and_keeps_what_is_done() -> None:
    async def main() -> None:
        wanted = [use("echo", id="a"), use("hang", id="b"), use("hang", id="c")]
        tools = {"echo": echo, "hang": hanging}
        bench = Bench(ScriptedModel(calls(*wanted)), tools=tools, reads=frozenset(tools)).hear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(converse(bench.conversation, bench.activation), 5)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        check_whole(bench.conversation.messages)
        assert bench.texts()[0] == "echo {}"
        assert all("what it had done by then is not known" in text for text in bench.texts()[1:])

    run_virtually(main())


async def _stopped(bench: Bench) -> LimitError:
    with pytest.raises(LimitError) as caught:
        await converse(bench.conversation, bench.activation)
    check_whole(bench.conversation.messages)
    assert caught.value.limit == "mistakes"
    return caught.value


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (use("fail", n=1), "it does not work"),
        (use("nobody"), "there is no tool 'nobody'"),
        (broken("fail", "{"), "the arguments of 'fail' are no JSON"),
    ],
)
async def test_the_same_failing_call_is_noted_the_second_time_and_stopped_the_third(call: ToolUse, error: str) -> None:
    bench = Bench(ScriptedModel(calls(call)), tools={"fail": failing}).hear()
    stopped = await _stopped(bench)
    assert f"the same failing call of {call.name!r} 3 times" in str(stopped)
    assert error in str(stopped)
    first, second, third = bench.texts()
    assert "toolstead:" not in first
    assert second.endswith(
        "[toolstead: this same call has failed 2 times now; at 3 you are stopped. Do something else.]"
    )
    assert "has failed 3 times" in third


async def test_the_order_of_arguments_makes_no_other_call() -> None:
    plays = [calls(use("fail", a=1, b=2)), calls(use("fail", b=2, a=1))]
    bench = Bench(ScriptedModel(*plays, calls(use("fail", a=1, b=2))), tools={"fail": failing}).hear()
    await _stopped(bench)
    assert len(bench.model.requests) == 3


async def test_other_arguments_make_another_call() -> None:
    plays = [calls(use("fail", n=n)) for n in range(6)]
    bench = Bench(ScriptedModel(*plays, says("I give up.")), tools={"fail": failing}).hear()
    assert (await converse(bench.conversation, bench.activation)).text == "I give up."
    assert not any("toolstead:" in text for text in bench.texts())


async def test_a_success_in_between_forgives() -> None:
    plays = [calls(use("fail")), calls(use("fail")), calls(use("echo")), calls(use("fail")), calls(use("fail"))]
    bench = Bench(ScriptedModel(*plays, says("Done.")), tools={"echo": echo, "fail": failing}).hear()
    await converse(bench.conversation, bench.activation)
    assert ["2 times" in text for text in bench.texts()] == [False, True, False, False, True]


async def test_one_reply_that_wants_the_same_many_times_is_one_mistake() -> None:
    wanted = [use("fail", id=f"c{n}") for n in range(5)]
    bench = await _answered(*wanted, tools={"fail": failing})
    assert bench.texts() == ["it does not work"] * 5


async def test_turns_in_which_everything_fails_end() -> None:
    plays = [calls(use("fail", id="a", n=n), use("nobody", id="b", n=n)) for n in range(9)]
    bench = Bench(ScriptedModel(*plays), tools={"fail": failing}, limits=Limits(failing_turns=4)).hear()
    stopped = await _stopped(bench)
    assert "every call of the last 4 turns failed" in str(stopped)
    assert "there is no tool 'nobody'" in str(stopped)
    assert len(bench.model.requests) == 4


async def test_a_turn_in_which_something_succeeds_is_no_failing_turn() -> None:
    plays = [calls(use("fail", id="a", n=n), *([use("echo", id="b")] if n == 2 else [])) for n in range(5)]
    tools = {"fail": failing, "echo": echo}
    bench = Bench(ScriptedModel(*plays, says("Done.")), tools=tools, limits=Limits(failing_turns=3)).hear()
    assert (await converse(bench.conversation, bench.activation)).text == "Done."


async def test_a_turn_in_which_all_succeeds_is_no_failing_turn() -> None:
    plays = [calls(use("echo" if n == 2 else "fail", n=n)) for n in range(5)]
    tools = {"fail": failing, "echo": echo}
    bench = Bench(ScriptedModel(*plays, says("Done.")), tools=tools, limits=Limits(failing_turns=3)).hear()
    assert (await converse(bench.conversation, bench.activation)).text == "Done."


async def test_after_it_was_stopped_for_mistakes_the_conversation_goes_on_with_a_clean_slate() -> None:
    bench = Bench(ScriptedModel(calls(use("fail"))), tools={"fail": failing}).hear()
    await _stopped(bench)
    bench.model.plays = [*[calls(use("fail"))] * 4, says("I see.")]
    bench.hear("try once more")
    assert (await converse(bench.conversation, bench.activation)).text == "I see."


async def test_half_characters_of_a_tool_never_reach_the_model() -> None:
    async def odd(input: Mapping[str, Any]) -> ToolResult:
        return ToolResult(content=(Text("a\ud800b"), Text("fine ä")))

    bench = await _answered(use("odd"), tools={"odd": odd})
    assert bench.answers[0].content == (Text("a\ufffdb"), Text("fine ä"))
