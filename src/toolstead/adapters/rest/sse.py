"""Server-sent events: stored events as a stream that ends when its subject, its reader or the server does."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from toolstead.adapters.http.asgi import Receive, Send
from toolstead.adapters.http.disconnect import DisconnectWatch
from toolstead.adapters.http.stopping import Stopping
from toolstead.adapters.rest.result_json import encode_anything
from toolstead.errors import StorageError
from toolstead.orchestrator.store import EventFilter, EventStore
from toolstead.types.event import Event

logger = logging.getLogger(__name__)

HEARTBEAT = 15.0
"""Seconds of silence after which a client is told that the stream is still there."""
HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # proxies that would collect what should flow
)
_HELLO = b"retry: 1000\n\n"
_BEAT = b": still here\n\n"
_BROKEN = b": the database does not answer; come back with the last id\n\n"
_PAGE = 200


class Events(Protocol):
    """Events in order; StopAsyncIteration at the end."""

    async def __anext__(self) -> Event:
        """The next one."""
        ...

    def close(self) -> None:
        """Nobody reads any more."""
        ...


Ended = Callable[[str], Awaitable["Events | None"]]
"""Asked in silence, with the last id that was told: what is left to tell when the subject has ended, else None."""


class StoredEvents:
    """Events that are all stored already, a page at a time."""

    def __init__(self, store: EventStore, wanted: EventFilter, after: str) -> None:
        self._store = store
        self._wanted = wanted
        self._sent = after
        self._page: deque[Event] = deque()

    async def __anext__(self) -> Event:
        """The next one; the end comes when the store has no more."""
        if not self._page:
            self._page.extend(await self._store.list_events(self._wanted, after=self._sent or None, limit=_PAGE))
        if not self._page:
            raise StopAsyncIteration
        event = self._page.popleft()
        self._sent = event.id
        return event

    def close(self) -> None:
        """Nothing is held."""


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
        events: Events,
        *,
        receive: Receive,
        stopping: Stopping,
        shown: frozenset[str] | None = None,
        last: frozenset[str] = frozenset(),
        after: str = "",
        ended: Ended | None = None,
    ) -> None:
        """Make a stream.

        Args:
            events: What it tells.
            receive: Says when the client has gone.
            stopping: Says when the server ends.
            shown: The types that are told; None tells all.
            last: The types after which it ends.
            after: The id after which it begins.
            ended: Asked in silence, so that the stream of something that is gone ends.
        """
        self._events = events
        self._receive = receive
        self._stopping = stopping
        self._shown = shown
        self._last = last
        self._sent = after
        self._ended = ended

    async def send(self, send: Send) -> None:
        """Tell events until an end comes."""
        self._stopping.enter_request(cast("asyncio.Task[None]", asyncio.current_task()), stream=True)
        watch = DisconnectWatch(self._receive)
        try:
            with watch:
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
                event = await self._next_event()
                if event is None:
                    await self._look_for_the_end()
                    await send({"type": "http.response.body", "body": _BEAT, "more_body": True})
                    continue
                self._sent = event.id or self._sent
                if self._shown is None or event.type in self._shown:
                    await send({"type": "http.response.body", "body": render_frame(event), "more_body": True})
                if event.type in self._last:
                    return
        except StopAsyncIteration:
            return
        except StorageError as error:
            logger.warning("a stream of events ends early: %s", error)
            await send({"type": "http.response.body", "body": _BROKEN, "more_body": True})

    async def _look_for_the_end(self) -> None:
        rest = None if self._ended is None else await self._ended(self._sent)
        if rest is not None:
            self._events.close()
            self._events, self._ended = rest, None

    async def _next_event(self) -> Event | None:
        """The next event, or None when it is time to say that the stream is still there."""
        try:
            async with asyncio.timeout(HEARTBEAT):
                return await self._events.__anext__()
        except TimeoutError:
            return None


def render_frame(event: Event) -> bytes:
    """An event as the wire has it; one that was not stored has no id to come back with."""
    kind = event.type.replace("\r", " ").replace("\n", " ")
    numbered = f"id: {event.id}\n" if event.id else ""
    return f"event: {kind}\n{numbered}data: ".encode("utf-8", "replace") + encode_anything(event.to_json()) + b"\n\n"
