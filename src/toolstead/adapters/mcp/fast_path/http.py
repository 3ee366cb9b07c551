"""The fast path over HTTP: lists and calls of every protocol version, in front of the SDK's application.

The guard before it has checked Host, Origin, token and body, and has read the body. Protocol versions before
2026-07-28 begin with a handshake; the SDK owns their sessions, and the fast path tracks them from their initialization
to their end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Self, cast

from msgspec import UNSET

from toolstead.adapters.http.access import find_holder
from toolstead.adapters.http.asgi import (
    ASGIApp,
    BufferedBody,
    Headers,
    HttpResponse,
    Receive,
    Scope,
    Send,
    TrackedResponse,
)
from toolstead.adapters.http.disconnect import DisconnectWatch
from toolstead.adapters.mcp.fast_path.calls import FastPath, render_answer, render_refusal
from toolstead.adapters.mcp.fast_path.messages import (
    HANDSHAKE_VERSIONS,
    MODERN_VERSION,
    CallToolMessage,
    HandshakeMessage,
    ListPrompts,
    ListResources,
    ListTemplates,
    ListTools,
    MessageId,
    ModernMessage,
    NoMessage,
    cancelled_id,
    read_handshake,
    read_modern,
)
from toolstead.adapters.mcp.handshake_sessions import STREAM, HandshakeSession, HandshakeSessions, SessionCall
from toolstead.concurrency.suspended_coroutine import SuspendedCoroutine, start_coroutine

PING: Final = 15.0
"""Seconds of silence, the same as in the SDK."""
_CANCELLED = -32800
_REFUSED = 400
"""From this status on, the SDK has refused the request."""
_MODERN: Final = MODERN_VERSION.encode()
_HANDSHAKE: Final = frozenset({None, *(version.encode() for version in HANDSHAKE_VERSIONS)})


def _render_event(message: bytes) -> bytes:
    """A message as an event of a stream."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


class KeepAlive:
    """While open, sends a keep-alive after every interval of silence: a proxy closes an idle connection.

    Most calls finish long before and only pay for a timer.
    """

    __slots__ = ("_headers", "_is_over", "_send", "_sending", "_timer")

    def __init__(self, send: Send, headers: Headers = STREAM) -> None:
        self._send = send
        self._headers = headers
        self._is_over = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PING, self._begin_stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    async def end_with(self, answer: HttpResponse, frame: bytes) -> None:
        """Stop the keep-alives and answer; if the response has started as a stream, it ends with the frame.

        The stream task is notified, not cancelled: a call that ends during the first keep-alive would see no stream.
        """
        self._timer.cancel()
        if self._sending is None:
            await answer.send(self._send)
            return
        self._is_over.set()
        await self._sending
        await self._send({"type": "http.response.body", "body": frame, "more_body": False})

    def _begin_stream(self) -> None:
        self._sending = asyncio.get_running_loop().create_task(self._send_beats(), name="toolstead-mcp-keep-alive")

    async def _send_beats(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": list(self._headers)})
        while not self._is_over.is_set():
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(PING):
                    await self._is_over.wait()


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
                    and (session := self._sessions.find_session(headers.get(b"mcp-session-id")))
                    and session.is_initialized
                    and session.holder == find_holder(scope)
                ):
                    with session:
                        if await self._answer_handshake(read_handshake(body), session, send):
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
            case CallToolMessage(params=params) if (
                headers.get(b"mcp-method") == b"tools/call"
                and headers.get(b"mcp-name") == params.name.encode()
                and self._fast_path.is_plain(params.name)
                and not self._fast_path.asks_client(params.meta.elicitation)
            ):
                # Most calls finish in one step and need no watcher.
                answer: Any = start_coroutine(self._fast_path.call(message, modern=True))
                if type(answer) is SuspendedCoroutine:
                    with DisconnectWatch(receive), KeepAlive(send) as alive:
                        answer = await answer.resume()
                        if answer is not None:
                            await alive.end_with(HttpResponse(200, answer), _render_event(answer))
                        return answer is not None
                    return True  # the client has disconnected
            case ListTools(id=id, params=params) if headers.get(b"mcp-method") == b"tools/list":
                page = self._fast_path.render_page(params.cursor, params.meta.client_name, modern=True)
                answer = None if page is None else render_answer(id, page)
            case ListPrompts() | ListResources() | ListTemplates() if (
                headers.get(b"mcp-method") == str(message.__struct_config__.tag).encode()
            ):
                answer = await self._fast_path.list_parts(message, modern=True)
            case _:
                return False
        if answer is not None:
            await HttpResponse(200, answer).send(send)
        return answer is not None

    async def _answer_handshake(self, message: HandshakeMessage, session: HandshakeSession, send: Send) -> bool:
        """Answer a request; False if it must go to the SDK."""
        if message.params.meta.version is not UNSET:
            return False
        match message:
            case CallToolMessage(id=id, params=params) if (
                self._fast_path.is_plain(params.name)
                and str(id) not in session.calls
                and not self._fast_path.asks_client(session.elicitation)
            ):
                answer: Any = start_coroutine(self._fast_path.call(message, modern=False, client=session.client))
                if type(answer) is SuspendedCoroutine:
                    return await self._finish_call(id, session, answer.resume(), send)
            case ListTools(id=id, params=params):
                page = self._fast_path.render_page(params.cursor, session.client, modern=False)
                answer = None if page is None else render_answer(id, page)
            case ListPrompts() | ListResources() | ListTemplates():
                answer = await self._fast_path.list_parts(message, modern=False)
            case _:
                return False
        if answer is not None:
            await HttpResponse(200, _render_event(answer), session.headers).send(send)
        return answer is not None

    async def _finish_call(
        self, id: MessageId, session: HandshakeSession, work: Awaitable[bytes | None], send: Send
    ) -> bool:
        """Run one call of a session; a message of its client or the end of the session cancels it."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        key = str(id)
        call = session.calls[key] = SessionCall(task)
        with KeepAlive(send, session.headers) as alive:
            answer: bytes | None = None
            try:
                answer = await work
            except asyncio.CancelledError:
                if not call.ended or task.uncancel():
                    raise
            else:
                if call.ended:  # cancelled, but the tool still answered: no client waits for it
                    task.uncancel()
            finally:
                del session.calls[key]
            if call.ended:
                answer = render_refusal(id, _CANCELLED, "Request cancelled") if call.ended == "cancelled" else b""
            if answer is None:
                return False
            frame = _render_event(answer) if answer else b""
            await alive.end_with(HttpResponse(200, frame, session.headers), frame)
        return True

    def _after_sdk(self, headers: Headers, body: bytes) -> None:
        """Cancel the call that a message to the SDK, which accepted it, asks to cancel."""
        session = self._sessions.find_session(find_session_id(headers))
        if session is None or not session.calls:
            return
        if (asked := cancelled_id(body)) is not None and (call := session.calls.get(str(asked))):
            call.end_call("cancelled")


def is_handshake(headers: Headers) -> bool:
    """Whether a request is of a handshake version; none is named before the handshake."""
    return _read_header(headers, b"mcp-protocol-version") in _HANDSHAKE


def find_session_id(headers: Headers) -> bytes | None:
    """The session that a request belongs to; None in the modern protocol version, which has no sessions."""
    return _read_header(headers, b"mcp-session-id") if is_handshake(headers) else None


def _read_header(headers: Headers, name: bytes) -> bytes | None:
    """The first header of this name, without surrounding whitespace, as the SDK reads it."""
    return next((value.strip(b" \t") for key, value in headers if key == name), None)


@lru_cache(256)
def _takes_both(accept: bytes) -> bool:
    """Whether a client accepts JSON and event streams, as it must."""
    kinds = {kind.split(b";")[0].strip().lower() for kind in accept.split(b",")}
    return {b"application/json", b"text/event-stream"} <= kinds
