"""The views of agents over reloads: what is made anew, what is kept, and for how many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime
from toolstead import Toolstead
from toolstead.app import agents as app_agents
from toolstead.invoker.runtime import Answer, Turn

ASK = "tools: [{name: ask, description: d, prompt: p, cache: true, result_schema: {const: %s}}]"


async def act(turn: Turn) -> Answer:
    return Answer(text="1" if turn.caller.depth else (await turn.call_tool("ask", {})).text)


def make_stead(folder: Path, **more: Any) -> Toolstead:
    return Toolstead(folder, runtimes=[BenchRuntime(act=act, owns_process=False)], watch=False, **more)


async def test_a_changed_schema_counts_also_where_python_finds_it_equal(tmp_path: Path) -> None:
    async with make_stead(tmp_path) as stead:
        for constant, is_valid in (("true", False), ("1", True), ("true", False)):
            write_agent("asking", ASK % constant)
            await stead.registry.reload_plugins()
            result = str((await bounded(stead.invoke("go", agent="asking"))).result)
            assert (result == "1") is is_valid, result


async def test_an_agent_that_is_not_changed_keeps_its_answers_and_its_timeout_follows_the_settings(
    tmp_path: Path,
) -> None:
    async with make_stead(tmp_path) as stead:
        write_agent("asking", ASK % "1")
        write_agent("own", f"{ASK % '1'}\nlimits: {{run_timeout: 7}}")
        registry, parts = stead._parts.registry, stead._parts
        await stead.agents()

        def timeout(name: str) -> float | None:
            return registry.find_view(name).tools["ask"].tool.timeout

        before = registry.find_rule("asking")
        assert (timeout("asking"), timeout("own")) == (3600, 14)  # twice: the run, and the one that repairs
        await stead.registry.reload_plugins()
        assert registry.find_rule("asking") is before
        settings = parts.loaded.settings
        changed = msgspec.structs.replace(settings, limits=msgspec.structs.replace(settings.limits, run_timeout=50))
        parts.loaded = msgspec.structs.replace(parts.loaded, settings=changed)
        await stead.registry.reload_plugins()
        assert (timeout("asking"), timeout("own")) == (100, 14)


async def test_the_views_of_agents_that_are_gone_are_kept_for_the_last_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_agents, "MOST_GONE", 2)
    async with make_stead(tmp_path) as stead:
        agents, registry = await stead.agents(), stead._parts.registry
        for number in range(5):
            path = write_agent(f"a{number}", "tools: [git-status]")
            await agents.reload()
            path.unlink()
            await agents.reload()
        kept = [registry.find_view(f"a{number}").names == ("git-status",) for number in range(5)]
        assert kept == [False, False, False, True, True]
