"""HTTP as this door speaks it: the ASGI types, a request, an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
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


@dataclass(slots=True)
class Request:
    """One request, as a handler sees it.

    Attributes:
        scope: What ASGI knows about it.
        receive: The rest of the client's messages: the body, then the news that it has gone.
        params: What the route's placeholders matched.
    """

    scope: Scope
    receive: Receive
    params: dict[str, str]

    @property
    def path(self) -> str:
        """The path, decoded."""
        return self.scope["path"]

    @property
    def host(self) -> str:
        """The `Host` header, which the guard has checked."""
        return self.header(b"host") or ""

    def header(self, name: bytes) -> str | None:
        """A header's value, by its name in small letters; None when it is not there."""
        found = next((value for key, value in self.scope["headers"] if key == name), None)
        return None if found is None else found.decode("latin-1").strip()

    async def body(self) -> bytes:
        """The whole body; the guard has already bounded it and hands it over in one piece."""
        message = await self.receive()
        return message.get("body", b"")


@dataclass(slots=True)
class Answer:
    """One response. Not frozen: one is built on every request."""

    status: int = 200
    body: bytes = b""
    headers: Headers = (JSON_TYPE,)

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> Answer:
        """Answer with a JSON value."""
        return cls(status, _encode(value))

    async def send(self, send: Send, *, last: bool = True) -> None:
        """Write it out; `last=False` leaves the exchange open after the last byte."""
        headers = list(self.headers)
        if self.status != 204:  # which has no length, not even none
            headers.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": not last})


class Sendable(Protocol):
    """What a handler answers with: an `Answer`, or a stream that goes on."""

    async def send(self, send: Send) -> None:
        """Write it out."""
        ...


Handler = Callable[[Request], Awaitable[Sendable | None]]
"""Answers a request; None when the client has gone and nobody is left to answer."""
