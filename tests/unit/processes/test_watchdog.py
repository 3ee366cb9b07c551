"""The watchdog over a program, with a small program to watch over."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.waiting import until
from toolstead.processes import watchdog as under_test
from toolstead.processes.watchdog import start_watchdog

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


async def test_what_has_the_mark_ends_when_the_watchdogs_input_does(mark: str, marked: subprocess.Popen[bytes]) -> None:
    watchdog = start_watchdog(mark)
    assert marked.poll() is None
    watchdog.close_pipes()  # as the system does when our process is killed
    await until(lambda: marked.poll() is not None)
    await watchdog.kill()


async def test_one_that_is_closed_is_gone_and_leaves_everything_else_alone(
    mark: str, marked: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    watchdog = start_watchdog(mark)
    (process,) = watchdog._children
    assert os.getsid(process.pid) != os.getsid(0)  # a signal to our group does not reach it
    await watchdog.kill()
    await watchdog.kill()
    await asyncio.sleep(0)  # whoever is told of its end has been
    assert process.returncode is not None
    assert marked.poll() is None
    assert not caplog.records


async def test_one_that_ends_by_itself_is_named_in_the_log(mark: str, caplog: pytest.LogCaptureFixture) -> None:
    watchdog = start_watchdog(mark)
    watchdog.signal_groups(signal.SIGKILL)
    await until(lambda: any("ended with status -9" in record.getMessage() for record in caplog.records))
    await watchdog.kill()


async def test_one_that_cannot_be_started_is_named_in_the_log_and_stops_nobody(
    mark: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    watchdog = start_watchdog(mark)
    await watchdog.kill()
    (record,) = caplog.records
    assert "/nowhere/python" in record.getMessage()


async def test_without_a_place_to_look_processes_up_there_is_none_and_that_is_logged(
    mark: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="toolstead")
    monkeypatch.setattr(under_test, "_ENVIRONS", "/nowhere/environ")
    watchdog = start_watchdog(mark)
    assert not watchdog._children
    assert ["no /proc here" in record.getMessage() for record in caplog.records] == [True]
