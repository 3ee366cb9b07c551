"""Lines wait for their listener within a bound; what finds no room is counted, and nothing hangs."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import PATIENCE
from toolstead.processes import line_progress
from toolstead.processes.line_progress import LineProgress

pytestmark = pytest.mark.promise("R2")


async def test_what_waits_is_bounded_by_its_size_whatever_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_progress, "SECONDS_TO_CATCH_UP", 0.01)
    never = asyncio.Event()

    async def report(*_: object) -> None:
        await never.wait()

    for line in (b"", b"x", b"x" * 4_096):
        progress = LineProgress(report)
        async with progress:
            for _ in range(100):
                progress.take_lines([line] * 1_000)
            waiting = progress._waiting.qsize()
            assert 200 < waiting < 17_000
            assert waiting * len(line) <= line_progress.MOST_WAITING + 4_096
            assert progress._missed == 100_000


async def test_room_that_is_free_again_is_used() -> None:
    heard: list[str] = []

    async def report(_: float, __: float | None, line: str | None) -> None:
        heard.append(line or "")

    async with LineProgress(report) as progress:
        for number in range(40):
            progress.take_lines([b"x" * 1_000] * 900)
            async with asyncio.timeout(PATIENCE):
                while len(heard) < 900 * (number + 1):
                    await asyncio.sleep(0)
    assert len(heard) == 36_000


async def test_lines_that_are_no_text_are_told_all_the_same() -> None:
    heard: list[str | None] = []

    async def report(_: float, __: float | None, line: str | None) -> None:
        heard.append(line)

    async with LineProgress(report) as progress:
        progress.take_lines([b"\xff", "é".encode()])
        progress.take_lines([])
    assert heard == ["\ufffd", "é"]


async def test_an_error_inside_is_the_one_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def report(*_: object) -> None:
        raise ConnectionError

    async def fail() -> None:
        async with LineProgress(report) as progress:
            progress.take_lines([b"a", b"b"])
            await asyncio.sleep(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert "2 lines of progress were dropped" in caplog.text


async def test_nobody_waits_for_the_listener_of_a_call_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_progress, "SECONDS_TO_CATCH_UP", PATIENCE * 10)
    listening, never = asyncio.Event(), asyncio.Event()

    async def report(*_: object) -> None:
        listening.set()
        await never.wait()

    async def fail() -> None:
        async with LineProgress(report) as progress:
            progress.take_lines([b"a"])
            await listening.wait()
            raise ZeroDivisionError

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ZeroDivisionError):
            await fail()
