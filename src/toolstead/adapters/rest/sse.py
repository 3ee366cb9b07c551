"""Server-sent events: stored events as a stream that ends when its subject, its reader or the server does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from toolstead.adapters.http.asgi import Receive, Send, encode_json
from toolstead.adapters.http.disconnect import DisconnectWatch
from toolstead.adapters.http.stopping import Stopping
from toolstead.errors import StorageError
from toolstead.orchestrator.feed import EventReader
from toolstead.types.event import Event

logger = logging.getLogger(__name__)

HEARTBEAT = 15.0
"""Seconds of silence after which a client gets a heartbeat."""
HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # proxies that would collect what should flow
)
_HELLO = b"retry: 1000\n\n"
_BEAT = b": still here\n\n"
_BROKEN = b": the database does not answer; come back with the last id\n\n"


class EventStreamHead:
    """The answer to `HEAD`: what a stream would begin with, and no stream."""

    async def send(self, send: Send) -> None:
        """Write it out."""
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStreamAnswer:
    """A stream of events, as an answer."""

    def __init__(
        self,
        events: EventReader,
        *,
        receive: Receive,
        stopping: Stopping,
        shown: frozenset[str] | None = None,
        last: frozenset[str] = frozenset(),
        has_ended: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Make a stream.

        Args:
            events: What it sends.
            receive: Reports when the client has disconnected.
            stopping: Reports when the server ends.
            shown: The types that are sent; None for all.
            last: The types after which it ends.
            has_ended: Asked in silence, so that the stream of something that is gone ends.
        """
        self._events = events
        self._receive = receive
        self._stopping = stopping
        self._shown = shown
        self._last = last
        self._missed = 0
        self._has_ended = has_ended

    async def send(self, send: Send) -> None:
        """Send events until an end comes."""
        self._stopping.enter_request(cast("asyncio.Task[None]", asyncio.current_task()), stream=True)
        try:
            with DisconnectWatch(self._receive) as watch:
                await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
                await send({"type": "http.response.body", "body": _HELLO, "more_body": True})
                if not self._stopping.begun:
                    await self._send_events(send)
        finally:
            self._events.close()
        if not watch.gone:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(self, send: Send) -> None:
        try:
            while True:
                event = None  # stays None when it is time for a heartbeat
                with suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT):
                        event = await self._events.__anext__()
                if self._events.missed > self._missed:
                    count, self._missed = self._events.missed - self._missed, self._events.missed
                    note = f": {count} events that are not stored were missed\n\n".encode()
                    await send({"type": "http.response.body", "body": note, "more_body": True})
                if event is None:
                    if self._has_ended is not None and await self._has_ended():
                        self._has_ended = None
                        self._events.finish()
                    await send({"type": "http.response.body", "body": _BEAT, "more_body": True})
                    continue
                if self._shown is None or event.type in self._shown:
                    await send({"type": "http.response.body", "body": render_frame(event), "more_body": True})
                if event.type in self._last:
                    return
        except StopAsyncIteration:
            return
        except StorageError as error:
            logger.log(error.log_level, "a stream of events ends early: %s", error)
            await send({"type": "http.response.body", "body": _BROKEN, "more_body": True})


def render_frame(event: Event) -> bytes:
    """An event as the wire has it; one that was not stored has no id to come back with."""
    kind = event.type.replace("\r", " ").replace("\n", " ")
    numbered = f"id: {event.id}\n" if event.id else ""
    return f"event: {kind}\n{numbered}data: ".encode("utf-8", "replace") + encode_json(event.to_json()) + b"\n\n"
