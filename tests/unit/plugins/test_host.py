"""The host: order, failures of every step, what comes and goes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.plugins.hosting import House, a_tool, found, gated, registering
from toolstead.concurrency import suspended_coroutine
from toolstead.errors import NotFoundError
from toolstead.plugins import plugin_instance as instances
from toolstead.plugins.contract import Hooks, Plugin, PluginContext
from toolstead.types.call import ANONYMOUS, Deny, ToolCall

CALL = ToolCall(name="x", input={}, caller=ANONYMOUS)


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for longer than a moment."""
    for name in ("REGISTER_SECONDS", "START_SECONDS", "STOP_SECONDS", "CALLS_SECONDS"):
        monkeypatch.setattr(instances, name, 0.02)
    monkeypatch.setattr(suspended_coroutine, "LATE_GRACE", 0.02)
    monkeypatch.setattr(suspended_coroutine, "GRACE", 0.02)


async def raises(_: PluginContext) -> None:
    raise ValueError("boom")


async def leaves(_: PluginContext) -> None:
    raise SystemExit(3)


async def hangs(_: PluginContext) -> None:
    await asyncio.Event().wait()


async def stays(_: PluginContext) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def raises_later(_: PluginContext) -> None:
    await asyncio.sleep(0)
    raise ValueError("boom")


BAD_STEPS = {
    raises: "ValueError: boom",
    raises_later: "ValueError: boom",
    leaves: "SystemExit: 3",
    hangs: "did not end within 0.02 seconds",
    stays: "ignored its cancellation and was abandoned",
}
bad_steps = pytest.mark.parametrize(
    ("step", "reason"), BAD_STEPS.items(), ids=lambda part: getattr(part, "__name__", "")
)


async def test_every_step_is_taken_for_all_before_the_next_and_stop_comes_in_reverse(house: House) -> None:
    await house.host.apply_plugins([house.wanted(name, tools=[a_tool()]) for name in "abc"])
    assert house.happened == [
        *("register a", "register b", "register c"),
        *("start a", "start b", "start c"),
        "tools a__echo,b__echo,c__echo gates ",
    ]
    assert house.states() == {"a": "running", "b": "running", "c": "running"}
    house.happened.clear()
    await house.host.close()
    assert house.happened == ["tools  gates ", "stop c", "stop b", "stop a"]
    await house.host.close()
    with pytest.raises(RuntimeError, match="closed"):
        await house.host.apply_plugins([])


@bad_steps
async def test_a_register_that_fails_is_that_plugins_alone(house: House, hasty: None, step: Any, reason: str) -> None:
    await house.host.apply_plugins(
        [house.wanted("a"), house.wanted("b", register=step, tools=[a_tool()]), house.wanted("c")]
    )
    assert house.states() == {"a": "running", "b": "failed", "c": "running"}
    assert house.view("b").error is not None
    assert house.view("b").error.startswith("register: ")
    assert reason in house.view("b").error
    assert house.host.list_tools() == []
    await house.host.close()
    assert [word for word in house.happened if word.endswith("b")] == []


@bad_steps
async def test_a_start_that_fails_is_stopped_at_once_and_only_once(
    house: House, hasty: None, step: Any, reason: str
) -> None:
    await house.host.apply_plugins(
        [house.wanted("a"), house.wanted("b", start=step, tools=[a_tool()]), house.wanted("c")]
    )
    assert house.happened == ["register a", "register b", "register c", "start a", "stop b", "start c"]
    assert house.states() == {"a": "running", "b": "failed", "c": "running"}
    assert reason in (house.view("b").error or "")
    assert ("b", "failed", house.view("b").error) in house.statuses
    assert house.host.list_tools() == []
    await house.host.close()
    assert house.happened[-2:] == ["stop c", "stop a"]


@bad_steps
async def test_a_stop_that_fails_keeps_no_other_from_stopping(
    house: House, hasty: None, step: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    await house.host.apply_plugins([house.wanted("a"), house.wanted("b", stop=step), house.wanted("c")])
    await house.host.close()
    assert house.happened[-2:] == ["stop c", "stop a"]
    assert reason in caplog.text


@pytest.mark.parametrize("nonsense", [{}, "hooks", 3, Hooks], ids=str)
async def test_a_register_that_gives_back_nonsense_is_refused(house: House, nonsense: Any) -> None:
    await house.host.apply_plugins([house.wanted("a", register=registering(nonsense)), house.wanted("b")])
    assert house.states() == {"a": "failed", "b": "running"}
    assert "it must return Hooks(…) or None" in (house.view("a").error or "")


async def test_a_plugin_with_nothing_but_a_name_works(house: House) -> None:
    await house.host.apply_plugins([found(Plugin(name="bare"))])
    assert house.states() == {"bare": "running"}
    await house.host.close()


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_start_that_is_cancelled_is_stopped_with_all_that_were_begun(
    house: House, hasty: None, swallows: bool
) -> None:
    begun = asyncio.Event()

    async def start(_: PluginContext) -> None:
        begun.set()
        await (stays if swallows else hangs)(_)

    async def work() -> None:
        await asyncio.Event().wait()

    async def begin(ctx: PluginContext) -> None:
        ctx.run_background(work())

    instances.START_SECONDS = 60
    before = asyncio.all_tasks()
    wanted = [house.wanted("a", start=begin), house.wanted("b", start=start, register=gated()), house.wanted("c")]
    applying = asyncio.create_task(house.host.apply_plugins(wanted))
    await asyncio.wait_for(begun.wait(), 5)
    applying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert [word for word in house.happened if word.startswith("stop")] == ["stop b", "stop a"]
    assert "start c" not in house.happened
    assert house.states() == {"a": "failed", "b": "failed", "c": "failed"}
    assert isinstance(await house.runner.list_gates()[0](CALL), Deny)
    assert asyncio.all_tasks() == before
    await house.host.apply_plugins([house.wanted(name) for name in "abc"])  # interrupted ones get another try
    assert house.states() == {"a": "running", "b": "running", "c": "running"}


async def test_what_was_cancelled_before_its_turn_is_tried_again(house: House) -> None:
    stopping, go_on = asyncio.Event(), asyncio.Event()

    async def stop(_: PluginContext) -> None:
        stopping.set()
        await go_on.wait()
        house.happened.append("stopped a")

    await house.host.apply_plugins([house.wanted("a", stop=stop)])
    applying = asyncio.create_task(house.host.apply_plugins([house.wanted("b")]))
    await asyncio.wait_for(stopping.wait(), 5)
    applying.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert house.happened[-1] == "stopped a"
    assert house.states() == {"b": "failed"}
    await house.host.apply_plugins([house.wanted("b")])
    assert house.states() == {"b": "running"}


async def test_close_gives_up_what_is_being_started(house: House) -> None:
    begun = asyncio.Event()

    async def start(_: PluginContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    applying = asyncio.create_task(house.host.apply_plugins([house.wanted("a"), house.wanted("b", start=start)]))
    await asyncio.wait_for(begun.wait(), 5)
    await asyncio.wait_for(house.host.close(), 5)
    await applying
    assert house.happened[-2:] == ["stop b", "stop a"]


async def test_close_stops_all_though_it_is_cancelled_in_the_middle(house: House) -> None:
    stopping, go_on = asyncio.Event(), asyncio.Event()

    async def stop(_: PluginContext) -> None:
        stopping.set()
        await go_on.wait()

    await house.host.apply_plugins([house.wanted("a"), house.wanted("b", stop=stop)])
    closing = asyncio.create_task(house.host.close())
    await asyncio.wait_for(stopping.wait(), 5)
    closing.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert house.happened[-1] == "stop a"


async def test_a_second_cancellation_of_close_is_passed_on(house: House) -> None:
    stopping = asyncio.Event()

    async def stop(_: PluginContext) -> None:
        stopping.set()
        await asyncio.Event().wait()

    await house.host.apply_plugins([house.wanted("a", stop=stop)])
    closing = asyncio.create_task(house.host.close())
    await asyncio.wait_for(stopping.wait(), 5)
    for _ in range(2):
        closing.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(closing, 5)


async def test_what_is_disabled_ends_and_what_is_enabled_again_begins_anew(house: House) -> None:
    a, b = house.plugin("a", version="1.2"), house.plugin("b")
    await house.host.apply_plugins([found(a), found(b)])
    house.happened.clear()
    await house.host.apply_plugins([found(a, enabled=False), found(b)])
    assert house.happened == ["stop a"]
    assert (house.view("a").state, house.view("a").version, house.view("a").enabled) == ("disabled", "1.2", False)
    assert house.statuses[-1] == ("a", "disabled", None)
    house.happened.clear()
    await house.host.apply_plugins([found(a), found(b)])
    assert house.happened == ["register a", "start a"]
    assert [context.name for context in house.contexts] == ["a", "b", "a"]
    assert house.states() == {"a": "running", "b": "running"}


async def test_what_is_never_enabled_is_never_loaded(house: House) -> None:
    def load() -> Any:
        raise AssertionError("it was loaded")

    await house.host.apply_plugins([found(Plugin(name="a"), load=load, enabled=False)])
    assert house.states() == {"a": "disabled"}


async def test_the_same_again_changes_nothing_and_a_failed_one_is_not_tried_over_and_over(house: House) -> None:
    wanted = [house.wanted("a"), house.wanted("b", start=raises)]
    await house.host.apply_plugins(wanted)
    happened, statuses = list(house.happened), list(house.statuses)
    await house.host.apply_plugins(wanted)
    assert (house.happened, house.statuses) == (happened, statuses)
    await house.host.apply_plugins([wanted[0], house.wanted("b", settings={"x": 1})])
    assert house.states() == {"a": "running", "b": "running"}


async def test_changed_code_replaces_what_runs_and_what_is_gone_ends(house: House) -> None:
    await house.host.apply_plugins([house.wanted("a", tools=[a_tool()]), house.wanted("b")])
    house.happened.clear()
    changed = house.plugin("a", version="2", tools=[a_tool("other")])
    await house.host.apply_plugins([found(changed, version_key="2")])
    assert house.happened == ["tools  gates ", "stop b", "stop a", "register a", "start a", "tools a__other gates "]
    assert house.view("a").version == "2"
    assert house.states() == {"a": "running"}


async def test_the_holder_of_a_name_keeps_it(house: House) -> None:
    first, second = house.plugin("a", version="1"), house.plugin("a", version="2")
    await house.host.apply_plugins([found(second, origin="two"), house.wanted("b")])
    wanted = [found(first, origin="one"), found(second, origin="two"), house.wanted("b")]
    for _ in range(2):
        await house.host.apply_plugins(wanted)
        shown = [(view.name, view.origin, view.state) for view in house.host.list_plugins()]
        assert shown == [("a", "two", "running"), ("b", "b:plugin", "running"), ("a", "one", "failed")]
    assert "already held by two" in (house.host.list_plugins()[-1].error or "")
    assert not [status for status in house.statuses if status[1] == "failed"]
    await house.host.apply_plugins([found(first, origin="one"), house.wanted("b")])
    assert house.view("a").origin == "one"


async def test_of_two_new_ones_the_first_has_the_name(house: House) -> None:
    await house.host.apply_plugins([found(Plugin(name="a"), origin="one"), found(Plugin(name="a"), origin="two")])
    assert [(view.origin, view.state) for view in house.host.list_plugins()] == [("one", "running"), ("two", "failed")]


async def test_hooks_are_set_before_tools_appear_and_go_after_them(house: House) -> None:
    await house.host.apply_plugins([house.wanted("a", register=gated(), tools=[a_tool()])])
    assert house.happened[-1] == "tools a__echo gates a"
    assert house.view("a").hooks == ("on_before_tool",)
    house.happened.clear()
    await house.host.apply_plugins([])
    assert house.happened == ["tools  gates a", "stop a"]
    assert house.runner.list_gates() == ()


async def test_a_gate_is_closed_until_its_plugin_is_in_use_and_when_it_failed(house: House) -> None:
    during: list[Any] = []

    async def start(_: PluginContext) -> None:
        during.append(await house.runner.list_gates()[0](CALL))
        raise ValueError("boom")

    await house.host.apply_plugins([house.wanted("guard", register=gated(), start=start)])
    assert during == [Deny("plugin 'guard' has to check it first and cannot: it is not running at this moment")]
    refusal = await house.runner.list_gates()[0](CALL)
    assert isinstance(refusal, Deny)
    assert "plugin 'guard' has to check it first and cannot: start: ValueError: boom" in refusal.reason
    assert house.view("guard").state == "failed"
    await house.host.apply_plugins([house.wanted("guard", register=gated(), enabled=False)])
    assert house.runner.list_gates() == ()


async def test_a_gate_whose_new_code_cannot_be_loaded_is_closed(house: House) -> None:
    def load() -> Any:
        raise SyntaxError("bad")

    closed: list[Any] = []

    async def stop(_: PluginContext) -> None:
        closed.append(await house.runner.list_gates()[0](CALL))

    await house.host.apply_plugins([house.wanted("guard", register=gated(), stop=stop)])
    assert await house.runner.list_gates()[0](CALL) is None
    await house.host.apply_plugins([found(Plugin(name="guard"), load=load, version_key="2")])
    closed.append(await house.runner.list_gates()[0](CALL))
    assert [type(decision) for decision in closed] == [Deny, Deny]
    await house.host.apply_plugins([found(Plugin(name="guard"), version_key="3")])
    assert house.runner.list_gates() == ()
    await house.host.close()
    assert house.runner.list_gates() == ()  # the newest never had one


async def test_gates_stay_closed_when_all_is_closed(house: House) -> None:
    await house.host.apply_plugins([house.wanted("guard", register=gated())])
    await house.host.close()
    assert isinstance(await house.runner.list_gates()[0](CALL), Deny)


async def test_whoever_is_told_of_tools_may_fail(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async def on_tools() -> None:
        raise ValueError("no registry")

    house.host._on_tools = on_tools
    await house.host.apply_plugins([house.wanted("a", tools=[a_tool()])])
    await house.host.close()
    assert house.happened[-1] == "stop a"
    assert "no registry" in caplog.text


async def test_a_cycle_in_the_order_of_hooks_is_told(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async def on_message(*_: Any) -> None: ...

    def hooks(after: str) -> Any:
        return registering(Hooks(on_message=on_message, after=[after]))

    await house.host.apply_plugins([house.wanted("a", register=hooks("b")), house.wanted("b", register=hooks("a"))])
    assert "the order of hooks" in caplog.text


async def test_a_context_that_cannot_be_made_fails_that_plugin(house: House) -> None:
    def make(name: str, *_: Any) -> PluginContext:
        if name == "a":
            raise OSError("no disk")
        return PluginContext(name=name)

    house.host._make_context = make
    await house.host.apply_plugins([house.wanted("a"), house.wanted("b")])
    assert house.states() == {"a": "failed", "b": "running"}


def test_a_keyboard_interrupt_is_no_failure_of_a_plugin() -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    unloadable = instances.PluginInstance(found(Plugin(name="a"), load=interrupted))
    with pytest.raises(KeyboardInterrupt):
        unloadable.load(interrupted)
    assert not unloadable.has_failed

    async def start(_: PluginContext) -> None:
        raise KeyboardInterrupt

    loaded = instances.PluginInstance(found(Plugin(name="a", start=start)))
    loaded.load(lambda name, _: PluginContext(name=name))
    with pytest.raises(KeyboardInterrupt):
        loaded.start().send(None)
    assert not loaded.has_failed


async def test_settings_of_nobody_are_not_found(house: House) -> None:
    with pytest.raises(NotFoundError):
        house.host.check_settings("nobody", {})
