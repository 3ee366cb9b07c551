"""The mark in the environment of every child process, and the end of whatever carries it.

A process is ours when it descends from one that we started, or when the mark is in its environment. Only one that has
lost its parents and its environment too is beyond reach; on systems without `/proc`, every one that left its process
group is. The watchdog runs this file alone, so it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from io import FileIO
from typing import NamedTuple

MARK = "TOOLSTEAD_CALL"
SECONDS_TO_DIE = 5.0
"""After SIGKILL. Longer takes only what may not be killed or hangs in the kernel; a fork bomb may outlast it, too."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05
_STATE, _PARENT, _BEGUN = 0, 1, 19  # in /proc/N/stat, counted from behind the name


class _Process(NamedTuple):
    """What `/proc` says of a process: whether it has ended, its parent, and when it began."""

    ended: bool
    parent: int
    begun: int


def make_mark() -> str:
    """A mark that nothing else carries."""
    return os.urandom(16).hex()


def kill_marked(mark: str, started: Collection[int]) -> None:
    """Kill processes and whatever descends from them or carries their mark, and wait until none is left.

    It blocks, but not for longer than a killed process may take to die.

    Args:
        mark: The mark in their environment.
        started: The processes that we started; not reaped yet, so the numbers are theirs.
    """
    deadline = time.monotonic() + SECONDS_TO_DIE
    pause, refused = _FIRST_PAUSE, set[int]()
    while found := _find_alive(f"{MARK}={mark}".encode(), started) - refused:
        if time.monotonic() > deadline:
            return
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:  # another user's by now; waiting would not help
                refused.add(process)
        # A killed process runs until the system gets to it, and one that was just being started shows up meanwhile.
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _find_alive(marked: bytes, started: Collection[int]) -> set[int]:
    """The processes that were started, carry the mark, or descend from those, and have not ended."""
    shown = {number: process for number in _list_numbers() if (process := _read_process(number)) is not None}
    since = min((shown[number].begun for number in started if number in shown), default=0)
    ours = {number for number in started if number in shown}
    ours |= {number for number, process in shown.items() if process.begun >= since and _is_marked(number, marked)}
    size = -1
    while size != len(ours):
        size = len(ours)
        ours |= {number for number, process in shown.items() if process.parent in ours}
    return {number for number in ours if not shown[number].ended}


def _list_numbers() -> list[int]:
    """The processes that the system shows; none where it shows none, or denies access."""
    try:
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError:
        return []


def _read_process(number: int) -> _Process | None:
    try:
        fields = _read_file(number, "stat").rpartition(b")")[2].split()
    except OSError:  # gone
        return None
    return _Process(fields[_STATE] in (b"Z", b"X"), int(fields[_PARENT]), int(fields[_BEGUN]))


def _is_marked(number: int, marked: bytes) -> bool:
    try:
        return marked in _read_file(number, "environ").split(b"\0")
    except OSError:  # gone, or another user's
        return False


def _read_file(number: int, name: str) -> bytes:
    """A file of a process; unbuffered, because all processes are looked at."""
    with FileIO(f"/proc/{number}/{name}") as file:
        return file.readall()
