"""The hook runner: whatever a hook does, the rest goes on, and the culprit is named."""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.virtual_time import run_virtually
from toolstead.concurrency import suspended_coroutine
from toolstead.errors import Rejected
from toolstead.plugins.contract import HOOKS, Hooks
from toolstead.plugins.health import FAILURES_UNTIL_CUT_OFF, Health
from toolstead.plugins.hook_runner import Hooked, HookRunner, Review
from toolstead.types.call import ANONYMOUS, Allow, Ask, Deny, Rewrite, ToolCall
from toolstead.types.result import ToolResult
from toolstead.types.run import Invoking, Run
from toolstead.types.verdict import Verdict

INVOKING = Invoking(run_id="r", agent="main", model="m", runtime="demo", session="cold")
RUN = Run(id="r", thread_id="t", prompt="p", created_at=0.0, owner="o")
CALL = ToolCall(name="x", input={"a": 1}, caller=ANONYMOUS)
RESULT = ToolResult.error("no")
GOOD: dict[str, Any] = {"on_before_invoke": "good", "on_before_tool": Allow(), "on_task_complete": Verdict(True)}


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def raises() -> Any:
    raise ValueError("boom")


async def raises_later() -> Any:
    await asyncio.sleep(1)
    raise ValueError("boom")


async def leaves() -> Any:
    raise SystemExit(3)


async def cancels_itself() -> Any:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


async def cancels_itself_at_once() -> Any:
    raise asyncio.CancelledError


async def hangs() -> Any:
    await forever()


async def swallows() -> Any:
    while True:
        with suppress(asyncio.CancelledError):
            await forever()


async def spins() -> Any:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
            await asyncio.sleep(0)


async def waits_for_one_that_swallows() -> Any:
    await asyncio.create_task(_swallows_once())


async def _swallows_once() -> None:
    for _ in range(2):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)


async def swallows_in_a_timeout_of_its_own() -> Any:
    async with asyncio.timeout(1):
        await swallows()


async def answers_late() -> Any:
    with suppress(asyncio.CancelledError):
        await forever()
    return Allow()


async def cannot_be_closed() -> Any:
    while True:
        try:
            await forever()
        except BaseException:  # noqa: BLE001 - as bad as can be
            continue


async def answers_nonsense() -> Any:
    return object()


def is_not_async() -> Any:
    return None


def stops_iteration() -> Any:
    raise StopIteration


EVIL: list[Callable[[], Any]] = [
    raises,
    raises_later,
    leaves,
    cancels_itself,
    cancels_itself_at_once,
    hangs,
    swallows,
    spins,
    waits_for_one_that_swallows,
    swallows_in_a_timeout_of_its_own,
    answers_late,
    cannot_be_closed,
    is_not_async,
    stops_iteration,
]


@dataclass
class World:
    """Plugins with one hook each, who note that they were called."""

    hook: str
    runner: HookRunner = field(default_factory=HookRunner)
    seen: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    health: dict[str, Health] = field(default_factory=dict)

    def with_plugins(self, **does: Callable[[], Any] | None) -> World:
        self.runner.set_hooks([self.hooked(name, what) for name, what in does.items()])
        return self

    def hooked(self, name: str, does: Callable[[], Any] | None, **more: Any) -> Hooked:
        self.health[name] = Health(name)
        self.health[name].set_state("running")

        def function(*given: Any) -> Any:
            self.seen.append((name, given))
            return self.good(*given) if does is None else does()

        return Hooked(plugin=name, hooks=Hooks(**{self.hook: function}, **more), health=self.health[name])

    async def good(self, *given: Any) -> Any:
        return f"{given[1]}+" if self.hook == "on_before_invoke" else GOOD.get(self.hook)

    async def call(self) -> Any:
        match self.hook:
            case "on_message":
                return await self.runner.on_message("t", "user", "hi")
            case "on_before_invoke":
                return await self.runner.on_before_invoke("t", "p", INVOKING)
            case "on_after_invoke":
                return await self.runner.on_after_invoke("t", RUN)
            case "on_broadcast":
                return await self.runner.on_broadcast("e.f", {})
            case "on_task_create":
                return await self.runner.on_task_create("t", "k")
            case "on_task_complete":
                return await self.runner.on_task_complete("t", "k", "done")
            case "on_task_failed":
                return await self.runner.on_task_failed("t", "k", "no")
            case "on_before_tool":
                return [await gate(CALL) for gate in self.runner.list_gates()]
            case "on_after_tool":
                for observer in self.runner.list_observers():
                    await observer(CALL, RESULT)
                return None
            case _:
                for name in self.health:
                    await self.runner.on_settings_change(name, {"a": 1})
                return None

    def called(self) -> list[str]:
        return [name for name, _ in self.seen]


def check_result(world: World, result: Any, culprit: int) -> None:
    match world.hook:
        case "on_before_invoke":
            assert result == "p++"
        case "on_before_tool":
            denied = result.pop(culprit)
            assert isinstance(denied, Deny)
            assert denied.reason.startswith("plugin 'evil' has to check it first and could not: it ")
            assert "boom" not in denied.reason
            assert result == [Allow(), Allow()]
        case "on_task_complete":
            unknown = result.pop(culprit)
            assert unknown.plugin == "evil"
            assert unknown.verdict.accepted is None
            assert unknown.verdict.feedback.startswith("plugin 'evil' could not review it: it ")
            assert [review.verdict for review in result] == [Verdict(True)] * 2
        case _:
            assert result is None


@pytest.mark.parametrize("hook", HOOKS)
def test_whatever_a_hook_does_the_rest_goes_on_and_the_culprit_is_named(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(evil: Callable[[], Any], position: int) -> None:
        names: list[tuple[str, Callable[[], Any] | None]] = [("one", None), ("two", None)]
        names.insert(position, ("evil", evil))
        world = World(hook).with_plugins(**dict(names))
        result = await world.call()
        assert world.called() == [name for name, _ in names]
        check_result(world, result, position)
        assert world.health["evil"].state == "degraded"
        assert (world.health["evil"].error or "").startswith(f"{hook}: ")
        assert {world.health[name].state for name in ("one", "two")} == {"running"}
        errors = [record for record in caplog.records if record.name == "toolstead.plugins.hook_call"]
        assert [f"plugin 'evil': {hook} failed: " in record.getMessage() for record in errors] == [True]
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    for evil, position in itertools.product(EVIL, range(3)):
        print(f"{evil.__name__} at {position}")  # which case it was, where one fails
        caplog.clear()
        run_virtually(main(evil, position))


CHECKED = ["on_before_invoke", "on_before_tool", "on_task_complete"]


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("hook", HOOKS)
async def test_nonsense_is_a_failure_where_an_answer_is_wanted_and_ignored_elsewhere(hook: str, position: int) -> None:
    names: list[tuple[str, Any]] = [("one", None), ("two", None)]
    names.insert(position, ("evil", answers_nonsense))
    world = World(hook).with_plugins(**dict(names))
    result = await world.call()
    assert world.called() == [name for name, _ in names]
    if hook in CHECKED:
        check_result(world, result, position)
    assert (world.health["evil"].state == "degraded") is (hook in CHECKED)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_slow_hook_that_ends_in_time_is_fine(hook: str) -> None:
    async def main() -> None:
        async def slow() -> Any:
            await asyncio.sleep(599 if hook == "on_task_complete" else 9.9)
            return GOOD.get(hook)

        world = World(hook).with_plugins(a=slow, b=None)
        await world.call()
        assert world.called() == ["a", "b"]
        assert world.health["a"].state == "running"

    run_virtually(main())


@pytest.mark.parametrize(
    ("evil", "seconds", "reason"),
    [
        (hangs, 10, "it did not end within 10 seconds"),
        (swallows, 11, "it did not end within 10 seconds, ignored its cancellation and was abandoned"),
        (waits_for_one_that_swallows, 11, "it did not end within 10 seconds, ignored its cancellation"),
    ],
)
def test_the_caller_waits_for_the_limit_and_a_second_at_most(
    evil: Callable[[], Any], seconds: float, reason: str
) -> None:
    async def main() -> None:
        world = World("on_message").with_plugins(a=evil)
        await world.call()
        assert asyncio.get_running_loop().time() == pytest.approx(seconds, abs=0.01)
        assert reason in (world.health["a"].error or "")

    run_virtually(main())


@pytest.mark.parametrize(("hook", "timeout", "seconds"), [("on_message", 3, 3), ("on_task_complete", None, 600)])
def test_the_limit_is_the_plugins_own_where_it_says_one(hook: str, timeout: float | None, seconds: float) -> None:
    async def main() -> None:
        world = World(hook)
        assert world.runner.set_hooks([world.hooked("a", hangs, timeout=timeout)]) == []
        await world.call()
        assert asyncio.get_running_loop().time() == pytest.approx(seconds, abs=0.01)

    run_virtually(main())


# --- cut off


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_hook_is_cut_off_after_five_failures_and_that_is_said_once(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(hook).with_plugins(one=None, evil=raises, two=None)
    for _ in range(FAILURES_UNTIL_CUT_OFF + 3):
        check_result(world, await world.call(), 1)
    assert world.called().count("evil") == FAILURES_UNTIL_CUT_OFF
    assert world.called().count("two") == FAILURES_UNTIL_CUT_OFF + 3
    cut = [record for record in caplog.records if "is cut off until the plugin is enabled again" in record.getMessage()]
    assert [record.getMessage() for record in cut] == [
        f"plugin 'evil': {hook} failed 5 times in a row, and is cut off until the plugin is enabled again"
    ]


async def test_a_success_in_between_starts_the_count_again() -> None:
    outcomes = iter([raises, raises, raises, raises, answers_nonsense, raises, raises, raises, raises])

    async def changes() -> Any:
        return await next(outcomes)()

    world = World("on_message").with_plugins(a=changes)
    for _ in range(9):
        await world.call()
    assert world.health["a"].error is not None
    assert "(4 in a row)" in world.health["a"].error
    assert not world.health["a"].is_cut_off("on_message")


# --- the caller's own cancellation


async def cancelled_in(world: World, after: float = 1) -> asyncio.Task[Any]:
    task = asyncio.create_task(world.call())
    await asyncio.sleep(after)
    task.cancel()
    await asyncio.wait((task,))
    return task


async def raises_when_cancelled() -> Any:
    try:
        await forever()
    finally:
        raise KeyError("cleaning up")


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("does", [hangs, answers_late, raises_when_cancelled])
def test_the_callers_cancellation_reaches_the_hook_is_not_its_failure_and_cannot_be_swallowed(
    hook: str, does: Callable[[], Any]
) -> None:
    async def main() -> None:
        world = World(hook).with_plugins(a=does, b=None)
        task = await cancelled_in(world)
        assert task.cancelled()
        assert world.called() == ["a"]
        assert world.health["a"].state == "running"
        assert asyncio.get_running_loop().time() == pytest.approx(1, abs=0.01)

    run_virtually(main())


def test_a_hook_that_ends_when_its_caller_is_cancelled_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    for does in (hangs, answers_late):
        run_virtually(cancelled_in(World("on_message").with_plugins(a=does)))
    assert caplog.records == []


def test_what_a_hook_raises_when_its_caller_is_cancelled_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    run_virtually(cancelled_in(World("on_message").with_plugins(a=raises_when_cancelled)))
    assert [record.getMessage() for record in caplog.records] == [
        "plugin 'a': on_message raised while its caller was cancelled"
    ]


@pytest.mark.parametrize("does", [swallows, waits_for_one_that_swallows])
def test_a_hook_that_goes_on_after_its_callers_cancellation_is_let_go_and_counted(does: Callable[[], Any]) -> None:
    async def main() -> None:
        world = World("on_task_complete").with_plugins(a=does)
        task = await cancelled_in(world)
        assert task.cancelled()
        assert asyncio.get_running_loop().time() == pytest.approx(1 + suspended_coroutine.GRACE, abs=0.01)
        assert "ignored its cancellation and was abandoned" in (world.health["a"].error or "")

    run_virtually(main())


def test_a_timeout_of_the_hooks_own_with_long_cleaning_up_is_no_cancellation_of_its_caller() -> None:
    async def careful() -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                try:
                    await forever()
                finally:
                    await asyncio.sleep(3)
        with suppress(TimeoutError):
            async with asyncio.timeout(4):
                try:
                    await forever()
                finally:
                    await asyncio.sleep(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0.5))
        return "p+"

    async def main() -> None:
        world = World("on_before_invoke").with_plugins(a=careful, b=None)
        assert await world.call() == "p++"
        assert world.health["a"].state == "running"

    run_virtually(main())


async def test_keyboard_interrupt_passes() -> None:
    async def interrupted() -> Any:
        raise KeyboardInterrupt

    async def interrupted_later() -> Any:
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    for does in (interrupted, interrupted_later):
        world = World("on_message").with_plugins(a=does)
        with pytest.raises(KeyboardInterrupt):
            await world.call()


async def test_a_caller_that_is_dropped_closes_the_hook() -> None:
    ended: list[str] = []

    async def tidy() -> Any:
        try:
            try:
                await forever()
            finally:
                await forever()
        finally:
            ended.append("closed")

    world = World("on_message").with_plugins(a=tidy, b=None)
    calling: Coroutine[Any, Any, Any] = world.call()
    calling.send(None)
    calling.close()
    assert ended == ["closed"]
    assert world.called() == ["a"]
    assert world.health["a"].state == "running"


# --- what may be given back


def a_future() -> Awaitable[Any]:
    future = asyncio.get_running_loop().create_future()
    future.get_loop().call_soon(future.set_result, "q")
    return future


class Promise:
    def __await__(self) -> Any:
        return a_future().__await__()


async def a_coroutine() -> str:
    return "q"


@pytest.mark.parametrize("does", [a_future, Promise, a_coroutine, lambda: asyncio.create_task(a_coroutine())])
async def test_a_plain_function_may_give_back_anything_that_can_be_awaited(does: Callable[[], Any]) -> None:
    world = World("on_before_invoke").with_plugins(a=does, b=None)
    assert await world.call() == "q+"
    assert world.health["a"].state == "running"


async def test_a_plain_function_that_gives_back_something_else_is_told_what_would_be_right() -> None:
    world = World("on_message").with_plugins(a=is_not_async)
    await world.call()
    assert world.health["a"].error == ("on_message: it returned NoneType, which cannot be awaited: write `async def`")


@pytest.mark.parametrize("answer", [None, Allow(), Deny("no"), Rewrite({"b": 2}), Ask("look")])
async def test_a_gates_decision_is_passed_on_as_it_is(answer: Any) -> None:
    async def decide() -> Any:
        return answer

    world = World("on_before_tool").with_plugins(guard=decide)
    (gate,) = world.runner.list_gates()
    assert gate.name == "guard"
    assert await gate(CALL) is answer
    assert world.seen == [("guard", (CALL,))]


BAD_DECISIONS: list[Any] = [True, False, "allow", Allow, {}, Deny(5), Rewrite([1]), Rewrite({1: 2}), Ask(None)]  # type: ignore[arg-type] - bad on purpose


@pytest.mark.parametrize("answer", BAD_DECISIONS)
async def test_a_gate_that_answers_nonsense_refuses(answer: Any) -> None:
    async def decide() -> Any:
        return answer

    world = World("on_before_tool").with_plugins(guard=decide)
    (decision,) = await world.call()
    assert isinstance(decision, Deny)
    assert "plugin 'guard'" in decision.reason
    assert " must " in decision.reason
    assert world.health["guard"].state == "degraded"


async def test_a_verdict_none_and_a_rejection_are_what_a_reviewer_may_say() -> None:
    async def rejects() -> Any:
        raise Rejected("the tests fail")

    async def says_nothing() -> Any:
        return None

    async def cannot_tell() -> Any:
        return Verdict(None, "hm")

    world = World("on_task_complete").with_plugins(a=rejects, b=says_nothing, c=cannot_tell, d=None)
    assert await world.call() == [
        Review(plugin="a", verdict=Verdict(False, "the tests fail")),
        Review(plugin="b", verdict=None),
        Review(plugin="c", verdict=Verdict(None, "hm")),
        Review(plugin="d", verdict=Verdict(True)),
    ]
    assert {health.state for health in world.health.values()} == {"running"}


@pytest.mark.parametrize("answer", [True, "fine", Verdict, Verdict(1), Verdict("yes"), Verdict(True, None)])  # type: ignore[arg-type] - bad on purpose
async def test_a_reviewer_that_answers_nonsense_never_accepts(answer: Any) -> None:
    async def review() -> Any:
        return answer

    (found,) = await World("on_task_complete").with_plugins(a=review).call()
    assert found.verdict is not None
    assert found.verdict.accepted is None


async def test_a_rejection_is_a_failure_of_any_other_hook() -> None:
    async def rejects() -> Any:
        raise Rejected("no")

    world = World("on_before_tool").with_plugins(a=rejects)
    (decision,) = await world.call()
    assert isinstance(decision, Deny)
    assert world.health["a"].state == "degraded"


# --- who is called


async def test_a_plugin_is_not_told_what_it_broadcasts_itself() -> None:
    world = World("on_broadcast").with_plugins(a=None, b=None)
    await world.runner.on_broadcast("a.x", {"n": 1}, source="a")
    assert world.seen == [("b", ("a.x", {"n": 1}))]


async def test_only_the_plugin_whose_settings_changed_is_told() -> None:
    world = World("on_settings_change").with_plugins(a=None, b=None)
    await world.runner.on_settings_change("b", {"n": 1})
    assert world.seen == [("b", ({"n": 1},))]


async def test_before_and_after_order_the_calls_and_problems_are_given_back() -> None:
    world = World("on_message")
    first, second = world.hooked("a", None, after=["b"]), world.hooked("b", None)
    assert world.runner.set_hooks([first, second]) == []
    await world.call()
    assert world.called() == ["b", "a"]
    assert len(world.runner.set_hooks([first, world.hooked("b", None, after=["a"])])) == 1


async def test_what_is_being_called_keeps_the_plugins_it_began_with() -> None:
    world = World("on_message")

    async def replaces() -> None:
        world.runner.set_hooks([])

    world.with_plugins(a=replaces, b=None)
    await world.call()
    await world.call()
    assert world.called() == ["a", "b"]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_nobody_has_costs_nothing(hook: str) -> None:
    world = World(hook)
    world.runner.set_hooks([Hooked(plugin="a", hooks=Hooks(), health=Health("a"))])
    calling = world.call()
    with pytest.raises(StopIteration):  # no loop is running: nothing can have been made that needs one
        calling.send(None)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_never_waits_needs_no_timer_and_no_task(hook: str) -> None:
    world = World(hook).with_plugins(a=None, b=None)
    calling = world.call()
    with pytest.raises(StopIteration):
        calling.send(None)
    assert world.called() == ["a", "b"]


# --- closing


@pytest.mark.parametrize(("does", "seconds"), [(hangs, 0), (swallows, 1)])
def test_closing_ends_what_is_being_called_and_blames_nobody_who_ends(
    does: Callable[[], Any], seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = World("on_before_tool").with_plugins(a=does)
        task = asyncio.create_task(world.call())
        await asyncio.sleep(0)
        await world.runner.close()
        assert asyncio.get_running_loop().time() == pytest.approx(seconds, abs=0.01)
        (decision,) = await task
        assert isinstance(decision, Deny)
        assert world.health["a"].state == "running"
        assert world.runner.list_gates() == ()

    with caplog.at_level(logging.WARNING):
        run_virtually(main())
    assert "Toolstead is shutting down" in caplog.text


async def test_a_hook_that_closes_everything_itself_is_not_waited_for() -> None:
    world, steps = World("on_message"), list[str]()

    async def closes() -> None:
        await asyncio.sleep(0)
        await world.runner.close()
        await asyncio.sleep(0)
        steps.append("went on")

    await world.with_plugins(a=closes).call()
    assert steps == ["went on"]
    assert world.health["a"].state == "running"


def test_a_hook_that_cannot_be_closed_does_not_keep_the_process_from_ending() -> None:
    program = """
import asyncio
from toolstead.concurrency import suspended_coroutine
from toolstead.plugins.contract import Hooks
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import Hooked, HookRunner

async def endless(*_):
    while True:
        try:
            await asyncio.sleep(60)
        except:
            pass

async def main():
    runner, health = HookRunner(), Health("a")
    runner.set_hooks([Hooked(plugin="a", hooks=Hooks(on_message=endless, timeout=0.01), health=health)])
    await runner.on_message("t", "user", "x")
    print(health.state)

suspended_coroutine.LATE_GRACE = 0.01
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "degraded\n"
    assert "Exception ignored" not in ended.stderr
    assert "ignored GeneratorExit" not in ended.stderr
