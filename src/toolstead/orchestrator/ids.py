"""Ids of threads, runs and messages: unique over all processes, sorted by creation within one; also session ids."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable


class Ids:
    """Makes ids. Reads randomness once for each process: that costs more than a message."""

    def __init__(self, *, process: str = "", time_ns: Callable[[], int] = time.time_ns) -> None:
        """Make ids from ten hexadecimal digits that no other process has (random unless given) and a clock."""
        self._process = process or secrets.token_hex(5)
        self._time_ns = time_ns
        self._numbers = itertools.count(1)

    def new_id(self, kind: str) -> str:
        """An id such as `run_…`; a later one of the same process sorts after it."""
        return f"{kind}_{self._time_ns() // 1000:013x}{self._process}{next(self._numbers) & 0xFFFF:04x}"


def format_session_id(runtime: str, session_id: str | None) -> str | None:
    """A session's id as a thread keeps it: it means something to its own runtime only."""
    return None if session_id is None else f"{runtime}:{session_id}"


def parse_session_id(kept: str | None, runtime: str) -> str | None:
    """The session's id in what a thread keeps, if it is one of this runtime."""
    owner, _, session_id = (kept or "").partition(":")
    return session_id if session_id and owner == runtime else None
