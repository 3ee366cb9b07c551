"""A tree of runs grows exactly as far as its limits say, however many grow at once and whatever their models want."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime
from toolstead import Plugin, PluginContext, Tool, ToolMeta, Toolstead
from toolstead.invoker.runtime import Answer, Turn
from toolstead.orchestrator.log_store import EventFilter
from toolstead.types.run import Run

TREES = 50
AGENT = """\
tools:
  - "*"
  - {{name: think, description: Thinks., prompt: "think {{{{about}}}}", parameters: {{about: {{type: string}}}}}}
limits: {{max_depth: {depth}, max_fanout: {fanout}, max_descendants: {descendants}}}
"""
LIMIT = re.compile(r"LimitReached: .*limits\.max_(\w+) sets this")


async def grow(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    run = await ctx.invoker.invoke("grow", agent=meta.agent_id, meta=meta)
    return run.result or f"ended as {run.status}"


GROWING = Plugin(
    name="tree", tools=[Tool(name="grow", description="Starts the same agent again.", handler=grow, spawns=True)]
)


async def act(turn: Turn) -> Answer:
    """Use every tool that starts agents until each is refused, children first."""
    refused: list[str] = []
    if turn.prompt.startswith("think"):
        return Answer(text="thought")
    for name, given in (("tree__grow", {}), ("think", {"about": "more"})):
        for _ in range(100):
            result = await turn.call_tool(name, given)
            if result.is_error:
                refused.append(result.text)
                break
        else:
            raise AssertionError(f"{name} was never refused")
    return Answer(text=" | ".join(refused))


def kinds_of(texts: list[str]) -> Counter[str]:
    return Counter(found[1] if (found := LIMIT.search(text)) else "unknown tool" for text in texts)


@pytest.mark.promise("K5")
@pytest.mark.promise("K7")
@pytest.mark.parametrize(
    ("limits", "expected", "reason"),
    [
        ({"depth": 1, "fanout": 3, "descendants": 64}, {0: 1, 1: 3}, "fanout"),
        ({"depth": 2, "fanout": 3, "descendants": 64}, {0: 1, 1: 3, 2: 9}, "fanout"),
        ({"depth": 4, "fanout": 8, "descendants": 10}, {0: 1, 1: 1, 2: 1, 3: 1, 4: 7}, "descendants"),
        ({"depth": 0, "fanout": 8, "descendants": 64}, {0: 1}, "unknown tool"),
    ],
    ids=["fanout", "depth", "descendants", "none"],
)
async def test_fifty_trees_at_once_stop_at_exactly_their_limits(
    tmp_path: Path, limits: dict[str, int], expected: dict[int, int], reason: str
) -> None:
    write_agent("grower", AGENT.format(**limits))
    runtime = BenchRuntime(act=act, owns_process=False)
    async with Toolstead(tmp_path, plugins=[GROWING], runtimes=[runtime], watch=False) as stead:
        roots: list[Run] = await bounded(
            asyncio.gather(*(stead.invoke(f"root {n}", agent="grower", thread_id=f"t{n}") for n in range(TREES)))
        )
        assert {run.status for run in roots} == {"completed"}, roots[0].error
        store = (await stead.conversations()).store
        runs = await store.list_runs(limit=100_000)
        assert len(runs) == TREES * sum(expected.values())
        for root in roots:
            tree = [run for run in runs if root.id in (run.root_run_id, run.id)]
            assert Counter(run.depth for run in tree) == expected
            children = Counter(run.parent_run_id for run in tree if run.parent_run_id)
            assert max(children.values(), default=0) <= limits["fanout"]
        # What was refused is a result that the model reads, and an event of its run.
        events = await store.list_events(EventFilter(thread_id="t7", types=frozenset({"tool_result"})), limit=1000)
        told = [str(event.data["content"]) for event in events if event.data["isError"]]
        assert kinds_of(told) == {reason: 2}  # one for each of its two tools
