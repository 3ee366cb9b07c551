"""Lines that a person types at the terminal, and how a Ctrl-C ends the wait for them."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import sys
import termios
from contextlib import nullcontext, suppress

import click

from toolstead.concurrency.termination import take_signals

_MOST_READ = 65_536
_SECONDS_WITHOUT_A_LOOK = 0.1
_PASTED = re.compile("\x1b\\[20[01]~")
"""The marks around what was pasted."""


def has_terminal() -> bool:
    """Whether a person can be asked: what is asked is shown, and what is typed is read."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def read_answer(prompt: str) -> str | None:
    """Show a question on stderr, and wait for the line that is typed after it; None for Ctrl-D.

    A Ctrl-C ends it, also one that comes just before the wait, or while the loop of the caller stands still for it:
    `input()` would read on.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    fd = sys.stdin.fileno()
    termios.tcflush(fd, termios.TCIFLUSH)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        click.echo(prompt, nl=False, err=True)
        while not select.select([fd], [], [], _SECONDS_WITHOUT_A_LOOK)[0]:
            pass
        data = os.read(fd, _MOST_READ)
    except OSError:  # the terminal is gone
        data = b""
    finally:
        signal.signal(signal.SIGINT, before)
    return _clean_line(data)


async def read_line(prompt: str, *, takes_interrupt: bool = True) -> str | None:
    """Show a prompt on stderr, and read the line that is typed after it while the loop runs; None for Ctrl-D.

    What was typed before is dropped: it was not meant for a question that was not shown yet.

    Args:
        prompt: What is shown.
        takes_interrupt: Ctrl-C is None too; else it interrupts the command.
    """
    loop = asyncio.get_running_loop()
    fd = sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read_typed() -> None:
        with suppress(BlockingIOError):
            try:
                data = os.read(fd, _MOST_READ)
            except OSError:  # the terminal is gone
                data = b""
            end_wait(data)

    def end_wait(data: bytes) -> None:
        if not typed.done():
            typed.set_result(data)

    termios.tcflush(fd, termios.TCIFLUSH)
    with take_signals(lambda: end_wait(b""), (signal.SIGINT,)) if takes_interrupt else nullcontext():
        loop.add_reader(fd, read_typed)
        try:
            click.echo(prompt, nl=False, err=True)
            data = await typed
        finally:
            loop.remove_reader(fd)
            if not typed.done() or typed.cancelled():
                with suppress(termios.error):
                    termios.tcflush(fd, termios.TCIFLUSH)  # half a line is no command for the shell
    return _clean_line(data)


def _clean_line(data: bytes) -> str | None:
    return _PASTED.sub("", data.decode("utf-8", "replace")).rstrip("\r\n") if data else None
