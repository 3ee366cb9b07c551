"""Processes that left the session they were started in: found in `/proc`, and ended.

A process is ours when it descends from one we started, or when the mark of the call is in its
environment. Only one that has lost its parents and its environment too is beyond reach; on systems
without `/proc`, every one that left its session is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from typing import NamedTuple

MARK = "TOOLSTEAD_CALL"
_CHUNK = 65_536
_ROUNDS = 20
"""A process that was just being started is found in the next round; a fork bomb may outlast them."""

_SECONDS_BETWEEN = 0.002
_STATE, _PARENT, _BEGUN = 0, 1, 19  # in /proc/N/stat, counted from behind the name


class _Process(NamedTuple):
    """What `/proc` says of a process: whether it has ended, its parent, and when it began."""

    ended: bool
    parent: int
    begun: int


def kill_escaped(mark: str, started: Collection[int]) -> None:
    """End every process of a call, again until none is left.

    Args:
        mark: The call's mark in their environment.
        started: The processes that were started for the call; not reaped yet, so the numbers are theirs.
    """
    for number in range(_ROUNDS):
        if number:
            time.sleep(_SECONDS_BETWEEN)
        found = _alive(f"{MARK}={mark}".encode(), started)
        if not found:
            return
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


def _alive(marked: bytes, started: Collection[int]) -> set[int]:
    """The processes that were started, carry the mark, or descend from those, and have not ended."""
    shown = {number: process for number in _numbers() if (process := _process(number)) is not None}
    since = min((shown[number].begun for number in started if number in shown), default=0)
    ours = {number for number in started if number in shown}
    ours |= {number for number, process in shown.items() if process.begun >= since and _is_marked(number, marked)}
    size = -1
    while size != len(ours):
        size = len(ours)
        ours |= {number for number, process in shown.items() if process.parent in ours}
    return {number for number in ours if not shown[number].ended}


def _numbers() -> list[int]:
    """The processes that the system shows; none where it shows none, or lets nobody look now."""
    try:
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError:
        return []


def _process(number: int) -> _Process | None:
    try:
        fields = _read(number, "stat").rpartition(b")")[2].split()
    except OSError:  # gone
        return None
    return _Process(fields[_STATE] in (b"Z", b"X"), int(fields[_PARENT]), int(fields[_BEGUN]))


def _is_marked(number: int, marked: bytes) -> bool:
    try:
        return marked in _read(number, "environ").split(b"\0")
    except OSError:  # gone, or another user's
        return False


def _read(number: int, name: str) -> bytes:
    """A file of a process. All processes are looked at, so this is plain system calls."""
    descriptor = os.open(f"/proc/{number}/{name}", os.O_RDONLY)
    try:
        data = b""
        while more := os.read(descriptor, _CHUNK):
            data += more
        return data
    finally:
        os.close(descriptor)
