"""Delegated work of real programs: Claude Code and Codex as children, stopped by a budget, and cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import claude_stage, codex_stage
from tests.e2e.claude_stage import CLAUDE
from tests.e2e.codex_stage import CODEX
from tests.e2e.conftest import PROGRAMS
from tests.e2e.delegation_stage import HELPERS, find_tasks, gates, settle, write_helper
from tests.e2e.model_stage import KERNELS, Player, Stage, playing
from tests.waiting import PATIENCE, until
from toolstead import tool
from toolstead.types.run import Run

KERNEL = KERNELS["anthropic"]
BOTH = (pytest.mark.requires("claude"), pytest.mark.requires("codex"))


@asynccontextmanager
async def opened(player: Player, script: str, folder: Path, **more: Any) -> AsyncGenerator[Stage]:
    """A stage after which no program of any runtime is left."""
    settings = {**HELPERS, **more.pop("settings", {})}
    async with playing(player, script, folder, settings=settings, **more) as stage:
        yield stage
    data = stage.stead.places.data
    assert not claude_stage.processes_of(data / "claude") + codex_stage.processes_of(data / "codex")


async def runs_of(stage: Stage) -> list[Run]:
    """All runs, the oldest first."""
    return list(reversed(await (await stage.stead.conversations()).store.list_runs()))


@pytest.mark.parametrize(
    "chain",
    [
        pytest.param((KERNEL, CLAUDE, CODEX), id="kernel-claude-codex", marks=BOTH),
        pytest.param((CLAUDE, KERNEL, CLAUDE), id="claude-kernel-claude", marks=BOTH[:1]),
        pytest.param((CODEX, CLAUDE, KERNEL), id="codex-claude-kernel", marks=BOTH),
    ],
)
async def test_results_arrive_over_three_levels_of_runtimes(chain: tuple[Player, ...], tmp_path: Path) -> None:
    script = """
- when: ^begin$
  call: [{tool: delegate_agent, input: {agent_id: helper, prompt: look around}}]
- say: "First heard {{result}}"
- when: look around
  call: [{tool: delegate_agent, input: {agent_id: aide, prompt: count the hats}}]
- say: "Second heard {{result}}"
- when: count the hats
  say: three hats
"""
    first, second, third = chain
    async with opened(first, script, tmp_path) as stage:
        write_helper(stage, second)
        write_helper(stage, third, name="aide")
        run = await stage.ask("begin", thread_id="t")
        assert run.status == "completed", run.error
        outer, inner = await find_tasks(stage)
        assert [(one.agent, one.outcome, one.depth) for one in (outer, inner)] == [
            ("helper", "completed", 1),
            ("aide", "completed", 2),
        ]
        assert inner.summary == "three hats"
        assert (outer.summary or "").startswith("Second heard ")
        assert "three hats" in (outer.summary or "")
        assert "Second heard" in (run.result or "")
        assert "three hats" in (run.result or "")
        runs = await runs_of(stage)
        assert [one.runtime for one in runs] == [one.runtime for one in chain]
        assert {one.root_run_id for one in runs[1:]} == {run.id}
        assert [one.parent_run_id for one in runs] == [None, runs[0].id, runs[1].id]


@pytest.mark.requires("claude")
@pytest.mark.requires("codex")
async def test_a_batch_answers_for_a_child_on_each_program(tmp_path: Path) -> None:
    script = """
- when: ^begin$
  call:
    - tool: delegate_agent
      input: {batch: [{agent_id: helper, prompt: count the hats}, {agent_id: aide, prompt: count the coats}]}
- say: "{{result}}"
- {when: hats, say: three hats}
- {when: coats, say: two coats}
"""
    async with opened(KERNEL, script, tmp_path) as stage:
        write_helper(stage, CLAUDE)
        write_helper(stage, CODEX, name="aide")
        run = await stage.ask("begin")
        answer = json.loads(run.result or "")
        assert answer["status"] == "ok"
        assert [(one["agent_id"], one["status"], one["summary"]) for one in answer["runs"]] == [
            ("helper", "completed", "three hats"),
            ("aide", "completed", "two coats"),
        ]
        assert sorted(one.runtime for one in await runs_of(stage)) == ["claude", "codex", "kernel"]


REPLY = 1_000
BUDGET = 6_500


@pytest.mark.promise("B2")
@pytest.mark.parametrize("child", PROGRAMS)
async def test_a_tree_s_budget_stops_a_program_in_the_middle_of_its_turn(child: Player, tmp_path: Path) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "nothing yet"

    usage = "  usage: {inputTokens: 700, outputTokens: 300}\n"
    takes_time = "  delay: 0.4\n"  # as with any model: what stops the program must be faster than a reply, no more
    script = (
        "- when: ^begin$\n"
        "  call: [{tool: delegate_agent, input: {agent_id: helper, prompt: search, mode: detached}}]\n"
        f"{usage}- say: begun\n{usage}"
        f"- when: Work that you delegated\n  say: a pity\n{usage}"
        f"- when: search\n  call: [{{tool: look, input: {{}}}}]\n{usage}{takes_time}"
        + f"- call: [{{tool: look, input: {{}}}}]\n{usage}{takes_time}" * 20
        + "- say: never\n"
    )
    limits = {"limits": {"token_budget": BUDGET}}
    async with opened(KERNEL, script, tmp_path, tools=[look], settings=limits) as stage:
        write_helper(stage, child)
        run = await stage.ask("begin", thread_id="t")
        store = (await stage.stead.conversations()).store

        async def ended() -> bool:
            return not (await find_tasks(stage))[0].is_open and not await store.list_runs(unfinished=True)

        await until(ended)
        [task] = await find_tasks(stage)
        assert (task.outcome, task.error and task.error.code) == ("budget", "budget"), task
        assert f"limits.token_budget is {BUDGET:,}" in (task.error.message if task.error else "")
        worked = next(one for one in await runs_of(stage) if one.thread_id == task.thread_id)
        assert (worked.runtime, worked.status) == (child.runtime, "failed")
        assert worked.usage.input_tokens + worked.usage.output_tokens >= 2 * REPLY  # in the middle, not before
        tree = await store.read_tree(run.id)
        assert tree is not None
        assert tree.token_budget == BUDGET
        assert tree.spent_tokens <= BUDGET + REPLY
        assert tree.spent_tokens == sum(
            one.usage.input_tokens + one.usage.output_tokens for one in await runs_of(stage)
        )
        assert (tree.reserved_tokens, tree.in_flight) == (0, 0)
        assert len([one for one in stage.requests if "search" in json.dumps(one.body)]) <= BUDGET // REPLY + 2


@pytest.mark.parametrize("where", ["in a tool", "in a reply"])
@pytest.mark.parametrize("child", PROGRAMS)
async def test_a_cancelled_task_ends_the_run_of_its_program(child: Player, where: str, tmp_path: Path) -> None:
    tools, gate = gates("wait")
    works = "call: [{tool: wait, input: {}}]" if where == "in a tool" else "delay: 600\n  say: never"
    script = f"""
- when: ^begin$
  call: [{{tool: delegate_agent, input: {{agent_id: helper, prompt: search, mode: detached}}}}]
- say: begun
- when: Work that you delegated
  say: a pity
- when: search
  {works}
- say: never
"""
    async with opened(KERNEL, script, tmp_path, tools=tools) as stage:
        write_helper(stage, child)
        run = await stage.ask("begin", thread_id="t")
        assert run.status == "completed", run.error
        if where == "in a tool":
            await gate["wait"].reached()
        else:
            await stage.until(lambda: stage.api.active == 1 and "search" in json.dumps(stage.requests[-1].body))
        [task] = await find_tasks(stage)
        assert task.is_open
        delegation = (await stage.stead.delegation()).delegation
        ended = await asyncio.wait_for(delegation.cancel(task.id, "not wanted any more"), PATIENCE)
        assert ended.outcome == "cancelled"
        await stage.until(lambda: stage.api.active == 0)  # the program asks for nothing any more
        [task] = await settle(stage)
        worked = next(one for one in await runs_of(stage) if one.thread_id == task.thread_id)
        assert (worked.status, worked.runtime) == ("cancelled", child.runtime)
        assert (await runs_of(stage))[-1].result == "a pity"  # its parent is told
        sessions = stage.stead.state()["sessions"]
        assert sessions["live"] == sessions["idle"], sessions  # nothing is at work
