"""The invoker: takes a session, passes the prompt to the hooks, runs the turn, gives the session back.

Failures are handled here, once: a lost conversation is retried on an empty session, a
timeout or a cancellation reaches the model, an error ends the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolstead.concurrency.owned_tasks import OwnedTasks
from toolstead.errors import InvocationError, SessionLostError, TimedOutError
from toolstead.invoker.lease import Lease, SessionRequest
from toolstead.invoker.pool import SessionPool
from toolstead.invoker.runtime import NO_LIMITS, Answer, Session, SharedBudget, Turn, TurnLimits
from toolstead.invoker.runtime_calls import OwnFor, ToolCalls, run_turn, steer_session
from toolstead.invoker.step_recorder import StepRecorder
from toolstead.kernel.recording import UNRECORDED
from toolstead.types.call import Caller, CallTool, Tell
from toolstead.types.run import Warmth

logger = logging.getLogger(__name__)

Before = Callable[[str, Warmth], Awaitable[str]]
"""Returns the prompt that is sent to the model, from the one of the request; the session is held meanwhile."""

OnSessionId = Callable[[str | None], object]


class Invoker:
    """Invokes agents on the sessions of a pool."""

    def __init__(self, pool: SessionPool) -> None:
        self.pool = pool
        self._turns = OwnedTasks()
        self._running: dict[str, Session] = {}

    async def invoke(
        self,
        session: SessionRequest,
        *,
        prompt: str,
        caller: Caller,
        tell: Tell,
        call_tool: CallTool,
        own_tools: OwnFor | None = None,
        limits: TurnLimits = NO_LIMITS,
        budget: SharedBudget | None = None,
        timeout: float | None = None,
        before: Before | None = None,
        on_session_id: OnSessionId | None = None,
        recorder: StepRecorder | None = None,
    ) -> Answer:
        """Ask an agent, and wait for its answer. Cancelling this interrupts the model.

        Args:
            session: The session that is to answer.
            prompt: What the agent is asked.
            caller: On whose behalf: thread, run, agent, depth.
            tell: Takes the events of the turn.
            call_tool: Calls our tools, on behalf of this caller with the session's id.
            own_tools: Checks and logs tools of the runtime's own; without it none is used.
            limits: Where the turn is stopped.
            budget: What the whole tree of runs shares.
            timeout: Seconds it may take from when it has a place for its session; waiting for that does not count.
            before: Makes the prompt; asked again when the turn is tried again on a new session.
            on_session_id: Called with the conversation's id when it is another than the one to
                resume, and with None when that is lost; also when the invocation fails.
            recorder: Records what the model, or the runtime that drives it, is given and gives back.

        Raises:
            NoRoomError: It would have to wait for a session, and may not.
            TimedOutError: It took too long, and was ended.
            SessionLostError: The conversation was lost, and so was the one that was begun instead.
            RuntimeFailureError: The model or its runtime failed.
            InvocationError: Everything is being closed, or the thread's session is in use.
        """
        known, deadline = session.resume, asyncio.timeout(None)

        def note_id(now: str | None) -> None:
            nonlocal known
            if now != known and on_session_id is not None:
                on_session_id(now)
            known = now

        def start_clock() -> None:
            if timeout is not None:
                deadline.reschedule(asyncio.get_running_loop().time() + timeout)

        async def run_once(lease: Lease) -> Answer:
            text = prompt if before is None else await before(prompt, lease.warmth)
            calls = ToolCalls(lease.session, caller, call_tool, own_tools)
            turn = Turn(
                prompt=text,
                caller=calls.caller,
                tell=tell,
                call_tool=calls,
                own=calls,
                limits=limits,
                budget=budget,
                recorder=recorder or UNRECORDED,
            )
            running = self._run(lease, turn)
            return await (running if recorder is None else recorder.record_turn(lease, text, running))

        try:
            async with deadline:
                return await self._invoke(await self.pool.acquire(session, on_room=start_clock), run_once, note_id)
        except TimeoutError:
            if deadline.expired() and timeout is not None:
                raise TimedOutError(timeout) from None
            raise

    async def steer(self, key: str, text: str) -> bool:
        """Give a message to the turn that runs under a key; False when none takes it."""
        session = self._running.get(key)
        return session is not None and await steer_session(session, text)

    def session_id(self, key: str) -> str | None:
        """The id of the conversation whose turn runs under a key, as far as it is known."""
        session = self._running.get(key)
        return None if session is None else session.id

    async def close(self) -> None:
        """End the running turns, and every session. Idempotent."""
        await self._turns.end_all()
        await self.pool.close()

    async def _invoke(
        self, lease: Lease, attempt: Callable[[Lease], Awaitable[Answer]], note_id: OnSessionId
    ) -> Answer:
        """Try on the session that was taken, and once more on an empty one when its conversation is lost."""
        keep = lost = False
        try:
            try:
                answer = await attempt(lease)
            except SessionLostError as error:
                if lease.fresh:
                    raise
                logger.warning("%r: its conversation is lost, and a new one begins: %s", lease.slot.key, error)
                lost = True
                note_id(None)
                lease = await self.pool.renew(lease)
                lost = False
                answer = await attempt(lease)
            keep = True
            return answer
        except SessionLostError:
            lost = True
            raise
        except asyncio.CancelledError:
            keep = True  # it was interrupted; the pool keeps what is still usable
            raise
        finally:
            if lost or lease.slot.has_conversation:
                note_id(None if lost else lease.session.id)
            await self.pool.release(lease, keep=keep, lost=lost)

    async def _run(self, lease: Lease, turn: Turn) -> Answer:
        if lease.slot.session is not lease.session:
            raise InvocationError("the turn was not started: Toolstead is shutting down")
        key, runtime = lease.slot.key, lease.request.runtime.name
        self._running[key] = lease.session
        lease.slot.has_conversation = True
        try:
            work = run_turn(lease.session, turn, runtime=runtime)
            return await self._turns.run(work, name=f"the {runtime} turn of {key!r}", on_abandoned=lease.end_on_release)
        finally:
            del self._running[key]
