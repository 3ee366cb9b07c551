"""Whether the database is away, as the log has it: one line when it goes away, one when it is back.

Many parts of a process ask the database again and again. The store sees every answer and every failure of theirs, so
it alone logs an outage; what fails meanwhile is marked as `is_away`, and logged as DEBUG by the part that tries again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from toolstead.errors import RowRefusedError, StorageError

logger = logging.getLogger(__name__)


class OutageLog:
    """Logs the beginning and the end of each outage. It belongs to the event loop of its store."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def note_failure(self, error: Exception) -> None:
        """A read or a write failed. While the database is away, that is the reason of whatever else fails."""
        if not isinstance(error, StorageError) or isinstance(error, RowRefusedError):
            return
        if self._since is not None:
            error.is_away = True
            logger.debug("the database is still away: %s", error)
        elif error.is_away:
            self._since = self._clock()
            logger.warning("the database is away: %s. What needs it waits or fails until it is back", error)

    def note_answer(self) -> None:
        """A read or a write succeeded."""
        if self._since is not None:
            seconds, self._since = self._clock() - self._since, None
            logger.warning("the database is back: it was away for %.1f seconds", seconds)
