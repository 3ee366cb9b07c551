"""How an agent runs: the settings, then its file, then the call; and which file an agent's name means."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime, Gate
from toolstead import Toolstead
from toolstead.app.places import find_places
from toolstead.app.trust.approved import ProjectTrust
from toolstead.errors import RuntimeFailureError, UnknownAgentError
from toolstead.invoker.runtime import Answer, Turn
from toolstead.types.run import Run

GEMINI, CLAUDE = "google:gemini-2.0-flash-lite", "anthropic:claude-sonnet-5-5"


class Choosy(BenchRuntime):
    """Runs the models of one vendor only."""

    def resolve_model(self, model: str) -> str:
        if not model.startswith(("anthropic:", "sonnet")):
            raise RuntimeFailureError(f"{self.name} does not run {model}")
        return model


class Watched:
    """Two runtimes, and the last turn that one of them ran."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.kernel = BenchRuntime(name="kernel", act=self.act, owns_process=False)
        self.claude = Choosy(name="claude", act=self.act, owns_process=False)

    async def act(self, turn: Turn) -> Answer:
        self.turns.append(turn)
        if turn.prompt == "hang":
            await asyncio.Event().wait()
        return Answer(text="done")

    def stead(self, folder: Path, settings: Mapping[str, Any]) -> Toolstead:
        environ = {"TOOLSTEAD_HOME": os.environ["TOOLSTEAD_HOME"], "GEMINI_API_KEY": "x", "PATH": os.environ["PATH"]}
        runtimes = [self.kernel, self.claude]
        return Toolstead(folder, settings=settings, runtimes=runtimes, environ=environ, watch=False)


async def explained(stead: Toolstead, name: str) -> dict[str, Any]:
    """What `agents show` says that an agent runs with."""
    agents = await stead.agents()
    return {one.key: one.value for one in stead.explain_agent(agents.read_agent(name))}


@pytest.mark.promise("B3")
async def test_the_call_goes_before_the_file_and_the_file_before_the_settings(tmp_path: Path) -> None:
    watched = Watched()
    write_agent("plain")
    write_agent(
        "own",
        f"model: {CLAUDE}\nruntime: claude\nmax_turns: 7\n"
        "limits: {run_timeout: 0.02, token_budget: 70, cost_budget: 0.7, max_depth: 7}",
    )
    settings = {
        "runtime": {"default": "kernel", "model": GEMINI, "kernel": {"max_turns": 3}, "claude": {"max_turns": 4}},
        "limits": {"run_timeout": 0.03, "token_budget": 30, "cost_budget": 0.3, "max_depth": 3},
    }
    expected: dict[str, tuple[str, str, int, float, int, float, int]] = {
        "plain": ("kernel", GEMINI, 3, 0.03, 30, 0.3, 3),
        "own": ("claude", CLAUDE, 7, 0.02, 70, 0.7, 7),
    }
    async with watched.stead(tmp_path, settings) as stead:
        for name, (runtime, model, turns, seconds, tokens, cost, depth) in expected.items():
            shown = await explained(stead, name)
            assert (shown["runtime"], shown["model"], shown["max_turns"]) == (runtime, model, turns)
            assert [shown[f"limits.{one}"] for one in ("run_timeout", "token_budget", "cost_budget", "max_depth")] == [
                seconds,
                tokens,
                cost,
                depth,
            ]
            run: Run = await bounded(stead.invoke("hang", agent=name))
            assert (run.status, run.runtime, run.model) == ("timeout", runtime, model)
            assert run.error is not None
            assert f"after {seconds:g} seconds" in run.error.message
            used = watched.turns[-1]
            assert (used.limits.tokens, used.limits.cost) == (tokens, cost)
            sessions = (watched.kernel if runtime == "kernel" else watched.claude).sessions
            assert sessions[-1].spec.max_turns == (None if name == "plain" else 7)  # None: the runtime's own setting
        run = await bounded(stead.invoke("hang", agent="own", model=GEMINI, runtime="kernel", timeout=0.01))
        assert (run.status, run.runtime, run.model) == ("timeout", "kernel", GEMINI)
        assert run.error is not None
        assert "after 0.01 seconds" in run.error.message
        with pytest.raises(RuntimeFailureError, match="claude does not run"):
            await stead.invoke("hi", agent="own", model=GEMINI)  # the file insists on its runtime


async def test_a_model_that_the_settings_runtime_cannot_run_picks_one_that_can(tmp_path: Path) -> None:
    watched = Watched()
    write_agent("gemini", f"model: {GEMINI}")
    write_agent("sonnet", f"model: {CLAUDE}")
    async with watched.stead(tmp_path, {"runtime": {"default": "claude"}}) as stead:
        for name, runtime, model in (("gemini", "kernel", GEMINI), ("sonnet", "claude", CLAUDE)):
            run: Run = await bounded(stead.invoke("hi", agent=name))
            assert (run.status, run.runtime, run.model) == ("completed", runtime, model)
            assert (await explained(stead, name))["runtime"] == runtime
        origin = next(one.origin for one in stead.explain_agent((await stead.agents()).read_agent("gemini")))
        assert origin == f"chosen: claude does not run {GEMINI}; the model is set"


async def test_an_agent_that_is_not_there_is_refused_with_the_names_of_those_that_are(tmp_path: Path) -> None:
    write_agent("reviewer", "tools: [{name: look, description: d, prompt: p}]")
    async with Watched().stead(tmp_path, {}) as stead:
        for name in ("reviewr", "reviewer/look", "reviewer/", "/", "main/look", "../reviewer"):
            with pytest.raises(UnknownAgentError, match=r"there is no agent .*he agents are main, reviewer"):
                await stead.invoke("hi", agent=name)
        assert await (await stead.conversations()).store.list_runs() == []


async def test_main_of_a_trusted_project_goes_before_that_of_the_user_and_that_before_the_built_in_one(
    tmp_path: Path,
) -> None:
    watched, project = Watched(), tmp_path.resolve() / "project"
    ours = project / ".toolstead" / "agents" / "main.md"
    ours.parent.mkdir(parents=True)
    ours.write_text("---\nname: main\ndescription: d\n---\nYou are the project's.\n")

    async def instructions(stead: Toolstead) -> str:
        assert (await bounded(stead.invoke("hi"))).status == "completed"
        return watched.kernel.sessions[-1].spec.instructions.strip()

    async with watched.stead(project, {}) as stead:
        assert await instructions(stead) == ""
        path = write_agent("main", body="You are the user's.")
        await stead.registry.reload_plugins()
        assert await instructions(stead) == "You are the user's."
    trust = ProjectTrust(find_places(explicit=project))
    trust.approvals.approve_snapshot(project, trust.take_snapshot())
    async with watched.stead(project, {}) as stead:
        assert await instructions(stead) == "You are the project's."
        ours.write_text("---\nname: main\ndescription: d\n---\nYou are changed, and nobody approved it.\n")
        await stead.registry.reload_plugins()
        assert await instructions(stead) == "You are the project's."
        assert trust.approvals.revoke_approval(project)
        await stead.registry.reload_plugins()
        assert await instructions(stead) == "You are the user's."
        path.unlink()
        await stead.registry.reload_plugins()
        assert await instructions(stead) == ""


async def test_a_run_that_waits_while_its_agents_file_is_deleted_fails_with_a_sentence_and_the_thread_goes_on(
    tmp_path: Path,
) -> None:
    watched, gate = Watched(), Gate()
    path = write_agent("brief")
    async with watched.stead(tmp_path, {}) as stead:
        watched.kernel.act = gate
        first = asyncio.create_task(stead.invoke("first", agent="brief", thread_id="t"))
        await bounded(gate.begun.wait())
        second = asyncio.create_task(stead.invoke("second", agent="brief", thread_id="t"))
        store = (await stead.conversations()).store
        async with asyncio.timeout(30):
            while len(await store.list_runs(thread_id="t")) < 2:
                await asyncio.sleep(0)
        path.unlink()
        assert (await (await stead.agents()).reload()).removed == ("brief",)
        gate.let.set()
        assert (await bounded(first)).status == "completed"
        run: Run = await bounded(second)
        assert run.error is not None
        assert run.status == "failed"
        assert "there is no agent 'brief'" in run.error.message
        assert (await bounded(stead.invoke("third", thread_id="t", agent="main"))).status == "completed"


async def test_closing_while_the_agents_are_being_read_leaves_no_task_behind(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with Toolstead(tmp_path) as stead:
        opening = asyncio.create_task(stead.agents())
        await asyncio.sleep(0)
    await asyncio.wait((opening,))
    assert asyncio.all_tasks() <= before
    assert opening.exception() is None or "not open" in str(opening.exception())
