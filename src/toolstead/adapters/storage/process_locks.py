"""Which processes are alive, for SQLite: a locked file for each; the kernel releases it when the process dies.

A file that is missing, or that can be locked, belongs to no process that is alive. A process that forks
without exec shares its lock with the child, and counts as alive until both are gone.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from toolstead.errors import StorageError

OWNER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_STEP = 0.005
_OPENING = ".opening"


class ProcessLock:
    """This process's own lock, held from the moment it is made until it is released or the process dies."""

    def __init__(self, folder: Path, owner: str, patience: float = 1.0) -> None:
        """Take it.

        Raises:
            StorageError: A living process has it.
            OSError: The file cannot be made.
        """
        self._path = folder / f"{owner}.lock"
        while True:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not _take_lock(self._file, patience):  # another process holds it for a moment to see whether we live
                os.close(self._file)
                raise StorageError(
                    f"{self._path} is held by a process that is alive: the owner {owner!r} is taken; choose another"
                )
            if _is_still(self._path, self._file):
                return
            os.close(self._file)  # it was swept away between opening and locking

    def release(self) -> None:
        """Release it; from here on this process counts as dead."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._file)


@contextmanager
def opening_lock(folder: Path, patience: float) -> Generator[None]:
    """Be the only process that opens the database of this folder.

    Raises:
        StorageError: Another one takes too long.
        OSError: The lock cannot be made.
    """
    file = os.open(folder / _OPENING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _take_lock(file, patience):
            raise StorageError(
                f"{folder / _OPENING} has been held by another process for more than {patience:g} seconds;"
                " end that process, then try again"
            )
        yield
    finally:
        os.close(file)


def living_owners(folder: Path, owners: Iterable[str]) -> set[str]:
    """Which of these processes hold their lock.

    Raises:
        OSError: A lock is there and cannot be looked at.
    """
    return {owner for owner in owners if OWNER.fullmatch(owner) and _is_held(folder / f"{owner}.lock")}


def sweep_locks(folder: Path) -> None:
    """Remove the locks of the dead."""
    for path in folder.glob("*.lock"):
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_still(path, file):
                    path.unlink()
            finally:
                os.close(file)


def _take_lock(file: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_STEP)


def _is_held(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(
            file, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # shared: two processes that look do not take each other for the owner
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _is_still(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
