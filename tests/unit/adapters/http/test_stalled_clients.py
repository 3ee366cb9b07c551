"""When a client counts as one that takes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from toolstead.adapters.http.protocol import BoundedProtocol, CoalescingTransport

SECONDS = 30.0
"""How long a client may take nothing."""


class Pipe(asyncio.Transport):
    """A transport whose other end takes what the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.aborted = False

    def write(self, data: Any) -> None:
        self.waiting += len(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


async def connected() -> tuple[BoundedProtocol, Pipe]:
    pipe = Pipe()
    protocol = object.__new__(BoundedProtocol)
    protocol._coalescing = CoalescingTransport(pipe, asyncio.get_running_loop())
    protocol.transport = protocol._coalescing
    protocol._taken_at = 0.0
    return protocol, pipe


async def write(protocol: BoundedProtocol, size: int) -> None:
    protocol.transport.write(b"x" * size)
    await asyncio.sleep(0)


async def test_a_client_that_takes_nothing_for_so_long_is_cut_off() -> None:
    protocol, pipe = await connected()
    protocol.break_off_if_stalled(100.0, SECONDS)
    await write(protocol, 1_000)
    for now in (101.0, 115.0, 129.9):
        protocol.break_off_if_stalled(now, SECONDS)
        assert not pipe.aborted
    await write(protocol, 1_000)  # more for it is no progress of its own
    protocol.break_off_if_stalled(130.0, SECONDS)
    assert pipe.aborted


async def test_a_slow_client_that_takes_a_little_is_not_even_while_more_is_written_than_it_takes() -> None:
    protocol, pipe = await connected()
    for now in range(0, 300, 20):
        await write(protocol, 1_000)
        pipe.waiting -= 10
        protocol.break_off_if_stalled(float(now), SECONDS)
    assert not pipe.aborted
    assert pipe.waiting > 10_000


async def test_a_client_that_has_everything_may_wait_for_ever() -> None:
    protocol, pipe = await connected()
    await write(protocol, 1_000)
    pipe.waiting = 0
    for now in (0.0, 1_000.0, 2_000.0):
        protocol.break_off_if_stalled(now, SECONDS)
    await write(protocol, 1_000)
    protocol.break_off_if_stalled(2_001.0, SECONDS)
    assert not pipe.aborted
