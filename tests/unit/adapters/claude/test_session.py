"""The session's own rules, with a connection that a test speaks through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import SystemMessage, ToolResultBlock, UserMessage

from tests.unit.adapters.claude.said import Listener, result, state, taken, whole
from toolstead.adapters.claude import session as under_test
from toolstead.adapters.claude.connection import BrokenError
from toolstead.adapters.claude.launch import Launch
from toolstead.adapters.claude.session import ClaudeSession
from toolstead.adapters.claude.tools_server import claude_copies
from toolstead.errors import LimitError, RuntimeFailureError, SessionLostError
from toolstead.invoker.runtime import SessionSpec
from toolstead.types.result import Failure

pytestmark = pytest.mark.requires("claude")

SPEC = SessionSpec(agent="main", model="anthropic:a", cwd=Path("/project"))


class Line:
    """Stands where the connection does."""

    def __init__(self, *_: Any, **hooks: Any) -> None:
        self.hooks = hooks
        self.is_alive = True
        self.pid = 1
        self.process = self
        self.did: list[Any] = []
        self.broken: BrokenError | None = None
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.answers = True

    @staticmethod
    def new_id() -> str:
        return "id"

    async def open(self) -> None:
        self._fail()

    async def send_message(self, id: str, text: str) -> None:
        self._fail()
        self.did.append(text)

    async def interrupt_turn(self) -> None:
        self.did.append("interrupt")
        if not self.answers:
            await asyncio.Event().wait()
        self.speak(taken("id"), result(None, subtype="error_during_execution"), state("idle"))
        for _ in range(20):  # that it was heard is said a little later
            await asyncio.sleep(0)

    async def list_tools_again(self) -> None:
        self.did.append("list")

    async def use_model(self, name: str) -> None:
        self._fail()
        self.did.append(("model", name))

    async def read_messages(self) -> AsyncIterator[Any]:
        while (message := await self.heard.get()) is not None:
            if isinstance(message, Exception):
                raise message
            yield message

    def kill(self) -> None:
        self.did.append("kill")
        self.is_alive = False
        self.heard.put_nowait(BrokenError("killed"))

    async def close(self) -> None:
        self.did.append("close")
        self.is_alive = False
        self.heard.put_nowait(None)
        await asyncio.sleep(0.01)

    def speak(self, *messages: Any) -> None:
        for message in messages:
            self.heard.put_nowait(message)

    def _fail(self) -> None:
        if self.broken is not None:
            raise self.broken


@pytest.fixture
async def session(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClaudeSession]:
    made = make(monkeypatch)
    await made.open()
    yield made
    await made.close()


def make(monkeypatch: pytest.MonkeyPatch) -> ClaudeSession:
    monkeypatch.setattr(under_test, "ClaudeConnection", Line)
    launch = Launch(argv=("claude",), environment={}, cwd=SPEC.cwd)
    return ClaudeSession(
        launch,
        SPEC,
        offered=lambda spec: [],
        copies=claude_copies(),
        own=["Bash", "Nap", "Agent"],
        resume=None,
        max_turns=2,
    )


def line_of(session: ClaudeSession) -> Line:
    line: Any = session._connection
    return line


async def begun(session: ClaudeSession, listener: Listener | None = None) -> asyncio.Task[Any]:
    """A turn that was given to the program."""
    running = asyncio.create_task(session.run((listener or Listener()).turn()))
    async with asyncio.timeout(5):
        while "go" not in line_of(session).did:
            await asyncio.sleep(0)
    return running


async def failure(running: asyncio.Task[Any]) -> BaseException | None:
    await asyncio.wait((running,), timeout=5)
    return running.exception()


async def test_one_turn_at_a_time_and_none_when_it_is_closed(session: ClaudeSession) -> None:
    running = await begun(session)
    with pytest.raises(RuntimeFailureError, match="already"):
        await session.run(Listener().turn())
    await session.close()
    assert isinstance(await failure(running), RuntimeFailureError)  # no loss: nobody is to try it again
    with pytest.raises(RuntimeFailureError, match="closed"):
        await session.run(Listener().turn())


async def test_a_program_that_is_closed_may_leave_by_itself(session: ClaudeSession) -> None:
    await session.close()
    assert line_of(session).did == ["close"]


async def test_a_program_that_is_not_heard_any_more_is_ended(session: ClaudeSession) -> None:
    running = await begun(session)
    line_of(session).speak(BrokenError("a message cannot be read"))
    error = await failure(running)
    assert isinstance(error, SessionLostError)
    assert "cannot be read" in str(error)
    assert "kill" in line_of(session).did
    assert not session.is_usable


async def test_a_prompt_that_cannot_be_given_is_a_lost_session(session: ClaudeSession) -> None:
    line_of(session).broken = BrokenError("the pipe is gone")
    with pytest.raises(SessionLostError, match="the pipe is gone"):
        await session.run(Listener().turn())


async def test_a_session_that_cannot_be_opened_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(monkeypatch)
    line_of(made).broken = BrokenError("no")
    with pytest.raises(BrokenError):
        await made.open()
    assert line_of(made).did == ["close"]


async def test_a_message_is_taken_only_while_a_turn_runs_and_its_program_lives(session: ClaudeSession) -> None:
    assert not await session.steer("too early")
    running = await begun(session)
    assert await session.steer("in time")
    progress = session._progress
    assert progress is not None
    progress.end_turn(RuntimeFailureError("over"))
    assert not await session.steer("over")
    await failure(running)
    another = asyncio.create_task(session.run(Listener().turn()))
    await asyncio.sleep(0)
    line_of(session).is_alive = False
    assert not await session.steer("dead")
    another.cancel()
    await failure_or_cancelled(another)
    assert line_of(session).did.count("in time") == 1


async def failure_or_cancelled(running: asyncio.Task[Any]) -> None:
    await asyncio.wait((running,), timeout=10)
    assert running.done()


async def test_cancelling_interrupts_and_the_program_lives(session: ClaudeSession) -> None:
    running = await begun(session)
    running.cancel()
    await asyncio.wait((running,), timeout=5)
    assert running.cancelled()
    assert line_of(session).did == ["go", "interrupt"]
    assert session.is_usable


async def test_a_program_that_does_not_stop_is_killed(session: ClaudeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "STOPPING", 0.05)
    line_of(session).answers = False
    running = await begun(session)
    running.cancel()
    await asyncio.wait((running,), timeout=5)
    assert running.cancelled()
    assert "kill" in line_of(session).did


async def test_who_is_cancelled_twice_waits_no_longer(session: ClaudeSession) -> None:
    line_of(session).answers = False
    running = await begun(session)
    running.cancel()
    async with asyncio.timeout(5):
        while "interrupt" not in line_of(session).did:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait((running,), timeout=2)
    assert running.cancelled()
    assert "kill" in line_of(session).did


async def test_a_tool_of_claudes_own_that_was_running_is_told_as_stopped_with_its_turn(session: ClaudeSession) -> None:
    listener = Listener()
    running = await begun(session, listener)
    used = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "c1"}
    await line_of(session).hooks["before_own"](used, "c1", {"signal": None})
    running.cancel()
    await asyncio.wait((running,), timeout=5)
    assert [told[2].failure for told in listener.outcomes] == [Failure.CANCELLED]


async def test_the_id_is_known_when_a_turn_has_begun_and_a_missing_tool_is_named_once(
    session: ClaudeSession, caplog: pytest.LogCaptureFixture
) -> None:
    assert session.id is None
    running = await begun(session)
    init = SystemMessage(subtype="init", data={"session_id": "s1", "tools": ["Bash", "Task"]})
    line_of(session).speak(init, init, taken("id"), result("done"), state("idle"))
    assert (await running).text == "done"
    assert session.id == "s1"
    assert [record.getMessage() for record in caplog.records] == ["runtime.claude.tools: Claude has no tool called Nap"]


async def test_another_model_and_other_tools_are_taken_and_nothing_else_is(session: ClaudeSession) -> None:
    def spec(**more: Any) -> SessionSpec:
        return SessionSpec(**{"agent": "main", "model": "anthropic:a", "cwd": SPEC.cwd, **more})

    assert await session.adapt_to(spec(tools=("probe",)))
    assert await session.adapt_to(spec(model="anthropic:b"))
    assert line_of(session).did == [("model", "b")]
    assert not await session.adapt_to(spec(agent="other"))
    assert not await session.adapt_to(spec(instructions="Be long."))
    assert not await session.adapt_to(spec(permissions=("Bash",)))
    line_of(session).is_alive = False
    assert not await session.adapt_to(spec(model="anthropic:b"))


async def test_a_model_that_it_does_not_take_is_named_and_it_stays_what_it_was(session: ClaudeSession) -> None:
    line_of(session).broken = BrokenError("no such model")
    with pytest.raises(RuntimeFailureError, match="anthropic:b: no such model"):
        await session.adapt_to(replace(SPEC, model="anthropic:b"))
    line_of(session).broken = None
    assert await session.adapt_to(SPEC)
    assert not line_of(session).did  # it asks the first one still


@pytest.mark.parametrize("answers", [True, False])
async def test_a_turn_at_its_limit_is_interrupted_and_a_program_that_does_not_stop_is_killed(
    session: ClaudeSession, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(under_test, "STOPPING", 0.1)
    line = line_of(session)
    line.answers = answers
    for _ in range(2 if answers else 1):  # the session goes on, and its next turn is bounded as well
        line.did.clear()
        running = await begun(session)
        progress = session._progress
        more = (whole("digs on", number, parent_tool_use_id="c1") for number in ("m2", "m3"))
        line.speak(whole("digs", "m1"), *more)
        assert isinstance(await failure(running), LimitError)
        assert progress is not None
        assert progress.stopping is not None
        assert progress.stopping.done()
        assert [did for did in line.did if did != "kill"] == ["go", "interrupt"]
        assert ("kill" in line.did) != answers
        assert session.is_usable == answers


async def test_tools_are_not_listed_again_while_an_agent_of_claudes_own_is_at_work(
    session: ClaudeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = line_of(session)
    monkeypatch.setattr(type(session._tools), "is_outdated", True)
    await line.hooks["after_batch"]({"agent_id": "a1"}, None, {"signal": None})
    assert line.did == []
    await line.hooks["after_batch"]({}, None, {"signal": None})
    assert line.did == ["list"]


async def test_a_crash_while_it_listens_is_logged_and_ends_the_turn(
    session: ClaudeSession, caplog: pytest.LogCaptureFixture
) -> None:
    class Clumsy(Listener):
        async def report_result(self, *given: Any, **more: Any) -> None:
            raise ZeroDivisionError

    caplog.set_level(logging.ERROR)
    running = await begun(session, Clumsy())
    used = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "c1"}
    await line_of(session).hooks["before_own"](used, "c1", {"signal": None})
    line_of(session).speak(UserMessage(content=[ToolResultBlock(tool_use_id="c1", content="done")]))
    assert isinstance(await failure(running), RuntimeFailureError)  # a tool was used
    assert any("could not be processed" in record.getMessage() for record in caplog.records)
