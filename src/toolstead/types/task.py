"""Delegated work, and what a reviewer says of it."""

from __future__ import annotations

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """A reviewer's word on a finished task.

    Attributes:
        accepted: True accepts, False rejects, None says that it could not be told.
        feedback: For the next attempt, when it is rejected.
    """

    accepted: bool | None
    feedback: str = ""
