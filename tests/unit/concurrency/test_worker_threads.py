"""Plain functions in threads: in order, bounded, and given up without being lost sight of."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.waiting import PATIENCE, until
from toolstead.concurrency import worker_threads
from toolstead.concurrency.suspended_coroutine import IgnoredCancellationError
from toolstead.concurrency.worker_threads import WorkerThreads, is_call_abandoned, wait_on_loop
from toolstead.errors import ToolError

setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="unset")


class Gate:
    """A function that stays in its thread until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = 0

    def wait(self) -> str:
        self.entered += 1
        assert self.opened.wait(PATIENCE)
        return "through"


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> WorkerThreads:
    monkeypatch.setattr(worker_threads, "MOST_WORKING", 2)
    monkeypatch.setattr(worker_threads, "MOST_ABANDONED_OF_ONE", 3)
    monkeypatch.setattr(worker_threads, "MOST_ABANDONED", 5)
    return WorkerThreads()


async def abandon(threads: WorkerThreads, gate: Gate, name: str) -> BaseException:
    """Begin a call and cancel it when it runs: the error of its caller."""
    before, seen = gate.entered, list[BaseException]()

    async def call() -> None:
        try:
            await threads.run(gate.wait, name)
        except asyncio.CancelledError as error:
            seen.append(error)

    running = asyncio.create_task(call())
    await until(lambda: gate.entered > before)
    running.cancel()
    await running
    return seen[0]


async def test_calls_run_at_once_up_to_the_bound_and_the_next_ones_in_order(
    two_threads: WorkerThreads, gate: Gate
) -> None:
    order: list[int] = []
    running = [asyncio.create_task(two_threads.run(gate.wait, "gate")) for _ in range(2)]
    await until(lambda: gate.entered == 2)
    following = [asyncio.create_task(two_threads.run(partial(order.append, number), "next")) for number in range(20)]
    withdrawn = following.pop(5)
    await asyncio.sleep(0)
    withdrawn.cancel()
    await asyncio.sleep(0)
    assert not order
    gate.opened.set()
    assert await asyncio.gather(*running) == ["through"] * 2
    await asyncio.gather(*following)
    assert sorted(order) == [number for number in range(20) if number != 5]
    assert withdrawn.cancelled()


async def test_a_thread_has_the_callers_context_and_changes_only_its_copy() -> None:
    def look() -> str:
        seen = setting.get()
        setting.set("changed in the thread")
        return seen

    setting.set("the caller's")
    assert await WorkerThreads().run(look, "look") == "the caller's"
    assert setting.get() == "the caller's"


async def test_an_abandoned_call_frees_its_place_at_once_and_is_logged_until_it_ends(
    two_threads: WorkerThreads, gate: Gate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_threads, "TIME_TO_NOTICE", 0)
    caplog.set_level(logging.INFO, "toolstead.concurrency")
    waiting = asyncio.create_task(two_threads.run(gate.wait, "slow"))
    await until(lambda: gate.entered == 1)
    error = await abandon(two_threads, gate, "slow")
    assert isinstance(error.__cause__, IgnoredCancellationError)
    await abandon(two_threads, gate, "slow")
    assert await two_threads.run(lambda: "there is room", "other") == "there is room"
    await until(lambda: caplog.text.count("slow: the caller of a call left; a plain function cannot be stopped") == 2)
    assert "(2 such calls run)" in caplog.text
    gate.opened.set()
    assert await waiting == "through"
    await until(lambda: caplog.text.count("slow: a call that its caller left ended") == 2)


async def test_a_function_whose_calls_never_end_is_refused_while_others_go_on(
    two_threads: WorkerThreads, gate: Gate
) -> None:
    for _ in range(3):
        await abandon(two_threads, gate, "endless")
    with pytest.raises(ToolError, match="endless was not begun: 3 calls of endless that were abandoned"):
        await two_threads.run(gate.wait, "endless")
    for _ in range(2):
        await abandon(two_threads, gate, "another")
    with pytest.raises(ToolError, match=r"other was not begun: 5 calls \(3 of endless, 2 of another\)"):
        await two_threads.run(lambda: "fine", "other")
    gate.opened.set()
    await until(lambda: answers(two_threads, "endless"))


async def answers(threads: WorkerThreads, name: str) -> bool:
    try:
        return await threads.run(lambda: True, name)
    except ToolError:
        return False


async def test_a_call_that_waits_is_refused_too_when_the_bound_is_reached_meanwhile(
    two_threads: WorkerThreads, gate: Gate
) -> None:
    running = [asyncio.create_task(two_threads.run(gate.wait, "endless")) for _ in range(2)]
    await until(lambda: gate.entered == 2)
    waiting = [asyncio.create_task(two_threads.run(gate.wait, "endless")) for _ in range(2)]
    await asyncio.sleep(0)
    for call in running:
        call.cancel()
    await until(lambda: gate.entered == 4)
    refused = [asyncio.create_task(two_threads.run(gate.wait, "endless")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    assert [str(error)[:22] for error in await asyncio.gather(*refused, return_exceptions=True)] == [
        "endless was not begun:"
    ] * 3
    assert gate.entered == 4
    gate.opened.set()
    assert await waiting[1] == "through"


def leave() -> None:
    raise SystemExit(3)


def stop() -> None:
    raise StopIteration


@pytest.mark.parametrize("function", [leave, stop])
async def test_nothing_that_a_function_raises_ends_the_event_loop(function: Callable[[], None]) -> None:
    with pytest.raises(RuntimeError):
        await WorkerThreads().run(function, "leaving")


async def test_a_thread_may_wait_for_the_loop_until_nobody_waits_for_the_thread() -> None:
    reached, seen = threading.Event(), list[Any]()

    async def endless() -> None:
        reached.set()
        await asyncio.Event().wait()

    def work() -> None:
        async def answer() -> str:
            return "from the loop"

        seen.append(wait_on_loop(answer))
        try:
            wait_on_loop(endless)
        except asyncio.CancelledError:
            seen.append(is_call_abandoned())
            raise

    running = asyncio.create_task(WorkerThreads().run(work, "asking"))
    await until(reached.is_set)
    running.cancel()
    await until(lambda: seen == ["from the loop", True])
    assert not is_call_abandoned()


async def test_a_call_that_ends_soon_after_its_caller_left_is_nothing_to_warn_of(
    gate: Gate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "toolstead.concurrency")
    threads, later = WorkerThreads(), list[Callable[[], None]]()
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def keep_warning(delay: float, function: Callable[..., None], *given: Any) -> asyncio.TimerHandle:
        if getattr(function, "__self__", None) is threads:
            later.append(partial(function, *given))
        return call_later(delay, function, *given)

    monkeypatch.setattr(loop, "call_later", keep_warning)
    await abandon(threads, gate, "slow")
    gate.opened.set()
    await until(lambda: "slow: a call that its caller left ended" in caplog.text)
    (warn,) = later
    warn()
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
