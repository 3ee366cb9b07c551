"""The kernel as a runtime: sessions, what they remember, and what they are when something failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kernel.scripted_model import Hang, ScriptedModel, calls, check_whole, echo, fault, info, says, use
from tests.virtual_time import run_virtually
from toolstead.errors import ModelError, RuntimeFailureError, SessionLostError
from toolstead.invoker import kernel_runtime
from toolstead.invoker.kernel_runtime import MOST_KEPT, KernelRuntime
from toolstead.invoker.runtime import SessionSpec, Turn
from toolstead.kernel.activation import Limits
from toolstead.kernel.conversation import ModelReply, UserMessage
from toolstead.kernel.model import ModelDelta
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult
from toolstead.types.run import Usage
from toolstead.types.tool import ToolInfo

SPEC = SessionSpec(agent="main", model="one", cwd=Path("/somewhere"), tools=("echo",))


@dataclass
class House:
    """A runtime with models and tools of its own."""

    models: dict[str, ScriptedModel]
    tools: dict[str, ToolInfo] = field(default_factory=lambda: {"echo": info("echo"), "other": info("other")})
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.offers: dict[tuple[str, ...], Sequence[ToolInfo]] = {}
        self.runtime = KernelRuntime(
            connect=self._connect, resolve=self._resolve, offered=self._offered, limits=self.limits
        )

    async def _connect(self, name: str) -> ScriptedModel:
        await asyncio.sleep(0)
        return self.models[name]

    def _resolve(self, name: str) -> str:
        full = f"scripted:{name or 'one'}"
        if full not in self.models:
            raise RuntimeFailureError(f"there is no model {name!r}")
        return full

    def _offered(self, spec: SessionSpec) -> Sequence[ToolInfo]:
        return self.offers.setdefault(spec.tools, tuple(self.tools[name] for name in spec.tools))


def _house(*plays: Any, **given: Any) -> House:
    return House({"scripted:one": ScriptedModel(*plays or [says("Hello.")])}, **given)


def _turn(prompt: str = "hi", told: list[tuple[str, Any]] | None = None) -> Turn:
    async def call_tool(name: str, input: Mapping[str, Any], *, call_id: str | None = None) -> ToolResult:
        return await echo(input)

    heard = told if told is not None else []
    return Turn(prompt=prompt, caller=Caller(), tell=lambda kind, data: heard.append((kind, data)), call_tool=call_tool)


def _model(house: House, name: str = "one") -> ScriptedModel:
    return house.models[f"scripted:{name}"]


async def test_a_session_has_no_id_before_anything_was_said() -> None:
    session = await _house().runtime.open(SPEC, thread_id="t")
    assert (session.id, session.is_resumed, session.is_usable) == (None, False, True)
    await session.run(_turn())
    assert session.id is not None


async def test_an_answer_has_its_text_and_what_it_used() -> None:
    house = _house(says("Hello.", usage=Usage(input_tokens=3, output_tokens=5, cost=0.1)))
    told: list[tuple[str, Any]] = []
    answer = await (await house.runtime.open(SPEC, thread_id="t")).run(_turn(told=told))
    assert (answer.text, answer.usage) == ("Hello.", Usage(input_tokens=3, output_tokens=5, cost=0.1))
    assert [kind for kind, _ in told] == ["message.delta", "usage"]


async def test_a_session_remembers_from_turn_to_turn() -> None:
    house = _house()
    session = await house.runtime.open(SPEC, thread_id="t")
    await session.run(_turn("one"))
    await session.run(_turn("two"))
    assert _model(house).requests[1].messages == [
        UserMessage(text="one"),
        ModelReply(text="Hello."),
        UserMessage(text="two"),
    ]


async def test_the_model_is_told_the_agents_instructions_or_ours() -> None:
    house = _house()
    await (await house.runtime.open(SPEC, thread_id="t")).run(_turn())
    await (await house.runtime.open(replace(SPEC, instructions="Be {brief}."), thread_id="t")).run(_turn())
    assert "/somewhere" in _model(house).requests[0].instructions
    assert _model(house).requests[1].instructions == "Be {brief}."


async def test_the_tools_of_its_specification_are_offered() -> None:
    house = _house(calls(use("echo")), says("Done."))
    await (await house.runtime.open(SPEC, thread_id="t")).run(_turn())
    assert [request.tools for request in _model(house).requests] == [(house.tools["echo"],)] * 2


async def test_a_closed_conversation_is_resumed() -> None:
    house = _house()
    first = await house.runtime.open(SPEC, thread_id="t")
    await first.run(_turn("one"))
    await first.close()
    second = await house.runtime.open(SPEC, thread_id="t", resume=first.id)
    assert second.is_resumed
    assert second.id == first.id
    await second.run(_turn("two"))
    assert len(_model(house).requests[-1].messages) == 3


async def test_an_unknown_conversation_is_lost_and_named() -> None:
    with pytest.raises(SessionLostError, match="'nobody'"):
        await _house().runtime.open(SPEC, thread_id="t", resume="nobody")


async def test_the_conversations_opened_longest_ago_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_KEPT > 100
    monkeypatch.setattr(kernel_runtime, "MOST_KEPT", 3)
    house = _house()
    ids: list[str | None] = []
    for _ in range(3):
        session = await house.runtime.open(SPEC, thread_id="t")
        await session.run(_turn())
        ids.append(session.id)
    await house.runtime.open(SPEC, thread_id="t", resume=ids[0])  # this makes it the latest
    await house.runtime.open(SPEC, thread_id="t")
    with pytest.raises(SessionLostError):
        await house.runtime.open(SPEC, thread_id="t", resume=ids[1])
    for kept in (ids[0], ids[2]):
        assert (await house.runtime.open(SPEC, thread_id="t", resume=kept)).is_resumed


async def test_a_model_that_cannot_be_had_is_told_and_costs_no_conversation() -> None:
    house = _house()
    session = await house.runtime.open(SPEC, thread_id="t")
    await session.run(_turn())
    with pytest.raises(RuntimeFailureError, match="no model 'none'"):
        await house.runtime.open(replace(SPEC, model="none"), thread_id="t", resume=session.id)
    assert (await house.runtime.open(SPEC, thread_id="t", resume=session.id)).is_resumed


async def test_an_empty_name_asks_for_the_usual_model() -> None:
    house = _house()
    assert house.runtime.resolve_model("") == "scripted:one"
    await (await house.runtime.open(replace(SPEC, model=""), thread_id="t")).run(_turn())
    assert len(_model(house).requests) == 1


async def test_it_adapts_to_another_model_other_tools_and_other_instructions() -> None:
    house = _house()
    house.models["scripted:two"] = ScriptedModel(says("Salut."), name="scripted:two")
    session = await house.runtime.open(SPEC, thread_id="t")
    await session.run(_turn("one"))
    assert await session.adapt_to(replace(SPEC, model="two", tools=("other",), instructions="Be kind."))
    assert (await session.run(_turn("two"))).text == "Salut."
    (request,) = _model(house, "two").requests
    assert len(request.messages) == 3
    assert request.tools == (house.tools["other"],)
    assert request.instructions == "Be kind."


async def test_it_stays_what_it_was_when_it_cannot_adapt() -> None:
    house = _house()
    session = await house.runtime.open(SPEC, thread_id="t")
    with pytest.raises(RuntimeFailureError):
        await session.adapt_to(replace(SPEC, model="none", instructions="x"))
    await session.run(_turn())
    assert _model(house).requests[0].instructions != "x"


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_tool_that_one_model_refuses_is_offered_to_another(resumed: bool) -> None:
    house = _house(fault("schema", tool="echo"), says("Hello."))
    house.models["scripted:two"] = ScriptedModel(says("Salut."), name="scripted:two")
    session = await house.runtime.open(SPEC, thread_id="t")
    await session.run(_turn())
    assert not _model(house).requests[1].tools
    other = replace(SPEC, model="two")
    if resumed:
        session = await house.runtime.open(other, thread_id="t", resume=session.id)
    else:
        await session.adapt_to(other)
    await session.run(_turn())
    assert _model(house, "two").requests[0].tools == (house.tools["echo"],)


async def test_a_tool_that_a_model_refuses_stays_out_when_something_else_changes() -> None:
    house = _house(fault("schema", tool="echo"), says("Hello."))
    session = await house.runtime.open(SPEC, thread_id="t")
    await session.run(_turn())
    await session.adapt_to(replace(SPEC, instructions="Be kind."))
    await session.run(_turn())
    assert [len(request.tools) for request in _model(house).requests] == [1, 0, 0]


def test_two_turns_at_once_are_refused_and_the_first_goes_on() -> None:
    async def main() -> None:
        session = await _house([Hang(5), *says("Hello.")]).runtime.open(SPEC, thread_id="t")
        first = asyncio.create_task(session.run(_turn("one")))
        await asyncio.sleep(1)
        with pytest.raises(RuntimeFailureError, match="runs a turn already"):
            await session.run(_turn("two"))
        assert (await first).text == "Hello."
        assert (await session.run(_turn("three"))).text == "Hello."

    run_virtually(main())


def test_two_sessions_of_one_conversation_never_run_at_once() -> None:
    async def main() -> None:
        house = _house([Hang(5), *says("Hello.")])
        one = await house.runtime.open(SPEC, thread_id="t")
        first = asyncio.create_task(one.run(_turn("one")))
        await asyncio.sleep(1)
        other = await house.runtime.open(SPEC, thread_id="t", resume=one.id)
        with pytest.raises(RuntimeFailureError, match="runs a turn already"):
            await other.run(_turn("two"))
        assert not await other.steer("three")
        assert (await first).text == "Hello."
        await other.run(_turn("four"))
        assert _model(house).requests[-1].messages == [
            UserMessage(text="one"),
            ModelReply(text="Hello."),
            UserMessage(text="four"),
        ]

    run_virtually(main())


async def test_a_closed_session_is_refused() -> None:
    house = _house()
    session = await house.runtime.open(SPEC, thread_id="t")
    await session.close()
    await session.close()
    assert not session.is_usable
    with pytest.raises(RuntimeFailureError, match="closed"):
        await session.run(_turn())
    assert not _model(house).requests


def test_closing_ends_the_turn_that_runs() -> None:
    async def main() -> None:
        house = _house([ModelDelta("Hel"), Hang()])
        session = await house.runtime.open(SPEC, thread_id="t")
        task = asyncio.create_task(session.run(_turn("one")))
        await asyncio.sleep(1)
        await session.close()
        await session.close()
        assert not await session.steer("too late")
        with pytest.raises(RuntimeFailureError, match="closed while it ran"):
            await task
        assert _model(house).open == 0
        assert asyncio.get_running_loop().time() == 1
        again = await house.runtime.open(SPEC, thread_id="t", resume=session.id)
        _model(house).plays = [says("Hello.")]
        await again.run(_turn("two"))
        assert _model(house).requests[-1].messages == [
            UserMessage(text="one"),
            ModelReply(text="Hel"),
            UserMessage(text="two"),
        ]

    run_virtually(main())


def test_a_timeout_of_somebody_else_is_no_closing() -> None:
    async def main() -> None:
        session = await _house([Hang()], limits=Limits(stall=1e6)).runtime.open(SPEC, thread_id="t")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run(_turn()), 1)
        assert session.is_usable

    run_virtually(main())


async def test_a_turn_that_failed_leaves_the_session_usable() -> None:
    house = _house(fault("key", "no key"), says("Hello."))
    session = await house.runtime.open(SPEC, thread_id="t")
    with pytest.raises(ModelError, match="no key"):
        await session.run(_turn("one"))
    assert session.is_usable
    assert (await session.run(_turn("two"))).text == "Hello."
    assert _model(house).requests[1].messages == [UserMessage(text="one"), UserMessage(text="two")]


async def test_the_limits_are_those_it_was_made_with() -> None:
    house = _house(calls(use("echo")), limits=Limits(turns=2))
    session = await house.runtime.open(SPEC, thread_id="t")
    with pytest.raises(RuntimeFailureError, match="2 turns"):
        await session.run(_turn())


def test_a_running_turn_takes_a_message_and_answers_it() -> None:
    async def main() -> None:
        house = _house([ModelDelta("A"), Hang(5), ModelReply(text="A")], says("B"))
        session = await house.runtime.open(SPEC, thread_id="t")
        assert not await session.steer("too early")
        task = asyncio.create_task(session.run(_turn("a?")))
        await asyncio.sleep(1)
        assert await session.steer("and b?")
        assert (await task).text == "B"
        assert _model(house).requests[1].messages[-1] == UserMessage(text="and b?")
        assert not await session.steer("too late")

    run_virtually(main())


def test_a_message_that_came_too_late_for_a_failing_turn_is_told_with_the_next() -> None:
    async def main() -> None:
        house = _house([Hang(5), *fault("rejected")], says("Hello."))
        session = await house.runtime.open(SPEC, thread_id="t")
        task = asyncio.create_task(session.run(_turn("one")))
        await asyncio.sleep(1)
        assert await session.steer("two")
        with pytest.raises(ModelError):
            await task
        await session.run(_turn("three"))
        assert _model(house).requests[1].messages == [UserMessage(text=text) for text in ("one", "two", "three")]

    run_virtually(main())


def test_an_interrupted_turn_leaves_a_whole_conversation_and_a_session_that_goes_on() -> None:
    async def main() -> None:
        house = _house(calls(use("echo")), [ModelDelta("I am"), Hang()], says("Hello."))
        session = await house.runtime.open(SPEC, thread_id="t")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run(_turn("one")), 1)
        assert _model(house).open == 0
        await session.run(_turn("two"))
        messages = _model(house).requests[-1].messages
        check_whole(messages)
        assert messages[-2:] == [ModelReply(text="I am"), UserMessage(text="two")]

    run_virtually(main())


def test_sessions_never_see_each_others_messages() -> None:
    async def main() -> None:
        house = _house([Hang(1), *says("Hello.")])
        sessions = [await house.runtime.open(SPEC, thread_id="t") for _ in range(5)]
        for turn in range(3):
            await asyncio.gather(*(one.run(_turn(f"{n} {turn}")) for n, one in enumerate(sessions)))
        assert len({session.id for session in sessions}) == 5
        for request in _model(house).requests:
            said = [message.text for message in request.messages if isinstance(message, UserMessage)]
            assert len({text.split()[0] for text in said}) == 1
            assert [text.split()[1] for text in said] == [str(n) for n in range(len(said))]

    run_virtually(main())
