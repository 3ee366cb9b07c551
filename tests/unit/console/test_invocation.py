"""After a command: what it left is ended, what does not end is named, and the loop is closed in any case."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import uvloop

from tests.virtual_time import VirtualLoop
from toolstead.concurrency.suspended_coroutine import keep_forever
from toolstead.console.cli.invocation import PATIENCE, run_to_the_end


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def stubborn() -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await forever()


def test_what_is_left_is_cancelled_and_waited_for() -> None:
    ended: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def slow_to_end() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(PATIENCE - 1)
            ended.append("ended")

    async def main() -> str:
        tasks.append(asyncio.create_task(slow_to_end()))
        await asyncio.sleep(0)
        return "done"

    assert run_to_the_end(main(), VirtualLoop) == "done"
    assert ended == ["ended"]
    assert tasks[0].get_loop().is_closed()


def test_what_does_not_end_is_named_and_left(caplog: pytest.LogCaptureFixture) -> None:
    loops: list[VirtualLoop] = []

    def loop() -> VirtualLoop:
        loops.append(VirtualLoop())
        return loops[0]

    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        tasks.append(asyncio.create_task(stubborn(), name="the stubborn one"))
        await asyncio.sleep(0)

    run_to_the_end(main(), loop)
    assert loops[0].time() == pytest.approx(PATIENCE)
    (record,) = caplog.records
    assert "the stubborn one" in record.getMessage()
    assert "ignored its cancellation and was abandoned" in record.getMessage()


def test_a_generator_that_does_not_end_is_left_too(caplog: pytest.LogCaptureFixture) -> None:
    async def items() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await stubborn()

    generators = [items()]

    async def main() -> None:
        assert await anext(generators[0]) == 1

    run_to_the_end(main(), VirtualLoop)
    assert "the process ends without it" in caplog.text


def test_a_task_that_fails_while_it_ends_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        try:
            await forever()
        finally:
            raise KeyError("at the end")

    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        tasks.append(asyncio.create_task(fails()))
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        run_to_the_end(main(), VirtualLoop)
    assert "at the end" in caplog.text


def test_an_error_of_the_command_is_its_own_and_the_rest_is_ended_all_the_same() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        tasks.append(asyncio.create_task(forever()))
        await asyncio.sleep(0)
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        run_to_the_end(main(), uvloop.new_event_loop)
    assert tasks[0].cancelled()


def test_an_interrupt_ends_that_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    tasks: list[asyncio.Task[None]] = []

    def keep(task: object) -> None:
        kept.append(task)
        keep_forever(task)

    monkeypatch.setattr("toolstead.console.cli.invocation.keep_forever", keep)

    async def main() -> None:
        tasks.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(1, interrupt)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_the_end(main(), VirtualLoop)
    assert tasks[0] in kept
    assert tasks[0].get_loop().is_closed()
