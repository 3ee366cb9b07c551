"""Long calls over HTTP: the response becomes an event stream with keep-alive comments.

A proxy closes an idle connection. Most calls finish long before and only pay for a timer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from toolstead.adapters.http.asgi import Headers, HttpResponse, Send

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
