"""Tasks of foreign code: ended with their owner, waited for within a grace period, abandoned after it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.virtual_time import run_virtually
from toolstead.concurrency.owned_tasks import GRACE, OwnedTasks, cancel_tasks, finish_despite_cancellation
from toolstead.errors import InvocationError


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def ignore_cancellations(release: asyncio.Event, then: str = "done") -> str:
    while not release.is_set():
        with suppress(asyncio.CancelledError):
            await release.wait()
    return then


def test_a_caller_that_is_cancelled_waits_for_the_grace_period_and_no_longer(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        owned, release = OwnedTasks(), asyncio.Event()
        abandoned: list[str] = []
        unwanted: list[str] = []
        caller = asyncio.create_task(
            owned.run(
                ignore_cancellations(release),
                name="the stubborn one",
                take_unwanted=unwanted.append,
                on_abandoned=lambda: abandoned.append("yes"),
            )
        )
        await asyncio.sleep(1)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert asyncio.get_running_loop().time() == pytest.approx(1 + GRACE)
        assert abandoned == ["yes"]
        assert len(owned) == 1
        release.set()
        await owned.wait_for_all()
        await asyncio.sleep(0)
        assert unwanted == ["done"]

    run_virtually(main())
    assert "the stubborn one ignored its cancellation and was abandoned" in caplog.text


def test_a_second_cancellation_of_the_caller_ends_the_wait_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        owned, release = OwnedTasks(), asyncio.Event()
        caller = asyncio.create_task(owned.run(ignore_cancellations(release), name="the stubborn one"))
        for _ in range(2):
            await asyncio.sleep(1)
            caller.cancel()
        await asyncio.wait((caller,))
        assert caller.cancelled()
        assert asyncio.get_running_loop().time() == pytest.approx(2)
        release.set()
        await owned.wait_for_all()

    run_virtually(main())
    assert "the stubborn one ignored its cancellation" in caplog.text


def test_the_end_of_the_owner_ends_what_it_runs() -> None:
    async def main() -> None:
        owned = OwnedTasks()
        caller = asyncio.create_task(owned.run(forever(), name="the turn"))
        background = owned.start(forever(), name="the rest")
        await asyncio.sleep(0)
        await owned.end_all()
        with pytest.raises(InvocationError, match="the turn was ended, because Toolstead is shutting down"):
            await caller
        assert background.cancelled()
        assert len(owned) == 0

    run_virtually(main())


def test_tasks_that_end_within_the_grace_period_are_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def clean_up() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(2)

    async def main() -> None:
        tasks = [asyncio.create_task(clean_up()) for _ in range(3)]
        await asyncio.sleep(0)
        await cancel_tasks(tasks)
        assert all(task.cancelled() for task in tasks)
        assert asyncio.get_running_loop().time() == pytest.approx(2)
        await cancel_tasks(())

    run_virtually(main())
    assert caplog.text == ""


def test_an_abandoned_task_that_fails_later_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def fail_late(release: asyncio.Event) -> None:
        await ignore_cancellations(release)
        raise RuntimeError("late trouble")

    async def main() -> None:
        release = asyncio.Event()
        task = asyncio.create_task(fail_late(release), name="the stubborn one")
        await asyncio.sleep(0)
        await cancel_tasks((task,), grace=0.5)
        assert asyncio.get_running_loop().time() == pytest.approx(0.5)
        release.set()
        await asyncio.wait((task,))
        await asyncio.sleep(0)

    run_virtually(main())
    assert "late trouble" in caplog.text


def test_work_that_must_not_be_left_half_done_survives_one_cancellation_but_not_two() -> None:
    async def main() -> None:
        release = asyncio.Event()
        finished: list[str] = []

        async def work() -> str:
            await release.wait()
            finished.append("finished")
            return "answer"

        caller = asyncio.create_task(finish_despite_cancellation(work()))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.sleep(1)
        assert not caller.done()
        release.set()
        await asyncio.wait((caller,))
        assert caller.cancelled()
        assert finished == ["finished"]
        assert await finish_despite_cancellation(work()) == "answer"

        caller = asyncio.create_task(finish_despite_cancellation(forever()))
        for _ in range(2):
            await asyncio.sleep(0)
            caller.cancel()
        await asyncio.wait((caller,))
        assert caller.cancelled()

    run_virtually(main())
