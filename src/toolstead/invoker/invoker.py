"""The invoker: takes a session, lets the hooks have the prompt, runs the turn, gives the session back.

What may go wrong is decided here, once: a lost conversation is tried again on an empty session, a
timeout or a cancellation reaches the model, an error ends the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolstead.errors import InvocationError, SessionLostError, TimedOutError
from toolstead.invoker.owned_tasks import OwnedTasks
from toolstead.invoker.pool import Lease, SessionPool, SessionRequest
from toolstead.invoker.runtime import Answer, Session, Tell, Turn
from toolstead.invoker.runtime_calls import CallFor, OwnFor, ToolCalls, run_turn, steer_session
from toolstead.types.call import Caller
from toolstead.types.run import Warmth

logger = logging.getLogger(__name__)

Before = Callable[[str, Warmth], Awaitable[str]]
"""Gives the prompt that the model is told, from the one that was asked for; the session is held meanwhile."""

After = Callable[["Outcome"], Awaitable[object]]
"""Stores the answer while the session is held: the next message of the thread is sure to find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What is asked of an agent.

    Attributes:
        prompt: What it is asked.
        session: The session that is to answer.
        caller: On whose behalf: thread, run, agent, depth.
        tell: Takes the events of the turn.
        call_tool: Calls our tools, on behalf of this caller with the session's id.
        own_tools: Stands before and behind tools of the runtime's own; without it none is used.
        timeout: Seconds it may take from when its turn came; waiting in line does not count.
    """

    prompt: str
    session: SessionRequest
    caller: Caller
    tell: Tell
    call_tool: CallFor
    own_tools: OwnFor | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an invocation that succeeded ended.

    Attributes:
        answer: What the model said, and what it used.
        session_id: The conversation's id now, with which it can be resumed.
        warmth: How the session was found that gave the answer.
    """

    answer: Answer
    session_id: str | None
    warmth: Warmth


class Invoker:
    """Invokes agents on the sessions of a pool."""

    def __init__(self, pool: SessionPool) -> None:
        self.pool = pool
        self._turns = OwnedTasks()
        self._running: dict[str, Session] = {}

    async def invoke(
        self,
        invocation: Invocation,
        *,
        before: Before | None = None,
        after: After | None = None,
        on_start: Callable[[], object] | None = None,
        on_session_id: Callable[[str | None], object] | None = None,
    ) -> Outcome:
        """Ask an agent, and wait for its answer. Cancelling this interrupts the model.

        Args:
            invocation: What is asked.
            before: Makes the prompt; asked again when the turn is tried again on a new session.
            after: Awaited when the answer is there; the time is not running any more.
            on_start: Called when waiting in line is over.
            on_session_id: Called with the conversation's id when it is another than the one to
                resume, and with None when that is lost; also when the invocation fails.

        Raises:
            NoRoomError: It would have to wait for a session, and may not.
            TimedOutError: It took too long, and was ended.
            SessionLostError: The conversation was lost, and so was the one that was begun instead.
            RuntimeFailureError: The model or its runtime failed.
            InvocationError: Everything is being closed.
        """
        known = _KnownId(invocation.session.resume, on_session_id)
        deadline = asyncio.timeout(None)

        def start() -> None:
            if invocation.timeout is not None:
                deadline.reschedule(asyncio.get_running_loop().time() + invocation.timeout)
            if on_start is not None:
                on_start()

        async def finish(outcome: Outcome) -> None:
            deadline.reschedule(None)
            if after is not None:
                await after(outcome)

        try:
            async with deadline:
                return await self._invoke(invocation, before, finish, start, known)
        except TimeoutError:
            if deadline.expired() and invocation.timeout is not None:
                raise TimedOutError(invocation.timeout) from None
            raise

    async def prewarm(self, request: SessionRequest) -> bool:
        """Open a session ahead of the next message; see `SessionPool.prewarm`."""
        return await self.pool.prewarm(request)

    async def steer(self, key: str, text: str) -> bool:
        """Give a message to the invocation that runs under a key; False when none takes it."""
        session = self._running.get(key)
        return session is not None and await steer_session(session, text)

    async def close(self) -> None:
        """End what runs, and every session. Idempotent."""
        await self._turns.end()
        await self.pool.close()

    async def _invoke(
        self,
        invocation: Invocation,
        before: Before | None,
        finish: After,
        start: Callable[[], None],
        known: _KnownId,
    ) -> Outcome:
        lease = await self.pool.acquire(invocation.session, on_turn=start)
        keep = lost = False
        try:
            try:
                answer = await self._turn(invocation, lease, before)
            except SessionLostError as error:
                if lease.fresh:
                    raise
                logger.warning("%r: its conversation is lost, and a new one is begun: %s", lease.slot.key, error)
                lost = True
                known.tell(None)
                lease = await self.pool.renew(lease)
                lost = False
                answer = await self._turn(invocation, lease, before)
            keep = True
            outcome = Outcome(answer=answer, session_id=lease.session.id, warmth=lease.warmth)
            await finish(outcome)
            return outcome
        except SessionLostError:
            lost = True
            raise
        except asyncio.CancelledError:
            keep = True  # it was interrupted; the pool keeps what is still usable
            raise
        finally:
            if lost or lease.has_conversation:
                known.tell(None if lost else lease.session.id)
            await self.pool.release(lease, keep=keep, lost=lost)

    async def _turn(self, invocation: Invocation, lease: Lease, before: Before | None) -> Answer:
        """One try on one session: the hooks, then the model."""
        prompt = invocation.prompt if before is None else await before(invocation.prompt, lease.warmth)
        if lease.ended:
            raise InvocationError("the turn was not begun: everything is being closed")
        calls = ToolCalls(lease.session, invocation.caller, invocation.call_tool, invocation.own_tools)
        turn = Turn(prompt=prompt, caller=calls.caller, tell=invocation.tell, call_tool=calls, own=calls)
        key, runtime = lease.slot.key, lease.request.runtime.name
        self._running[key] = lease.session
        lease.slot.ran = True
        try:
            work = run_turn(lease.session, turn, runtime=runtime)
            return await self._turns.run(work, what=f"the {runtime} turn of {key!r}", stuck=lease.doom)
        finally:
            del self._running[key]


class _KnownId:
    """What the caller knows of the conversation's id."""

    def __init__(self, id: str | None, told: Callable[[str | None], object] | None) -> None:
        self._id = id
        self._told = told

    def tell(self, id: str | None) -> None:
        """It is this one now."""
        if id != self._id:
            self._id = id
            if self._told is not None:
                self._told(id)
