"""Processes that left the session they were started in: found in `/proc`, and ended.

A process is ours when it descends from one we started, or when the mark of the call is in its
environment. Only one that has lost its parents and its environment too is beyond reach; on systems
without `/proc`, every one that left its session is. Above: `pipeline`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from pathlib import Path

MARK = "TOOLYARD_CALL"
_PROCESSES = Path("/proc")
_ROUNDS = 20
"""A process that was just being started is found in the next round; a fork bomb may outlast them."""


def kill_escaped(mark: str, started: Collection[int]) -> None:
    """End every process of a call, again until none is left.

    Args:
        mark: The call's mark in their environment.
        started: The processes that were started for the call; not reaped yet, so the numbers are theirs.
    """
    for _ in range(_ROUNDS):
        found = _alive(f"{MARK}={mark}".encode(), started)
        if not found:
            return
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


def _alive(marked: bytes, started: Collection[int]) -> set[int]:
    """The processes that carry the mark, were started, or descend from those."""
    found: set[int] = set()
    parents: dict[int, int] = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        process = int(folder.name)
        try:
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state in (b"Z", b"X"):
                continue
            parents[process] = int(parent)
            if process in started or marked in (folder / "environ").read_bytes().split(b"\0"):
                found.add(process)
        except (OSError, ValueError):  # gone, or another user's
            continue
    size = -1
    while size != len(found):
        size = len(found)
        found |= {process for process, parent in parents.items() if parent in found or parent in started}
    return found
