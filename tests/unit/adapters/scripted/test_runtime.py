"""The scripted runtime's sessions: silence, steering, ids, what they received."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.adapters.scripted.playing import SPEC, Listener, opened
from tests.virtual_time import run_virtually
from toolstead.errors import RuntimeFailureError, SessionLostError
from toolstead.testing import ScriptedRuntime
from toolstead.types.call import CallTurnTool
from toolstead.types.result import ToolResult


def _gated(inside: asyncio.Event, gate: asyncio.Event) -> CallTurnTool:
    async def call_tool(name: str, input: Mapping[str, Any], *, call_id: str | None = None) -> ToolResult:
        inside.set()
        await gate.wait()
        return ToolResult.of_json(name)

    return call_tool


async def test_what_is_said_comes_in_pieces_that_are_the_answer() -> None:
    _, session = await opened("- say: It is sunny in Bern.")
    listener = Listener()
    answer = await session.run(listener.turn("weather"))
    assert listener.deltas == ["It ", "is ", "sunny ", "in ", "Bern."]
    assert answer.text == "It is sunny in Bern."


async def test_everything_it_was_told_is_kept_for_the_test() -> None:
    runtime, session = await opened("- say: hi")
    await session.run(Listener().turn("one"))
    await session.run(Listener().turn("two"))
    other = await runtime.open(replace(SPEC, model="n"), thread_id="u", resume=session.id)
    await other.run(Listener().turn("three"))
    told = [(one.thread_id, one.prompt, one.warmth, one.spec.model) for one in runtime.received]
    assert told == [("t", "one", "cold", "m"), ("t", "two", "warm", "m"), ("u", "three", "resumed", "n")]
    assert session.id is not None
    said = [("user", "one"), ("assistant", "hi"), ("user", "two"), ("assistant", "hi"), ("user", "three")]
    assert runtime.conversation(session.id) == [*said, ("assistant", "hi")]
    assert runtime.conversation("unknown") == []


def test_a_delay_comes_before_anything_and_a_hang_after_it() -> None:
    async def main() -> None:
        _, session = await opened("- {delay: 5, say: hello, hang: 60}")
        loop, listener, heard = asyncio.get_running_loop(), Listener(), list[float]()
        turn = replace(listener.turn("x"), tell=lambda kind, data: heard.append(loop.time()))
        assert (await session.run(turn)).text == "hello"
        assert heard == [5]
        assert loop.time() == 65

    run_virtually(main())


async def test_a_hanging_turn_can_be_cancelled_and_the_session_goes_on() -> None:
    _, session = await opened("[{when: wait, hang: 1000}, {say: here}]")
    task = asyncio.create_task(session.run(Listener().turn("wait")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.is_usable
    assert (await session.run(Listener().turn("x"))).text == "here"


async def test_a_message_that_comes_while_it_runs_ends_the_silence_and_is_answered_in_the_same_turn() -> None:
    runtime, session = await opened("[{when: wait, say: waiting, hang: 1000}, {when: go on, say: going on}]")
    listener = Listener()
    task = asyncio.create_task(session.run(listener.turn("wait")))
    await asyncio.sleep(0)
    assert await session.steer("go on")
    assert (await task).text == "going on"
    assert "".join(listener.deltas) == "waitinggoing on"
    assert [(one.prompt, one.steered) for one in runtime.received] == [("wait", False), ("go on", True)]
    assert not await session.steer("too late")


async def test_a_message_for_a_turn_that_was_cancelled_is_not_answered_by_the_next_one() -> None:
    _, session = await opened("[{when: wait, hang: 1000}, {when: go on, say: going on}, {say: here}]")
    task = asyncio.create_task(session.run(Listener().turn("wait")))
    await asyncio.sleep(0)
    assert await session.steer("go on")
    task.cancel()
    await asyncio.wait((task,))
    assert (await session.run(Listener().turn("x"))).text == "here"


async def test_a_message_that_comes_during_a_call_ends_the_silence_after_it() -> None:
    _, session = await opened("[{when: wait, call: [{tool: t}], say: waiting, hang: 1000}, {say: going on}]")
    inside, gate = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(session.run(replace(Listener().turn("wait"), call_tool=_gated(inside, gate))))
    await inside.wait()
    assert await session.steer("go on")
    gate.set()
    assert (await asyncio.wait_for(task, 30)).text == "going on"


async def test_closing_during_a_call_ends_the_turn_after_it() -> None:
    _, session = await opened("[{call: [{tool: t}], say: never}]")
    inside, gate = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(session.run(replace(Listener().turn("x"), call_tool=_gated(inside, gate))))
    await inside.wait()
    await session.close()
    gate.set()
    with pytest.raises(RuntimeFailureError, match="is closed"):
        await task


def test_a_silence_that_was_cut_off_does_not_end_the_next_one() -> None:
    async def main() -> None:
        _, session = await opened("[{hang: 100}, {hang: 1000}]")
        task = asyncio.create_task(session.run(Listener().turn("x")))
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.wait((task,))
        await session.run(Listener().turn("x"))
        assert asyncio.get_running_loop().time() == 1010

    run_virtually(main())


async def test_closing_ends_a_turn_in_silence_and_closing_twice_is_safe() -> None:
    runtime, session = await opened("- hang: 1000")
    task = asyncio.create_task(session.run(Listener().turn("x")))
    await asyncio.sleep(0)
    await session.close()
    await session.close()
    with pytest.raises(RuntimeFailureError, match="is closed"):
        await task
    assert not await session.steer("x")
    assert not session.is_usable
    assert (runtime.opened, runtime.closed) == (1, 1)


async def test_a_failure_says_what_the_script_says_and_ends_the_session() -> None:
    _, session = await opened("- fail: the model is overloaded")
    with pytest.raises(RuntimeFailureError, match="the model is overloaded"):
        await session.run(Listener().turn("x"))
    assert not session.is_usable
    with pytest.raises(RuntimeFailureError, match="has failed before"):
        await session.run(Listener().turn("x"))


async def test_two_turns_at_once_are_refused() -> None:
    _, session = await opened("- hang: 1000")
    task = asyncio.create_task(session.run(Listener().turn("x")))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeFailureError, match="runs a turn already"):
        await session.run(Listener().turn("y"))
    assert session.is_usable
    task.cancel()
    await asyncio.wait((task,))


async def test_an_id_that_rotates_leads_nowhere_afterwards(tmp_path: Path) -> None:
    runtime, session = await opened("[{say: a, rotate: true}]", folder=tmp_path)
    before = session.id
    await session.run(Listener().turn("x"))
    assert session.id != before
    assert (await runtime.open(SPEC, thread_id="t", resume=session.id)).is_resumed
    with pytest.raises(SessionLostError):
        await runtime.open(SPEC, thread_id="t", resume=before)


async def test_a_lost_conversation_is_lost_for_every_process(tmp_path: Path) -> None:
    script = "[{say: kept}, {lose: true}]"
    _, session = await opened(script, folder=tmp_path)
    await session.run(Listener().turn("x"))
    with pytest.raises(SessionLostError):
        await session.run(Listener().turn("x"))
    with pytest.raises(SessionLostError):
        await ScriptedRuntime(script, folder=tmp_path).open(SPEC, thread_id="t", resume=session.id)


async def test_another_process_resumes_a_conversation_from_the_folder_where_it_was(tmp_path: Path) -> None:
    script = "[{say: one}, {say: two}, {say: three}]"
    _, session = await opened(script, folder=tmp_path / "new")
    await session.run(Listener().turn("a"))
    other = ScriptedRuntime(script, folder=tmp_path / "new")
    again = await other.open(SPEC, thread_id="t", resume=session.id)
    assert again.is_resumed
    assert (await again.run(Listener().turn("b"))).text == "two"
    assert session.id is not None
    assert other.conversation(session.id) == [("user", "a"), ("assistant", "one"), ("user", "b"), ("assistant", "two")]
    with pytest.raises(SessionLostError):
        await ScriptedRuntime(script).open(SPEC, thread_id="t", resume=session.id)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"said": [1], "threadId": "t", "played": 0}'])
async def test_a_kept_conversation_that_cannot_be_read_is_lost(tmp_path: Path, content: str) -> None:
    (tmp_path / "0123456789abcdef.json").write_text(content, encoding="utf-8")
    with pytest.raises(SessionLostError):
        await ScriptedRuntime("- say: a", folder=tmp_path).open(SPEC, thread_id="t", resume="0123456789abcdef")


async def test_an_id_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"said": [], "threadId": "t", "played": 0}', encoding="utf-8")
    (tmp_path / "inside").mkdir()
    with pytest.raises(SessionLostError):
        await ScriptedRuntime("- say: a", folder=tmp_path / "inside").open(SPEC, thread_id="t", resume="../secret")


async def test_a_runtime_that_does_not_resume_begins_empty_whatever_it_is_asked() -> None:
    runtime, session = await opened("- say: a", resumes=False)
    for resume in (session.id, "unknown"):
        assert not (await runtime.open(SPEC, thread_id="t", resume=resume)).is_resumed


async def test_another_model_is_adapted_to_and_nothing_else() -> None:
    runtime, session = await opened("- say: a")
    assert await session.adapt_to(replace(SPEC, model="n"))
    assert not await session.adapt_to(replace(SPEC, model="n", tools=("x",)))
    await session.run(Listener().turn("x"))
    assert runtime.received[0].spec.model == "n"


def test_it_counts_as_a_process_only_when_asked_to() -> None:
    assert not ScriptedRuntime("- say: a").owns_process
    assert ScriptedRuntime("- say: a", owns_process=True).owns_process
