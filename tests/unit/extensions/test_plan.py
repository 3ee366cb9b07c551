"""`update_plan`: a plan that fits is told to everybody, one that does not changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tools.shelf import Shelf
from toolstead.extensions.plan import plugin
from toolstead.orchestrator.event_log import EventLog
from toolstead.plugins.contract import PluginContext
from toolstead.plugins.tool_meta import ToolMeta
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.tools.sources import Offer
from toolstead.types.call import Caller
from toolstead.types.result import Failure, ToolResult
from toolstead.types.tool import Provenance

GOOD = {"step": "Read the file", "status": "completed"}


class RecordingThreads:
    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, Any], str | None]] = []

    async def broadcast(
        self, event: str, data: Mapping[str, Any], *, thread_id: str | None = None, meta: ToolMeta | None = None
    ) -> None:
        self.told.append((event, data, thread_id or (meta.thread_id if meta else None)))


class Bench:
    """The plugin's tool behind the real dispatcher."""

    def __init__(self) -> None:
        self.threads = RecordingThreads()
        context = PluginContext(name="plan", threads=self.threads)  # pyright: ignore[reportArgumentType] - broadcast is all it uses
        origin = Provenance(source="builtin", origin="toolstead.extensions.plan")
        self.shelf = Shelf("plan", source="builtin")
        self.shelf.put(*(Offer(tool=tool, provenance=origin, context=context) for tool in plugin.tools))
        self.registry = Registry([self.shelf])
        self.dispatcher = Dispatcher(self.registry, events=EventLog(), cwd=Path("/"))

    async def call(self, input: Any) -> ToolResult:
        if not self.registry.current.tools:
            await self.registry.reload()
        return await self.dispatcher.call("update_plan", input, Caller(thread_id="th"))


@pytest.mark.promise("T2")
@pytest.mark.parametrize(
    "plan",
    [
        {"plan": []},
        {"plan": [GOOD]},
        {"plan": [GOOD, {"step": "Change it", "status": "in_progress"}, {"step": "Test it", "status": "pending"}]},
        {"plan": [GOOD], "explanation": "The file was shorter than thought."},
    ],
)
async def test_a_plan_is_told_to_everybody_in_the_thread_of_its_call(plan: dict[str, Any]) -> None:
    bench = Bench()
    result = await bench.call(plan)
    assert (result.text, result.is_error) == ("Plan updated", False)
    assert bench.threads.told == [("plan.updated", plan, "th")]


@pytest.mark.promise("T2")
@pytest.mark.parametrize(
    "malformed",
    [
        None,
        {},
        [],
        "1. read the file",
        {"plan": None},
        {"plan": "read the file"},
        {"plan": {}},
        {"plan": GOOD},
        {"plan": 1},
        {"plan": ["read the file"]},
        {"plan": [None]},
        {"plan": [[GOOD]]},
        {"plan": [{}]},
        {"plan": [{"step": "x"}]},
        {"plan": [{"status": "pending"}]},
        {"plan": [{"step": 1, "status": "pending"}]},
        {"plan": [{"step": None, "status": "pending"}]},
        {"plan": [{"step": "x", "status": "done"}]},
        {"plan": [{"step": "x", "status": "Pending"}]},
        {"plan": [{"step": "x", "status": ""}]},
        {"plan": [{"step": "x", "status": None}]},
        {"plan": [{"step": "x", "status": "pending", "owner": "me"}]},
        {"plan": [GOOD, {"step": "x", "status": "in-progress"}]},
        {"plan": [GOOD], "explanation": 1},
        {"plan": [GOOD], "explanation": None},
        {"plan": [GOOD], "title": "x"},
        {"explanation": "no plan"},
        {"steps": [GOOD]},
    ],
)
async def test_a_malformed_plan_is_refused_and_changes_nothing(malformed: Any) -> None:
    bench = Bench()
    result = await bench.call(malformed)
    assert result.is_error
    assert result.failure is Failure.INVALID_ARGUMENTS
    assert result.text.startswith("Invalid arguments for update_plan:")
    assert not bench.threads.told


async def test_a_caller_that_goes_on_changing_its_plan_changes_nothing_that_was_told() -> None:
    bench = Bench()
    plan = {"plan": [{"step": "Read", "status": "pending"}]}
    await bench.call(plan)
    plan["plan"][0]["status"] = "completed"
    plan["plan"].append({"step": "Write", "status": "pending"})
    assert bench.threads.told[0][1] == {"plan": [{"step": "Read", "status": "pending"}]}
