"""Which turn of a script answers what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.adapters.scripted.playing import SPEC, Listener, answers, opened
from toolstead.adapters.scripted.script import split_text
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.types.run import Usage


async def test_turns_without_when_are_played_in_order_and_the_last_one_repeats() -> None:
    assert await answers("[{say: one}, {say: two}]", "a", "b", "c", "d") == ["one", "two", "two", "two"]


async def test_a_turn_with_when_answers_every_message_it_is_found_in_wherever_it_stands() -> None:
    script = """
    - say: one
    - when: "(?i)weather in \\\\w+"
      say: sunny
    - when: weather
      say: never asked first
    - say: two
    """
    said = await answers(script, "Weather in Bern?", "hi", "weather in Rome", "hi", "the weather")
    assert said == ["sunny", "one", "sunny", "two", "never asked first"]


async def test_a_turn_that_calls_and_says_nothing_is_continued_by_the_next_one() -> None:
    script = """
    - when: look
      call: [{tool: first, input: {n: 1}}]
    - call: [{tool: second}]
    - say: "{{result}} to {{prompt}}"
    - say: default
    """
    assert await answers(script, "look", "else", "look") == [
        "second says {} to look",
        "default",
        "second says {} to look",
    ]


async def test_a_turn_that_calls_and_is_not_continued_answers_with_the_last_result() -> None:
    script = """
    - when: a
      call: [{tool: one}, {tool: two}]
    - when: b
      call: [{tool: three}]
    """
    assert await answers(script, "a", "b") == ["two says {}", "three says {}"]


async def test_a_turn_may_call_and_say() -> None:
    assert await answers("[{call: [{tool: t, input: {x: [1, null]}}], say: 'it {{result}}.'}, {say: z}]", "a", "b") == [
        "it t says {'x': [1, None]}.",
        "z",
    ]


async def test_what_nothing_else_answers_gets_the_last_turn_without_when() -> None:
    script = "[{when: look, call: [{tool: t}]}, {say: 'done {{result}}'}]"
    assert await answers(script, "hello", "look") == ["done {{result}}", "done t says {}"]


async def test_a_message_that_nothing_answers_is_a_failure_that_says_so() -> None:
    with pytest.raises(RuntimeFailureError, match="script: no turn answers 'hello'; add one whose `when`"):
        await answers("[{when: look, say: x}]", "hello")


async def test_the_calls_of_one_turn_run_side_by_side_and_are_started_in_order() -> None:
    _, session = await opened("[{call: [{tool: a}, {tool: b}, {tool: c}], say: '{{result}}'}]")
    listener = Listener()
    assert (await session.run(listener.turn("go"))).text == "c says {}"
    assert [name for name, _ in listener.called] == ["a", "b", "c"]


async def test_an_answer_that_never_ends_is_a_failure() -> None:
    turns = ", ".join(["{call: [{tool: t}]}"] * 101)
    with pytest.raises(RuntimeFailureError, match="more than 100 turns"):
        await answers(f"[{turns}]", "go")


async def test_each_thread_goes_through_the_script_on_its_own_and_goes_on_after_a_loss() -> None:
    runtime, one = await opened("[{say: first}, {lose: true}, {say: third}]")
    other = await runtime.open(SPEC, thread_id="other")
    assert (await one.run(Listener().turn("x"))).text == "first"
    with pytest.raises(SessionLostError):
        await one.run(Listener().turn("x"))
    again = await runtime.open(SPEC, thread_id="t")
    assert (await again.run(Listener().turn("x"))).text == "third"
    assert (await other.run(Listener().turn("x"))).text == "first"
    assert (await other.run(Listener().turn("x"))).text == "third"


@pytest.mark.parametrize(("times", "losses"), [("true", 1), ("2", 2), ("false", 0)])
async def test_a_session_is_lost_as_often_as_the_script_says(times: str, losses: int) -> None:
    runtime, _ = await opened(f"[{{when: x, lose: {times}, say: found}}]")
    for _ in range(losses):
        session = await runtime.open(SPEC, thread_id="t")
        with pytest.raises(SessionLostError):
            await session.run(Listener().turn("x"))
        assert not session.is_usable
        with pytest.raises(SessionLostError):
            await runtime.open(SPEC, thread_id="t", resume=session.id)
    session = await runtime.open(SPEC, thread_id="t")
    assert (await session.run(Listener().turn("x"))).text == "found"


async def test_a_turn_that_only_loses_its_session_is_passed_over_afterwards() -> None:
    runtime, session = await opened("[{when: x, lose: true}, {when: x, say: back}]")
    with pytest.raises(SessionLostError):
        await session.run(Listener().turn("x"))
    again = await runtime.open(SPEC, thread_id="t")
    assert (await again.run(Listener().turn("x"))).text == "back"


async def test_what_a_turn_used_is_told_and_added_up() -> None:
    script = """
    - call: [{tool: t}]
      usage: {inputTokens: 10, cost: 0.5}
    - say: done
      usage: {inputTokens: 1, outputTokens: 2, cost: 0.25}
    """
    _, session = await opened(script)
    listener = Listener()
    answer = await session.run(listener.turn("go"))
    assert answer.usage == Usage(input_tokens=11, output_tokens=2, cost=0.75)
    assert [data for kind, data in listener.told if kind == "usage"] == [
        {"inputTokens": 10, "outputTokens": 0, "cost": 0.5},
        {"inputTokens": 1, "outputTokens": 2, "cost": 0.25},
    ]


@given(st.text(alphabet="ab \n"))
def test_the_pieces_of_a_text_are_the_text_and_few_and_none_is_empty(text: str) -> None:
    cut = split_text(text)
    assert "".join(cut) == text
    assert len(cut) <= 8
    assert all(cut)


def test_a_text_of_several_words_comes_in_several_pieces() -> None:
    assert split_text("It is sunny.") == ["It ", "is ", "sunny."]
