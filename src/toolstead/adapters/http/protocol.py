"""The HTTP connection, with the limits that uvicorn's protocol lacks.

uvicorn reads heads of any length, waits without limit for a request or for a client that does not read, and answers
malformed HTTP with plain text. Here the head has a maximum size, requests and reads have timeouts, and every refusal
is a problem document. uvicorn also writes head and body of a response separately; here they are one write.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from toolstead.adapters.http.asgi import HttpResponse
from toolstead.adapters.http.problem import BAD_HTTP, HEAD_TOO_LARGE, TOO_SLOW, problem_response

logger = logging.getLogger(__name__)

LARGEST_HEAD = 65_536
ARRIVAL = 60.0
"""Seconds from the first byte of a request to its last."""

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

    def abort(self) -> None:
        """Close now; the buffered data is lost."""
        self._transport.abort()


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    Attributes:
        waiting_since: When the incomplete request began; None if there is none.
    """

    waiting_since: float | None = None
    _head = 0
    _taken = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timeout: it also covers a client that connects and sends nothing."""
        super().connection_made(transport)
        self._coalescing = CoalescingTransport(transport, self.loop)
        self.transport = cast("asyncio.Transport", self._coalescing)
        self.waiting_since = self._taken_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Parse, then check how much of the request has arrived."""
        super().data_received(data)
        if self.scope and "path" in self.scope:  # the head is complete
            self._head = 0
            if not self.cycle.more_body:
                self.waiting_since = None
            elif self.waiting_since is None:
                self.waiting_since = self.loop.time()
            return
        if self.waiting_since is None:
            self.waiting_since = self.loop.time()
        self._head += len(data)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            detail = f"The request line and the headers have more than {LARGEST_HEAD:,} bytes; no more are allowed."
            self._refuse_request(problem_response(HEAD_TOO_LARGE, detail))

    def close_if_late(self, now: float) -> None:
        """End the connection when its request takes too long to arrive."""
        if self.waiting_since is None or now - self.waiting_since < ARRIVAL or self.transport.is_closing():
            return
        if self.scope and "path" in self.scope:
            self.transport.close()  # readers of the body see a disconnect
        else:
            self._refuse_request(
                problem_response(TOO_SLOW, f"The request did not arrive completely within {ARRIVAL:.0f} seconds.")
            )

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

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP."""
        self._refuse_request(
            problem_response(BAD_HTTP, f"{msg} Methods, header names and lengths must follow RFC 9112.")
        )

    def _refuse_request(self, answer: HttpResponse) -> None:
        """End the connection with this response, unless it would be read as the response to an earlier request."""
        cycle = self.cycle
        if not cycle or cycle.response_complete or (cycle.more_body and not cycle.response_started):
            lines = [STATUS_LINE[answer.status]]
            headers = (*answer.headers, (b"content-length", b"%d" % len(answer.body)), (b"connection", b"close"))
            lines.extend(name + b": " + value + b"\r\n" for name, value in headers)
            self.transport.write(b"".join((*lines, b"\r\n", answer.body)))
        self.transport.close()
