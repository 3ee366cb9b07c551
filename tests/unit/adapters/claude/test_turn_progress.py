from __future__ import annotations

from typing import Any

import pytest

from tests.unit.adapters.claude.said import (
    SPEC,
    Listener,
    begins,
    delta,
    ends,
    ends_agent,
    result,
    retry,
    starts_agent,
    state,
    taken,
    whole,
)
from toolstead.adapters.claude.turn_progress import TurnProgress
from toolstead.adapters.claude.usage import ClaudeUsage
from toolstead.errors import LimitError, RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import NO_LIMITS, TurnLimits
from toolstead.types.run import NOTHING_USED, Usage

pytestmark = pytest.mark.requires("claude")


def progress(listener: Listener | None = None, limits: TurnLimits = NO_LIMITS) -> TurnProgress:
    made = TurnProgress((listener or Listener()).turn(limits), SPEC, ClaudeUsage(resumed=False), max_turns=3)
    made.unprocessed.add("prompt")
    return made


async def test_a_turn_is_over_when_the_program_is_idle_and_not_before() -> None:
    turn = progress()
    for message in (state("running"), taken("prompt"), result("hello")):
        turn.take_message(message)
        assert not turn.is_over
    turn.take_message(state("idle"))
    assert (await turn.end).text == "hello"


async def test_a_turn_goes_on_until_every_message_was_taken_up() -> None:
    turn = progress()
    turn.unprocessed.add("steered")
    for message in (taken("prompt"), result("first"), state("idle")):
        turn.take_message(message)
    assert not turn.is_over
    for message in (state("running"), taken("steered"), result("second"), state("idle")):
        turn.take_message(message)
    assert (await turn.end).text == "second"


async def test_a_message_that_comes_between_the_end_and_its_news_is_waited_for() -> None:
    turn = progress()
    turn.take_message(taken("prompt"))
    turn.take_message(result("first"))
    turn.unprocessed.add("steered")
    turn.take_message(state("idle"))  # said before it heard of the message
    assert not turn.is_over
    turn.unprocessed.discard("steered")  # and it was never given to it after all
    turn.take_message(state("idle"))
    assert turn.is_over


async def test_idle_without_a_result_is_no_end() -> None:
    turn = progress()
    turn.take_message(taken("prompt"))
    turn.take_message(state("idle"))
    assert not turn.is_over


async def test_text_and_thinking_are_told_as_they_come_and_those_of_a_helper_are_not() -> None:
    listener = Listener()
    turn = progress(listener)
    turn.take_message(begins("m1"))
    turn.take_message(delta("why", kind="thinking"))
    turn.take_message(delta("because"))
    turn.take_message(delta(""))
    turn.take_message(delta("of another", parent="call"))
    turn.take_message(whole("because", "m1"))
    assert listener.told == [("thinking", {"text": "why"}), ("message.delta", {"text": "because"})]


async def test_text_that_did_not_come_in_pieces_is_told_whole_once() -> None:
    listener = Listener()
    turn = progress(listener)
    turn.take_message(whole("all at once", "m2"))
    turn.take_message(whole("of another", "m3", parent_tool_use_id="call"))
    turn.take_message(whole("API Error", "m4", error="unknown"))
    assert listener.told == [("message.delta", {"text": "all at once"})]


async def test_what_several_results_used_is_told_for_each_and_summed() -> None:
    listener = Listener()
    turn = progress(listener)
    turn.take_message(taken("prompt"))
    turn.take_message(result(usage={"input_tokens": 3, "output_tokens": 5}, total_cost_usd=0.5))
    turn.take_message(result(usage={"input_tokens": 4, "output_tokens": 6}, total_cost_usd=0.75))
    turn.take_message(state("idle"))
    used = (await turn.end).usage
    assert (used.input_tokens, used.output_tokens, used.cost) == (7, 11, 0.75)
    assert [data["cost"] for kind, data in listener.told if kind == "usage"] == [0.5, 0.25]


def tokens(read: int, written: int = 1) -> dict[str, int]:
    return {"input_tokens": read, "output_tokens": written}


def used(read: int, written: int, cost: float = 0.0) -> Usage:
    return Usage(input_tokens=read, output_tokens=written, cost=cost)


async def test_what_a_reply_used_is_told_when_it_is_finished_and_a_result_tells_the_rest() -> None:
    listener = Listener()
    turn = progress(listener)
    turn.take_message(taken("prompt"))
    told: list[int] = []
    for message in (
        begins("m1", usage=tokens(10)),
        whole("so", "m1", usage=tokens(10)),
        ends(4, "tool_use"),
        begins("m2", usage=tokens(20) | {"cache_read_input_tokens": 300}),
        ends(6),
        result(usage=tokens(340, 12), total_cost_usd=0.5),
    ):
        turn.take_message(message)
        told.append(len(listener.used()))
    assert told == [0, 0, 1, 1, 2, 3]
    assert listener.used() == [used(10, 4), used(320, 6), used(10, 2, 0.5)]
    turn.take_message(state("idle"))
    assert (await turn.end).usage == used(340, 12, 0.5)


async def test_a_result_that_knows_no_more_than_the_replies_tells_nothing() -> None:
    listener = Listener()
    turn = progress(listener)
    turn.take_message(begins("m1", usage=tokens(1000), model="claude-sonnet-5-5"))
    turn.take_message(ends(100))
    (counted,) = listener.used()
    assert counted.cost > 0
    turn.take_message(result(usage=tokens(1000, 100), total_cost_usd=counted.cost + 1e-17))
    assert listener.used() == [counted]


async def test_what_replies_used_beyond_the_result_stands_and_is_what_the_turn_used() -> None:
    listener = Listener()
    turn = progress(listener)
    turn.take_message(taken("prompt"))
    turn.take_message(begins("m1", usage=tokens(1000), model="claude-sonnet-5-5"))
    turn.take_message(ends(100))
    (counted,) = listener.used()
    turn.take_message(result(usage=tokens(900, 110), total_cost_usd=counted.cost / 2))
    assert listener.used() == [counted, used(0, 10)]
    turn.take_message(state("idle"))
    assert (await turn.end).usage == counted + used(0, 10)


async def test_what_was_told_too_much_before_one_result_is_not_told_again_before_the_next() -> None:
    listener = Listener()
    turn = progress(listener)
    turn.take_message(taken("prompt"))
    for message in (
        begins("m1", usage=tokens(50)),
        ends(5),
        result(usage=tokens(40, 5)),
        begins("m2", usage=tokens(60)),
        ends(6),
        result(usage=tokens(80, 6)),
    ):
        turn.take_message(message)
    assert listener.used() == [used(50, 5), used(60, 6), used(10, 0)]
    turn.take_message(state("idle"))
    assert (await turn.end).usage == used(120, 11)


async def test_a_reply_that_broke_off_is_told_with_the_next_one_or_by_the_result() -> None:
    listener = Listener()
    turn = progress(listener)
    for message in (
        begins("m1", usage=tokens(10)),
        begins("m2", usage=tokens(10)),
        ends(4, "tool_use"),
        begins("m3", usage=tokens(30)),
        result(usage=tokens(50, 6)),
        begins("m4", usage=tokens(40)),
        ends(4),
    ):
        turn.take_message(message)
    assert listener.used() == [used(20, 5), used(30, 1), used(40, 4)]


async def test_a_reply_that_is_not_streamed_is_told_whole() -> None:
    listener = Listener()
    turn = progress(listener, TurnLimits(tokens=50))
    turn.take_message(whole("so", "m1", usage=tokens(10, 5), stop_reason="tool_use"))
    assert turn.halt is None
    turn.take_message(whole("so", "m2", usage=tokens(30, 5), stop_reason="tool_use"))
    assert isinstance(turn.halt, LimitError)
    assert listener.used() == [used(10, 5), used(30, 5)]


async def test_what_agents_of_claude_used_is_told_for_each_reply_once() -> None:
    listener = Listener()
    turn = progress(listener)
    for message in (
        starts_agent("a1", "call"),
        whole("hm", "m1", parent_tool_use_id="call", usage=tokens(10)),
        whole("so", "m1", parent_tool_use_id="call", usage=tokens(10)),  # another block of it
        ends_agent("a1", **tokens(20, 7)),  # the last reply, which is not passed on
        ends_agent("a1", **tokens(20, 7)),
        ends_agent("a2", **tokens(99, 9)),  # the words of a tool that says so
    ):
        turn.take_message(message)
    assert listener.used() == [used(10, 1), used(20, 7)]


async def test_the_last_reply_of_an_agent_that_was_passed_on_counts_once() -> None:
    listener = Listener()
    turn = progress(listener)
    for message in (
        starts_agent("a1", "call"),
        whole("so", "m1", parent_tool_use_id="call", usage=tokens(10)),
        ends_agent("a1", **tokens(10, 7)),
    ):
        turn.take_message(message)
    assert listener.used() == [used(10, 1), used(0, 6)]


async def test_a_limit_is_asked_after_each_reply_that_another_follows_and_when_that_was_told() -> None:
    listener = Listener()
    asked: list[tuple[Usage, Usage]] = []

    class Watch(TurnLimits, frozen=True, kw_only=True):
        def find_excess(self, used: Usage) -> LimitError | None:
            asked.append((used, sum(listener.used(), NOTHING_USED)))
            return LimitError("enough", limit="tokens") if used.output_tokens > 12 else None

    turn = progress(listener, Watch())
    for message in (
        begins("m1", usage=tokens(10)),
        ends(4, "tool_use"),
        starts_agent("a1", "call"),
        whole("so", "m2", parent_tool_use_id="call", usage=tokens(20)),
        ends_agent("a1", **tokens(30, 7)),
    ):
        turn.take_message(message)
        assert turn.halt is None
    turn.take_message(begins("m3", usage=tokens(40)))
    turn.take_message(ends(9, "tool_use"))
    assert isinstance(turn.halt, LimitError)
    assert [each for each, _ in asked] == [used(10, 4), used(30, 5), used(60, 12), used(100, 21)]
    assert all(each == told for each, told in asked)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (result("API Error: 529 Overloaded", is_error=True), "529 Overloaded"),
        (result("Invalid key", is_error=True, api_error_status=401), "ANTHROPIC_API_KEY"),
        (
            result(None, subtype="error_during_execution", is_error=True, errors=["it broke", "twice"]),
            "it broke; twice",
        ),
        (result(None, subtype="error_max_turns", num_turns=4), r"after 3 turns .*runtime\.claude\.max_turns"),
        (result(None, subtype="error_max_budget_usd", errors=["Reached maximum budget"]), "budget"),
        (result(None, is_error=True), "gave no reason"),
    ],
)
async def test_a_result_that_is_an_error_fails_the_turn_with_its_words(message: Any, words: str) -> None:
    turn = progress()
    turn.take_message(taken("prompt"))
    turn.take_message(message)
    turn.take_message(state("idle"))
    with pytest.raises(RuntimeFailureError, match=words):
        await turn.end


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_refused_twice_stops_the_turn(status: int) -> None:
    turn = progress()
    turn.take_message(retry(1, status))
    assert turn.halt is None  # a login may have been renewed
    turn.take_message(retry(2, status, "authentication_failed"))
    assert turn.halt is not None
    turn.take_message(taken("prompt"))
    turn.take_message(result(None, subtype="error_during_execution", is_error=True))
    turn.take_message(state("idle"))
    with pytest.raises(RuntimeFailureError, match=f"authentication_failed, status {status}.*ANTHROPIC_API_KEY"):
        await turn.end


async def test_a_request_that_is_made_again_is_told_in_the_log_and_as_an_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = Listener()
    turn = progress(listener)
    for attempt in range(1, 4):
        turn.take_message(retry(attempt, 529, "overloaded"))
    turn.take_message(retry(4, None))
    assert turn.halt is None
    told = [record.getMessage() for record in caplog.records]
    assert told[2].endswith("attempt 3 of 10: overloaded, status 529")
    assert told[3].endswith("attempt 4 of 10: so it is")
    notices = [data["retry"] for kind, data in listener.told if kind == "thinking"]
    assert notices[2] == {
        "reason": "no answer from Anthropic: overloaded, status 529",
        "attempt": 4,
        "attempts": 11,
        "seconds": None,
    }


def replies(turn: TurnProgress, *ids: str, of: str | None = None) -> list[bool]:
    """Whether the turn is to be stopped, after each of some replies."""
    stopped: list[bool] = []
    for message_id in ids:
        turn.take_message(whole("so", message_id, parent_tool_use_id=of))
        stopped.append(turn.halt is not None)
    return stopped


async def test_the_last_reply_that_is_allowed_may_be_the_answer() -> None:
    assert replies(progress(), "m1", "m1", "m2", "m3", "m4") == [False, False, False, False, True]


async def test_the_replies_of_agents_that_claude_starts_count_and_none_of_them_is_the_answer() -> None:
    turn = progress()
    assert replies(turn, "m1") == [False]
    assert replies(turn, "m2", "m3", of="call") == [False, True]


async def test_a_message_about_a_failing_api_is_no_reply() -> None:
    turn = progress()
    turn.take_message(whole("API Error", "m1", error="unknown", parent_tool_use_id="call"))
    assert replies(turn, "m2", "m3", "m4", of="call") == [False, False, True]


async def test_a_turn_that_was_stopped_at_its_limit_ends_with_it_however_the_program_takes_that() -> None:
    for ending in (result(None, subtype="error_during_execution", is_error=True), result("done after all")):
        turn = progress()
        replies(turn, "m1", "m2", "m3", "m4")
        for message in (taken("prompt"), ending, state("idle")):
            turn.take_message(message)
        with pytest.raises(LimitError, match="after 3 turns"):
            await turn.end
    turn = progress()
    replies(turn, "m1", "m2", "m3", "m4")
    turn.end_turn(SessionLostError("it was killed"))
    with pytest.raises(LimitError):
        await turn.end


async def test_a_turn_ends_once() -> None:
    turn = progress()
    turn.end_turn(SessionLostError("gone"))
    turn.end_turn(RuntimeFailureError("closed"))
    turn.take_message(taken("prompt"))
    turn.take_message(result())
    turn.take_message(state("idle"))
    with pytest.raises(SessionLostError):
        await turn.end
