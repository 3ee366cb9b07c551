"""The pool of warm sessions: one for each key, used by one invocation at a time.

Rules that hold at every moment:

- A session that is in use is never ended to make room, by age or by number.
- Idle sessions are bounded: those that own a process by the setting, all of them by `MOST_KEPT`.
- Before a slot waits for a room, the longest idle session is ended.
- Who may not wait (a child: its parent holds a session and waits for it) is refused, never queued.
  So a slot that has a room never waits for one: every room comes free, and the pool cannot lock itself.
- Runs of one thread are put in order above (the store decides). Here a session in use is refused to others; only
  one that is being opened ahead of a message is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import InvocationError, NoRoomError, SessionLostError
from toolstead.invoker.idle import IdleSessions
from toolstead.invoker.key import DEFAULT, fingerprint
from toolstead.invoker.lease import Lease, PoolStats, SessionRequest
from toolstead.invoker.rooms import Rooms
from toolstead.invoker.runtime import Session
from toolstead.invoker.runtime_calls import CLOSING, adapt_session, close_session, open_session
from toolstead.invoker.slot import AfterUse, Remembered, Slot, SlotState
from toolstead.types.run import Warmth

logger = logging.getLogger(__name__)

STARTS = 3
"""How many processes are started at once: four at a time take several times as long as one."""
MOST_KEPT = 1_000
"""Idle sessions of any kind: one without a process still holds its conversation in memory."""


class SessionPool:
    """Sessions by key. Belongs to the event loop it is used on."""

    def __init__(
        self,
        *,
        ttl: float = 480,
        most_idle: int = 8,
        most_live: int = 32,
        most_kept: int = MOST_KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an empty pool; the numbers are those of `[sessions]`.

        Args:
            ttl: Seconds a session may be idle.
            most_idle: Idle sessions that are kept; counts those that own a process.
            most_live: All sessions that own a process.
            most_kept: Idle sessions that are kept, with a process or without.
            clock: Returns the time in seconds.
        """
        self._most_idle = most_idle
        self._most_kept = most_kept
        self._rooms = Rooms(most_live)
        self._idle = IdleSessions(ttl=ttl, clock=clock, expired=self._end_session)
        self._slots: dict[str, Slot] = {}
        self._starts = asyncio.Semaphore(STARTS)
        self._openings = OwnedTasks()
        self._closings: set[asyncio.Task[None]] = set()
        self._closed = False
        self._nobody_holds = asyncio.Event()
        self._hits = self._misses = self._rebuilt = self._evicted = 0

    async def acquire(self, request: SessionRequest, *, on_room: Callable[[], object] | None = None) -> Lease:
        """Take the session of a key: the open one, or a new one.

        Args:
            request: Which one, built how.
            on_room: Called when waiting is over, and opening, if need be, begins.

        Raises:
            NoRoomError: It would have to wait, and may not; or the session is in use.
            RuntimeFailureError: No session can be opened.
            InvocationError: The pool is closed.
        """
        while (slot := self._take_slot(request.key)) is None:
            slot = self._slots[request.key]
            if slot.prewarmed is None:
                raise NoRoomError(
                    f"thread {slot.key!r} is busy with another invocation, and its session serves one at a time: "
                    f"start this one when that one has ended, or in another thread"
                )
            await asyncio.wait((slot.prewarmed,))
        try:
            return await self._fill_slot(slot, request, on_room, counted=True)
        except BaseException:
            self._leave_slot(slot)
            raise

    async def release(self, lease: Lease, *, keep: bool, lost: bool = False) -> None:
        """Give a session back.

        Args:
            lease: What was taken.
            keep: False ends the session, and waits until it has ended.
            lost: Its conversation is gone: ended, and never resumed.
        """
        ended = self._end_lost(lease.slot) if lost else None
        ended = self._leave_slot(lease.slot, keep=keep) or ended
        if ended is not None:
            await asyncio.wait((ended,))

    async def renew(self, lease: Lease) -> Lease:
        """Put an empty session in the place of one whose conversation is lost; its turn and its room stay.

        Raises:
            RuntimeFailureError: No session can be opened. The old lease is still to be released.
            InvocationError: The pool is closed.
        """
        self._end_lost(lease.slot)
        self._misses += 1
        return await self._open(lease.slot, lease.request)

    async def prewarm(self, request: SessionRequest) -> bool:
        """Open a key's session ahead of its next message; never waits for a room, and never takes a busy one.

        Returns:
            Whether the next message finds an open session.

        Raises:
            RuntimeFailureError: No session can be opened.
            InvocationError: The pool is closed.
        """
        slot = self._slots.get(request.key)
        while slot is not None and slot.prewarmed is not None:
            await asyncio.wait((slot.prewarmed,))
            slot = self._slots.get(request.key)
        if slot is not None and slot.is_used:
            return slot.is_live
        if request.runtime.owns_process and not self._most_idle:
            return False
        if (slot := self._take_slot(request.key)) is None:
            raise AssertionError("nothing was awaited since it was free")
        slot.prewarmed = asyncio.get_running_loop().create_future()
        try:
            await self._fill_slot(slot, request, None, counted=False)
        except NoRoomError:
            return False
        finally:
            self._leave_slot(slot)
        return slot.session is not None

    def evict(self, key: str, *, outdated: bool = False) -> bool:
        """End a key's session; one in use is ended when its invocation is. False when there is none.

        Args:
            key: Whose session.
            outdated: Its conversation went on elsewhere: the next session is opened as the store says, and not
                with what the pool remembers.
        """
        slot = self._slots.get(key)
        if slot is None:
            return False
        found = slot.is_live
        if not slot.is_used:
            self._end_session(slot)
            if outdated:
                slot.conversation = Remembered.NOTHING
        elif found or outdated:
            slot.after_use = max(slot.after_use, AfterUse.FORGET if outdated else AfterUse.END)
        return found

    def expire(self) -> None:
        """End sessions that have been idle too long; the pool's own timer does this too."""
        self._idle.expire()

    def stats(self) -> PoolStats:
        """The current numbers."""
        return PoolStats(
            idle=len(self._idle),
            live=sum(slot.is_live for slot in self._slots.values()),
            hits=self._hits,
            misses=self._misses,
            rebuilt=self._rebuilt,
            evicted=self._evicted,
        )

    async def close(self) -> None:
        """End every session, also those in use, refuse every waiting caller, and wait for all that. Idempotent."""
        self._closed = True
        self._idle.stop()
        self._rooms.send_home()
        for slot in list(self._slots.values()):
            self._end_session(slot)
        await self._openings.end_all()
        if self._list_holders():
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._nobody_holds.wait()
        if holders := self._list_holders():
            logger.error("all sessions are closed, but invocations do not end: %s", ", ".join(holders))
        while self._closings:
            await asyncio.wait(self._closings)

    def _list_holders(self) -> list[str]:
        return sorted(key for key, slot in self._slots.items() if slot.is_used)

    def _take_slot(self, key: str) -> Slot | None:
        """Take a key's slot; None when it is in use."""
        if self._closed:
            raise _closed_error()
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = Slot(key)
        if slot.is_used:
            return None
        self._idle.discard(slot)
        slot.state = SlotState.TAKEN if slot.session is None else SlotState.BUSY
        return slot

    async def _fill_slot(
        self,
        slot: Slot,
        request: SessionRequest,
        on_room: Callable[[], object] | None,
        *,
        counted: bool,
    ) -> Lease:
        """Make sure that a slot in use has the requested session."""
        found, runtime = slot.session, request.runtime
        if found is not None and (self._idle.is_due(slot) or not found.is_usable):
            self._end_session(slot, room_to=slot)
            found = None
        if found is None:
            self._misses += counted
        else:
            same = slot.runtime is runtime
            if same and slot.fingerprint == fingerprint(request.spec):
                self._hits += counted
                return self._lease_of_open(slot, found, request, on_room)
            self._rebuilt += 1
            if same and await adapt_session(found, request.spec):
                slot.fingerprint = fingerprint(request.spec)
                return self._lease_of_open(slot, found, request, on_room)
            self._end_session(slot, room_to=slot, evicted=False)
        if not runtime.owns_process:
            self._give_room_back(slot)
        elif not slot.has_room:
            await self._find_room(slot, may_wait=request.may_wait and slot.prewarmed is None)
        if on_room is not None:
            on_room()
        return await self._open(slot, request)

    def _lease_of_open(
        self, slot: Slot, session: Session, request: SessionRequest, on_room: Callable[[], object] | None
    ) -> Lease:
        if on_room is not None:
            on_room()
        warm = slot.has_conversation or not request.has_history
        return Lease(request=request, session=session, warmth="warm" if warm else "cold", fresh=False, slot=slot)

    async def _find_room(self, slot: Slot, *, may_wait: bool) -> None:
        """Get a room for the slot: a free one, that of the longest idle session, or the next that comes."""
        if self._rooms.take():
            slot.has_room = True
            return
        oldest = self._idle.oldest_with_room
        if oldest is not None:
            self._end_session(oldest, room_to=slot)
        elif not may_wait:
            raise NoRoomError(
                f"all {self._rooms.most} sessions are in use ([sessions] max_live), and a child may not wait for one: "
                f"try again when one has ended, or raise the limit"
            )
        elif await self._rooms.wait():
            slot.has_room = True
        else:
            raise _closed_error()

    async def _open(self, slot: Slot, request: SessionRequest) -> Lease:
        """Open a session in a slot that has its room, after whatever has to end first."""
        slot.state = SlotState.OPENING
        try:
            for ending in (slot.closing, slot.room_after):
                if ending is not None:
                    await asyncio.wait((ending,))
            slot.closing = slot.room_after = None
            if self._closed:
                raise _closed_error()
            if request.runtime.owns_process:
                async with self._starts:
                    session = await self._open_or_reopen(slot, request)
            else:
                session = await self._open_or_reopen(slot, request)
        except BaseException:
            slot.state = SlotState.TAKEN
            raise
        slot.state = SlotState.BUSY
        slot.session, slot.runtime, slot.fingerprint = session, request.runtime, fingerprint(request.spec)
        slot.has_run_turn = False
        slot.conversation = Remembered.NOTHING
        if self._closed:
            self._end_session(slot)
            raise _closed_error()
        warmth: Warmth = "resumed" if session.is_resumed else "cold"
        return Lease(request=request, session=session, warmth=warmth, fresh=warmth == "cold", slot=slot)

    async def _open_or_reopen(self, slot: Slot, request: SessionRequest) -> Session:
        resume = slot.resume_for(request.runtime, request.resume)
        try:
            return await self._start(slot, request, resume)
        except SessionLostError as lost:
            if resume is None:
                raise
            logger.warning("thread %r: conversation %s cannot be resumed (%s); it begins anew", slot.key, resume, lost)
            return await self._start(slot, request, None)

    async def _start(self, slot: Slot, request: SessionRequest, resume: str | None) -> Session:
        opening = open_session(request.runtime, request.spec, thread_id=request.thread_id or DEFAULT, resume=resume)
        return await self._openings.run(
            opening,
            name=f"opening a session for {slot.key!r}",
            take_unwanted=lambda session: self._end_unwanted(slot, session),
        )

    def _end_unwanted(self, slot: Slot, session: Session) -> None:
        """Close a session that was opened after its caller had left; its room is free after that."""
        slot.closing = slot.room_after = self._close_in_background(slot, session, has_room=False)

    def _leave_slot(self, slot: Slot, *, keep: bool = True) -> asyncio.Task[None] | None:
        """Free a slot: its session becomes idle, or is ended.

        Returns:
            The closing of its session, where that was ended for its own sake.
        """
        session, ended = slot.session, None
        if session is None:
            self._give_room_back(slot)
        elif not keep or slot.after_use is not AfterUse.KEEP or not session.is_usable:
            ended = self._end_session(slot)
        elif slot.has_room and self._rooms.is_wanted:
            self._end_session(slot)
        if slot.after_use is AfterUse.FORGET:
            slot.conversation = Remembered.NOTHING
        slot.after_use = AfterUse.KEEP
        slot.state = SlotState.EMPTY if slot.session is None else SlotState.IDLE
        if slot.prewarmed is not None:
            slot.prewarmed.set_result(None)
            slot.prewarmed = None
        self._idle.note_use(slot)
        if slot.session is not None:
            self._end_dead()
            self._idle.add(slot)
            if self._idle.rooms_taken > self._most_idle:
                ended = self._end_idle(self._idle.oldest_with_room, besides=slot)
            elif len(self._idle) > self._most_kept:
                self._end_idle(self._idle.oldest, besides=slot)
        self._forget_slot(slot)
        if self._closed and not self._list_holders():
            self._nobody_holds.set()
        return ended

    def _end_dead(self) -> None:
        """End idle sessions whose process has died, beginning with the longest idle."""
        while (oldest := self._idle.oldest) is not None and oldest.session is not None and not oldest.session.is_usable:
            self._end_session(oldest)

    def _end_idle(self, oldest: Slot | None, *, besides: Slot) -> asyncio.Task[None] | None:
        """End the longest idle session; its closing, when it is this one's own."""
        if oldest is None:
            return None
        closing = self._end_session(oldest)
        return closing if oldest is besides else None

    def _end_session(
        self, slot: Slot, *, room_to: Slot | None = None, evicted: bool = True
    ) -> asyncio.Task[None] | None:
        """Close a slot's session in the background; its room goes to a slot, or back when it is closed."""
        session = slot.session
        if session is None:
            return None
        self._idle.discard(slot)
        self._evicted += evicted
        has_room, slot.has_room = slot.has_room, False
        # An empty one is not worth resuming.
        slot.conversation = (session.id if slot.has_conversation else None) or Remembered.NOTHING
        slot.session = None
        slot.state = SlotState.TAKEN if slot.is_used else SlotState.EMPTY
        slot.closing = self._close_in_background(slot, session, has_room=has_room and room_to is None)
        if has_room and room_to is not None:
            room_to.has_room, room_to.room_after = True, slot.closing
        return slot.closing

    def _end_lost(self, slot: Slot) -> asyncio.Task[None] | None:
        """End a session whose conversation is gone, so that it is never resumed; the slot keeps its room."""
        closing = self._end_session(slot, room_to=slot)
        slot.conversation = Remembered.LOST
        return closing

    def _close_in_background(self, slot: Slot, session: Session, *, has_room: bool) -> asyncio.Task[None]:
        closing = asyncio.create_task(close_session(session, key=slot.key))
        self._closings.add(closing)

        def note_closed(task: asyncio.Task[None]) -> None:
            self._closings.discard(task)
            if has_room:
                self._rooms.give_back()
            self._forget_slot(slot)

        closing.add_done_callback(note_closed)
        return closing

    def _give_room_back(self, slot: Slot) -> None:
        """Give back a room that no session is in; at once, or when the session that was in it has ended."""
        if not slot.has_room:
            return
        slot.has_room = False
        if slot.room_after is None or slot.room_after.done():
            self._rooms.give_back()
        else:
            slot.room_after.add_done_callback(lambda _: self._rooms.give_back())
        slot.room_after = None

    def _forget_slot(self, slot: Slot) -> None:
        """Drop a slot that has neither a session nor a user."""
        if slot.is_used or slot.session is not None or (slot.closing is not None and not slot.closing.done()):
            return
        if self._slots.get(slot.key) is slot:
            del self._slots[slot.key]


def _closed_error() -> InvocationError:
    return InvocationError("no session is available: Toolstead is shutting down")
