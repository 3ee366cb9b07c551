"""One hook behind its boundary, where many calls of it hang or its answer cannot be looked at."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.virtual_time import run_virtually
from toolstead.plugins.contract import Hooks
from toolstead.plugins.health import FAILURES_UNTIL_CUT_OFF, Health
from toolstead.plugins.hook_runner import Hooked, HookRunner


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_many_calls_that_hang_at_once_cut_a_hook_off_once(caplog: pytest.LogCaptureFixture) -> None:
    async def hangs(*_: Any) -> None:
        await forever()

    async def main() -> None:
        runner, health = HookRunner(), Health("a")
        runner.set_hooks([Hooked(plugin="a", hooks=Hooks(on_message=hangs), health=health)])
        await asyncio.gather(*(runner.on_message("t", "user", "x") for _ in range(2 * FAILURES_UNTIL_CUT_OFF)))
        assert health.is_cut_off("on_message")
        assert not runner._waiting

    run_virtually(main())
    assert caplog.text.count("is cut off until the plugin is enabled again") == 1


async def test_an_answer_that_cannot_even_be_looked_at_is_a_failure() -> None:
    class Unseen:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("do not look")

    async def answers(*_: Any) -> Any:
        return Unseen()

    runner, health = HookRunner(), Health("a")
    runner.set_hooks([Hooked(plugin="a", hooks=Hooks(on_task_complete=answers), health=health)])
    (review,) = await runner.on_task_complete("t", "k", "r")
    assert review.verdict is not None
    assert review.verdict.accepted is None
    assert health.state == "degraded"
