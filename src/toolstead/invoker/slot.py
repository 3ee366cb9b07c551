"""The place of one key in the pool: its session, and the line of those who want it.

A slot is held by one invocation, or one prewarming, at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from toolstead.invoker.rooms import Waiter
from toolstead.invoker.runtime import Runtime, Session


@dataclass(slots=True, eq=False)
class Slot:
    """What the pool knows of one key.

    Attributes:
        held: Somebody has it; everybody else waits in line.
        prewarming: Who holds it only opens a session, and will be done without anybody's help.
        line: Those who wait, in order of arrival.
        session: The open session, if any.
        runtime: Whose session it is, or was.
        fingerprint: Of what it was built with.
        ran: A turn was run in its session.
        doomed: It is to be ended when its holder is done.
        outdated: Its conversation went on elsewhere: what is known of it here is forgotten when its holder is done.
        opening: A session is being opened for it.
        has_room: One of the rooms is this slot's.
        room_after: The room is really free when this closing is done.
        closing: Its last session is being closed; the next one waits for that.
        knows: `conversation` is newer than what a caller may have read in the store.
        conversation: The id of the last session's conversation; None when it was lost.
        idle_since: When the last invocation ended.
    """

    key: str
    held: bool = False
    prewarming: bool = False
    line: deque[Waiter] = field(default_factory=deque[Waiter])
    session: Session | None = None
    runtime: Runtime | None = None
    fingerprint: str = ""
    ran: bool = False
    doomed: bool = False
    outdated: bool = False
    opening: bool = False
    has_room: bool = False
    room_after: asyncio.Task[None] | None = None
    closing: asyncio.Task[None] | None = None
    knows: bool = False
    conversation: str | None = None
    idle_since: float = 0.0

    @property
    def next_waiter(self) -> Waiter | None:
        """Whoever comes next; those who left are forgotten on the way."""
        while self.line and self.line[0].turn.done():
            self.line.popleft()
        return self.line[0] if self.line else None

    @property
    def has_conversation(self) -> bool:
        """Whether there is anything in its session: a turn was run in it, or it was resumed."""
        return self.session is not None and (self.ran or self.session.resumed)

    def forget_conversation(self) -> None:
        """What the store says counts again."""
        self.knows, self.conversation = False, None

    def resume_for(self, runtime: Runtime, asked: str | None) -> str | None:
        """The conversation to open a session with.

        Args:
            runtime: Which one opens it; an id of another runtime means nothing to it.
            asked: What the caller read in the store, perhaps before the last invocation ended.
        """
        if not self.knows:
            return asked
        return self.conversation if runtime is self.runtime else None
