"""The host: order, failures of every step, what comes and goes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.plugins.hosting import RecordedHost, a_tool, found, gated, registering
from toolstead.concurrency import suspended_coroutine
from toolstead.errors import NotFoundError
from toolstead.plugins import plugin_instance as instances
from toolstead.plugins.contract import Hooks, Plugin, PluginContext
from toolstead.types.call import ANONYMOUS, Deny, ToolCall

CALL = ToolCall(name="x", input={}, caller=ANONYMOUS)


@pytest.fixture
def recorded() -> RecordedHost:
    return RecordedHost()


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


async def test_every_step_is_taken_for_all_before_the_next_and_stop_comes_in_reverse(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins([recorded.wanted(name, tools=[a_tool()]) for name in "abc"])
    assert recorded.happened == [
        *("register a", "register b", "register c"),
        *("start a", "start b", "start c"),
        "tools a__echo,b__echo,c__echo gates ",
    ]
    assert recorded.states() == {"a": "running", "b": "running", "c": "running"}
    recorded.happened.clear()
    await recorded.host.close()
    assert recorded.happened == ["tools  gates ", "stop c", "stop b", "stop a"]
    await recorded.host.close()
    with pytest.raises(RuntimeError, match="closed"):
        await recorded.host.apply_plugins([])


@bad_steps
async def test_a_register_that_fails_is_that_plugins_alone(
    recorded: RecordedHost, hasty: None, step: Any, reason: str
) -> None:
    await recorded.host.apply_plugins(
        [recorded.wanted("a"), recorded.wanted("b", register=step, tools=[a_tool()]), recorded.wanted("c")]
    )
    assert recorded.states() == {"a": "running", "b": "failed", "c": "running"}
    assert recorded.view("b").error is not None
    assert recorded.view("b").error.startswith("register: ")
    assert reason in recorded.view("b").error
    assert recorded.host.list_tools() == []
    await recorded.host.close()
    assert [word for word in recorded.happened if word.endswith("b")] == []


@bad_steps
async def test_a_start_that_fails_is_stopped_at_once_and_only_once(
    recorded: RecordedHost, hasty: None, step: Any, reason: str
) -> None:
    await recorded.host.apply_plugins(
        [recorded.wanted("a"), recorded.wanted("b", start=step, tools=[a_tool()]), recorded.wanted("c")]
    )
    assert recorded.happened == ["register a", "register b", "register c", "start a", "stop b", "start c"]
    assert recorded.states() == {"a": "running", "b": "failed", "c": "running"}
    assert reason in (recorded.view("b").error or "")
    assert ("b", "failed", recorded.view("b").error) in recorded.statuses
    assert recorded.host.list_tools() == []
    await recorded.host.close()
    assert recorded.happened[-2:] == ["stop c", "stop a"]


@bad_steps
async def test_a_stop_that_fails_keeps_no_other_from_stopping(
    recorded: RecordedHost, hasty: None, step: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    await recorded.host.apply_plugins([recorded.wanted("a"), recorded.wanted("b", stop=step), recorded.wanted("c")])
    await recorded.host.close()
    assert recorded.happened[-2:] == ["stop c", "stop a"]
    assert reason in caplog.text


@pytest.mark.parametrize("nonsense", [{}, "hooks", 3, Hooks, None], ids=str)
async def test_a_register_that_gives_back_nonsense_is_refused(recorded: RecordedHost, nonsense: Any) -> None:
    await recorded.host.apply_plugins([recorded.wanted("a", register=registering(nonsense)), recorded.wanted("b")])
    assert recorded.states() == {"a": "failed", "b": "running"}
    assert "end it with `return Hooks(…)`" in (recorded.view("a").error or "")


async def test_a_plugin_with_nothing_but_a_name_works(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins([found(Plugin(name="bare"))])
    assert recorded.states() == {"bare": "running"}
    await recorded.host.close()


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_start_that_is_cancelled_is_stopped_with_all_that_were_begun(
    recorded: RecordedHost, hasty: None, swallows: bool
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
    wanted = [
        recorded.wanted("a", start=begin),
        recorded.wanted("b", start=start, register=gated()),
        recorded.wanted("c"),
    ]
    applying = asyncio.create_task(recorded.host.apply_plugins(wanted))
    await asyncio.wait_for(begun.wait(), 5)
    applying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert [word for word in recorded.happened if word.startswith("stop")] == ["stop b", "stop a"]
    assert "start c" not in recorded.happened
    assert recorded.states() == {"a": "failed", "b": "failed", "c": "failed"}
    assert isinstance(await recorded.runner.list_gates()[0](CALL), Deny)
    assert asyncio.all_tasks() == before
    again = [recorded.wanted("a"), recorded.wanted("b", register=gated()), recorded.wanted("c")]
    await recorded.host.apply_plugins(again)  # interrupted ones get another try
    assert recorded.states() == {"a": "running", "b": "running", "c": "running"}


async def test_what_was_cancelled_before_its_turn_is_tried_again(recorded: RecordedHost) -> None:
    stopping, go_on = asyncio.Event(), asyncio.Event()

    async def stop(_: PluginContext) -> None:
        stopping.set()
        await go_on.wait()
        recorded.happened.append("stopped a")

    await recorded.host.apply_plugins([recorded.wanted("a", stop=stop)])
    applying = asyncio.create_task(recorded.host.apply_plugins([recorded.wanted("b")]))
    await asyncio.wait_for(stopping.wait(), 5)
    applying.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert recorded.happened[-1] == "stopped a"
    assert recorded.states() == {"b": "failed"}
    await recorded.host.apply_plugins([recorded.wanted("b")])
    assert recorded.states() == {"b": "running"}


async def test_close_gives_up_what_is_being_started(recorded: RecordedHost) -> None:
    begun = asyncio.Event()

    async def start(_: PluginContext) -> None:
        begun.set()
        await asyncio.Event().wait()

    applying = asyncio.create_task(
        recorded.host.apply_plugins([recorded.wanted("a"), recorded.wanted("b", start=start)])
    )
    await asyncio.wait_for(begun.wait(), 5)
    await asyncio.wait_for(recorded.host.close(), 5)
    await applying
    assert recorded.happened[-2:] == ["stop b", "stop a"]


async def test_close_stops_all_though_it_is_cancelled_in_the_middle(recorded: RecordedHost) -> None:
    stopping, go_on = asyncio.Event(), asyncio.Event()

    async def stop(_: PluginContext) -> None:
        stopping.set()
        await go_on.wait()

    await recorded.host.apply_plugins([recorded.wanted("a"), recorded.wanted("b", stop=stop)])
    closing = asyncio.create_task(recorded.host.close())
    await asyncio.wait_for(stopping.wait(), 5)
    closing.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert recorded.happened[-1] == "stop a"


async def test_a_second_cancellation_of_close_is_passed_on(recorded: RecordedHost) -> None:
    stopping = asyncio.Event()

    async def stop(_: PluginContext) -> None:
        stopping.set()
        await asyncio.Event().wait()

    await recorded.host.apply_plugins([recorded.wanted("a", stop=stop)])
    closing = asyncio.create_task(recorded.host.close())
    await asyncio.wait_for(stopping.wait(), 5)
    for _ in range(2):
        closing.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(closing, 5)


async def test_what_is_disabled_ends_and_what_is_enabled_again_begins_anew(recorded: RecordedHost) -> None:
    a, b = recorded.plugin("a", version="1.2"), recorded.plugin("b")
    await recorded.host.apply_plugins([found(a), found(b)])
    recorded.happened.clear()
    await recorded.host.apply_plugins([found(a, enabled=False), found(b)])
    assert recorded.happened == ["stop a"]
    assert (recorded.view("a").state, recorded.view("a").version, recorded.view("a").enabled) == (
        "disabled",
        "1.2",
        False,
    )
    assert recorded.statuses[-1] == ("a", "disabled", None)
    recorded.happened.clear()
    await recorded.host.apply_plugins([found(a), found(b)])
    assert recorded.happened == ["register a", "start a"]
    assert [context.name for context in recorded.contexts] == ["a", "b", "a"]
    assert recorded.states() == {"a": "running", "b": "running"}


async def test_what_is_never_enabled_is_never_loaded(recorded: RecordedHost) -> None:
    def load() -> Any:
        raise AssertionError("it was loaded")

    await recorded.host.apply_plugins([found(Plugin(name="a"), load=load, enabled=False)])
    assert recorded.states() == {"a": "disabled"}


async def test_the_same_again_changes_nothing_and_a_failed_one_is_not_tried_over_and_over(
    recorded: RecordedHost,
) -> None:
    wanted = [recorded.wanted("a"), recorded.wanted("b", start=raises)]
    await recorded.host.apply_plugins(wanted)
    happened, statuses = list(recorded.happened), list(recorded.statuses)
    await recorded.host.apply_plugins(wanted)
    assert (recorded.happened, recorded.statuses) == (happened, statuses)
    await recorded.host.apply_plugins([wanted[0], recorded.wanted("b", settings={"x": 1})])
    assert recorded.states() == {"a": "running", "b": "running"}


async def test_changed_code_replaces_what_runs_and_what_is_gone_ends(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins([recorded.wanted("a", tools=[a_tool()]), recorded.wanted("b")])
    recorded.happened.clear()
    changed = recorded.plugin("a", version="2", tools=[a_tool("other")])
    await recorded.host.apply_plugins([found(changed, version_key="2")])
    assert recorded.happened == ["tools  gates ", "stop b", "stop a", "register a", "start a", "tools a__other gates "]
    assert recorded.view("a").version == "2"
    assert recorded.states() == {"a": "running"}


async def test_the_holder_of_a_name_keeps_it(recorded: RecordedHost) -> None:
    first, second = recorded.plugin("a", version="1"), recorded.plugin("a", version="2")
    await recorded.host.apply_plugins([found(second, origin="two"), recorded.wanted("b")])
    wanted = [found(first, origin="one"), found(second, origin="two"), recorded.wanted("b")]
    for _ in range(2):
        await recorded.host.apply_plugins(wanted)
        shown = [(view.name, view.origin, view.state) for view in recorded.host.list_plugins()]
        assert shown == [("a", "two", "running"), ("b", "b:plugin", "running"), ("a", "one", "failed")]
    assert "already held by two" in (recorded.host.list_plugins()[-1].error or "")
    assert not [status for status in recorded.statuses if status[1] == "failed"]
    await recorded.host.apply_plugins([found(first, origin="one"), recorded.wanted("b")])
    assert recorded.view("a").origin == "one"


async def test_of_two_new_ones_the_first_has_the_name(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins([found(Plugin(name="a"), origin="one"), found(Plugin(name="a"), origin="two")])
    assert [(view.origin, view.state) for view in recorded.host.list_plugins()] == [
        ("one", "running"),
        ("two", "failed"),
    ]


async def test_hooks_are_set_before_tools_appear_and_go_after_them(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins([recorded.wanted("a", register=gated(), tools=[a_tool()])])
    assert recorded.happened[-1] == "tools a__echo gates a"
    assert recorded.view("a").hooks == ("on_before_tool",)
    recorded.happened.clear()
    await recorded.host.apply_plugins([])
    assert recorded.happened == ["tools  gates a", "stop a"]
    assert recorded.runner.list_gates() == ()


async def test_a_gate_is_closed_until_its_plugin_is_in_use_and_when_it_failed(recorded: RecordedHost) -> None:
    during: list[Any] = []

    async def start(_: PluginContext) -> None:
        during.append(await recorded.runner.list_gates()[0](CALL))
        raise ValueError("boom")

    await recorded.host.apply_plugins([recorded.wanted("guard", register=gated(), start=start)])
    assert during == [Deny("plugin 'guard' has to check it first and cannot: it is starting or stopping")]
    refusal = await recorded.runner.list_gates()[0](CALL)
    assert isinstance(refusal, Deny)
    # Whoever calls is not shown where it is, nor how to do without it.
    why = "it is not in use; the log of the server says why"
    assert refusal.reason == f"plugin 'guard' has to check it first and cannot: {why}"
    assert recorded.view("guard").state == "failed"
    await recorded.host.apply_plugins([recorded.wanted("guard", register=gated(), enabled=False)])
    assert recorded.runner.list_gates() == ()


async def test_a_gate_whose_new_code_cannot_be_loaded_is_closed(recorded: RecordedHost) -> None:
    def load() -> Any:
        raise SyntaxError("bad")

    closed: list[Any] = []

    async def stop(_: PluginContext) -> None:
        closed.append(await recorded.runner.list_gates()[0](CALL))

    await recorded.host.apply_plugins([recorded.wanted("guard", register=gated(), stop=stop)])
    assert await recorded.runner.list_gates()[0](CALL) is None
    await recorded.host.apply_plugins([found(Plugin(name="guard"), load=load, version_key="2")])
    closed.append(await recorded.runner.list_gates()[0](CALL))
    assert [type(decision) for decision in closed] == [Deny, Deny]
    await recorded.host.apply_plugins([found(Plugin(name="guard"), version_key="3")])
    assert isinstance(await recorded.runner.list_gates()[0](CALL), Deny)  # nobody said that it shall go
    assert "it had this gate when it last ran" in (recorded.view("guard").error or "")
    await recorded.host.restart_plugin("guard")
    assert (recorded.states(), recorded.runner.list_gates()) == ({"guard": "running"}, ())
    await recorded.host.close()
    assert recorded.runner.list_gates() == ()  # the newest never had one


async def test_gates_stay_closed_when_all_is_closed(recorded: RecordedHost) -> None:
    await recorded.host.apply_plugins([recorded.wanted("guard", register=gated())])
    await recorded.host.close()
    assert isinstance(await recorded.runner.list_gates()[0](CALL), Deny)


async def test_whoever_is_told_of_tools_may_fail(recorded: RecordedHost, caplog: pytest.LogCaptureFixture) -> None:
    async def on_tools() -> None:
        raise ValueError("no registry")

    recorded.host._on_tools = on_tools
    await recorded.host.apply_plugins([recorded.wanted("a", tools=[a_tool()])])
    await recorded.host.close()
    assert recorded.happened[-1] == "stop a"
    assert "no registry" in caplog.text


async def test_a_cycle_in_the_order_of_hooks_is_told(recorded: RecordedHost, caplog: pytest.LogCaptureFixture) -> None:
    async def on_message(*_: Any) -> None: ...

    def hooks(after: str) -> Any:
        return registering(Hooks(on_message=on_message, after=[after]))

    await recorded.host.apply_plugins(
        [recorded.wanted("a", register=hooks("b")), recorded.wanted("b", register=hooks("a"))]
    )
    assert "the order of hooks" in caplog.text


async def test_a_context_that_cannot_be_made_fails_that_plugin(recorded: RecordedHost) -> None:
    def make(name: str, *_: Any) -> PluginContext:
        if name == "a":
            raise OSError("no disk")
        return PluginContext(name=name)

    recorded.host._make_context = make
    await recorded.host.apply_plugins([recorded.wanted("a"), recorded.wanted("b")])
    assert recorded.states() == {"a": "failed", "b": "running"}


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


async def test_settings_of_nobody_are_not_found(recorded: RecordedHost) -> None:
    with pytest.raises(NotFoundError):
        recorded.host.check_settings("nobody", {})
