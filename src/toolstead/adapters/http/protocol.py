"""Bytes on a connection, bounded: what uvicorn's protocol leaves open is closed here.

Its parser reads heads of any length, its connections wait for a request for ever, and for a client that
does not read, and it answers malformed HTTP with plain text. Here a head has a size, a request has a
time to arrive, an answer must be taken, and every refusal is a problem document. It also writes an
answer's head and body apart; here they go together.
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
"""Bytes that are cheaper to copy than to send apart."""


class CoalescingTransport:
    """A transport that sends in one write what is written in one breath.

    A system call less for each answer, and a client that wakes up once. What stands alone, such as
    the head of a stream, goes out when the event loop comes round.

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
        """Send it, together with what came just before it."""
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
        """Send what is held back."""
        held, self._held, self._flushing = self._held, b"", None
        if held and not self.is_closing():
            self.written += len(held)
            self._transport.write(held)

    def count_unsent(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Send what is held back, then close."""
        if self._flushing is not None:
            self._flushing.cancel()
            self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close now; what is held back is lost."""
        self._transport.abort()


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    Attributes:
        waiting_since: When the request that has not arrived whole began; None when none is under way.
    """

    waiting_since: float | None = None
    _head = 0
    _taken = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count from here: a client that connects and says nothing is late, too."""
        super().connection_made(transport)
        self._coalescing = CoalescingTransport(transport, self.loop)
        self.transport = cast("asyncio.Transport", self._coalescing)
        self.waiting_since = self._taken_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Parse, then look how far the request has come."""
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
            detail = (
                f"The request line and the headers have more than {LARGEST_HEAD:,} bytes, which is the most allowed."
            )
            self._refuse_request(problem_response(HEAD_TOO_LARGE, detail))

    def close_if_late(self, now: float) -> None:
        """End the connection when its request takes too long to arrive."""
        if self.waiting_since is None or now - self.waiting_since < ARRIVAL or self.transport.is_closing():
            return
        if self.scope and "path" in self.scope:
            self.transport.close()  # for those who read the body the client has gone
        else:
            self._refuse_request(problem_response(TOO_SLOW, f"No whole request arrived within {ARRIVAL:.0f} seconds."))

    def break_off_if_stalled(self, now: float, patience: float) -> None:
        """End the connection when its client has taken nothing for so long of what waits for it.

        Closing would wait for the client to take the rest, so it is broken off.
        """
        waiting = self._coalescing.count_unsent()
        taken = self._coalescing.written - waiting
        if not waiting or taken != self._taken:
            self._taken, self._taken_at = taken, now
        elif now - self._taken_at >= patience:
            logger.warning(
                "a client took nothing for %.0f seconds, so its connection was broken off: %s bytes were left",
                now - self._taken_at,
                waiting,
            )
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse_request(
            problem_response(BAD_HTTP, f"{msg} Methods, header names and lengths must be as RFC 9112 says.")
        )

    def _refuse_request(self, answer: HttpResponse) -> None:
        """End the connection with an answer from here, unless an earlier request would take it for its own."""
        cycle = self.cycle
        if not cycle or cycle.response_complete or (cycle.more_body and not cycle.response_started):
            lines = [STATUS_LINE[answer.status]]
            headers = (*answer.headers, (b"content-length", b"%d" % len(answer.body)), (b"connection", b"close"))
            lines.extend(name + b": " + value + b"\r\n" for name, value in headers)
            self.transport.write(b"".join((*lines, b"\r\n", answer.body)))
        self.transport.close()
