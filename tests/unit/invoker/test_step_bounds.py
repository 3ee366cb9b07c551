"""How much of steps is stored: what is too much is shortened where it stands, and says how much is missing."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstead.invoker.clock import Clock
from toolstead.invoker.step_bounds import LEAST_STEP, MOST_RUN, MOST_STEP, StepBounds, encode_step, shorten_step
from toolstead.invoker.step_recorder import StepRecorder
from toolstead.invoker.step_requests import read_requests
from toolstead.kernel.conversation import Message, ModelReply, ToolUse, UserMessage
from toolstead.kernel.model import ModelRequest
from toolstead.types.run import NOTHING_USED
from toolstead.types.step import RecordedStep, RunStep


def step(request: dict[str, Any], reply: dict[str, Any] | None = None) -> bytes:
    return encode_step(RecordedStep(number=1, created_at=1.0, model="m", request=request, reply=reply))


def read(text: bytes) -> RecordedStep:
    return msgspec.json.decode(text, type=RecordedStep)


def test_the_largest_texts_are_cut_in_the_middle_and_the_others_stay() -> None:
    given = {"messages": [{"text": "short"}, {"text": "a" * 50_000 + "z" * 50_000}, {"text": "b" * 400_000}]}
    text = shorten_step(step(given, {"text": "c" * 3_000}), 100_000)
    assert 60_000 < len(text) <= 100_000
    short, first, second = (one["text"] for one in read(text).request["messages"])
    reply = read(text).reply
    assert short == "short"
    assert reply is not None
    assert reply["text"] == "c" * 3_000
    assert first.startswith("a" * 10_000)
    assert first.endswith("z" * 10_000)
    for cut, whole in ((first, 100_000), (second, 400_000)):
        kept, note, rest = cut.split("\n")
        assert note == f"[toolstead: {whole - len(kept) - len(rest):,} characters left out]"


def test_many_messages_lose_the_oldest_and_keep_their_places() -> None:
    said = [{"role": "user", "text": f"message {n}"} for n in range(5_000)]
    text = shorten_step(step({"from": 0, "messages": said, "instructions": "Be brief."}), 50_000)
    messages = read(text).request["messages"]
    assert len(text) <= 50_000
    assert len(messages) == 5_000
    gone = messages.index(next(one for one in messages if one is not None))
    assert messages[:gone] == [None] * gone
    assert messages[gone:] == said[gone:]
    assert 0 < gone < 5_000
    assert read(text).request["leftOut"].startswith(f"[toolstead: {gone:,} messages with ")
    (whole,) = read_requests([RunStep(run_id="r", **msgspec.structs.asdict(read(text)))])
    assert (whole.request["instructions"], whole.request["messages"]) == ("Be brief.", messages)


@pytest.mark.parametrize("wide", [{"input": {"k" * 300_000: 1}}, {"tools": [f"t{n}" for n in range(60_000)]}])
def test_where_nothing_can_be_cut_a_note_says_how_much_there_was(wide: dict[str, Any]) -> None:
    whole = step(wide, {"text": "an answer"})
    text = shorten_step(whole, 10_000)
    note = {"leftOut": f"[toolstead: {len(whole):,} bytes left out]"}
    assert (read(text).request, read(text).reply) == (note, note)


TEXTS = st.tuples(st.sampled_from(["a", "\x00", '"', "é", "\U0001f600\n"]), st.integers(0, 3_000)).map(
    lambda one: one[0] * one[1]
)
TREES = st.recursive(
    st.none() | st.integers(-(2**63), 2**63) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(TREES, max_size=9), TREES, TREES, st.integers(LEAST_STEP, 12_000))
def test_a_shortened_step_fits_and_is_a_step_whatever_is_in_it(
    messages: list[Any], prompt: Any, reply: Any, most: int
) -> None:
    given = step({"messages": messages, "prompt": prompt}, None if reply is None else {"text": reply})
    text = shorten_step(given, most) if len(given) > most else given
    assert len(text) <= most
    assert read(text).number == 1


def record(recorder: StepRecorder, said: str, answered: str, *, messages: list[Message] | None = None) -> None:
    sent = [UserMessage(text=said)] if messages is None else messages
    recorder.begin_request("m", ModelRequest(instructions="", messages=sent))
    recorder.end_request(ModelReply(text=answered), NOTHING_USED, None)


def take(recorder: StepRecorder) -> list[RecordedStep]:
    batch = recorder.take_steps()
    return [] if batch is None else msgspec.json.decode(batch.steps, type=list[RecordedStep])


def test_one_step_and_one_run_are_bounded_and_the_log_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(now=lambda: 1.0, monotonic=lambda: 1.0)  # so that every step has the same size
    recorder, sizes = StepRecorder("r", lambda *_: None, clock=clock), list[int]()
    with caplog.at_level(logging.WARNING):
        for number in range(300):
            record(recorder, f"{number} " + "x" * 600_000, "y" * 100_000)
            for one in take(recorder):
                sizes.append(len(encode_step(one)))
                assert "left out]" in str(one.request)
    assert max(sizes) <= MOST_STEP
    assert sizes[0] > MOST_STEP * 0.7, "no more is cut than must be"
    assert MOST_RUN * 0.9 < sum(sizes) <= MOST_RUN
    assert sizes[-1] <= LEAST_STEP
    assert len(sizes) > 60, "steps get smaller, so that the last ones are there too"
    told, over = [one.getMessage() for one in caplog.records]
    assert told == "run r: its steps are stored shortened, from one of 700,168 bytes to 256,000"
    assert over == "run r: there is no room for further steps, and they are not stored"


def test_small_steps_that_are_written_together_count_as_each_alone() -> None:
    recorder = StepRecorder("r", lambda *_: None, bounds=StepBounds("r", most_step=5_000, most_run=50_000))
    messages: list[Message] = [UserMessage(text="go")]
    stored = 0
    for turn in range(200):
        for _ in range(5):
            record(recorder, "", "a" * 300, messages=messages)
        if turn % 7 == 0:
            batch = recorder.take_steps()
            stored += 0 if batch is None else len(batch.steps)
    assert 40_000 < stored <= 50_000 + 2 * 200


def test_calls_are_cut_too() -> None:
    recorder = StepRecorder("r", lambda *_: None)
    recorder.begin_request("m", ModelRequest(instructions="", messages=[UserMessage(text="write it")]))
    call = ToolUse(id="c", name="write", input={"path": "a.txt", "content": "x" * 1_000_000})
    recorder.end_request(ModelReply(text="", calls=(call,)), NOTHING_USED, None)
    (one,) = take(recorder)
    assert one.reply is not None
    given = one.reply["calls"][0]["input"]
    assert given["path"] == "a.txt"
    assert "characters left out]" in given["content"]
