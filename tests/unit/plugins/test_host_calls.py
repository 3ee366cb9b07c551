"""The host: calls under way, settings that change while plugins run, background work."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.plugins.hosting import RecordedHost, a_tool, echo, found, registering
from toolstead.errors import PluginError, ToolError
from toolstead.plugins import plugin_instance as instances
from toolstead.plugins.contract import Hooks, Plugin, PluginContext
from toolstead.plugins.decorator import tool
from toolstead.tools.definition import define_tool
from toolstead.types.tool import Provenance


@dataclass(frozen=True, kw_only=True)
class Some:
    volume: int = 1
    token: str = ""


@pytest.fixture
def recorded() -> RecordedHost:
    return RecordedHost()


class Held:
    """A tool that waits until it is let go."""

    def __init__(self) -> None:
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, ctx: PluginContext, input: dict[str, Any], meta: Any) -> str:
        self.entered.set()
        await self.go_on.wait()
        return "done"


async def test_a_call_under_way_is_waited_for_before_stop(recorded: RecordedHost) -> None:
    held = Held()
    await recorded.host.apply_plugins([recorded.wanted("a", tools=[a_tool(handler=held)])])
    (one,) = recorded.host.list_tools()
    calling: asyncio.Task[Any] = asyncio.create_task(one.tool.handler(one.context, {}, None))  # type: ignore[arg-type] - it looks at none
    await asyncio.wait_for(held.entered.wait(), 5)
    other: asyncio.Task[Any] = asyncio.create_task(one.tool.handler(one.context, {}, None))  # type: ignore[arg-type] - as above
    await asyncio.sleep(0)
    ending = asyncio.create_task(recorded.host.apply_plugins([]))
    await asyncio.sleep(0)
    other.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert other.cancelled()
    assert "stop a" not in recorded.happened
    held.go_on.set()
    await asyncio.wait_for(ending, 5)
    assert recorded.happened[-1] == "stop a"
    assert await calling == "done"


async def test_a_call_that_does_not_end_is_not_waited_for_forever(
    recorded: RecordedHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(instances, "CALLS_SECONDS", 0.02)
    held = Held()
    await recorded.host.apply_plugins([recorded.wanted("a", tools=[a_tool(handler=held)])])
    (one,) = recorded.host.list_tools()
    calling: asyncio.Task[Any] = asyncio.create_task(one.tool.handler(one.context, {}, None))  # type: ignore[arg-type] - as above
    await asyncio.wait_for(held.entered.wait(), 5)
    await recorded.host.apply_plugins([])
    assert recorded.happened[-1] == "stop a"
    assert "stopped while 1 calls of its tools go on" in caplog.text
    held.go_on.set()
    await calling


async def test_a_call_that_comes_after_the_end_is_refused(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins([recorded.wanted("a", tools=[a_tool()])])
    (one,) = recorded.host.list_tools()
    await recorded.host.apply_plugins([])
    with pytest.raises(ToolError, match="plugin 'a', whose tool this is, was stopped meanwhile"):
        await one.tool.handler(one.context, {}, None)  # type: ignore[arg-type] - it looks at none


async def test_handlers_are_counted_only_where_something_would_be_stopped_and_stay_what_they_are(
    recorded: RecordedHost,
) -> None:
    @tool
    async def shout(text: str) -> str:
        """Say it louder."""
        return text.upper()

    await recorded.host.apply_plugins(
        [found(Plugin(name="bare", tools=[a_tool()])), recorded.wanted("a", tools=[shout, a_tool()])]
    )
    plain, counted, raw = recorded.host.list_tools()
    assert plain.tool.handler is echo
    assert counted.tool.handler.ignores_meta is True  # type: ignore[attr-defined] - so the dispatcher reads it
    assert inspect.unwrap(counted.tool.handler).__name__ == "shout"
    assert raw.tool.handler.__wrapped__ is echo  # type: ignore[attr-defined] - as functools.wraps says
    for one in (plain, counted, raw):
        define_tool(one.tool, Provenance(source="plugin", origin=one.origin), one.context)
    assert await counted.tool.handler(counted.context, {"text": "hi"}, None) == "HI"  # type: ignore[arg-type] - as above
    assert await raw.tool.handler(raw.context, {}, None) == "a"  # type: ignore[arg-type] - as above


async def test_tools_have_their_full_name_unless_the_wiring_grants_the_bare_one(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins(
        [found(Plugin(name="a", tools=[a_tool()])), found(Plugin(name="b", tools=[a_tool()]), bare=True)]
    )
    assert [(one.tool.name, one.plugin, one.bare) for one in recorded.host.list_tools()] == [
        ("a__echo", "a", False),
        ("echo", "b", True),
    ]
    assert recorded.view("a").tools == ("a__echo",)


async def test_new_settings_replace_the_old_and_the_plugin_is_told(recorded: RecordedHost) -> None:
    told: list[Any] = []

    async def on_settings_change(settings: Any) -> None:
        told.append((settings, recorded.contexts[0].settings))

    plugin = recorded.plugin("a", settings=Some, register=registering(Hooks(on_settings_change=on_settings_change)))
    await recorded.host.apply_plugins([found(plugin, settings={"volume": 2})])
    assert recorded.contexts[0].settings == Some(volume=2)
    await recorded.host.apply_plugins([found(plugin, settings={"volume": 3})])
    assert told == [(Some(volume=3), Some(volume=3))]
    await recorded.host.apply_plugins([found(plugin, settings={"volume": 4})])
    assert told[1:] == [(Some(volume=4), Some(volume=4))]
    assert [word for word in recorded.happened if word.startswith("st")] == ["start a"]


async def test_bad_settings_are_refused_and_the_old_stay(recorded: RecordedHost) -> None:
    plugin = recorded.plugin("a", settings=Some)
    await recorded.host.apply_plugins([found(plugin, settings={"volume": 2})])
    with pytest.raises(PluginError, match="volume: it must be a whole number, not text"):
        recorded.host.check_settings("a", {"volume": "loud"})
    assert recorded.contexts[0].settings == Some(volume=2)
    assert recorded.states() == {"a": "running"}


async def test_bad_settings_that_come_from_a_file_leave_the_plugin_running_and_degraded(
    recorded: RecordedHost, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = recorded.plugin("a", settings=Some)
    await recorded.host.apply_plugins([found(plugin, settings={"volume": 2})])
    for _ in range(2):
        await recorded.host.apply_plugins([found(plugin, settings={"volum": 3})])
        assert recorded.contexts[0].settings == Some(volume=2)
        assert recorded.view("a").state == "degraded"
        assert "there is no setting 'volum'; did you mean 'volume'?; the previous settings stay" in (
            recorded.view("a").error or ""
        )
    assert len([status for status in recorded.statuses if status[1] == "degraded"]) == 1
    assert caplog.text.count("the previous settings stay") == 1
    await recorded.host.apply_plugins([found(plugin, settings={"volume": 3})])
    assert (recorded.view("a").state, recorded.contexts[0].settings) == ("running", Some(volume=3))


async def test_a_plugin_that_failed_is_tried_again_with_other_settings(recorded: RecordedHost) -> None:
    plugin = recorded.plugin("a", settings=Some)
    await recorded.host.apply_plugins([found(plugin, settings={"volume": "x"})])
    assert recorded.states() == {"a": "failed"}
    assert (recorded.view("a").error or "").startswith("settings: volume")
    with pytest.raises(PluginError):
        recorded.host.check_settings("a", {"volume": "y"})
    await recorded.host.apply_plugins([found(plugin, settings={"volume": 5})])
    assert recorded.states() == {"a": "running"}
    assert recorded.view("a").settings == Some(volume=5)


async def test_a_disabled_plugin_keeps_settings_for_later(recorded: RecordedHost) -> None:
    plugin = recorded.plugin("a", settings=Some)
    await recorded.host.apply_plugins([found(plugin, enabled=False)])
    await recorded.host.apply_plugins([found(plugin, enabled=False, settings={"volume": 7})])
    assert recorded.view("a").settings == {"volume": 7}
    await recorded.host.apply_plugins([found(plugin, enabled=False, settings={"volume": 8})])
    assert recorded.view("a").settings == {"volume": 8}


async def test_background_work_ends_before_stop_and_its_failure_degrades(recorded: RecordedHost) -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            recorded.happened.append("work ended")
            ended.set()

    async def fails() -> None:
        raise ValueError("boom")

    async def start(ctx: PluginContext) -> None:
        ctx.run_background(work())
        ctx.run_background(fails(), name="poll")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    await recorded.host.apply_plugins([recorded.wanted("a", start=start)])
    assert recorded.view("a").state == "degraded"
    assert "background work 'poll': ValueError: boom" in (recorded.view("a").error or "")
    recorded.contexts[0].report_status("running")
    assert recorded.view("a").state == "running"
    await recorded.host.close()
    assert recorded.happened[-2:] == ["work ended", "stop a"]
