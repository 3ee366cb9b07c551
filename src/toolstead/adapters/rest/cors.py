"""Cross-origin answers for the pages that the settings allow: what a browser needs to let them read."""

from __future__ import annotations

from collections.abc import Mapping

from toolstead.adapters.rest.asgi import Answer, Message, Send

_VARY = (b"vary", b"Origin")
_METHODS = (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE")
_READABLE = (b"access-control-expose-headers", b"Mcp-Session-Id, Retry-After, WWW-Authenticate")
_AGE = (b"access-control-max-age", b"600")


def preflight(headers: Mapping[bytes, bytes]) -> Answer:
    """Tell a browser that the page it asks for may call, with the headers it wants to send.

    Cookies are not included: a page of another origin shows the token in `Authorization`.
    """
    wanted = headers.get(b"access-control-request-headers", b"")
    allowed = ((b"access-control-allow-headers", wanted),) if wanted else ()
    return Answer(204, b"", (_METHODS, *allowed, _AGE))


def allow_page(origin: bytes, send: Send) -> Send:
    """Let a page of another origin read the answer."""

    async def send_to_page(message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = ((b"access-control-allow-origin", origin), _READABLE, _VARY)
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return send_to_page
