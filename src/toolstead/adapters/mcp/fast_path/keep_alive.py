"""Long calls over HTTP: the response becomes an event stream with keep-alive comments.

A proxy closes an idle connection. Most calls finish long before and only pay for a timer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from toolstead.adapters.http.asgi import Headers, Send

PING: Final = 15.0
"""Seconds of silence, the same as in the SDK."""
STREAM: Final[Headers] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)


def render_event(message: bytes) -> bytes:
    """A message as an event of a stream."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


class KeepAlive:
    """While open, sends a keep-alive after every interval of silence."""

    __slots__ = ("_headers", "_loop", "_over", "_send", "_sending", "_timer")

    def __init__(self, send: Send, headers: Headers = STREAM) -> None:
        self._send = send
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._over: asyncio.Event | None = None

    def __enter__(self) -> Self:
        self._timer = self._loop.call_later(PING, self._begin_stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    async def stop(self) -> bool:
        """Stop the keep-alives. Return whether the response has started as a stream, and so must end as one.

        The stream task is notified, not cancelled: a call that ends during the first keep-alive would see no stream.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is None or self._over is None:
            return False
        self._over.set()
        await self._sending
        return True

    def _begin_stream(self) -> None:
        self._over = asyncio.Event()
        self._sending = self._loop.create_task(self._send_beats(self._over), name="toolstead-mcp-keep-alive")

    async def _send_beats(self, over: asyncio.Event) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": list(self._headers)})
        while not over.is_set():
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(PING):
                    await over.wait()
