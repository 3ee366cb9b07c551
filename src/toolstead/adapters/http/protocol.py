"""The HTTP connection, with the limits that uvicorn's protocol lacks.

uvicorn reads heads of any length and any number of requests ahead, waits without limit for a request or for a client
that does not read, and answers malformed HTTP with plain text, before the requests that came ahead of it. Here heads
and queued requests are bounded, requests and reads have timeouts, and every refusal is a problem document in its turn.
uvicorn also writes head and body of a response separately; here they are one write.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from toolstead.adapters.http.asgi import HttpResponse
from toolstead.adapters.http.body import LINGER
from toolstead.adapters.http.problem import BAD_HTTP, HEAD_TOO_LARGE, TOO_SLOW, problem_response

logger = logging.getLogger(__name__)

LARGEST_HEAD = 65_536
"""Bytes of the URL and the header lines."""
MOST_QUEUED = 100
"""Requests of a connection that may wait for the answer to an earlier one, before no more are parsed."""
ARRIVAL = 60.0
"""Seconds from the first byte of a request to its last."""

_END_OF_AUTHORITY = re.compile(rb"[/?#]")
_HAS_BODY = (b"content-length", b"transfer-encoding")
_SLICE = 16_384
"""Bytes that are parsed before the length of the queue is checked."""
_COPIED = 65_536
"""Up to this many bytes, copying is cheaper than a second write."""


class CoalescingTransport:
    """A transport that merges the writes of one event loop iteration.

    Saves a system call for each response, and the client wakes up once. A lone write, such as the head
    of a stream, is sent in the next iteration.

    Attributes:
        written: Bytes that were written so far.
    """

    __slots__ = ("_call_soon", "_flushing", "_held", "_transport", "is_closing", "written")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.is_closing = transport.is_closing
        self.written = 0
        self._transport = transport
        self._call_soon = loop.call_soon
        self._held = b""
        self._flushing: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        """Send data, together with the data just before it."""
        if self._flushing is None:
            self._held = data
            self._flushing = self._call_soon(self.flush)
            return
        self._flushing.cancel()
        if len(data) > _COPIED:
            self.flush()
            self.written += len(data)
            self._transport.write(data)
        else:
            self._held += data
            self.flush()

    def flush(self) -> None:
        """Send the buffered data."""
        held, self._held, self._flushing = self._held, b"", None
        if held and not self.is_closing():
            self.written += len(held)
            self._transport.write(held)

    def count_unsent(self) -> int:
        """Bytes that the client has not read yet."""
        return self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Send the buffered data, then close."""
        if self._flushing is not None:
            self._flushing.cancel()
            self.flush()
        self._transport.close()

    def write_eof(self) -> None:
        """Send the buffered data, and nothing after it; what the client sends still arrives."""
        if self._flushing is not None:
            self._flushing.cancel()
            self.flush()
        self._transport.write_eof()

    def abort(self) -> None:
        """Close now; the buffered data is lost."""
        self._transport.abort()


class RefusedHeadError(Exception):
    """The head of a request is refused, with this response; raised in the parser, which stops there."""

    def __init__(self, answer: HttpResponse) -> None:
        super().__init__(answer.status)
        self.answer = answer


class HeldFlow(FlowControl):
    """uvicorn's flow control, except that it reads no further while the protocol holds bytes that are not parsed.

    Attributes:
        is_held: Whether the protocol holds bytes.
    """

    is_held = False

    def resume_reading(self) -> None:
        """Resume, unless bytes are held. uvicorn calls this whenever a request is received, however many wait."""
        if not self.is_held:
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """One connection. It answers its requests in order: those that are queued, and at last a refusal.

    Attributes:
        waiting_since: When the incomplete request began; None if there is none.
    """

    waiting_since: float | None = None
    _taken = 0
    # What was read and not parsed, because the queue is full; the response that ends the connection in its turn; and
    # the request that is being answered.
    _held = b""
    _refusal = b""
    _answering: RequestResponseCycle | None = None
    # Of the slice that is being parsed: its bytes, and whether a head or a request ended in it.
    _slice = 0
    _has_advanced = False
    # Of the request that is arriving: whether its head is complete; the bytes of all slices that may have a part of
    # its head; and the bytes of those that have nothing else.
    _in_body = False
    _head_at_most = 0
    _head_at_least = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timeout: it also covers a client that connects and sends nothing."""
        super().connection_made(transport)
        self.flow = self._held_flow = HeldFlow(transport)
        self._coalescing = CoalescingTransport(transport, self.loop)
        self.transport = cast("asyncio.Transport", self._coalescing)
        self.waiting_since = self._taken_at = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the disconnect to the request that is being answered; uvicorn reports it to the last one only."""
        super().connection_lost(exc)
        self._held = b""
        answering = self._answering
        if answering is not None and not answering.response_complete:
            answering.disconnected = True
            answering.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Parse; what the queue has no room for is held as bytes."""
        if self._held or len(data) > _SLICE:
            self._held += data
            self._parse_held()
        elif not self._refusal:
            self._parse_slice(data)

    def on_headers_complete(self) -> None:
        """Check the size of the head; one that came in few bytes needs no count."""
        if self._head_at_most > LARGEST_HEAD and self._count_head() > LARGEST_HEAD:
            raise RefusedHeadError(_refuse_size())
        parser = cast("httptools.HttpRequestParser", self.parser)
        if parser.should_upgrade() and any(name in _HAS_BODY for name, _ in self.headers):
            # The parser takes the body for the other protocol: the request would arrive without it.
            detail = "A request with a body cannot ask for another protocol here; send it without the header Upgrade."
            raise RefusedHeadError(problem_response(BAD_HTTP, detail))
        if not self.url.startswith(b"/"):
            self._take_host_of_target()
        super().on_headers_complete()
        self._has_advanced = self._in_body = True
        self._head_at_most = self._slice

    def on_message_complete(self) -> None:
        """Stop the timeout: the request has arrived."""
        super().on_message_complete()
        self._has_advanced, self._in_body = True, False
        self.waiting_since = None

    def on_response_complete(self) -> None:
        """Begin the next request, and parse on if the queue has room; at the end of the queue comes the refusal."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._held:
            self._parse_held()
            if not self.pipeline:
                self.flow.resume_reading()
        if self._refusal and not self._has_unanswered():
            self._send_refusal()

    def close_if_late(self, now: float) -> None:
        """End the connection when its request takes too long to arrive."""
        if self.waiting_since is None or self.transport.is_closing():
            return
        if self._has_unanswered():
            self.waiting_since = now  # the client may be waiting for the answer, too
        elif now - self.waiting_since >= ARRIVAL:
            if self._in_body:
                self.transport.close()  # readers of the body see a disconnect
            else:
                detail = f"The request did not arrive completely within {ARRIVAL:.0f} seconds."
                self._refuse_request(problem_response(TOO_SLOW, detail))

    def break_off_if_stalled(self, now: float, patience: float) -> None:
        """End the connection when its client has read nothing for `patience` seconds.

        Closing would wait for the client to read the rest, so it is aborted.
        """
        waiting = self._coalescing.count_unsent()
        taken = self._coalescing.written - waiting
        if not waiting or taken != self._taken:
            self._taken, self._taken_at = taken, now
        elif now - self._taken_at >= patience:
            logger.warning(
                "a client read nothing for %.0f seconds, so its connection was closed: %s bytes were unsent",
                now - self._taken_at,
                waiting,
            )
            self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _parse_held(self) -> None:
        """Parse what is held, until the queue is full."""
        data, start = self._held, 0
        while start < len(data) and len(self.pipeline) < MOST_QUEUED and not self._refusal:
            self._parse_slice(data[start : start + _SLICE])
            start += _SLICE
        self._held = b"" if self._refusal else data[start:]
        self._held_flow.is_held = bool(self._held)
        if self._held:
            self.flow.pause_reading()

    def _parse_slice(self, data: bytes) -> None:
        """Parse bytes, then check how much of the last request has arrived."""
        self._slice = len(data)
        self._head_at_most += self._slice
        self._has_advanced = False
        self._feed_parser(data)
        in_head = not self.scope or "path" not in self.scope
        if self._has_advanced:
            self._head_at_least = 0
        elif not self._in_body:
            in_head = True  # also blank lines, which may come before a head
            self._head_at_least += self._slice
        if (in_head or self._in_body) and self.waiting_since is None:
            self.waiting_since = self.loop.time()
        if self._head_at_least > LARGEST_HEAD:
            self._refuse_request(_refuse_size())

    def _feed_parser(self, data: bytes) -> None:
        """Parse bytes, as uvicorn does, but go on after a request for another protocol: there is none but HTTP here."""
        self._unset_keepalive_if_required()
        parser = cast("httptools.HttpRequestParser", self.parser)
        while data:
            try:
                parser.feed_data(data)
            except httptools.HttpParserUpgrade as request:
                data = data[request.args[0] :]
            except httptools.HttpParserError as error:
                cause = error.__context__
                detail = "Invalid HTTP request: methods, header names and lengths must follow RFC 9112."
                is_ours = isinstance(cause, RefusedHeadError)
                self._refuse_request(cause.answer if is_ours else problem_response(BAD_HTTP, detail))
                return
            else:
                return

    def _take_host_of_target(self) -> None:
        """Let the host of a target that is a whole URL replace that of the header, as RFC 9112 (3.2.2) says."""
        _, found, rest = self.url.partition(b"://")
        if found:
            host = _END_OF_AUTHORITY.split(rest, maxsplit=1)[0]
            self.headers[:] = [(name, host if name == b"host" else value) for name, value in self.headers]

    def _count_head(self) -> int:
        """The bytes of a complete head, however it was cut into reads; optional whitespace does not count."""
        return len(self.url) + sum(len(name) + len(value) + 3 for name, value in self.headers)

    def _has_unanswered(self) -> bool:
        """Whether a whole request is being answered."""
        answering = self._answering
        return answering is not None and not answering.response_complete and not answering.more_body

    def _refuse_request(self, answer: HttpResponse) -> None:
        """End the connection with this response, after those to earlier requests. What follows is discarded."""
        if self._refusal or self.transport.is_closing():
            return
        lines = [STATUS_LINE[answer.status]]
        headers = (*answer.headers, (b"content-length", b"%d" % len(answer.body)), (b"connection", b"close"))
        lines.extend(name + b": " + value + b"\r\n" for name, value in headers)
        self._refusal = b"".join((*lines, b"\r\n", answer.body))
        self.waiting_since = None
        if not self._has_unanswered():
            self._send_refusal()

    def _send_refusal(self) -> None:
        """End the connection, but not at once: that would reset it under a client that still sends.

        A response that has begun, to a body that is malformed, can only be broken off.
        """
        answering = self._answering
        if answering is not None and not answering.response_complete:
            answering.disconnected = True
            answering.message_event.set()
            if answering.response_started:
                self.transport.close()
                return
        self.transport.write(self._refusal)
        self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.close)


def _refuse_size() -> HttpResponse:
    detail = f"The request line and the headers have more than {LARGEST_HEAD:,} bytes; no more are allowed."
    return problem_response(HEAD_TOO_LARGE, detail)
