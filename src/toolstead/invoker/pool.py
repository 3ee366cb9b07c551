"""The pool of warm sessions: one for each key, used by one invocation at a time.

Rules that hold at every moment:

- A session that is in use is never ended to make room, by age or by number.
- Idle sessions are bounded: those that own a process by the setting, all of them by `MOST_KEPT`.
- Before a slot waits for a room, the longest idle session is ended.
- Who may not wait (a child: its parent holds a session and waits for it) is refused, never queued.
  So a slot that has a room never waits for one: every room comes free, and the pool cannot lock itself.
- Runs of one thread are put in order above (the store decides). Here a session in use is refused to others; only
  one that is being opened ahead of a message is waited for.

A room is one of the places for sessions that own a process. It is taken before a process is started and given back
after it has ended; who may wait for one waits in order of arrival.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import InvocationError, NoRoomError, SessionLostError
from toolstead.invoker.lease import DEFAULT, Lease, PoolStats, SessionRequest, Slot
from toolstead.invoker.runtime import Runtime, Session, fingerprint
from toolstead.invoker.runtime_calls import CLOSING, adapt_session, close_session, open_session
from toolstead.types.run import Warmth
from toolstead.types.session import SessionInfo

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
        self._ttl = ttl
        self._clock = clock
        self._most_idle = most_idle
        self._most_live = most_live
        self._most_kept = most_kept
        self._rooms = asyncio.Semaphore(most_live)
        self._waiting = 0
        self._slots: dict[str, Slot] = {}
        self._idle: dict[Slot, asyncio.TimerHandle] = {}
        """The longest idle first, each with the timer that ends it."""
        self._starts = asyncio.Semaphore(STARTS)
        self._openings = OwnedTasks()
        self._closings = OwnedTasks()
        self._closed = False
        self._all_released = asyncio.Event()
        self._hits = self._misses = self._rebuilt = self._evicted = 0

    @property
    def waiting(self) -> int:
        """How many wait for a room."""
        return self._waiting

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
        slot = await self._await_slot(request.key)
        if slot.is_used:
            raise NoRoomError(
                f"thread {slot.key!r} is busy with another invocation, and its session serves one at a time: "
                f"start this one when that one has ended, or in another thread"
            )
        self._take_slot(slot)
        try:
            return await self._fill_slot(slot, request, on_room)
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
        ended = self._leave_slot(lease.slot, keep=keep, lost=lost)
        if ended is not None:
            await asyncio.wait((ended,))

    async def renew(self, lease: Lease) -> Lease:
        """Put an empty session in the place of one whose conversation is lost; its place and its room stay.

        Raises:
            RuntimeFailureError: No session can be opened. The old lease is still to be released.
            InvocationError: The pool is closed.
        """
        self._end_session(lease.slot, room_to=lease.slot)
        lease.slot.conversation = ""
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
        slot = await self._await_slot(request.key)
        if slot.is_used:
            return slot.is_live
        if request.runtime.owns_process and not self._most_idle:
            return False
        self._take_slot(slot)
        slot.prewarmed = asyncio.get_running_loop().create_future()
        try:
            await self._fill_slot(slot, request)
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
        if slot.is_used:
            slot.ends_after_use |= found or outdated
            slot.is_outdated |= outdated
        else:
            self._end_session(slot)
            if outdated:
                slot.conversation = None
        return found

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

    def list_sessions(self) -> list[SessionInfo]:
        """Every session that is open or being opened, in the order in which their keys came."""
        return [
            SessionInfo(
                key=slot.key,
                thread_id=slot.request.thread_id,
                agent=slot.request.spec.agent,
                model=slot.request.spec.model,
                runtime=slot.request.runtime.name,
                state="live" if slot.is_used else "idle",
                started_at=slot.opened_at if slot.session is not None else None,
                idle_seconds=0.0 if slot.is_used else round(max(self._clock() - slot.idle_since, 0.0), 3),
                owns_process=slot.request.runtime.owns_process,
            )
            for slot in self._slots.values()
            if slot.is_live and slot.request is not None
        ]

    async def close(self) -> None:
        """End every session, also those in use, refuse every waiting caller, and wait for all that. Idempotent."""
        self._closed = True
        for _ in range(self._waiting):
            self._rooms.release()  # a room that leads to nothing: no session is opened any more
        for slot in list(self._slots.values()):
            self._end_session(slot)
        await self._openings.end_all()
        if self._list_holders():
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._all_released.wait()
        if holders := self._list_holders():
            logger.error("all sessions are closed, but invocations do not end: %s", ", ".join(holders))
        await self._closings.wait_for_all()

    def _list_holders(self) -> list[str]:
        return sorted(key for key, slot in self._slots.items() if slot.is_used)

    async def _await_slot(self, key: str) -> Slot:
        """The slot of a key, once no session is opened in it ahead of a message."""
        while True:
            if self._closed:
                raise _closed_error()
            slot = self._slots.get(key) or Slot(key)
            if slot.prewarmed is None:
                return slot
            await asyncio.wait((slot.prewarmed,))

    def _take_slot(self, slot: Slot) -> None:
        self._slots[slot.key] = slot
        self._end_idleness(slot)
        slot.is_used = True

    async def _fill_slot(
        self, slot: Slot, request: SessionRequest, on_room: Callable[[], object] | None = None
    ) -> Lease:
        """Make sure that a slot in use has the requested session."""
        slot.request = request
        found, runtime, wanted = slot.session, request.runtime, fingerprint(request.spec)
        is_counted = slot.prewarmed is None
        if found is not None and (self._clock() - slot.idle_since >= self._ttl or not found.is_usable):
            self._end_session(slot, room_to=slot)
            found = None
        if found is None:
            self._misses += is_counted
        elif slot.runtime is runtime and slot.fingerprint == wanted:
            self._hits += is_counted
        else:
            self._rebuilt += 1
            if slot.runtime is runtime and await adapt_session(found, request.spec):
                slot.fingerprint = wanted
            else:
                self._end_session(slot, room_to=slot, evicted=False)
                found = None
        if found is None:
            await self._take_room(slot, request)
        if on_room is not None:
            on_room()
        if found is None:
            return await self._open(slot, request)
        is_warm = slot.has_conversation or not request.has_history
        return Lease(request=request, session=found, warmth="warm" if is_warm else "cold", fresh=False, slot=slot)

    def explain_no_room(self, runtime: Runtime) -> str | None:
        """Why a session that may not wait for a room would find none now; None when it would."""
        if not runtime.owns_process or not self._rooms.locked() or any(idle.has_room for idle in self._idle):
            return None
        return self._no_room_text

    @property
    def _no_room_text(self) -> str:
        return (
            f"all {self._most_live} sessions are in use ([sessions] max_live), and a child may not wait for one: try "
            "again when one has ended, or raise the limit"
        )

    async def _take_room(self, slot: Slot, request: SessionRequest) -> None:
        """Get a room where one is needed: a free one, that of the longest idle session, or the next that comes."""
        if not request.runtime.owns_process:
            self._give_room_back(slot)
            return
        if slot.has_room:
            return
        if self._rooms.locked():
            oldest = next((idle for idle in self._idle if idle.has_room), None)
            if oldest is not None:
                self._end_session(oldest, room_to=slot)
                return
            if not request.may_wait or slot.prewarmed is not None:
                raise NoRoomError(self._no_room_text)
        self._waiting += 1
        try:
            await self._rooms.acquire()
        finally:
            self._waiting -= 1
        slot.has_room = True

    async def _open(self, slot: Slot, request: SessionRequest) -> Lease:
        """Open a session in a slot that has its room, after whatever has to end first."""
        slot.is_opening = True
        try:
            for ending in (slot.closing, slot.room_after):
                if ending is not None:
                    await asyncio.wait((ending,))
            slot.closing = slot.room_after = None
            if self._closed:
                raise _closed_error()
            async with self._starts if request.runtime.owns_process else nullcontext():
                session = await self._open_or_reopen(slot, request)
        finally:
            slot.is_opening = False
        slot.session, slot.runtime, slot.fingerprint = session, request.runtime, fingerprint(request.spec)
        slot.opened_at = time.time()
        slot.has_conversation = session.is_resumed
        slot.conversation = None
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
        slot.closing = slot.room_after = self._close_in_background(slot, session, frees_room=False)

    def _leave_slot(self, slot: Slot, *, keep: bool = True, lost: bool = False) -> asyncio.Task[None] | None:
        """Free a slot: its session becomes idle, or is ended.

        Returns:
            The closing of its session, where that was ended for its own sake.
        """
        session, ended = slot.session, None
        if session is None:
            self._give_room_back(slot)
        elif lost or not keep or slot.ends_after_use or not session.is_usable:
            ended = self._end_session(slot)
        elif slot.has_room and self._waiting:
            self._end_session(slot)
        if lost:
            slot.conversation = ""
        if slot.is_outdated:
            slot.conversation = None
        slot.ends_after_use = slot.is_outdated = slot.is_used = False
        if slot.prewarmed is not None:
            slot.prewarmed.set_result(None)
            slot.prewarmed = None
        slot.idle_since = self._clock()
        if slot.session is not None:
            ended = self._keep_idle(slot)
        self._forget_slot(slot)
        if self._closed and not self._list_holders():
            self._all_released.set()
        return ended

    def _keep_idle(self, slot: Slot) -> asyncio.Task[None] | None:
        """Keep a session for later, and end the dead and the longest idle ones; its closing, when it is this one."""
        for idle in list(self._idle):
            if idle.session is None or idle.session.is_usable:
                break
            self._end_session(idle)
        self._idle[slot] = asyncio.get_running_loop().call_later(self._ttl, self._end_session, slot)
        with_room = [idle for idle in self._idle if idle.has_room] if slot.has_room else []
        if len(with_room) > self._most_idle:
            closing = self._end_session(with_room[0])
            return closing if with_room[0] is slot else None
        if len(self._idle) > self._most_kept:
            self._end_session(next(iter(self._idle)))
        return None

    def _end_idleness(self, slot: Slot) -> None:
        timer = self._idle.pop(slot, None)
        if timer is not None:
            timer.cancel()

    def _end_session(
        self, slot: Slot, *, room_to: Slot | None = None, evicted: bool = True
    ) -> asyncio.Task[None] | None:
        """Close a slot's session in the background; its room goes to a slot, or back when it is closed."""
        session = slot.session
        if session is None:
            return None
        self._end_idleness(slot)
        self._evicted += evicted
        has_room, slot.has_room = slot.has_room, False
        # An empty one is not worth resuming.
        slot.conversation = (session.id if slot.has_conversation else None) or None
        slot.session = None
        slot.closing = self._close_in_background(slot, session, frees_room=has_room and room_to is None)
        if has_room and room_to is not None:
            room_to.has_room, room_to.room_after = True, slot.closing
        return slot.closing

    def _close_in_background(self, slot: Slot, session: Session, *, frees_room: bool) -> asyncio.Task[None]:
        closing = self._closings.start(close_session(session, key=slot.key), name=f"closing a session of {slot.key!r}")
        if frees_room:
            closing.add_done_callback(lambda _: self._rooms.release())
        closing.add_done_callback(lambda _: self._forget_slot(slot))
        return closing

    def _give_room_back(self, slot: Slot) -> None:
        """Give back a room that no session is in; at once, or when the session that was in it has ended."""
        if not slot.has_room:
            return
        slot.has_room = False
        if slot.room_after is None or slot.room_after.done():
            self._rooms.release()
        else:
            slot.room_after.add_done_callback(lambda _: self._rooms.release())
        slot.room_after = None

    def _forget_slot(self, slot: Slot) -> None:
        """Drop a slot that has neither a session nor a user."""
        is_closed = slot.closing is None or slot.closing.done()
        if is_closed and not slot.is_used and slot.session is None and self._slots.get(slot.key) is slot:
            del self._slots[slot.key]


def _closed_error() -> InvocationError:
    return InvocationError("no session is available: Toolstead is shutting down")
