"""The pool's requests, leases and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolstead.invoker.key import session_key
from toolstead.invoker.runtime import Runtime, Session, SessionSpec
from toolstead.invoker.slot import AfterUse, Slot
from toolstead.types.run import Warmth


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

    @property
    def has_conversation(self) -> bool:
        """Whether there is anything to resume: a turn was run in it, or it was resumed."""
        return self.slot.has_run_turn or self.session.is_resumed

    @property
    def has_ended(self) -> bool:
        """Whether its session was ended while it was held, by the shutdown."""
        return self.slot.session is not self.session

    def end_on_release(self) -> None:
        """Have it ended when it is given back, in any case."""
        self.slot.after_use = max(self.slot.after_use, AfterUse.END)


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

    idle: int
    live: int
    hits: int
    misses: int
    rebuilt: int
    evicted: int


NO_SESSIONS = PoolStats(idle=0, live=0, hits=0, misses=0, rebuilt=0, evicted=0)
"""The numbers of a pool that does not exist yet."""
