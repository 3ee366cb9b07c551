"""What the pool is asked for, what it lends, and what it knows of each key.

The place of one key is a slot:

             take           room             opened         release
    EMPTY ─────────▶ TAKEN ─────▶ OPENING ─────────▶ BUSY ─────────▶ IDLE
      ▲                │             │              │    ▲             │
      │ ended, failed  │             │              │    └──── take ───┤
      └────────────────┴─────────────┴──────────────┴──────────────────┘

| state   | `is_used` | `is_opening` | `session` |
|---------|-----------|--------------|-----------|
| EMPTY   | no        | no           | none      |
| TAKEN   | yes       | no           | none; perhaps it waits for a room |
| OPENING | yes       | yes          | none      |
| BUSY    | yes       | no           | open      |
| IDLE    | no        | no           | open      |

A slot has one user at a time. Two runs of a thread never run at once (the store sees to that), so a slot that a run
uses is refused to others; one that is used to open a session ahead of a message (`prewarmed`) is waited for. A
session that is ended under its user (rebuilt, lost, or everything is closed) leads back to TAKEN. A slot that is
EMPTY and whose last session has been closed is forgotten.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from toolstead.invoker.runtime import Runtime, Session, SessionSpec
from toolstead.types.run import Warmth

DEFAULT = "default"


def session_key(thread_id: str | None = None, session_id: str | None = None) -> str:
    """The pool's key: the thread's id, else the session's id, else `default`.

    Prewarming, invoking and evicting meet in one session only when all of them ask here.
    """
    return thread_id or session_id or DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The session that is wanted.

    Attributes:
        runtime: Who opens it.
        spec: What it is built with.
        thread_id: The thread it belongs to.
        session_id: What it is known by where there is no thread.
        resume: The conversation to go on with, as the store has it.
        has_history: The thread has earlier messages. A session that was opened ahead, and does not
            have them in it, is then reported as `cold`, so that a hook adds them.
        may_wait: False for a child whose parent waits for it: it is refused where others wait for a room.
    """

    runtime: Runtime
    spec: SessionSpec
    thread_id: str | None = None
    session_id: str | None = None
    resume: str | None = None
    has_history: bool = True
    may_wait: bool = True

    @property
    def key(self) -> str:
        """The pool's key."""
        return session_key(self.thread_id, self.session_id)


@dataclass(slots=True, eq=False)
class Slot:
    """What the pool knows of one key.

    Attributes:
        session: The open session, if any.
        request: What its last user asked for.
        opened_at: When its session was opened, in seconds since the epoch.
        runtime: Whose session it is, or was.
        fingerprint: Of what it was built with.
        has_conversation: There is something in its session: a turn was run in it, or it was resumed.
        is_used: It has a user.
        is_opening: Its session is being opened.
        ends_after_use: Its session is ended when its user is done, in any case.
        is_outdated: Its conversation went on elsewhere, so it is not remembered when its user is done.
        prewarmed: Its user only opens a session, and this is done when that is over; None for every other user.
        has_room: Whether one of the rooms is this slot's.
        room_after: The room is really free when this closing is done.
        closing: Its last session is being closed; the next one waits for that.
        conversation: The id of the last session's conversation, newer than what a caller may have read in the store:
            None when the store counts, empty when the conversation is lost, whatever the store says.
        idle_since: When its last user was done.
    """

    key: str
    session: Session | None = None
    request: SessionRequest | None = None
    opened_at: float = 0.0
    runtime: Runtime | None = None
    fingerprint: str = ""
    has_conversation: bool = False
    is_used: bool = False
    is_opening: bool = False
    ends_after_use: bool = False
    is_outdated: bool = False
    prewarmed: asyncio.Future[None] | None = None
    has_room: bool = False
    room_after: asyncio.Task[None] | None = None
    closing: asyncio.Task[None] | None = None
    conversation: str | None = None
    idle_since: float = 0.0

    @property
    def is_live(self) -> bool:
        """Whether there is a session, or one is being opened."""
        return self.session is not None or self.is_opening

    def resume_for(self, runtime: Runtime, asked: str | None) -> str | None:
        """The conversation to open a session with.

        Args:
            runtime: Which one opens it; an id of another runtime means nothing to it.
            asked: What the caller read in the store, perhaps before the last invocation ended.
        """
        if self.conversation is None:
            return asked
        return (self.conversation or None) if runtime is self.runtime else None


@dataclass(slots=True, kw_only=True)
class Lease:
    """A session that is held. Give it back with `SessionPool.release`.

    Attributes:
        request: What was asked for.
        session: What was found, or opened.
        warmth: How it was found, as hooks receive it.
        fresh: It was opened for this lease, with nothing in it: there is no conversation to lose.
        slot: Its place in the pool.
    """

    request: SessionRequest
    session: Session
    warmth: Warmth
    fresh: bool
    slot: Slot = field(repr=False)

    def end_on_release(self) -> None:
        """Have it ended when it is given back, in any case."""
        self.slot.ends_after_use = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """Numbers of a pool. Every invocation was a hit, a miss or found its session rebuilt.

    Attributes:
        idle: Sessions that wait for a message.
        live: All sessions, those that are being opened included.
        hits: Found open and fitting.
        misses: Had to be opened.
        rebuilt: Found open, built with something else, and adapted or opened anew.
        evicted: Ended: too old, too many, broken, or not wanted any more.
    """

    idle: int = 0
    live: int = 0
    hits: int = 0
    misses: int = 0
    rebuilt: int = 0
    evicted: int = 0
