"""Cross-origin answers for the pages that the settings allow: what a browser needs to let them read."""

from __future__ import annotations

from collections.abc import Mapping

from toolstead.adapters.http.asgi import Headers, HttpResponse

_VARY = (b"vary", b"Origin")
_METHODS = (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE")
_READABLE = (b"access-control-expose-headers", b"Mcp-Session-Id, Retry-After, WWW-Authenticate")
_AGE = (b"access-control-max-age", b"600")


def answer_preflight(headers: Mapping[bytes, bytes]) -> HttpResponse:
    """Tell a browser that the page it asks for may call, with the headers it wants to send.

    Cookies are not included: a page of another origin shows the token in `Authorization`.
    """
    wanted = headers.get(b"access-control-request-headers", b"")
    allowed = ((b"access-control-allow-headers", wanted),) if wanted else ()
    return HttpResponse(204, b"", (_METHODS, *allowed, _AGE))


def allow_page(origin: bytes) -> Headers:
    """The headers that let a page of another origin read an answer."""
    return ((b"access-control-allow-origin", origin), _READABLE, _VARY)
