"""Server-sent events on their own: the frame of an event, and a stream that comes too late."""

from __future__ import annotations

import asyncio
from typing import Any

from toolstead.adapters.http.stopping import Stopping
from toolstead.adapters.rest.sse import EventStreamAnswer, render_frame
from toolstead.types.event import Event


class Never:
    """Events that never come."""

    closed = False
    missed = 0

    async def __anext__(self) -> Event:
        await asyncio.Event().wait()
        raise StopAsyncIteration

    def finish(self) -> None:
        raise AssertionError("nobody asks for that")

    def close(self) -> None:
        self.closed = True


def test_a_frame_is_three_lines_whatever_is_in_the_event() -> None:
    event = Event(id="1", type="odd\nkind\r", time=1.5, data={"text": "a\nb\r\u2028\ud800"}, run_id="r")
    lines = render_frame(event).decode().split("\n")
    assert lines[:2] == ["event: odd kind ", "id: 1"]
    assert lines[2].startswith('data: {"id":"1"') or lines[2].startswith('data: {"id": "1"')
    assert lines[3:] == ["", ""]


def test_an_event_that_was_not_stored_has_no_id_line() -> None:
    assert b"\nid:" not in render_frame(Event(id="", type="tool_use", time=1.5, data={}))


async def test_a_stream_that_begins_when_the_end_has_begun_ends_at_once() -> None:
    stopping, events, sent = Stopping(), Never(), list[Any]()
    stopping.begin_stop()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(5):
        await EventStreamAnswer(events, receive=receive, stopping=stopping).send(send)
    assert sent[0]["status"] == 200
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert events.closed
