"""The ends of the pipes to a child process, on both event loops."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.waiting import PATIENCE, until
from toolstead.processes.pipes import InputPipe, OutputPipe

pytestmark = [pytest.mark.promise("R2"), pytest.mark.usefixtures("nothing_left")]

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def test_a_pipe_that_was_said_to_be_ready_and_is_not_blocks_nobody(run: Run) -> None:
    async def main() -> None:
        reading, writing = os.pipe()
        taken: list[bytes] = []
        out = OutputPipe(reading, taken.append)
        out._read()
        os.write(writing, b"x")
        out._read()
        assert taken == [b"x"]
        out.close()
        os.close(writing)
        reading, writing = os.pipe()
        into = InputPipe(writing)
        into.write(b"x" * 1_000_000)
        for _ in range(20):
            into._write()
        into.close()
        assert 0 < len(os.read(reading, 2_000_000)) < 1_000_000
        os.close(reading)

    run(main())


@pytest.mark.parametrize("size", [5_000, 65_536, 1_048_576])
def test_a_pipe_that_is_closed_takes_what_is_there_and_closing_twice_is_fine(size: int, run: Run) -> None:
    async def main() -> None:
        reading, writing = os.pipe()
        if size > 65_536:
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, size)
        taken: list[bytes] = []
        pipe = OutputPipe(reading, taken.append)
        for _ in range(8):
            os.write(writing, b"x" * (size // 8))
        pipe.close()
        pipe.close()
        assert b"".join(taken) == b"x" * size
        os.close(writing)

    run(main())


def test_what_is_written_comes_in_order_and_the_end_after_it(run: Run) -> None:
    async def main() -> None:
        reading, writing = os.pipe()
        taken, over = bytearray(), asyncio.Event()
        OutputPipe(reading, taken.extend, over.set)
        pipe = InputPipe(writing)
        for number in range(10):
            pipe.write(bytes([number]) * 50_000)
        pipe.write(b"")
        pipe.end_input()
        assert not pipe.is_open
        pipe.write(b"too late")
        await asyncio.wait_for(over.wait(), PATIENCE)
        assert taken == b"".join(bytes([number]) * 50_000 for number in range(10))

    run(main())


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_that_nobody_reads_any_more_shows_when_it_is_written_to(size: int, run: Run) -> None:
    async def main() -> None:
        reading, writing = os.pipe()
        pipe = InputPipe(writing)
        pipe.write(b"x" * size)
        os.close(reading)
        assert pipe.is_open
        pipe.write(b"x")
        await until(lambda: not pipe.is_open)
        pipe.write(b"x")
        pipe.end_input()

    run(main())


def test_a_reader_that_falls_behind_pauses_the_pipe_and_loses_nothing(run: Run) -> None:
    async def main() -> None:
        reading, writing = os.pipe()
        stream = asyncio.StreamReader(limit=1_000)
        out = OutputPipe(reading, stream.feed_data, stream.feed_eof)
        stream.set_transport(out)
        pipe = InputPipe(writing)
        pipe.write(b"line\n" * 200_000)
        await asyncio.sleep(0.05)
        assert pipe._rest  # nobody reads, so it is not all taken
        pipe.end_input()
        async with asyncio.timeout(PATIENCE):
            count = 0
            while line := await stream.readline():
                assert line == b"line\n"
                count += 1
        assert count == 200_000
        out.resume_reading()
        out.pause_reading()

    run(main())


def test_input_for_a_program_that_does_not_read_is_bounded(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("toolstead.processes.pipes.MOST_WAITING", 1_000_000)

    async def main() -> None:
        reading, writing = os.pipe()
        pipe = InputPipe(writing)
        for _ in range(2):
            pipe.write(b"x" * 900_000)  # the second one may go beyond the bound
            assert pipe.is_open
        pipe.write(b"x")
        assert not pipe.is_open
        assert not pipe._rest
        os.close(reading)

    run(main())
    assert "does not read its input" in caplog.text
