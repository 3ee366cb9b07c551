"""Sessions of Codex whose process dies or freezes, without a pool before them: each knows how to help itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.captured import user_texts
from tests.e2e.codex_stage import PATIENCE, processes_of
from tests.e2e.model_stage import freeze
from toolstead.adapters.codex import session as session_module
from toolstead.adapters.codex.app_server import AppServer
from toolstead.adapters.codex.runtime import CodexRuntime
from toolstead.adapters.codex.session import CodexSession
from toolstead.adapters.codex.station import Station
from toolstead.errors import SessionLostError
from toolstead.invoker.runtime import SessionSpec, Turn
from toolstead.testing import ScriptedModels, scripted_models
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult
from toolstead.types.tool import Provenance, ToolInfo

pytestmark = pytest.mark.requires("codex")

SCRIPT = """
- {when: ^hello, say: Hello.}
- {when: ^dig, call: [{tool: dig, input: {}}], say: Done.}
"""
DIG = ToolInfo(
    name="dig",
    description="Digs for ever.",
    provenance=Provenance(source="plugin", origin="tests"),
    input_schema={"type": "object", "properties": {}},
)


class House:
    """A runtime, its sessions, and a tool that takes for ever."""

    def __init__(self, api: ScriptedModels, folder: Path) -> None:
        self.api = api
        self.home = folder / "codex"
        self.spec = SessionSpec(agent="main", model="gpt-6.1-sol", cwd=folder)
        environ = {"PATH": os.environ["PATH"], **api.environ()}
        self.runtime = CodexRuntime(offered=lambda spec: [DIG], folder=self.home, lookup=environ.get)
        self.digging = asyncio.Event()
        self.lived_when_cancelled: list[bool] = []

    async def open(self) -> CodexSession:
        return await self.runtime.open(self.spec, thread_id="t")

    async def call(self, name: str, input: Mapping[str, Any], *, call_id: str | None = None) -> ToolResult:
        self.digging.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.lived_when_cancelled.append(bool(processes_of(self.home)))
            raise
        raise AssertionError

    def turn(self, prompt: str) -> Turn:
        return Turn(prompt=prompt, caller=Caller(thread_id="t"), tell=lambda kind, data: None, call_tool=self.call)

    async def run(self, session: CodexSession, prompt: str) -> str:
        return (await asyncio.wait_for(session.run(self.turn(prompt)), PATIENCE)).text

    @property
    def program(self) -> int:
        (pid,) = processes_of(self.home)
        return pid

    def kill(self) -> int:
        pid = self.program
        os.kill(pid, signal.SIGKILL)
        return pid


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with scripted_models(SCRIPT) as api:
        made = House(api, tmp_path)
        yield made
        assert not processes_of(made.home)


async def test_a_turn_that_meets_a_dead_process_is_begun_in_another_with_its_conversation(house: House) -> None:
    session = await house.open()
    assert await house.run(session, "hello") == "Hello."
    before, known = house.kill(), session.id
    assert await house.run(session, "hello") == "Hello."
    assert user_texts(house.api.requests[-1]).count("hello") == 2
    assert session.id == known
    assert before not in processes_of(house.home)
    assert session.is_usable
    await session.close()


async def test_a_process_that_dies_in_a_turn_loses_it_and_the_tool_is_cancelled(house: House) -> None:
    session = await house.open()
    running = asyncio.create_task(house.run(session, "dig"))
    await asyncio.wait_for(house.digging.wait(), PATIENCE)
    house.kill()
    with pytest.raises(SessionLostError, match="in the middle of the turn"):
        await running
    assert not session.is_usable
    assert len(house.lived_when_cancelled) == 1
    await session.close()


async def test_a_frozen_process_is_killed_when_it_does_not_interrupt_and_tools_end_before(house: House) -> None:
    session = await house.open()
    running = asyncio.create_task(session.run(house.turn("dig")))
    await asyncio.wait_for(house.digging.wait(), PATIENCE)
    await freeze(house.program)
    running.cancel()
    await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()
    assert house.lived_when_cancelled == [True]  # at once, not when the process was given up
    assert not processes_of(house.home)
    assert not session.is_usable
    await session.close()


async def test_a_turn_that_was_cancelled_before_it_began_is_begun_nowhere_else(house: House) -> None:
    session = await house.open()
    assert await house.run(session, "hello") == "Hello."
    await freeze(house.program)
    running = asyncio.create_task(session.run(house.turn("hello")))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()
    assert not processes_of(house.home)
    assert len(house.api.requests) == 1
    await session.close()


async def test_a_session_that_is_closed_leaves_no_token_and_the_last_one_no_process(house: House) -> None:
    one, other = await house.open(), await house.open()
    endpoint = one._station.endpoint
    assert len(endpoint._threads) == 2
    await one.close()
    assert len(endpoint._threads) == 1
    assert await house.run(other, "hello") == "Hello."
    assert len(processes_of(house.home)) == 1
    await other.close()
    assert not processes_of(house.home)


def _came_in(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set as soon as Codex has been told our tools for a thread that it opens; its answer is yet to come."""
    told, tools = asyncio.Event(), CodexSession.list_tools

    def watched(self: CodexSession) -> Any:
        told.set()
        return tools(self)

    monkeypatch.setattr(CodexSession, "list_tools", watched)
    return told


async def _loaded(session: CodexSession) -> int:
    return len((await session._station.server.send_request("thread/loaded/list", {}))["data"])


@pytest.mark.parametrize("patience", [3.0, 0.0])
async def test_an_opening_that_is_broken_off_leaves_no_conversation_whose_tools_are_dead(
    house: House, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    stays, first = await house.open(), await house.open()
    assert await house.run(first, "hello") == "Hello."
    known = first.id
    await first.close()
    told = _came_in(monkeypatch)
    monkeypatch.setattr(session_module, "INTERRUPT", patience)  # 0: whatever Codex answers, it comes too late
    opening = asyncio.create_task(house.runtime.open(house.spec, thread_id="t", resume=known))
    await asyncio.wait_for(told.wait(), PATIENCE)
    opening.cancel()
    await asyncio.wait([opening], timeout=PATIENCE)
    assert opening.cancelled()
    if patience:
        assert await _loaded(stays) == 1
    session = await house.runtime.open(house.spec, thread_id="t", resume=known)
    running = asyncio.create_task(session.run(house.turn("dig")))
    await asyncio.wait_for(house.digging.wait(), PATIENCE)  # the call came in
    running.cancel()
    await asyncio.wait([running], timeout=PATIENCE)
    assert await _loaded(stays) == 2
    await session.close()
    assert await _loaded(stays) == 1
    await stays.close()


async def test_a_session_whose_process_dies_while_it_is_opened_is_opened_in_another(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = _came_in(monkeypatch)
    opening = asyncio.create_task(house.open())
    await asyncio.wait_for(told.wait(), PATIENCE)
    before = house.kill()
    session = await asyncio.wait_for(opening, PATIENCE)
    assert house.program != before
    assert await house.run(session, "hello") == "Hello."
    await session.close()


async def test_a_beginning_that_is_broken_off_leaves_no_thread(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    stays = await house.open()
    told = _came_in(monkeypatch)
    opening = asyncio.create_task(house.open())
    await asyncio.wait_for(told.wait(), PATIENCE)
    opening.cancel()
    await asyncio.wait([opening], timeout=PATIENCE)
    assert opening.cancelled()
    await (await house.open()).close()  # by then the one before would be there, too
    assert await _loaded(stays) == 1
    await stays.close()


@pytest.mark.parametrize("closed", [False, True])
async def test_a_turn_that_is_cancelled_on_its_way_to_another_process_is_begun_nowhere(
    house: House, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    before = asyncio.all_tasks()
    session = await house.open()
    assert await house.run(session, "hello") == "Hello."
    entering, enter, entered = asyncio.Event(), asyncio.Event(), asyncio.Event()
    stations = session._stations
    really = stations.enter_station

    async def slowly() -> Station:
        entering.set()
        await enter.wait()
        station = await really()
        entered.set()
        return station

    asked: list[str] = []
    ask = AppServer.send_request

    async def noted(self: AppServer, method: str, *given: Any, **named: Any) -> Any:
        asked.append(method)
        return await ask(self, method, *given, **named)

    monkeypatch.setattr(stations, "enter_station", slowly)
    monkeypatch.setattr(AppServer, "send_request", noted)
    house.kill()
    running = asyncio.create_task(session.run(house.turn("hello")))
    await asyncio.wait_for(entering.wait(), PATIENCE)
    running.cancel()
    if closed:  # it is given up before the other process is there
        await asyncio.wait([running], timeout=PATIENCE)
        await session.close()
    enter.set()
    await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()
    await asyncio.wait_for(entered.wait(), PATIENCE)
    assert asked.count("turn/start") == 1  # of the process that was dead
    if not closed:
        assert await house.run(session, "hello") == "Hello."
        await session.close()
    async with asyncio.timeout(PATIENCE):
        while processes_of(house.home) or asyncio.all_tasks() - before:  # whoever ends it has to finish, too
            await asyncio.sleep(0.01)
    assert len(house.api.requests) == (1 if closed else 2)
