"""Warm and cold sessions of the real Claude Code and Codex, through REST alone, as a client sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.rest_stead import SteadClient, ended, serving
from tests.waiting import PATIENCE, until
from toolstead.adapters.claude.runtime import ClaudeRuntime
from toolstead.invoker.pool import STARTS
from toolstead.testing import ScriptedModels, scripted_models

COLD = 4
"""Messages to threads that nobody prewarmed, at once; more than may start at once."""
MODELS = {"claude": "anthropic:claude-sonnet-5-5", "codex": "openai:gpt-6.1-sol"}
"""The runtime → the model that is asked for."""


@asynccontextmanager
async def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[tuple[SteadClient, ScriptedModels]]:
    """A stead behind HTTP with the runtimes that it brings itself, and the model APIs behind them."""
    async with scripted_models("- say: Hello to you too.") as api:
        for name, value in api.environ().items():
            monkeypatch.setenv(name, value)
        async with serving(folder, runtime={"default": "auto"}) as client:
            yield client, api
        await until(lambda: api.active == 0)


async def new_thread(client: SteadClient, runtime: str) -> str:
    body = {"runtime": runtime, "model": MODELS[runtime]}
    return (await client.ask("POST", "/api/threads", body)).json["id"]


async def say(client: SteadClient, thread: str) -> Any:
    """Say something in a thread: its run, at its end."""
    sent = await client.ask("POST", f"/api/threads/{thread}/messages", {"content": "hello"})
    return await ended(client, sent.json["runId"])


async def sessions(client: SteadClient) -> dict[str, int]:
    return (await client.get("/api/health")).json["sessions"]


def programs_of(kept: Path) -> list[int]:
    """The programs of a runtime, by the folder that it keeps its things in; the dead ones not."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and bytes(kept) in (place / "environ").read_bytes():
                found.append(int(place.name))
    return sorted(found)


@pytest.mark.promise("S5")
@pytest.mark.parametrize("runtime", [pytest.param(name, marks=pytest.mark.requires(name)) for name in MODELS])
async def test_a_prewarmed_thread_answers_on_the_program_that_was_started_for_it_and_health_counts_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    async with served(tmp_path, monkeypatch) as (client, api):
        kept = client.stead.places.data / runtime
        thread = await new_thread(client, runtime)
        assert programs_of(kept) == []
        nothing = {"idle": 0, "live": 0, "hits": 0, "misses": 0, "rebuilt": 0, "evicted": 0}
        assert await sessions(client) == nothing

        warmed = await client.ask("POST", "/api/prewarm", {"threadId": thread})
        assert (warmed.status, warmed.json) == (202, {"warm": True, "runtime": runtime})
        assert await sessions(client) == {**nothing, "idle": 1, "live": 1}
        programs = programs_of(kept)
        assert programs, "the program runs before anybody said a word"
        assert api.requests == [], "and has asked no model"

        for hits in (1, 2):
            run = await say(client, thread)
            assert (run["status"], run["result"]) == ("completed", "Hello to you too."), run
            assert await sessions(client) == {**nothing, "idle": 1, "live": 1, "hits": hits}
            assert len(api.requests) == hits
        assert programs_of(kept) == programs, "nothing was started for the messages"

        cold = await say(client, await new_thread(client, runtime))
        assert (cold["status"], cold["result"]) == ("completed", "Hello to you too."), cold
        assert await sessions(client) == {**nothing, "idle": 2, "live": 2, "hits": 2, "misses": 1}
    assert programs_of(kept) == []


@pytest.mark.promise("S4")
@pytest.mark.requires("claude")
async def test_of_four_cold_starts_at_once_one_waits_and_all_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = most = 0
    may_start = asyncio.Event()
    start = ClaudeRuntime.open

    async def counted(self: ClaudeRuntime, *given: Any, **named: Any) -> Any:
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        try:
            await may_start.wait()
            return await start(self, *given, **named)
        finally:
            starting -= 1

    monkeypatch.setattr(ClaudeRuntime, "open", counted)
    async with served(tmp_path, monkeypatch) as (client, api):
        threads = [await new_thread(client, "claude") for _ in range(COLD)]
        asking = asyncio.gather(*(say(client, thread) for thread in threads))
        async with asyncio.timeout(PATIENCE):
            while (await sessions(client))["live"] < COLD:  # all four are wanted, and none has been started
                await asyncio.sleep(0.01)
        assert starting == STARTS < COLD
        may_start.set()
        runs = await asyncio.wait_for(asking, PATIENCE)
        assert [run["result"] for run in runs] == ["Hello to you too."] * COLD, runs
        assert most == STARTS
        assert len(api.requests) == COLD
        assert len(programs_of(client.stead.places.data / "claude")) == COLD
        counts = await sessions(client)
        assert (counts["hits"], counts["misses"]) == (0, COLD)
