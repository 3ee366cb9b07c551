"""A call that is cancelled over MCP tidies up: what its `finally` awaits is finished."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolstead import tool
from toolstead.adapters.mcp.single_cancellation import run_cancelled_once
from toolstead.concurrency import owned_tasks
from toolstead.testing import connect, memory_stead


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_what_a_cancelled_call_awaits_in_the_end_is_finished(era: Any) -> None:
    begun, tidied = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Take long, and tidy up."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            tidied.set()
        return "never"

    async with memory_stead(slow) as stead, connect(stead, protocol=era) as client:
        call = asyncio.create_task(client.call_tool("slow", {}))
        await asyncio.wait_for(begun.wait(), 30)
        call.cancel()
        await asyncio.wait_for(tidied.wait(), 30)
        await asyncio.gather(call, return_exceptions=True)


async def test_a_call_that_will_not_end_is_left_alone_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owned_tasks, "GRACE", 0.01)
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise RuntimeError("late trouble")

    waiting = asyncio.create_task(run_cancelled_once(stubborn(), name="the stubborn one"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert "the stubborn one ignored its cancellation and was abandoned" in caplog.text
    release.set()
    while "late trouble" not in caplog.text:
        await asyncio.sleep(0)


async def test_what_goes_well_or_fails_by_itself_passes_through() -> None:
    async def answers() -> str:
        return "yes"

    async def fails() -> str:
        raise ValueError("no")

    assert await run_cancelled_once(answers(), name="it") == "yes"
    with pytest.raises(ValueError, match="no"):
        await run_cancelled_once(fails(), name="it")
