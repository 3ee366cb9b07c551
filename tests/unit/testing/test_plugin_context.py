"""What authors test their plugins with: what it does beyond a context, and what it says when it is used wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from toolstead import (
    Deny,
    Hooks,
    Plugin,
    PluginContext,
    Rejected,
    ToolMeta,
    ToolResult,
    UnknownToolError,
    Verdict,
    tool,
)
from toolstead.errors import PluginError
from toolstead.plugins.contract import HOOKS
from toolstead.plugins.ports import HttpAnswer
from toolstead.testing import call_tool, fake_context, run_hook
from toolstead.types.call import Caller, ToolCall
from toolstead.types.run import Invoking, Run
from toolstead.types.thread import Message

CALL = ToolCall(name="probe__where", input={}, caller=Caller())
GIVEN: Mapping[str, tuple[Any, ...]] = {
    "on_message": ("t1", "user", "hello"),
    "on_before_invoke": ("t1", "hi", Invoking(run_id="r", agent="main", model="", runtime="x", session="cold")),
    "on_after_invoke": ("t1", Run(id="r", thread_id="t1", prompt="hi", created_at=0.0, owner="me")),
    "on_task_create": ("t1", "task_1"),
    "on_task_complete": ("t1", "task_1", "done"),
    "on_task_failed": ("t1", "task_1", "no"),
    "on_broadcast": ("completed", {"a": 1}),
    "on_before_tool": (CALL,),
    "on_after_tool": (CALL, ToolResult.error("no")),
    "on_settings_change": ({"volume": 1},),
}


@dataclass
class Settings:
    volume: int = 1


@tool
async def where(ctx: PluginContext, meta: ToolMeta) -> list[Any]:
    """Tell where the call comes from."""
    return [meta.thread_id, meta.run_id, meta.task_id, ctx.settings.volume]


def hooked(**hooks: Any) -> Plugin:
    async def register(ctx: PluginContext) -> Hooks:
        return Hooks(**hooks)

    return Plugin(name="probe", register=register)


async def test_a_tool_is_called_as_part_of_the_thread_run_and_task_that_are_named() -> None:
    plugin = Plugin(name="probe", settings=Settings, tools=[where])
    ctx = fake_context(plugin, settings={"volume": 3})
    result = await call_tool(plugin, "where", context=ctx, thread_id="t1", run_id="r1", task_id="k1")
    assert result.structured == ["t1", "r1", "k1", 3] or result.text == '["t1","r1","k1",3]'
    assert (await call_tool(plugin, "where")).text == '["default",null,null,1]'
    assert [event.type for event in ctx.events] == ["tool_use", "tool_result"]


async def test_a_tool_that_the_plugin_does_not_have_is_an_error() -> None:
    with pytest.raises(UnknownToolError, match="probe__nowhere"):
        await call_tool(Plugin(name="probe", tools=[where]), "nowhere")


@pytest.mark.parametrize("hook", HOOKS)
async def test_every_hook_can_be_run_and_gets_what_it_is_given(hook: str) -> None:
    seen: list[tuple[Any, ...]] = []

    async def function(*given: Any) -> Any:
        seen.append(given)
        return "the prompt" if hook == "on_before_invoke" else None

    assert await run_hook(hooked(**{hook: function}), hook, *GIVEN[hook]) == (
        "the prompt" if hook == "on_before_invoke" else None
    )
    assert seen == [GIVEN[hook]]


async def test_a_gates_decision_and_a_reviewers_verdict_are_the_answer() -> None:
    async def no(call: ToolCall) -> Deny:
        return Deny("not today")

    async def rejected(*_: str) -> Verdict:
        raise Rejected("too short")

    assert await run_hook(hooked(on_before_tool=no), "on_before_tool", CALL) == Deny("not today")
    answer = await run_hook(hooked(on_task_complete=rejected), "on_task_complete", "t1", "task_1", "done")
    assert answer == Verdict(False, "too short")


@pytest.mark.parametrize("hook", HOOKS)
async def test_what_a_hook_raises_a_test_sees(hook: str) -> None:
    async def function(*_: Any) -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await run_hook(hooked(**{hook: function}), hook, *GIVEN[hook])


@pytest.mark.parametrize("hook", ["on_before_invoke", "on_before_tool", "on_task_complete"])
async def test_a_nonsensical_answer_is_an_error(hook: str) -> None:
    async def function(*_: Any) -> int:
        return 5

    with pytest.raises(PluginError, match=f"{hook}: it must answer"):
        await run_hook(hooked(**{hook: function}), hook, *GIVEN[hook])


async def test_a_hook_that_takes_too_long_is_an_error() -> None:
    async def function(*_: Any) -> None:
        await asyncio.Event().wait()

    with pytest.raises(PluginError, match=r"on_message: .*0\.01 seconds"):
        await run_hook(hooked(on_message=function, timeout=0.01), "on_message", *GIVEN["on_message"])


async def test_a_hook_that_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match="there is no hook 'on_mesage'"):
        await run_hook(hooked(), "on_mesage", "t1", "user", "x")
    with pytest.raises(ValueError, match="'probe' has no on_message"):
        await run_hook(hooked(), "on_message", "t1", "user", "x")
    with pytest.raises(ValueError, match=r"on_message is called with \(thread_id, role, content\), and 1 were given"):
        await run_hook(hooked(), "on_message", "t1")


async def test_a_context_of_another_plugin_is_refused() -> None:
    plugin = Plugin(name="probe", tools=[where])
    with pytest.raises(ValueError, match="another plugin"):
        await call_tool(plugin, "where", context=fake_context("probe"))


def test_a_bad_plugin_or_bad_settings_are_refused_as_in_a_stead() -> None:
    with pytest.raises(PluginError, match="name"):
        fake_context(Plugin(name="two words"))
    with pytest.raises(PluginError, match="did you mean 'volume'"):
        fake_context(Plugin(name="probe", settings=Settings), settings={"volum": 1})


async def test_a_plugin_is_started_and_stopped_with_its_background_work_between() -> None:
    order: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("cancelled")

    async def register(ctx: PluginContext) -> Hooks:
        order.append("register")
        return Hooks()

    async def start(ctx: PluginContext) -> None:
        order.append("start")
        ctx.run_background(work())

    async def stop(ctx: PluginContext) -> None:
        order.append("stop")

    async with fake_context(Plugin(name="probe", register=register, start=start, stop=stop)):
        await asyncio.sleep(0)
        order.append("inside")
    assert order == ["register", "start", "inside", "cancelled", "stop"]


async def test_a_start_that_fails_is_seen_and_gets_its_stop() -> None:
    order: list[str] = []

    async def start(ctx: PluginContext) -> None:
        raise OSError("no printer")

    async def stop(ctx: PluginContext) -> None:
        order.append("stop")

    with pytest.raises(OSError, match="no printer"):
        async with fake_context(Plugin(name="probe", start=start, stop=stop)):
            order.append("inside")
    assert order == ["stop"]


async def test_what_was_done_can_be_read() -> None:
    async with fake_context(
        "probe",
        history={"t1": ["hi", ("assistant", "hello"), Message(**WHOLE)]},
        answers={"^how": "well"},
        pages={"https://example.org/a": "text", "https://example.org/b": TimeoutError("slow")},
    ) as ctx:
        assert [message.role for message in await ctx.threads.history("t1")] == ["user", "assistant", "system"]
        await ctx.threads.send("t1", "a note")
        await ctx.threads.send("t1", "wake up", wake=True)
        await ctx.threads.broadcast("probe.word", {"a": 1}, thread_id="t1")
        assert (await ctx.invoker.invoke("how are you", model="m")).result == "well"
        assert await ctx.http.request("post", "https://example.org/a", json=[1]) == HttpAnswer(
            url="https://example.org/a", status=200, content=b"text"
        )
        with pytest.raises(TimeoutError, match="slow"):
            await ctx.http.request("GET", "https://example.org/b")
        ended: list[str] = []
        ctx.run_background(_slow(ended))
        await ctx.wait_for_background()
        assert ended == ["slow"]
        ctx.report_status("degraded", "tired")
    assert [(message.role, message.content) for message in ctx.sent] == [("system", "a note"), ("user", "wake up")]
    assert [(event.type, event.data, event.thread_id) for event in ctx.broadcasts] == [("probe.word", {"a": 1}, "t1")]
    assert [(request.prompt, request.model) for request in ctx.invoked] == [("how are you", "m")]
    assert next((sent.method, sent.url, sent.json) for sent in ctx.requests) == ("POST", "https://example.org/a", [1])
    assert ctx.statuses == [("degraded", "tired")]


async def _slow(ended: list[str]) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    ended.append("slow")


WHOLE: Mapping[str, Any] = {
    "id": "m1",
    "thread_id": "t1",
    "role": "system",
    "content": "a note before",
    "created_at": 1.0,
}
