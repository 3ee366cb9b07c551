from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from toolstead.adapters.codex.program import CodexProgram
from toolstead.adapters.codex.station import Station, Stations
from toolstead.errors import RuntimeFailureError


class Ends:
    """A program and an endpoint that take their time to end."""

    def __init__(self) -> None:
        self.is_alive = True
        self.closing, self.may_close, self.closed = asyncio.Event(), asyncio.Event(), 0

    async def close(self) -> None:
        self.closing.set()
        await self.may_close.wait()
        self.closed += 1


class Holder:
    def __init__(self, station: Station, *, busy: bool = False) -> None:
        self.station = station
        self.busy = busy

    async def give_up(self) -> None:
        if self.busy:
            raise RuntimeFailureError("busy")
        await asyncio.sleep(0)
        self.station.release_thread("x", self)


def _station() -> tuple[Station, Ends]:
    ends: Any = Ends()
    return Station(ends, ends), ends


async def test_the_last_one_to_leave_ends_everything_even_when_it_is_cancelled() -> None:
    stations = Stations(lambda: CodexProgram(command=(), environ={}, folder=Path()), version="0")
    station, ends = _station()
    station.users = 1
    leaving = asyncio.create_task(stations.leave_station(station))
    await asyncio.wait_for(ends.closing.wait(), 10)
    leaving.cancel()
    await asyncio.wait([leaving])
    ends.may_close.set()
    async with asyncio.timeout(10):
        while ends.closed < 2:
            await asyncio.sleep(0)


async def test_an_endpoint_ends_with_whoever_opens_it() -> None:
    def endpoints() -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == "toolstead-codex-endpoint"]

    stations = Stations(lambda: CodexProgram(command=("nothing",), environ={}, folder=Path()), version="0")
    entering = asyncio.create_task(stations.enter_station())
    async with asyncio.timeout(10):
        while not endpoints():
            await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait([entering])
    assert entering.cancelled()
    assert not endpoints()


async def test_a_thread_has_one_holder_who_gives_it_up_unless_it_is_in_use() -> None:
    station, _ = _station()
    one, other = Holder(station), Holder(station, busy=True)
    await station.claim_thread("x", one)
    await station.claim_thread("x", one)
    await station.claim_thread("x", other)
    station.release_thread("x", one)  # it is not theirs any more
    with pytest.raises(RuntimeFailureError, match="busy"):
        await station.claim_thread("x", one)
    station.release_thread("x", other)
    await station.claim_thread("x", one)
