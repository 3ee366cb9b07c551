"""The deadline: a handler that waits behaves as if it were awaited directly, until its time is over."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from tests.virtual_time import run_virtually
from toolstead.concurrency.suspended_coroutine import (
    DeadlineError,
    IgnoredCancellationError,
    SuspendedCoroutine,
    start_coroutine,
)

GRACE = 10.0
SOON = 0.01
LATE = 60.0
setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="unset")


async def begin(steps: Coroutine[Any, Any, Any], seconds: float = LATE, grace: float = GRACE) -> Any:
    """Do as the dispatcher does: the first step bare, the rest with a deadline."""
    answer = start_coroutine(steps)
    return await answer.finish(seconds, grace=grace) if type(answer) is SuspendedCoroutine else answer


async def forever() -> None:
    await asyncio.Event().wait()


# --- what passes through


async def test_a_handler_that_waits_ends_with_its_answer() -> None:
    async def handler() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await asyncio.to_thread(str, 5)

    assert await begin(handler()) == "5"


async def test_an_exception_after_waiting_is_the_handlers_own() -> None:
    async def handler() -> str:
        await asyncio.sleep(0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await begin(handler())


async def test_an_exception_of_what_is_waited_for_is_thrown_into_the_handler() -> None:
    waited: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handler() -> str:
        try:
            return await waited
        except OSError as error:
            await asyncio.sleep(0)
            return f"saw {error}"

    running = asyncio.create_task(begin(handler()))
    await asyncio.sleep(0)
    waited.set_exception(OSError("gone"))
    assert await asyncio.wait_for(running, 5) == "saw gone"


async def test_the_handler_runs_in_the_callers_task_and_context() -> None:
    seen: list[Any] = []

    async def handler() -> str:
        seen.append(asyncio.current_task())
        setting.set("before waiting")
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())
        setting.set(setting.get() + " and after")
        return ""

    await begin(handler())
    assert seen == [asyncio.current_task()] * 2
    assert setting.get() == "before waiting and after"


async def test_calls_at_once_have_contexts_of_their_own() -> None:
    async def handler(name: str) -> str:
        setting.set(name)
        await asyncio.sleep(0)
        return setting.get()

    answers = await asyncio.gather(*(begin(handler(str(n))) for n in range(50)))
    assert answers == [str(n) for n in range(50)]


async def test_a_handler_may_use_task_groups_and_timeouts_of_its_own() -> None:
    async def handler() -> str:
        async with asyncio.timeout(LATE), asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, n)) for n in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                await forever()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(forever(), SOON)
        return str([task.result() for task in tasks])

    assert await begin(handler()) == "[0, 1, 2]"


async def test_a_timeout_error_of_the_handlers_own_is_not_the_deadline() -> None:
    async def handler() -> str:
        async with asyncio.timeout(SOON):
            await forever()
        return ""

    with pytest.raises(TimeoutError):
        await begin(handler())


async def test_a_handler_that_is_dropped_while_it_waits_cleans_up() -> None:
    cleaned: list[str] = []

    async def handler() -> None:
        try:
            await forever()
        finally:
            cleaned.append("cleaned")

    running = begin(handler())
    running.send(None)
    running.close()
    assert cleaned == ["cleaned"]


# --- when time is over


async def test_the_deadline_cancels_the_handler_and_waits_for_its_cleaning_up() -> None:
    steps: list[str] = []

    async def handler() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0)
            steps.append("cleaned up")
            raise

    with pytest.raises(DeadlineError) as late:
        await begin(handler(), SOON)
    assert late.value.seconds == SOON
    assert steps == ["cancelled", "cleaned up"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_the_deadline_reaches_a_handler_that_only_yields() -> None:
    async def handler() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(DeadlineError):
        await begin(handler(), SOON)


async def test_the_deadline_reaches_through_a_longer_timeout_of_the_handlers_own() -> None:
    async def handler() -> None:
        async with asyncio.timeout(LATE), asyncio.TaskGroup() as group:
            group.create_task(forever())

    with pytest.raises(DeadlineError):
        await begin(handler(), SOON)


async def test_an_answer_given_in_spite_of_the_deadline_counts() -> None:
    async def handler() -> str:
        with suppress(asyncio.CancelledError):
            await forever()
        await asyncio.sleep(0)
        return "half of it"

    assert await begin(handler(), SOON) == "half of it"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_an_error_made_of_the_deadlines_cancellation_is_the_handlers_own() -> None:
    async def handler() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            raise KeyError("while cleaning up") from None
        return ""

    with pytest.raises(KeyError, match="while cleaning up"):
        await begin(handler(), SOON)


async def test_the_callers_own_shorter_timeout_is_the_callers() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON):
            await begin(forever(), LATE)


async def test_one_call_after_another_has_a_deadline_of_its_own() -> None:
    for _ in range(3):
        with pytest.raises(DeadlineError):
            await begin(forever(), SOON)
        assert await begin(asyncio.sleep(0, "ok"), LATE) == "ok"


# --- when the caller gives up


async def cancelled_once_waiting(handler: Callable[[asyncio.Event], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
    running = asyncio.Event()
    task = asyncio.create_task(begin(handler(running)))
    await asyncio.wait_for(running.wait(), 5)
    task.cancel("enough")
    await asyncio.wait([task], timeout=5)
    return task


async def test_the_callers_cancellation_reaches_the_handler_and_ends_the_call() -> None:
    seen: list[Any] = []

    async def handler(running: asyncio.Event) -> None:
        running.set()
        try:
            await forever()
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    task = await cancelled_once_waiting(handler)
    assert task.cancelled()
    assert seen == [("enough",)]


async def test_a_handler_may_answer_in_spite_of_the_callers_cancellation() -> None:
    async def handler(running: asyncio.Event) -> str:
        running.set()
        with suppress(asyncio.CancelledError):
            await forever()
        await asyncio.sleep(0)
        return "swallowed"

    assert (await cancelled_once_waiting(handler)).result() == "swallowed"


async def test_when_both_happen_at_once_the_callers_cancellation_wins() -> None:
    running = asyncio.Event()

    async def handler() -> None:
        running.set()
        try:
            await forever()
        finally:
            # The deadline has just cancelled; now the caller gives up too, before the handler is done.
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)

    task = asyncio.create_task(begin(handler(), SOON))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(task), 5)
    assert task.cancelled()


async def test_a_cancellation_before_the_first_wait_is_over_is_not_lost() -> None:
    async def handler() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "not reached"

    task = asyncio.create_task(begin(handler()))
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()


# --- when it ignores its cancellation


async def ignores_its_cancellation() -> None:
    for _ in range(2):  # what is left of it when the loop ends must end then
        with suppress(asyncio.CancelledError):
            await forever()


async def waits_for_a_task_that_ignores_it() -> None:
    await asyncio.create_task(ignores_its_cancellation())


async def ignores_its_cancellation_without_waiting() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


async def ignores_it_where_it_cleans_up() -> None:
    try:
        await forever()
    finally:
        await asyncio.shield(asyncio.create_task(forever()))


IGNORING = [ignores_its_cancellation, waits_for_a_task_that_ignores_it, ignores_it_where_it_cleans_up]


@pytest.mark.parametrize("handler", IGNORING)
def test_a_handler_that_goes_on_after_its_deadline_is_abandoned(
    handler: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def main() -> None:
        with pytest.raises(DeadlineError) as late:
            await begin(handler(), 5)
        assert late.value.was_abandoned
        assert asyncio.get_running_loop().time() == pytest.approx(5 + GRACE)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run_virtually(main())


@pytest.mark.parametrize("handler", IGNORING)
def test_a_handler_that_goes_on_after_its_caller_gave_up_is_abandoned(
    handler: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def main() -> None:
        task = asyncio.create_task(begin(handler()))
        await asyncio.sleep(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as given_up:
            await task
        assert isinstance(given_up.value.__cause__, IgnoredCancellationError)
        assert asyncio.get_running_loop().time() == pytest.approx(3 + GRACE)

    run_virtually(main())


async def test_a_handler_that_only_yields_and_ignores_its_cancellation_is_abandoned() -> None:
    with pytest.raises(DeadlineError) as late:
        await begin(ignores_its_cancellation_without_waiting(), SOON, grace=SOON)
    assert late.value.was_abandoned


def test_a_handler_has_time_to_clean_up_after_it_was_cancelled() -> None:
    cleaned: list[float] = []

    async def handler() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(GRACE - 1)
            cleaned.append(asyncio.get_running_loop().time())

    async def main() -> None:
        with pytest.raises(DeadlineError) as late:
            await begin(handler(), 5)
        assert not late.value.was_abandoned
        assert cleaned == [pytest.approx(5 + GRACE - 1)]

    run_virtually(main())


def test_a_cancellation_that_comes_again_and_again_gives_no_more_time() -> None:
    async def main() -> None:
        task = asyncio.create_task(begin(ignores_it_for_long()))
        await asyncio.sleep(0)

        def insist() -> None:
            if not task.done():
                task.cancel()
                asyncio.get_running_loop().call_later(0.1, insist)

        insist()
        await asyncio.wait((task,))
        assert task.cancelled()
        assert asyncio.get_running_loop().time() == pytest.approx(GRACE, abs=0.2)

    async def ignores_it_for_long() -> None:
        for _ in range(1000):
            with suppress(asyncio.CancelledError):
                await forever()

    run_virtually(main())


def test_a_timeout_of_its_own_gives_a_later_cancellation_all_its_time() -> None:
    cleaned: list[float] = []

    async def handler() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await forever()
        try:
            await forever()
        finally:
            await asyncio.sleep(GRACE - 1)
            cleaned.append(asyncio.get_running_loop().time())

    async def main() -> None:
        task = asyncio.create_task(begin(handler(), 600))
        await asyncio.sleep(GRACE)  # that of the timeout's own cancellation ends in a second
        task.cancel()
        await asyncio.wait((task,))
        assert cleaned == [pytest.approx(2 * GRACE - 1)]

    run_virtually(main())


def test_a_timeout_of_its_own_long_ago_abandons_nothing() -> None:
    async def handler() -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await forever()
        await asyncio.sleep(5 * GRACE)
        return "done"

    async def main() -> None:
        assert await begin(handler(), 600) == "done"

    run_virtually(main())


# --- on another event loop


def on_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize(
    "test",
    [
        test_a_handler_that_waits_ends_with_its_answer,
        test_an_exception_of_what_is_waited_for_is_thrown_into_the_handler,
        test_the_handler_runs_in_the_callers_task_and_context,
        test_a_handler_may_use_task_groups_and_timeouts_of_its_own,
        test_the_deadline_cancels_the_handler_and_waits_for_its_cleaning_up,
        test_the_deadline_reaches_a_handler_that_only_yields,
        test_an_answer_given_in_spite_of_the_deadline_counts,
        test_the_callers_cancellation_reaches_the_handler_and_ends_the_call,
        test_when_both_happen_at_once_the_callers_cancellation_wins,
    ],
)
def test_the_same_is_true_on_uvloop(test: Callable[[], Awaitable[None]]) -> None:
    on_uvloop(test)


def test_an_endless_deadline_is_none_on_either_loop() -> None:
    async def main() -> None:
        assert await begin(asyncio.sleep(0, "ok"), float("inf")) == "ok"

    asyncio.run(main())
    on_uvloop(main)
