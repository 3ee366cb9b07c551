"""Small files of the user's own that several processes write: under a lock, whole, and synced."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolstead.errors import StateError

LOCK_SECONDS = 10.0
_LOCK_STEP = 0.005


@contextmanager
def lock_file(path: Path) -> Generator[None]:
    """Lock a file for writing; create its folder, private to the user, where there is none.

    Raises:
        StateError: Another process does not release it.
        OSError: The folder or the lock cannot be made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.lock")
    lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StateError(
                        f"{beside} has been held by another process for {LOCK_SECONDS:g} seconds;"
                        " end that process, then try again"
                    ) from None
                time.sleep(_LOCK_STEP)
        yield
    finally:
        os.close(lock)


def write_private(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file's content whole, readable by the user alone unless its mode differs; the caller holds its lock."""
    # The lock makes us the only writer, so one fixed name will do, and a crash leaves no litter.
    fresh = path.with_name(f"{path.name}.new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    write_synced(fresh, data, mode)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_synced(path: Path, data: bytes, mode: int) -> None:
    """Make a new file with this content, on the disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
