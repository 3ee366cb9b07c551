"""Ids of threads, runs and messages: unique over all processes, and in the order in which one made them."""

from __future__ import annotations

import itertools
import secrets
import time


class Ids:
    """Makes ids. Randomness is paid once for each process: asking the system for it costs more than a message."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(5)
        self._numbers = itertools.count(1)

    def new(self, kind: str) -> str:
        """An id such as `run_…`; a later one of the same process sorts after it."""
        return f"{kind}_{time.time_ns() // 1000:013x}{self._process}{next(self._numbers) & 0xFFFF:04x}"
