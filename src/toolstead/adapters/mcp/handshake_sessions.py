"""The sessions of the handshake protocol versions over HTTP: which are open and in use, and how many there may be.

The SDK owns a session; this table decides when it ends. A session is in use while a request of it is answered, an
open stream included; otherwise it is idle, and ends when it is idle for too long, or when there are too many. Its
client gets a 404 for the next request, as the protocol says, and initializes a new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal

from toolstead.adapters.http.asgi import Headers

logger = logging.getLogger(__name__)

IDLE: Final = 1_800.0
MOST: Final = 1_000
STREAM: Final[Headers] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)
_PAUSE = 0.1
"""Seconds between two searches for idle sessions, at least."""
_SAY_AGAIN = 60.0
"""Seconds between two log lines that there are too many: a client that floods must not fill the log."""


@dataclass(slots=True)
class SessionCall:
    """One running call of a session."""

    task: asyncio.Task[Any]
    ended: Literal["", "cancelled", "session"] = ""

    def end_call(self, why: Literal["cancelled", "session"]) -> None:
        """Cancel it, once."""
        if not self.ended:
            self.ended = why
            self.task.cancel()


@dataclass(slots=True, eq=False)
class HandshakeSession:
    """A handshake session, owned by the SDK. It is in use inside a `with` block.

    Attributes:
        key: Its id, as in the header.
        address: Where its client is.
        used_at: When it was last in use.
        holder: Who has opened it; to everybody else it does not exist.
        client: The name that its client gives itself.
        elicitation: What its client declares of this name; None for nothing.
        is_initialized: Whether the client has finished the handshake; only then the fast path may answer.
        headers: Those of its answers.
        calls: Its running calls on the fast path, by the id of the request.
    """

    key: bytes
    address: str
    used_at: float
    holder: str = ""
    client: str | None = None
    elicitation: Mapping[str, Any] | None = None
    is_initialized: bool = False
    headers: Headers = field(init=False)
    calls: dict[str, SessionCall] = field(default_factory=dict[str, SessionCall])
    _requests: int = 0

    def __post_init__(self) -> None:
        self.headers = (*STREAM, (b"mcp-session-id", self.key))

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        return not self._requests

    def __enter__(self) -> None:
        self._requests += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._requests -= 1
        self.used_at = asyncio.get_running_loop().time()


class HandshakeSessions:
    """The open sessions, by id as in the header."""

    def __init__(
        self, end_session: Callable[[bytes], Awaitable[None]], *, idle: float = IDLE, most: int = MOST
    ) -> None:
        """Begin with none.

        Args:
            end_session: Ends a session in the SDK.
            idle: Seconds after which an idle session ends.
            most: How many may be open.
        """
        self._end_session = end_session
        self._idle = idle
        self._most = most
        self._open: dict[bytes, HandshakeSession] = {}
        self._stopping = asyncio.Event()
        self._ended = 0
        self._told_at = -_SAY_AGAIN

    @property
    def is_full(self) -> bool:
        """Whether there is room for no further session, because all are in use."""
        return len(self._open) >= self._most and not any(session.is_idle for session in self._open.values())

    def count_sessions(self) -> int:
        """How many are open."""
        return len(self._open)

    def add_session(self, key: bytes, address: str, holder: str = "") -> HandshakeSession:
        """Add a session that the SDK has opened for somebody."""
        session = self._open[key] = HandshakeSession(key, address, asyncio.get_running_loop().time(), holder)
        return session

    def learn_session(self, id: str, client: str | None) -> Callable[[], None] | None:
        """Note that a session is initialized, by whom; None if that is known, or it has ended.

        Call the returned function when it ends.
        """
        session = self.find_session(id.encode("latin-1"))
        if session is None or session.is_initialized:
            return None
        session.is_initialized, session.client = True, client
        return lambda: self.forget_session(session.key)

    def rename_client(self, id: str, client: str | None) -> None:
        """Note the name that a session's client gives itself now."""
        if (session := self.find_session(id.encode("latin-1"))) is not None:
            session.client = client

    def note_elicitation(self, id: str, declared: Mapping[str, Any] | None) -> None:
        """Note what a session's client declares as `elicitation` now."""
        if (session := self.find_session(id.encode("latin-1"))) is not None:
            session.elicitation = declared

    def find_session(self, key: bytes | None) -> HandshakeSession | None:
        """The session of a request; None when there is none."""
        return None if key is None else self._open.get(key)

    def forget_session(self, key: bytes | None) -> None:
        """Remove a session that ends, and end its calls."""
        if key is not None and (session := self._open.pop(key, None)) is not None:
            for call in tuple(session.calls.values()):
                call.end_call("session")

    async def end_surplus(self) -> None:
        """End idle sessions until there are no more than allowed.

        First those of the address with the most sessions, the longest idle one first: so one address cannot push out
        the sessions of all others.
        """
        while len(self._open) > self._most:
            idle = [session for session in self._open.values() if session.is_idle]
            if not idle:
                return
            counts = Counter(session.address for session in self._open.values())
            most = max(counts[session.address] for session in idle)
            oldest = min((each for each in idle if counts[each.address] == most), key=lambda each: each.used_at)
            self._ended += 1
            now = asyncio.get_running_loop().time()
            if now - self._told_at >= _SAY_AGAIN:
                logger.warning(
                    "more than %s MCP sessions (server.max_sessions): ended %s that were idle longest, the last of %s",
                    self._most,
                    self._ended,
                    oldest.address or "an unknown address",
                )
                self._told_at, self._ended = now, 0
            await self._end(oldest)

    async def end_idle_sessions(self) -> None:
        """End every session that is idle for too long, until cancelled."""
        while True:
            now = asyncio.get_running_loop().time()
            last = now - self._idle
            for session in [each for each in self._open.values() if each.is_idle and each.used_at <= last]:
                if session.is_idle:  # still, after the end of the ones before
                    logger.info("ended an MCP session of %s that was idle for %g s", session.address, self._idle)
                    await self._end(session)
                    await asyncio.sleep(0)  # there may be a thousand
            oldest = min((each.used_at for each in self._open.values() if each.is_idle), default=now)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(oldest + self._idle - now, _PAUSE)):
                    await self._stopping.wait()
                    await asyncio.sleep(_PAUSE)

    def begin_stop(self) -> None:
        """End sessions as soon as they are idle: their end takes time, and the server is stopping."""
        self._idle = 0.0
        self._stopping.set()

    async def _end(self, session: HandshakeSession) -> None:
        self.forget_session(session.key)
        await self._end_session(session.key)
