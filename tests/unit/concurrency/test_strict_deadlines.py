"""The strict deadline of hooks: a late answer is none, and the caller can always leave."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from tests.virtual_time import run_virtually
from toolstead.concurrency.suspended_coroutine import DeadlineError, start_coroutine


async def finished(steps: Coroutine[Any, Any, Any], seconds: float = 10) -> tuple[Any, BaseException | None]:
    return await start_coroutine(steps).finish_strictly(seconds)


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_an_answer_and_an_error_after_waiting_are_given_back() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("mine")

    assert await finished(asyncio.to_thread(str, 5)) == ("5", None)
    answer, error = await finished(fails())
    assert answer is None
    assert isinstance(error, KeyError)


async def test_it_runs_in_the_callers_task() -> None:
    async def work() -> list[Any]:
        before = asyncio.current_task()
        await asyncio.sleep(0)
        return [before, asyncio.current_task()]

    assert (await finished(work()))[0] == [asyncio.current_task()] * 2


async def test_the_callers_cancellation_arrives_with_its_message() -> None:
    seen: list[Any] = []

    async def work() -> None:
        try:
            await forever()
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    task = asyncio.create_task(finished(work()))
    await asyncio.sleep(0)
    task.cancel("enough")
    await asyncio.wait((task,), timeout=5)
    assert task.cancelled()
    assert seen == [("enough",)]


async def test_a_cancellation_from_before_the_first_wait_is_not_lost() -> None:
    async def call() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return await finished(forever())

    task = asyncio.create_task(call())
    await asyncio.wait((task,), timeout=5)
    assert task.cancelled()


async def test_a_cancellation_together_with_what_is_waited_for_is_not_lost() -> None:
    loop = asyncio.get_running_loop()
    waited: asyncio.Future[str] = loop.create_future()
    seen: list[str] = []
    stray: list[Any] = []
    loop.set_exception_handler(lambda _, context: stray.append(context))

    async def work() -> None:
        try:
            await waited
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(finished(work()))
    await asyncio.sleep(0)
    waited.set_result("done")
    task.cancel()
    await asyncio.wait((task,), timeout=5)
    assert task.cancelled()
    assert seen == ["cancelled"]
    assert stray == []


async def test_keyboard_interrupt_is_not_lost_when_the_caller_is_cancelled_too() -> None:
    task = asyncio.current_task()
    assert task is not None

    async def interrupted() -> None:
        with suppress(asyncio.CancelledError):
            await forever()
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(task.cancel)
    _, error = await finished(interrupted())
    task.uncancel()
    assert isinstance(error, KeyboardInterrupt)


def test_what_a_task_cannot_wait_for_is_an_error_at_once() -> None:
    async def waits_for_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        await task

    async def waits_for(future: asyncio.Future[None]) -> None:
        await future

    async def main() -> None:
        other = asyncio.new_event_loop()
        try:
            for work in (waits_for_itself(), waits_for(other.create_future())):
                _, error = await finished(work)
                assert isinstance(error, RuntimeError)
        finally:
            other.close()
        assert asyncio.get_running_loop().time() == 0

    run_virtually(main())


def test_an_abandoned_coroutine_is_closed_through_every_finally_that_waits() -> None:
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            try:
                while True:
                    with suppress(asyncio.CancelledError):
                        await forever()
            finally:
                await forever()
        finally:
            ended.append("closed")

    async def main() -> None:
        _, error = await finished(stubborn())
        assert isinstance(error, DeadlineError)
        assert error.was_abandoned
        assert ended == ["closed"]

    run_virtually(main())


def test_an_earlier_timeout_of_its_own_does_not_shorten_the_grace_of_a_later_cancellation() -> None:
    ended: list[float] = []

    async def work() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await forever()
        try:
            await forever()
        finally:
            await asyncio.sleep(3)
            ended.append(asyncio.get_running_loop().time())

    async def main() -> None:
        task = asyncio.create_task(finished(work(), 600))
        await asyncio.sleep(5.5)  # the grace of the timeout's cancellation ends at 6
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        assert ended == [pytest.approx(8.5)]

    run_virtually(main())


def test_limits_and_cancellation_hold_on_uvloop_too() -> None:
    async def main() -> None:
        _, error = await finished(forever(), 0.01)
        assert isinstance(error, DeadlineError)
        assert not error.was_abandoned
        task = asyncio.create_task(finished(forever()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,), timeout=5)
        assert task.cancelled()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
