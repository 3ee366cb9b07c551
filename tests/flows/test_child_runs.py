"""Runs that a tool of another run starts and waits for: they know their parents, and nobody waits in a circle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent_folder import write_agent
from tests.flows.talking import bounded
from tests.unit.invoker.bench import BenchRuntime
from toolstead import Plugin, PluginContext, Tool, ToolMeta, Toolstead
from toolstead.invoker.runtime import Answer, Turn
from toolstead.types.run import Run


async def ask_child(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    run = await ctx.invoker.invoke(input["prompt"], thread_id=input.get("thread"), agent="helper", meta=meta)
    return run.result if run.result is not None else f"{run.error.code if run.error else ''}"


async def look(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
    return json.dumps([meta.depth, meta.agent_id, meta.parent_agent_id, meta.task_id])


def tool_of(name: str, handler: Any) -> Tool:
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"prompt": text, "thread": text}}
    return Tool(name=name, description="A probe.", schema=schema, handler=handler)


@asynccontextmanager
async def stead_with(folder: Path, runtime: BenchRuntime, *, max_live: int) -> AsyncGenerator[Toolstead]:
    write_agent("helper")
    family = Plugin(name="family", tools=[tool_of("ask", ask_child), tool_of("look", look)])
    settings = {"sessions": {"max_live": max_live}}
    async with Toolstead(folder, plugins=[family], runtimes=[runtime], settings=settings, watch=False) as stead:
        yield stead


async def call(turn: Turn, name: str, **input: str) -> str:
    return (await turn.call_tool(f"family__{name}", input)).text


async def stored_runs(stead: Toolstead) -> list[Run]:
    return list(reversed(await (await stead.conversations()).store.list_runs()))


async def test_a_child_knows_its_parent_and_its_tools_see_how_deep_they_are(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Answer:
        if turn.prompt == "grandchild":
            return Answer(text=await call(turn, "look"))
        own = await call(turn, "look")
        below = await call(turn, "ask", prompt="grandchild" if turn.prompt == "child" else "child")
        return Answer(text=f"{own} {below}")

    async with stead_with(tmp_path, BenchRuntime(act=act), max_live=8) as stead:
        run = await bounded(stead.invoke("parent"))
        own = ['[0, "main", null, null]', '[1, "helper", "main", null]', '[2, "helper", "helper", null]']
        assert run.result == " ".join(own)
        parent, child, grandchild = await stored_runs(stead)
        assert [one.parent_run_id for one in (parent, child, grandchild)] == [None, parent.id, child.id]
        assert [one.parent_agent for one in (parent, child, grandchild)] == ["", "main", "helper"]
        assert [one.depth for one in (parent, child, grandchild)] == [0, 1, 2]


@pytest.mark.promise("S4")
@pytest.mark.parametrize("owns_process", [True, False])
async def test_two_parents_that_hold_all_rooms_both_end_and_their_children_ran_or_were_refused(
    tmp_path: Path, owns_process: bool
) -> None:
    both = asyncio.Barrier(2)

    async def act(turn: Turn) -> Answer:
        if turn.prompt == "child":
            return Answer(text="ran")
        await both.wait()
        answered = await call(turn, "ask", prompt="child")
        await both.wait()  # neither ends, and makes room, before the other's child was refused
        return Answer(text=answered)

    async with stead_with(tmp_path, BenchRuntime(act=act, owns_process=owns_process), max_live=2) as stead:
        parents = await bounded(asyncio.gather(stead.invoke("one", thread_id="a"), stead.invoke("two", thread_id="b")))
        assert [run.result for run in parents] == (["no_room"] * 2 if owns_process else ["ran"] * 2)
        assert all(run.has_ended for run in await stored_runs(stead))
        if owns_process:  # the rooms are free again, and an idle session makes room for a child
            both = asyncio.Barrier(1)
            assert (await bounded(stead.invoke("three", thread_id="a"))).result == "ran"


async def test_a_child_is_refused_in_a_thread_that_is_busy_its_parents_own_too(tmp_path: Path) -> None:
    async def act(turn: Turn) -> Answer:
        if turn.prompt == "child":
            return Answer(text="ran")
        return Answer(text=" ".join([await call(turn, "ask", prompt="child", thread=one) for one in ("own", "free")]))

    async with stead_with(tmp_path, BenchRuntime(act=act), max_live=8) as stead:
        assert (await bounded(stead.invoke("parent", thread_id="own"))).result == "no_room ran"
        assert (await bounded(stead.invoke("parent", thread_id="own"))).result == "no_room ran"
        refused = next(run for run in await stored_runs(stead) if run.error is not None)
        assert refused.error is not None
        assert "thread 'own' is busy with another run" in refused.error.message
