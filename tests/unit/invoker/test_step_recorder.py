"""Steps: what was sent is put together again, exactly; what is recorded never makes a turn fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.invoker.bench import BenchRuntime, invoke, request
from tests.unit.kernel.scripted_model import Bench, Hang, ScriptedModel, Step, calls, fault, info, says, use
from tests.virtual_time import run_virtually
from toolstead.errors import ModelError, RuntimeFailureError, SessionLostError
from toolstead.invoker.invoker import Invoker
from toolstead.invoker.pool import SessionPool
from toolstead.invoker.runtime import Answer, Turn
from toolstead.invoker.step_recorder import StepRecorder
from toolstead.invoker.step_requests import INCOMPLETE, MOST_BINARY, read_requests
from toolstead.kernel.conversation import Message, ModelReply, ToolAnswer, ToolUse, UserMessage
from toolstead.kernel.loop import converse
from toolstead.kernel.model import ModelRequest
from toolstead.kernel.shortening import shorten_messages
from toolstead.types.content import EmbeddedResource, Image, ResourceLink, Text
from toolstead.types.result import ToolResult
from toolstead.types.run import Usage
from toolstead.types.step import RecordedStep, RunStep, StepBatch
from toolstead.types.tool import ToolInfo

USED = Usage(input_tokens=3, output_tokens=2, cost=0.5)


class Shelf:
    """Takes the steps of a recorder, when it is told to or at the end."""

    def __init__(self, **options: Any) -> None:
        self.announced: list[str] = []
        self.batches: list[StepBatch] = []
        self.recorder = StepRecorder("r", lambda run_id, _: self.announced.append(run_id), **options)

    def take(self) -> None:
        batch = self.recorder.take_steps()
        if batch is not None:
            self.batches.append(batch)

    def stored(self) -> list[RunStep]:
        """The steps as the database has them."""
        self.take()
        found: list[RunStep] = []
        for batch in self.batches:
            steps = msgspec.json.decode(batch.steps, type=list[RecordedStep])
            assert (batch.run_id, batch.number, batch.last) == ("r", steps[0].number, steps[-1].number)
            found += [RunStep(run_id="r", **msgspec.structs.asdict(step)) for step in steps]
        return found

    def whole(self) -> list[RunStep]:
        """The steps as a reader gets them."""
        return list(read_requests(self.stored()))


def shown_request(sent: ModelRequest) -> dict[str, Any]:
    """What a reader should get of a request; written here once more, not with the code under test."""
    return {
        "instructions": sent.instructions,
        "messages": [shown_message(message) for message in sent.messages],
        "tools": [tool.name for tool in sent.tools],
        "maxTokens": sent.max_tokens,
        **({} if sent.result_schema is None else {"resultSchema": sent.result_schema}),
    }


def shown_message(message: Message) -> dict[str, Any]:
    match message:
        case UserMessage(text=text):
            return {"role": "user", "text": text}
        case ModelReply(text=text, calls=wanted):
            return {"role": "assistant", "text": text, "calls": [shown_call(call) for call in wanted]}
        case ToolAnswer(call=call, content=content, is_error=is_error):
            parts = [part.to_json() for part in content]
            return {"role": "tool", "callId": call.id, "name": call.name, "content": parts, "isError": is_error}


def shown_call(call: ToolUse) -> dict[str, Any]:
    written = {"text": call.text} if call.text else {}
    return {"id": call.id, "name": call.name, "input": call.input, **written}


def frozen(sent: ModelRequest) -> Any:
    """What is sent now, whatever becomes of it later."""
    return msgspec.json.decode(msgspec.json.encode(shown_request(sent)))


TEXTS = st.text(max_size=40) | st.integers(1, 3).map(lambda n: "long words " * 100 * n)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
INPUTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=2)
CONTENT = st.lists(
    st.builds(Text, st.text(max_size=30))
    | st.just(Image(data=b"\x00\x01picture", mime_type="image/png"))
    | st.just(ResourceLink(uri="file:///x", name="x"))
    | st.just(EmbeddedResource(uri="file:///y", content="why")),
    max_size=3,
).map(tuple)
TURNS = st.lists(
    st.one_of(
        st.tuples(st.just("says"), TEXTS),
        st.tuples(st.just("calls"), st.lists(st.tuples(INPUTS, CONTENT, TEXTS), min_size=1, max_size=3)),
        st.tuples(st.just("fails"), st.booleans()),
        st.tuples(st.just("steered"), TEXTS),
        st.tuples(st.just("tools"), st.lists(st.sampled_from(["one", "two", "three"]), max_size=3)),
        st.tuples(st.just("instructions"), st.text(max_size=10)),
        st.tuples(st.just("schema"), st.none() | st.just({"sameAs": 1}) | st.just({"type": "object"})),
        st.tuples(st.just("stored"), st.none()),
    ),
    max_size=14,
)


@settings(max_examples=300, deadline=None)
@given(TURNS)
def test_every_request_is_put_together_again_as_it_was_sent(turns: Sequence[tuple[str, Any]]) -> None:
    shelf = Shelf()
    messages: list[Message] = [UserMessage(text="go")]
    tools: Sequence[ToolInfo] = (info("one"),)
    schema: dict[str, Any] | None = None
    instructions, sent, replies = "Be brief.", list[Any](), list[Any]()

    def ask(reply: ModelReply | None, error: Exception | None = None) -> None:
        most = len(sent) or None
        asked = ModelRequest(
            instructions=instructions, messages=messages, tools=tools, max_tokens=most, result_schema=schema
        )
        sent.append(frozen(asked))
        shelf.recorder.begin_request("scripted:one", asked)
        shelf.recorder.end_request(reply, USED, error)
        replies.append(None if reply is None else [shown_call(call) for call in reply.calls])
        if reply is not None:
            messages.append(reply)

    for kind, value in turns:
        match kind:
            case "says":
                ask(ModelReply(text=value, kept=object()))
            case "calls":
                wanted = tuple(
                    ToolUse(id=f"c{n}", name="one", input=given if n < 2 else None, text="" if n < 2 else text)
                    for n, (given, _, text) in enumerate(value)
                )
                ask(ModelReply(text="", calls=wanted))
                answers = zip(wanted, value, strict=True)
                messages += [ToolAnswer(call=call, content=one[1], is_error=not one[0]) for call, one in answers]
            case "fails":
                ask(None, ModelError("too long", fault="overflow"))
                if value:
                    shorten_messages(messages)
            case "steered":
                messages.append(UserMessage(text=value))
            case "tools":
                tools = tuple(info(name) for name in value)
            case "instructions":
                instructions = value
            case "schema":
                schema = value
            case _:
                shelf.take()
    steps = shelf.whole()
    assert [step.number for step in steps] == list(range(1, len(sent) + 1))
    found = [dict(step.request) for step in steps]
    for made in found:
        if "resultSchema" in made and made["resultSchema"] is None:
            del made["resultSchema"]  # there was one before
    assert found == sent
    assert [None if step.reply is None else step.reply["calls"] for step in steps] == replies


def _overflows() -> Iterator[list[Step]]:
    for n in range(3):
        yield calls(use("long", id=f"c{n}", n=n), text="let me see", usage=USED)
    yield fault("overflow")
    yield fault("busy")
    yield calls(use("long", id="last"), usage=USED)
    yield says("Done.", usage=USED)


async def _long(input: Mapping[str, Any]) -> ToolResult:
    return ToolResult(content=(Text("long " * 500),))


def test_the_kernel_records_each_request_also_those_that_fail_and_those_after_shortening() -> None:
    shelf = Shelf()
    bench = Bench(ScriptedModel(*_overflows()), tools={"long": _long}).hear()
    activation = msgspec.structs.replace(bench.activation, recorder=shelf.recorder)
    answer = run_virtually(converse(bench.conversation, activation))
    steps = shelf.whole()
    assert [step.request for step in steps] == [shown_request(sent) for sent in bench.model.requests]
    assert [step.error and step.error.code for step in steps] == [
        None,
        None,
        None,
        "model_overflow",
        "model_busy",
        None,
        None,
    ]
    assert [step.usage for step in steps if step.error is None] == [USED] * 5
    assert steps[-1].reply == {"text": answer.text, "calls": [], "cut": False}
    stored = shelf.stored()
    assert [len(step.request["messages"]) for step in stored] == [1, 2, 2, 2, 7, 0, 2], "only what is new is stored"
    assert [step.request["from"] for step in stored] == [0, 1, 3, 5, 0, 7, 7]
    assert [step.request.get("sameAs") for step in stored] == [None, 1, 1, 1, 1, 1, 1]
    assert stored[2].request.keys() == {"from", "messages", "sameAs"}


def test_a_request_that_is_interrupted_is_recorded_without_what_the_model_had_said() -> None:
    shelf = Shelf()
    bench = Bench(ScriptedModel([*says("Well, ")[:1], Hang()])).hear()

    async def interrupt() -> None:
        activation = msgspec.structs.replace(bench.activation, recorder=shelf.recorder)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(converse(bench.conversation, activation), 5)

    run_virtually(interrupt())
    assert len(bench.conversation.messages) == 2, "the model's words are kept in the conversation"
    (step,) = shelf.whole()
    assert (step.reply, step.error and step.error.code) == (None, "cancelled")
    assert [message["role"] for message in step.request["messages"]] == ["user"]


def test_what_a_tool_changes_in_its_arguments_is_recorded_as_the_model_sent_it() -> None:
    shelf = Shelf()
    given = {"items": [3, 1, 2]}
    asked = ModelRequest(instructions="", messages=[UserMessage(text="sort")])
    shelf.recorder.begin_request("m", asked)
    shelf.recorder.end_request(ModelReply(text="", calls=(ToolUse(id="c", name="sort", input=given),)), USED, None)
    given["items"].sort()
    (step,) = shelf.whole()
    assert step.reply is not None
    assert step.reply["calls"][0]["input"] == {"items": [3, 1, 2]}


def test_a_step_is_announced_when_there_is_something_to_take_again() -> None:
    shelf = Shelf()
    asked = ModelRequest(instructions="", messages=[UserMessage(text="hi")])
    for turn in range(4):
        shelf.recorder.begin_request("m", asked)
        shelf.recorder.end_request(ModelReply(text="hi"), USED, None)
        if turn == 1:
            shelf.take()
    assert shelf.announced == ["r", "r"]
    assert [batch.number for batch in shelf.batches] == [1]
    shelf.recorder.end_request(None, USED, None)
    assert len(shelf.whole()) == 4, "what never began is no step"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"a": "half \ud800 a character"}, {"a": "half \ufffd a character"}),
        ({"a": 2**70}, {"a": str(2**70)}),
        ({"a": object}, {"a": "[type]"}),
    ],
)
def test_what_is_no_json_is_recorded_as_near_to_it_as_it_can_be(given: dict[str, Any], stored: Any) -> None:
    shelf = Shelf()
    asked = ModelRequest(instructions="", messages=[UserMessage(text="\ud800 hi")])
    shelf.recorder.begin_request("m", asked)
    shelf.recorder.end_request(ModelReply(text="", calls=(ToolUse(id="c", name="n", input=given),)), USED, None)
    (step,) = shelf.whole()
    assert step.reply is not None
    assert step.reply["calls"][0]["input"] == stored
    assert step.request["messages"] == [{"role": "user", "text": "\ufffd hi"}]


def test_arguments_that_are_nested_without_end_are_a_note() -> None:
    shelf = Shelf()
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    shelf.recorder.begin_request("m", ModelRequest(instructions="", messages=[UserMessage(text="hi")]))
    shelf.recorder.end_request(ModelReply(text="", calls=(ToolUse(id="c", name="n", input=deep),)), USED, None)
    batch = shelf.recorder.take_steps()
    assert batch is not None
    assert "nested too deeply" in batch.steps


def test_a_large_picture_is_stored_by_its_size() -> None:
    shelf = Shelf()
    large = b"\x00" * (MOST_BINARY + 1)
    content = (Image(data=large, mime_type="image/png"), EmbeddedResource(uri="file:///x", content=large), Text("x"))
    answer = ToolAnswer(call=ToolUse(id="c", name="n", input={}), content=content)
    shelf.recorder.begin_request("m", ModelRequest(instructions="", messages=[answer]))
    shelf.recorder.end_request(ModelReply(text="hi"), USED, None)
    (step,) = shelf.whole()
    picture, resource, _ = step.request["messages"][0]["content"]
    assert picture == {"type": "image", "data": "[toolstead: 128,001 bytes left out]", "mimeType": "image/png"}
    assert resource["resource"]["text"] == "[toolstead: 128,001 bytes left out]"


def test_a_message_that_cannot_be_recorded_leaves_its_step_out_and_the_next_one_is_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shelf = Shelf()
    messages: list[Message] = [UserMessage(text="hi"), cast("Message", object())]
    for _ in range(2):
        shelf.recorder.begin_request("m", ModelRequest(instructions="Be.", messages=messages))
        shelf.recorder.end_request(ModelReply(text="hello"), USED, None)
        shelf.take()
        messages = [UserMessage(text="hi"), UserMessage(text="again")]
    (step,) = shelf.whole()
    assert step.number == 2
    assert (step.request["instructions"], len(step.request["messages"])) == ("Be.", 2)
    assert "incomplete" not in step.request
    assert "step 1 of run r could not be recorded" in caplog.text


def test_a_reader_says_where_steps_before_are_missing() -> None:
    shelf = Shelf()
    bench = Bench(ScriptedModel(*_overflows()), tools={"long": _long}).hear()
    run_virtually(converse(bench.conversation, msgspec.structs.replace(bench.activation, recorder=shelf.recorder)))
    steps = [step for step in shelf.stored() if step.number not in (1, 3)]
    found = {step.number: step.request for step in read_requests(steps)}
    assert {made.get("incomplete") for made in found.values()} == {INCOMPLETE}, "the tools were in the first one"
    assert {made["tools"] for made in found.values()} == {None}
    assert [message is None for message in found[2]["messages"]] == [True, True, False]
    whole = shown_request(bench.model.requests[4])["messages"]
    assert found[5]["messages"] == [*whole[:5], None, *whole[6:]], "all but the reply of the third"


class TestTurns:
    """A runtime that makes its requests itself: one step for each turn."""

    def make(self, **more: Any) -> tuple[Invoker, BenchRuntime, Shelf]:
        runtime = BenchRuntime(**more)
        return Invoker(SessionPool(ttl=60, most_idle=2, most_live=2)), runtime, Shelf()

    async def test_a_turn_is_one_step_with_what_was_given_and_what_came_back(self) -> None:
        async def answer(turn: Turn) -> Answer:
            return Answer(text="done", usage=USED)

        invoker, runtime, shelf = self.make(act=answer)

        async def before(prompt: str, warmth: str) -> str:
            return f"{warmth}: {prompt}"

        await invoke(invoker, request(runtime), "hello", recorder=shelf.recorder, before=before)
        await invoker.close()
        (step,) = shelf.whole()
        assert (step.number, step.kind, step.model, step.usage, step.error) == (1, "turn", "m", USED, None)
        made = dict(step.request)
        assert made.pop("instructions").startswith("You work for the user in the folder /project.")
        assert made == {
            "prompt": "cold: hello",
            "session": "cold",
            "cwd": "/project",
            "permissions": [],
            "tools": ["a", "b"],
        }
        assert step.reply == {"text": "done"}
        assert step.duration_ms >= 0

    async def test_a_turn_that_fails_says_why(self) -> None:
        async def fail(turn: Turn) -> Answer:
            raise RuntimeFailureError("the program died")

        invoker, runtime, shelf = self.make(act=fail)
        with pytest.raises(RuntimeFailureError):
            await invoke(invoker, request(runtime), recorder=shelf.recorder)
        await invoker.close()
        (step,) = shelf.whole()
        assert step.reply is None
        assert step.error is not None
        assert step.error.to_json() == {"code": "runtime", "message": "the program died"}

    async def test_a_turn_that_is_tried_again_on_a_new_session_is_two_steps(self) -> None:
        tries: list[str] = []

        async def lose(turn: Turn) -> Answer:
            tries.append(turn.prompt)
            if len(tries) == 2:
                raise SessionLostError("gone")
            return Answer(text="here")

        invoker, runtime, shelf = self.make(act=lose)
        await invoke(invoker, request(runtime))
        await invoke(invoker, request(runtime), recorder=shelf.recorder)
        await invoker.close()
        first, second = shelf.whole()
        assert (first.error and first.error.code, second.reply) == ("session_lost", {"text": "here"})
        assert (first.request["session"], second.request["session"]) == ("warm", "cold")
        assert shelf.stored()[1].request.keys() == {"prompt", "session", "cwd", "permissions", "sameAs"}
        assert second.request["instructions"] == first.request["instructions"]

    async def test_a_runtime_that_records_its_requests_gets_no_step_of_its_turn(self) -> None:
        async def ask(turn: Turn) -> Answer:
            turn.recorder.begin_request("m", ModelRequest(instructions="", messages=[UserMessage(text="hi")]))
            turn.recorder.end_request(ModelReply(text="hi"), USED, None)
            return Answer(text="hi")

        invoker, runtime, shelf = self.make(act=ask)
        await invoke(invoker, request(runtime), recorder=shelf.recorder)
        await invoker.close()
        assert [step.kind for step in shelf.whole()] == ["model"]

    async def test_a_turn_after_recorded_requests_comes_after_them(self) -> None:
        shelf = Shelf()
        shelf.recorder.begin_request("m", ModelRequest(instructions="", messages=[UserMessage(text="hi")]))
        shelf.recorder.end_request(ModelReply(text="hi"), USED, None)
        invoker, runtime, _ = self.make()
        await invoke(invoker, request(runtime), recorder=shelf.recorder)
        await invoker.close()
        assert [(step.number, step.kind) for step in shelf.whole()] == [(1, "model"), (2, "turn")]

    async def test_a_recorder_that_fails_changes_nothing_about_the_turn(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        invoker, runtime, shelf = self.make()

        def fail(*_: object) -> None:
            raise ValueError("the pen broke")

        monkeypatch.setattr("toolstead.invoker.step_requests.instructions_of", fail)
        with caplog.at_level(logging.ERROR):
            answer = await invoke(invoker, request(runtime), "hello", recorder=shelf.recorder)
        await invoker.close()
        assert (answer.text, shelf.whole()) == ("hello", [])
        assert "step 1 of run r could not be recorded" in caplog.text
