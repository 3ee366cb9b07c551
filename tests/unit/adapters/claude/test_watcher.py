"""The watcher over a program, with a small program to watch over."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from toolstead.adapters.claude import watcher as under_test
from toolstead.adapters.claude.watcher import Watcher

PATIENCE = 30
SLEEPS = "import time; print(flush=True); time.sleep(1000)"


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def marked(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program with the mark, in a session of its own."""
    environ = {"PATH": os.environ["PATH"], "TOOLSTEAD_CALL": mark}
    command = [sys.executable, "-c", SLEEPS]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, start_new_session=True) as program:
        assert program.stdout is not None
        program.stdout.readline()  # it has its environment
        yield program
        with suppress(ProcessLookupError):
            program.kill()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def process_of(watcher: Watcher) -> asyncio.subprocess.Process:
    assert watcher._process is not None
    return watcher._process


async def test_what_has_the_mark_ends_when_the_watchers_input_does(mark: str, marked: subprocess.Popen[bytes]) -> None:
    watcher = Watcher(mark)
    await watcher.start()
    pipe = process_of(watcher).stdin
    assert pipe is not None
    assert marked.poll() is None
    pipe.close()  # as the system does when our process is killed
    await until(lambda: marked.poll() is not None)
    await watcher.close()


async def test_one_that_is_closed_is_gone_and_leaves_everything_else_alone(
    mark: str, marked: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    watcher = Watcher(mark)
    await watcher.start()
    process = process_of(watcher)
    assert os.getsid(process.pid) != os.getsid(0)  # a signal to our group does not reach it
    await watcher.close()
    await watcher.close()
    await asyncio.sleep(0)  # whoever is told of its end has been
    assert process.returncode is not None
    assert marked.poll() is None
    assert not caplog.records


async def test_one_that_ends_by_itself_is_named_in_the_log(mark: str, caplog: pytest.LogCaptureFixture) -> None:
    watcher = Watcher(mark)
    await watcher.start()
    process_of(watcher).kill()
    await until(lambda: any("has ended with status -9" in record.getMessage() for record in caplog.records))
    await watcher.close()


async def test_one_that_cannot_be_started_is_named_in_the_log_and_stops_nobody(
    mark: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    watcher = Watcher(mark)
    await watcher.start()
    await watcher.close()
    (record,) = caplog.records
    assert "/nowhere/python" in record.getMessage()


async def test_without_a_place_to_look_processes_up_there_is_none_and_that_is_logged(
    mark: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolstead")
    monkeypatch.setattr(under_test, "_ENVIRONS", "/nowhere/environ")
    watcher = Watcher(mark)
    await watcher.start()
    assert watcher._process is None
    assert ["no /proc here" in record.getMessage() for record in caplog.records] == [True]
