"""ASGI types, request, response, and the progress of a response."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

JSON_TYPE = (b"content-type", b"application/json")
_encode = msgspec.json.Encoder().encode


def encode_json(value: Any) -> bytes:
    """A JSON value on one line, with a question mark for what UTF-8 cannot encode.

    Tools and models may return anything, so it accepts any content.
    """
    try:
        return _encode(value)
    except (UnicodeEncodeError, TypeError):
        # Lone surrogates, which UTF-8 cannot encode, and subclasses of JSON's types.
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


class HttpRequest(msgspec.Struct):
    """One request, as a handler sees it.

    Attributes:
        scope: The ASGI scope.
        receive: The client's remaining messages: the body, then its disconnect.
        params: What the route's placeholders matched.
    """

    scope: Scope
    receive: Receive
    params: dict[str, str]

    @property
    def path(self) -> str:
        """The path, decoded."""
        return self.scope["path"]

    def find_header(self, name: bytes) -> str | None:
        """A header's value, by its lower-case name; None if it is absent."""
        found = next((value for key, value in self.scope["headers"] if key == name), None)
        return None if found is None else found.decode("latin-1").strip()

    async def read_body(self) -> bytes:
        """The whole body; the guard has limited its size and passes it in one piece."""
        message = await self.receive()
        return message.get("body", b"")


class HttpResponse(msgspec.Struct):
    """One response. A struct, because one is built on every request: that takes 0.1 µs instead of 0.35."""

    status: int = 200
    body: bytes = b""
    headers: Headers = (JSON_TYPE,)

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> HttpResponse:
        """Answer with a JSON value."""
        return cls(status, encode_json(value))

    async def send(self, send: Send, *, last: bool = True) -> None:
        """Write it out; `last=False` leaves the exchange open after the last byte."""
        headers = self.headers
        if self.status not in (204, 304):  # which have no body, so no length either
            headers = (*headers, (b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": not last})


class TrackedResponse:
    """Forwards a response and tracks its progress, so that a failure can still end it properly.

    Attributes:
        status: The answer's status; 0 until it has begun.
        extra_headers: Headers that every answer gets.
    """

    __slots__ = ("_is_complete", "_send", "extra_headers", "status")

    def __init__(self, send: Send) -> None:
        self.status = 0
        self.extra_headers: Headers = ()
        self._send = send
        self._is_complete = False

    def __call__(self, message: Message) -> Awaitable[None]:
        """Send one message; this is an ASGI `send`."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.extra_headers:
                message = {**message, "headers": [*message.get("headers", ()), *self.extra_headers]}
        elif not message.get("more_body", False):
            self._is_complete = True
        return self._send(message)

    async def end_response(self, answer: HttpResponse) -> None:
        """Send this response if none has begun; end a stream that has."""
        if not self.status:
            await answer.send(self._send)
        elif not self._is_complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class BufferedBody:
    """A body that was read whole: returns it as one message, then the client's next messages.

    Attributes:
        body: The body, for direct access.
    """

    __slots__ = ("_is_given", "_receive", "body")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.body = body
        self._is_given = False
        self._receive = receive

    async def __call__(self) -> Message:
        """The next message; this is an ASGI `receive`."""
        if self._is_given:
            return await self._receive()
        self._is_given = True
        return {"type": "http.request", "body": self.body, "more_body": False}


class Sendable(Protocol):
    """What a handler answers with: an `Answer`, or a stream."""

    async def send(self, send: Send) -> None:
        """Write it out."""
        ...


Handler = Callable[[HttpRequest], Awaitable[Sendable | None]]
"""Answers a request; None when the client has disconnected."""
