"""Calls that take long over HTTP: the answer becomes an event stream, which says now and then that it lives.

A proxy closes a connection on which nothing moves. Most calls are done long before and pay for a timer only.

Above: the lane over HTTP. Below: asyncio.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

from toolyard.adapters.rest.asgi import Headers, Send

PING: Final = 15.0
"""Seconds of silence, as the SDK keeps it."""
STREAM: Final[Headers] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


def event(message: bytes) -> bytes:
    """A message as an event of a stream."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


class KeepAlive:
    """While open, a sign of life goes out after every so many seconds of silence.

    Attributes:
        is_streaming: Whether the answer has begun, as a stream; then it can only end as one.
    """

    __slots__ = ("_headers", "_loop", "_send", "_sending", "_timer", "is_streaming")

    def __init__(self, send: Send, headers: Headers = STREAM) -> None:
        self.is_streaming = False
        self._send = send
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._timer = self._loop.call_later(PING, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    async def finish(self, frame: bytes) -> None:
        """End the stream with the answer."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        await self._send({"type": "http.response.body", "body": frame, "more_body": False})

    def _begin(self) -> None:
        self.is_streaming = True
        self._sending = self._loop.create_task(self._stream(), name="toolyard-mcp-keep-alive")

    async def _stream(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": list(self._headers)})
        while True:
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(PING)
