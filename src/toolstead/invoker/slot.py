"""The place of one key in the pool: its session, and who uses it.

             take           room             opened         release
    EMPTY ─────────▶ TAKEN ─────▶ OPENING ─────────▶ BUSY ─────────▶ IDLE
      ▲                │             │              │    ▲             │
      │ ended, failed  │             │              │    └──── take ───┤
      └────────────────┴─────────────┴──────────────┴──────────────────┘

A slot has one user at a time. Two runs of a thread never run at once (the store sees to that), so a slot that a run
uses is refused to others; one that is used to open a session ahead of a message (`prewarmed`) is waited for. A
session that is ended under its user (rebuilt, lost, or everything is closed) leads back to TAKEN. A slot that is
EMPTY and whose last session has been closed is forgotten.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, IntEnum, auto

from toolstead.invoker.runtime import Runtime, Session


class SlotState(Enum):
    """Whether a slot has a user, and a session."""

    EMPTY = auto()
    TAKEN = auto()
    """It has a user, and no session yet: perhaps it waits for a room."""
    OPENING = auto()
    BUSY = auto()
    IDLE = auto()


class AfterUse(IntEnum):
    """What becomes of a session that is in use when its user gives it back; the higher one counts."""

    KEEP = auto()
    END = auto()
    FORGET = auto()
    """End it, and what is remembered of its conversation: that went on elsewhere."""


class Remembered(Enum):
    """What a slot remembers of its last conversation, where it is not the id."""

    NOTHING = auto()
    """What the store says counts."""
    LOST = auto()
    """There is none any more, whatever a caller may have read in the store before."""


@dataclass(slots=True, eq=False)
class Slot:
    """What the pool knows of one key.

    Attributes:
        session: The open session, if any.
        runtime: Whose session it is, or was.
        fingerprint: Of what it was built with.
        has_run_turn: A turn was run in its session.
        after_use: What becomes of the session when its user is done.
        prewarmed: Its user only opens a session, and this is done when that is over; None for every other user.
        has_room: Whether one of the rooms is this slot's.
        room_after: The room is really free when this closing is done.
        closing: Its last session is being closed; the next one waits for that.
        conversation: The id of the last session's conversation, newer than what a caller may have read in the store.
        idle_since: When its last user was done.
    """

    key: str
    state: SlotState = SlotState.EMPTY
    session: Session | None = None
    runtime: Runtime | None = None
    fingerprint: str = ""
    has_run_turn: bool = False
    after_use: AfterUse = AfterUse.KEEP
    prewarmed: asyncio.Future[None] | None = None
    has_room: bool = False
    room_after: asyncio.Task[None] | None = None
    closing: asyncio.Task[None] | None = None
    conversation: str | Remembered = Remembered.NOTHING
    idle_since: float = 0.0

    @property
    def is_used(self) -> bool:
        """Whether it is in use."""
        return self.state not in (SlotState.EMPTY, SlotState.IDLE)

    @property
    def is_live(self) -> bool:
        """Whether there is a session, or one is being opened."""
        return self.session is not None or self.state is SlotState.OPENING

    @property
    def has_conversation(self) -> bool:
        """Whether there is anything in its session: a turn was run in it, or it was resumed."""
        return self.session is not None and (self.has_run_turn or self.session.is_resumed)

    def resume_for(self, runtime: Runtime, asked: str | None) -> str | None:
        """The conversation to open a session with.

        Args:
            runtime: Which one opens it; an id of another runtime means nothing to it.
            asked: What the caller read in the store, perhaps before the last invocation ended.
        """
        if self.conversation is Remembered.NOTHING:
            return asked
        if self.conversation is Remembered.LOST or runtime is not self.runtime:
            return None
        return self.conversation
