"""Calls into a runtime, each behind a boundary that turns whatever it raises into a known error; and its calls back.

An adapter should raise `SessionLostError` or `RuntimeFailureError`. Anything else is a crash: the
caller gets a text with an id, and the log the traceback under that id.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import structs

from toolstead.errors import InvocationError, RuntimeFailureError, UnknownToolError
from toolstead.invoker.runtime import Answer, OwnTools, Runtime, Session, SessionSpec, Turn
from toolstead.types.call import Caller, CallTool
from toolstead.types.result import ToolResult

logger = logging.getLogger(__name__)

OPENING = 120.0
"""Seconds that opening a session may take."""
CLOSING = 15.0
"""Seconds that closing one may take."""
ADAPTING = 30.0
"""Seconds that one may take to adapt, or to take a message while it runs."""


class OwnFor(Protocol):
    """Checks and logs a runtime's own tools on behalf of a caller; see `OwnTools`."""

    async def ask_own(
        self, caller: Caller, name: str, input: Mapping[str, Any], *, call_id: str
    ) -> Mapping[str, Any] | ToolResult:
        """The arguments to use it with, or the refusal."""
        ...

    async def tell_own(
        self, caller: Caller, name: str, input: Mapping[str, Any], result: ToolResult, *, call_id: str
    ) -> None:
        """What came of it."""
        ...


@dataclass(eq=False)
class ToolCalls(OwnTools):
    """The calls of one turn, each with its session's id as far as it is known then."""

    _session: Session
    _caller: Caller
    _call: CallTool
    _own: OwnFor | None

    @property
    def caller(self) -> Caller:
        """On whose behalf; a session may have its id only after its first turn has begun."""
        if self._session.id != self._caller.session_id:
            self._caller = structs.replace(self._caller, session_id=self._session.id)
        return self._caller

    async def __call__(
        self,
        name: str,
        input: Mapping[str, Any],
        *,
        call_id: str | None = None,
        parent_call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool."""
        caller = self._caller_below(parent_call_id)
        try:
            return await self._call(name, input, structs.replace(caller, call_id=call_id) if call_id else caller)
        except UnknownToolError as error:
            return ToolResult.error(str(error))

    async def ask_gates(
        self, name: str, input: Mapping[str, Any], *, call_id: str, parent_call_id: str | None = None
    ) -> Mapping[str, Any] | ToolResult:
        """A tool of the runtime's own is about to be used."""
        if self._own is None:
            return await super().ask_gates(name, input, call_id=call_id)
        return await self._own.ask_own(self._caller_below(parent_call_id), name, input, call_id=call_id)

    async def report_result(
        self,
        name: str,
        input: Mapping[str, Any],
        result: ToolResult,
        *,
        call_id: str,
        parent_call_id: str | None = None,
    ) -> None:
        """A tool of the runtime's own was used."""
        if self._own is not None:
            await self._own.tell_own(self._caller_below(parent_call_id), name, input, result, call_id=call_id)

    def _caller_below(self, parent_call_id: str | None) -> Caller:
        """The caller, or an agent that a call of it started."""
        return (
            structs.replace(self.caller, parent_call_id=parent_call_id) if parent_call_id is not None else self.caller
        )


async def open_session(runtime: Runtime, spec: SessionSpec, *, thread_id: str, resume: str | None) -> Session:
    """Open a session.

    Raises:
        SessionLostError: The conversation to resume is gone.
        RuntimeFailureError: No session is available.
    """
    deadline = asyncio.timeout(OPENING)
    try:
        async with deadline:
            return await runtime.open(spec, thread_id=thread_id, resume=resume)
    except InvocationError:
        raise
    except Exception as error:
        if deadline.expired():
            raise RuntimeFailureError(
                f"the {runtime.name} runtime did not open a session within {OPENING:g} seconds"
            ) from error
        raise _crash_error(f"the {runtime.name} runtime", "opening a session", error) from error


async def run_turn(session: Session, turn: Turn, *, runtime: str) -> Answer:
    """Run a turn to its end.

    Raises:
        SessionLostError: The conversation is gone.
        RuntimeFailureError: The runtime failed.
    """
    try:
        return await session.run(turn)
    except InvocationError:
        raise
    except Exception as error:
        raise _crash_error(f"the {runtime} runtime", "running a turn", error) from error


async def adapt_session(session: Session, spec: SessionSpec) -> bool:
    """Whether the session is one of this specification now; one that fails at that is not."""
    try:
        async with asyncio.timeout(ADAPTING):
            return await session.adapt_to(spec)
    except InvocationError as error:
        logger.warning("a session could not be reconfigured, and a new one replaces it: %s", error)
        return False
    except Exception:
        logger.exception("a session could not be reconfigured, and a new one replaces it")
        return False


async def steer_session(session: Session, text: str) -> bool:
    """Whether the running turn took the message; one that fails at that did not."""
    try:
        async with asyncio.timeout(ADAPTING):
            return await session.steer(text)
    except Exception:
        logger.exception("a message could not be sent to a running session")
        return False


async def close_session(session: Session, *, key: str) -> None:
    """Close a session; one that cannot be closed in time is named in the log."""
    try:
        async with asyncio.timeout(CLOSING):
            await session.close()
    except Exception:
        logger.exception("the session of %r could not be closed; what it started may still run", key)


def _crash_error(who: str, what: str, error: Exception) -> RuntimeFailureError:
    crash = secrets.token_hex(4)
    logger.error("crash %s: %s, %s", crash, who, what, exc_info=error)
    return RuntimeFailureError(f"{who} crashed while {what} (id {crash}); the log has the details")
