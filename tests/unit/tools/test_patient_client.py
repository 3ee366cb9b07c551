"""A tool's deadline does not run while its client is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.virtual_time import run_virtually
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import Handler, PluginContext, Tool
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.types.result import Failure, ToolResult


class SlowPerson:
    """A person who answers after a quarter of an hour, and a model that takes five seconds."""

    async def log(self, level: str, text: str) -> None:
        pass

    async def elicit(self, message: str, schema: Any, *, key: str | None = None) -> Mapping[str, Any]:
        await asyncio.sleep(900)
        return {"action": "accept"}

    async def sample(self, prompt: str, max_tokens: int, *, key: str | None = None) -> str:
        await asyncio.sleep(5)
        return "hm"


def called(handler: Handler, *, seconds: float = 10) -> tuple[ToolResult, float]:
    """The result of a call whose tool has this many seconds, and how long it took."""

    async def call() -> tuple[ToolResult, float]:
        registry = Registry()
        tool = Tool(name="t", description="A tool.", handler=handler, interactive=True, timeout=seconds)
        registry.register(tool)
        dispatcher = Dispatcher(registry, events=EventLog(), cwd=Path.cwd())
        result = await dispatcher.call("t", {}, client=SlowPerson())
        return result, asyncio.get_running_loop().time()

    return run_virtually(call())


def test_the_deadline_stands_still_while_the_client_is_asked_and_runs_before_and_after() -> None:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        await meta.client.elicit("?", {})  # in its first step, before the deadline begins
        await asyncio.sleep(6)
        await asyncio.gather(meta.client.elicit("?", {}), meta.client.sample("?", 1))
        await asyncio.sleep(3)
        return "in time"

    result, took = called(handler)
    assert (result.text, took) == ("in time", 1809)


def test_what_is_left_of_the_deadline_counts_after_the_answer() -> None:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        await asyncio.sleep(6)
        await meta.client.elicit("?", {})
        await asyncio.sleep(5)
        return "late"

    result, took = called(handler)
    assert (result.failure, took) == (Failure.TIMEOUT, 910)


def test_one_that_asks_after_its_deadline_has_passed_gets_no_more_time() -> None:
    async def handler(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            await meta.client.elicit("?", {})
        return "late"

    result, took = called(handler)
    assert (result.failure, took) == (Failure.TIMEOUT, 20), "its time, and the grace period to end"

    async def brief(ctx: PluginContext, input: dict[str, Any], meta: ToolMeta) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            await meta.client.sample("?", 1)
        return "late"

    result, took = called(brief)
    assert (result.failure, took) == (Failure.TIMEOUT, 15), "its time, and the answer"
