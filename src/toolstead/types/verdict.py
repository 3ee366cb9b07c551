"""A reviewer's decision."""

from __future__ import annotations

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """A reviewer's decision on a finished task.

    Attributes:
        accepted: True accepts, False rejects, None means unknown.
        feedback: For the next attempt, when it is rejected.
    """

    accepted: bool | None
    feedback: str = ""
