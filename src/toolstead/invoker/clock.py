"""The clock of everything that deals with runs; a test or a simulation gives its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The real clock, unless a part of it is given.

    Attributes:
        now: Seconds since the epoch, for what is stored.
        monotonic: Seconds that never run backwards, for how long something took.
        sleep: Waits so many seconds.
    """

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


REAL_CLOCK = Clock()
