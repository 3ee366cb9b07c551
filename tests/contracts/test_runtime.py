"""The runtime port: one suite, run on every implementation.

An implementation joins with a `Kit`: how to make a runtime whose model does each of the things
below when it is told the word. What a kit cannot do, it leaves out, and the reason stands there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.claude_kit import scripted_claude
from tests.contracts.playing_model import playing_kernel
from tests.waiting import PATIENCE
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import Runtime, Session, SessionSpec, Turn
from toolstead.testing import ScriptedRuntime
from toolstead.types.call import Caller
from toolstead.types.content import Text
from toolstead.types.result import ToolResult

SCRIPT = """
- {when: ^say hello, say: "Hello to you, dear caller.", usage: {inputTokens: 3, outputTokens: 5}}
- {when: ^use the tool, call: [{tool: probe, input: {n: 7}}], say: "The tool said {{result}}"}
- {when: ^use both, call: [{tool: probe, input: {n: 1}}, {tool: probe, input: {n: 2}}], say: Both are done.}
- {when: ^be silent, hang: 3600}
- {when: ^fail, fail: the model is overloaded}
- {when: ^lose it, lose: 1000000}
"""


@dataclass(frozen=True)
class Kit:
    """How to make a runtime, and what it cannot do.

    Attributes:
        make: Makes one that keeps what it must keep in this folder.
        resumes: Whether a closed session's conversation can be opened again.
        survives: Whether another process can do that too.
        loses: Whether a conversation can be lost in the middle of a turn.
    """

    make: Callable[[Path], Runtime]
    resumes: bool = True
    survives: bool = True
    loses: bool = True


KITS = {
    "scripted": Kit(lambda folder: ScriptedRuntime(SCRIPT, folder=folder)),
    # The kernel has its conversations in memory: they end with the process, and not before.
    "kernel": Kit(lambda folder: playing_kernel(SCRIPT, "probe"), survives=False, loses=False),
    # A conversation of Claude Code is a file: nothing that a model says makes it lose one.
    "claude": Kit(lambda folder: scripted_claude(SCRIPT, folder), loses=False),
}


@dataclass
class Listener:
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    inside: asyncio.Event = field(default_factory=asyncio.Event)
    open_gate: asyncio.Event | None = None
    cancelled: int = 0

    async def call_tool(
        self, name: str, input: Mapping[str, Any], *, call_id: str | None = None, **more: Any
    ) -> ToolResult:
        self.calls.append((name, dict(input)))
        self.inside.set()
        try:
            if self.open_gate is not None:
                await self.open_gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return ToolResult(content=(Text(f"probed {input['n']}"),))

    def turn(self, prompt: str) -> Turn:
        return Turn(
            prompt=prompt,
            caller=Caller(thread_id="t"),
            tell=lambda kind, data: self.told.append((kind, data)),
            call_tool=self.call_tool,
        )


NEEDED = {"claude"}
"""Kits of programs that a machine may lack."""


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.requires(name)] if name in NEEDED else []) for name in sorted(KITS)]
)
def kit(request: pytest.FixtureRequest) -> Kit:
    return KITS[request.param]


@pytest.fixture
def runtime(kit: Kit, tmp_path: Path) -> Runtime:
    return kit.make(tmp_path)


@pytest.fixture
def spec(tmp_path: Path) -> SessionSpec:
    return SessionSpec(agent="main", model="m", cwd=tmp_path, tools=("probe",), instructions="Be brief.")


@pytest.fixture
async def session(runtime: Runtime, spec: SessionSpec) -> AsyncGenerator[Session]:
    opened = await runtime.open(spec, thread_id="t")
    yield opened
    await opened.close()


async def run(session: Session, prompt: str, listener: Listener | None = None) -> str:
    async with asyncio.timeout(PATIENCE):
        return (await session.run((listener or Listener()).turn(prompt))).text


async def interrupted(task: asyncio.Task[Any]) -> None:
    """Cancel it; it ends cancelled."""
    task.cancel()
    done, _ = await asyncio.wait((task,), timeout=PATIENCE)
    assert done, "cancelling does not end it"
    assert task.cancelled()


def test_a_runtime_has_a_name_and_says_whether_it_owns_a_process(runtime: Runtime) -> None:
    assert runtime.name in {"kernel", "claude", "codex", "scripted", "demo"}
    assert runtime.owns_process in {True, False}


async def test_a_new_session_is_empty_and_usable(session: Session) -> None:
    assert session.is_usable
    assert not session.is_resumed


async def test_what_is_streamed_is_the_answer(session: Session) -> None:
    listener = Listener()
    answer = await run(session, "say hello", listener)
    assert answer == "Hello to you, dear caller."
    assert "".join(data["text"] for kind, data in listener.told if kind == "message.delta") == answer


async def test_an_answer_says_what_it_used(session: Session) -> None:
    answer = await session.run(Listener().turn("say hello"))
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 5)


async def test_a_tool_gets_its_arguments_and_the_model_its_result(session: Session) -> None:
    listener = Listener()
    assert await run(session, "use the tool", listener) == "The tool said probed 7"
    assert listener.calls == [("probe", {"n": 7})]


async def test_several_calls_of_one_turn_are_all_made(session: Session) -> None:
    listener = Listener()
    await run(session, "use both", listener)
    assert sorted(given["n"] for _, given in listener.calls) == [1, 2]


async def test_a_session_runs_one_turn_after_another(session: Session) -> None:
    assert [await run(session, "say hello") for _ in range(3)] == ["Hello to you, dear caller."] * 3
    assert session.id is not None


async def test_cancelling_interrupts_a_silent_model_and_the_session_goes_on(session: Session) -> None:
    task = asyncio.create_task(session.run(Listener().turn("be silent")))
    await asyncio.sleep(0)
    await interrupted(task)
    assert session.is_usable
    assert await run(session, "say hello") == "Hello to you, dear caller."


async def test_cancelling_reaches_a_tool_that_is_running(session: Session) -> None:
    listener = Listener(open_gate=asyncio.Event())
    task = asyncio.create_task(session.run(listener.turn("use the tool")))
    async with asyncio.timeout(PATIENCE):
        await listener.inside.wait()
    await interrupted(task)
    assert listener.cancelled == 1


async def test_a_failure_says_why(session: Session) -> None:
    with pytest.raises(RuntimeFailureError, match="the model is overloaded"):
        await run(session, "fail")


async def test_a_lost_conversation_is_told_as_lost_and_stays_lost(
    kit: Kit, runtime: Runtime, session: Session, spec: SessionSpec
) -> None:
    if not kit.loses:
        return
    await run(session, "say hello")
    known = session.id
    with pytest.raises(SessionLostError):
        await run(session, "lose it")
    assert not session.is_usable
    with pytest.raises(SessionLostError):
        await runtime.open(spec, thread_id="t", resume=known)


async def test_a_conversation_can_be_opened_again(kit: Kit, runtime: Runtime, spec: SessionSpec) -> None:
    if not kit.resumes:
        return
    first = await runtime.open(spec, thread_id="t")
    await run(first, "say hello")
    await first.close()
    second = await runtime.open(spec, thread_id="t", resume=first.id)
    assert second.is_resumed
    assert await run(second, "say hello") == "Hello to you, dear caller."
    await second.close()


async def test_a_conversation_can_be_opened_again_in_another_process(
    kit: Kit, spec: SessionSpec, tmp_path: Path
) -> None:
    if not kit.resumes or not kit.survives:
        return
    first = await kit.make(tmp_path).open(spec, thread_id="t")
    await run(first, "say hello")
    await first.close()
    second = await kit.make(tmp_path).open(spec, thread_id="t", resume=first.id)
    assert second.is_resumed
    assert await run(second, "say hello") == "Hello to you, dear caller."
    await second.close()


async def test_an_unknown_conversation_is_lost(kit: Kit, runtime: Runtime, spec: SessionSpec) -> None:
    if kit.resumes:
        with pytest.raises(SessionLostError):
            await runtime.open(spec, thread_id="t", resume="00000000-0000-0000-0000-000000000000")


async def test_steering_needs_a_running_turn(session: Session) -> None:
    assert not await session.steer("too early")
    await run(session, "say hello")
    assert not await session.steer("too late")


async def test_adapting_to_the_same_is_always_possible(session: Session, spec: SessionSpec) -> None:
    assert await session.adapt_to(spec)
    assert await run(session, "say hello") == "Hello to you, dear caller."


async def test_a_closed_session_is_not_usable_and_closing_twice_is_safe(session: Session) -> None:
    await session.close()
    await session.close()
    assert not session.is_usable
    with pytest.raises((RuntimeFailureError, SessionLostError)):
        await run(session, "say hello")


async def test_closing_ends_a_turn_that_is_running(session: Session) -> None:
    task = asyncio.create_task(session.run(Listener().turn("be silent")))
    await asyncio.sleep(0)
    await session.close()
    done, _ = await asyncio.wait((task,), timeout=PATIENCE)
    assert done
    assert isinstance(task.exception(), RuntimeFailureError | SessionLostError)


async def test_sessions_do_not_hear_each_other(runtime: Runtime, spec: SessionSpec) -> None:
    one, other = await runtime.open(spec, thread_id="one"), await runtime.open(spec, thread_id="other")
    first, second = Listener(), Listener()
    await asyncio.gather(run(one, "use the tool", first), run(other, "say hello", second))
    assert len(first.calls) == 1
    assert not second.calls
    assert one.id != other.id
    await one.close()
    assert other.is_usable
    await other.close()
