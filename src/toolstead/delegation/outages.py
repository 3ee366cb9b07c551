"""Steps that wait while the database is away. Each can be repeated: what was stored is found again."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from toolstead.errors import RowRefusedError, StorageError
from toolstead.invoker.clock import Clock

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

RETRY_SECONDS = (0.1, 0.5, 2.0, 5.0)
"""Pauses between tries; the last one repeats."""
OUTAGE_SECONDS = 30.0
"""How long a call of a tool waits for the database; most calls may take a minute."""


async def outlast_outage(
    step: Callable[[], Awaitable[_T]],
    clock: Clock,
    *,
    about: str,
    seconds: float = OUTAGE_SECONDS,
    may_wait: Callable[[], bool] = lambda: True,
) -> _T:
    """Repeat a step until the database answers.

    Args:
        step: What to do; it can be repeated.
        clock: Waits.
        about: What waits, for the log.
        seconds: How long to try.
        may_wait: Asked before each pause.

    Raises:
        StorageError: It is still away after so long, or does not take what the step writes.
    """
    deadline = clock.monotonic() + seconds
    for number in itertools.count():
        try:
            return await step()
        except RowRefusedError:
            raise
        except StorageError as error:
            pause = RETRY_SECONDS[min(number, len(RETRY_SECONDS) - 1)]
            if not may_wait() or clock.monotonic() + pause > deadline:
                raise
            logger.log(error.log_level, "%s waits for the database: %s", about, error)
            await clock.sleep(pause)
    raise AssertionError("there is always another number")
