"""The fast path over HTTP: lists and calls of every protocol version, in front of the SDK's application.

The guard before it has checked Host, Origin, token and body, and has read the body. Protocol versions before
2026-07-28 begin with a handshake; the SDK owns their sessions, and the fast path tracks them from their initialization
to their end.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, cast

from msgspec import UNSET

from toolstead.adapters.http.asgi import (
    JSON_TYPE,
    ASGIApp,
    BufferedBody,
    Headers,
    Receive,
    Scope,
    Send,
    TrackedResponse,
)
from toolstead.adapters.http.disconnect import DisconnectWatch
from toolstead.adapters.mcp.fast_path.answers import render_answer, render_refusal
from toolstead.adapters.mcp.fast_path.calls import FastPath
from toolstead.adapters.mcp.fast_path.keep_alive import STREAM, KeepAlive, render_event
from toolstead.adapters.mcp.fast_path.messages import (
    HANDSHAKE_VERSIONS,
    MODERN_VERSION,
    CallToolMessage,
    HandshakeMessage,
    ListTools,
    MessageId,
    ModernCallTool,
    ModernListTools,
    ModernMessage,
    NoMessage,
    cancelled_id,
    read_handshake,
    read_modern,
)
from toolstead.concurrency.suspended_coroutine import SuspendedCoroutine, start_coroutine

LET_THROUGH = 300.0
"""Seconds after which a session's next request goes to the SDK, so that it does not end the session as idle."""

_MOST_ENDED = 1_000
"""Ended sessions to keep, for their messages that are still in flight."""
_CANCELLED = -32800
_REFUSED = 400
"""From this status on, the SDK has refused the request."""
_JSON: Final[Headers] = (JSON_TYPE,)
_MODERN: Final = MODERN_VERSION.encode()
_HANDSHAKE: Final = frozenset({None, *(version.encode() for version in HANDSHAKE_VERSIONS)})


class SessionCall:
    """One running call of a session."""

    __slots__ = ("ended", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.ended: Literal["", "cancelled", "session"] = ""

    def end_call(self, why: Literal["cancelled", "session"]) -> None:
        """Cancel it, once."""
        if not self.ended:
            self.ended = why
            self.task.cancel()


class HandshakeSession:
    """A handshake session, owned by the SDK."""

    __slots__ = ("calls", "headers", "seen_by_sdk_at")

    def __init__(self, id: str) -> None:
        self.calls: dict[str, SessionCall] = {}
        self.headers: Headers = (*STREAM, (b"mcp-session-id", id.encode("latin-1")))
        self.seen_by_sdk_at = time.monotonic()
        """When the SDK last saw a request of it."""


class HandshakeSessions:
    """The initialized sessions, by id as in the header."""

    def __init__(self) -> None:
        self._known: dict[bytes, HandshakeSession] = {}
        # A client may end a session before the SDK reports it as initialized; then it must not be added.
        self._ended: deque[bytes] = deque(maxlen=_MOST_ENDED)

    def learn_session(self, id: str) -> Callable[[], None]:
        """Add an initialized session; call the returned function when it has ended."""
        key = id.encode("latin-1")
        self._known[key] = HandshakeSession(id)
        return lambda: self.forget_session(key)

    def knows_session(self, id: str) -> bool:
        """Whether a session is tracked, or has ended."""
        key = id.encode("latin-1")
        return key in self._known or key in self._ended

    def get(self, key: bytes | None) -> HandshakeSession | None:
        """The session of a request; None when it is not known (yet)."""
        return None if key is None else self._known.get(key)

    def forget_session(self, key: bytes | None) -> None:
        """End the session and its calls."""
        if key is None:
            return
        self._ended.append(key)
        if (session := self._known.pop(key, None)) is not None:
            for call in tuple(session.calls.values()):
                call.end_call("session")


class HttpFastPath:
    """`/mcp`: answers plain valid messages, and passes all others to the SDK's application."""

    def __init__(self, fast_path: FastPath, sessions: HandshakeSessions, sdk: ASGIApp) -> None:
        self._fast_path = fast_path
        self._sessions = sessions
        self._sdk = sdk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        raw: Headers = scope["headers"]
        headers = dict(raw)
        if scope["method"] != "POST":
            if scope["method"] == "DELETE":  # from here on its id is invalid, also while the SDK ends it
                self._sessions.forget_session(_find_session_id(raw))
            await self._sdk(scope, receive, send)
            return
        body = receive.body if isinstance(receive, BufferedBody) else b""
        if (
            len(headers) == len(raw)
            and _takes_both(headers.get(b"accept", b""))
            and headers.get(b"content-type") == b"application/json"
        ):
            version = headers.get(b"mcp-protocol-version")
            try:
                if version == _MODERN:
                    if await self._answer_modern(read_modern(body), headers, receive, send):
                        return
                elif (
                    version in _HANDSHAKE
                    and (session := self._sessions.get(headers.get(b"mcp-session-id")))
                    and await self._answer_handshake(read_handshake(body), session, send)
                ):
                    return
            except NoMessage:
                pass  # not for the fast path
        response = send if isinstance(send, TrackedResponse) else TrackedResponse(send)
        await self._sdk(scope, receive, response)
        if 0 < response.status < _REFUSED:
            self._after_sdk(raw, body)

    async def _answer_modern(
        self, message: ModernMessage, headers: Mapping[bytes, bytes], receive: Receive, send: Send
    ) -> bool:
        """Answer a request; False if it must go to the SDK. A client that disconnects cancels its call."""
        match message:
            case ModernCallTool(id=id, params=params) if (
                headers.get(b"mcp-method") == b"tools/call"
                and headers.get(b"mcp-name") == params.name.encode()
                and self._fast_path.is_plain(params.name)
            ):
                call = self._fast_path.call(id, params.name, params.arguments, params.meta.call_id, modern=True)
                said: Any = start_coroutine(call)  # most calls finish in one step and need no watcher
                if type(said) is not SuspendedCoroutine:
                    if said is not None:
                        await _send_answer(send, _JSON, said)
                    return said is not None
                with DisconnectWatch(receive), KeepAlive(send) as alive:
                    said = await said.resume()
                    if said is None:
                        return False
                    if await alive.stop():
                        await _send_last(send, render_event(said))
                    else:
                        await _send_answer(send, _JSON, said)
                return True  # also when the client has disconnected
            case ModernListTools(id=id, params=params) if headers.get(b"mcp-method") == b"tools/list":
                page = self._fast_path.tools_page(params.cursor, modern=True)
                if page is not None:
                    await _send_answer(send, _JSON, render_answer(id, page))
                return page is not None
            case _:
                return False

    async def _answer_handshake(self, message: HandshakeMessage, session: HandshakeSession, send: Send) -> bool:
        """Answer a request; False if it must go to the SDK."""
        if message.params.meta.version is not UNSET or time.monotonic() - session.seen_by_sdk_at > LET_THROUGH:
            return False
        match message:
            case CallToolMessage(id=id, params=params) if (
                self._fast_path.is_plain(params.name) and str(id) not in session.calls
            ):
                call = self._fast_path.call(id, params.name, params.arguments, params.meta.call_id, modern=False)
                said: Any = start_coroutine(call)
                if type(said) is SuspendedCoroutine:
                    return await self._finish_call(id, session, said.resume(), send)
                if said is not None:
                    await _send_answer(send, session.headers, render_event(said))
                return said is not None
            case ListTools(id=id, params=params):
                page = self._fast_path.tools_page(params.cursor, modern=False)
                if page is not None:
                    await _send_answer(send, session.headers, render_event(render_answer(id, page)))
                return page is not None
            case _:
                return False

    async def _finish_call(
        self, id: MessageId, session: HandshakeSession, work: Awaitable[bytes | None], send: Send
    ) -> bool:
        """Run one call of a session; a message of its client or the end of the session cancels it."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        key = str(id)
        call = session.calls[key] = SessionCall(task)
        with KeepAlive(send, session.headers) as alive:
            said: bytes | None = None
            try:
                said = await work
            except asyncio.CancelledError:
                if not call.ended or task.uncancel():
                    raise
            else:
                if call.ended:  # cancelled, but the tool still answered: no client waits for it
                    task.uncancel()
            finally:
                del session.calls[key]
            if call.ended:
                said = render_refusal(id, _CANCELLED, "Request cancelled") if call.ended == "cancelled" else b""
            if said is None:
                return False
            frame = render_event(said) if said else b""
            if await alive.stop():
                await _send_last(send, frame)
            else:
                await _send_answer(send, session.headers, frame)
        return True

    def _after_sdk(self, headers: Headers, body: bytes) -> None:
        """Note that the SDK accepted a request of a session: it is not idle, and one of our calls may be cancelled."""
        session = self._sessions.get(_find_session_id(headers))
        if session is None:
            return
        session.seen_by_sdk_at = time.monotonic()
        if session.calls and (asked := cancelled_id(body)) is not None and (call := session.calls.get(str(asked))):
            call.end_call("cancelled")


async def _send_answer(send: Send, headers: Headers, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _send_last(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _find_session_id(headers: Headers) -> bytes | None:
    """The session that a request belongs to; None in the modern protocol version, which has no sessions."""
    if _read_header(headers, b"mcp-protocol-version") not in _HANDSHAKE:
        return None
    return _read_header(headers, b"mcp-session-id")


def _read_header(headers: Headers, name: bytes) -> bytes | None:
    """The first header of this name, without surrounding whitespace, as the SDK reads it."""
    return next((value.strip(b" \t") for key, value in headers if key == name), None)


@lru_cache(256)
def _takes_both(accept: bytes) -> bool:
    """Whether a client accepts JSON and event streams, as it must."""
    kinds = {kind.split(b";")[0].strip().lower() for kind in accept.split(b",")}
    return {b"application/json", b"text/event-stream"} <= kinds
