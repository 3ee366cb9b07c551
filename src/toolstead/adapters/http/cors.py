"""CORS headers for the web pages that the settings allow."""

from __future__ import annotations

from collections.abc import Mapping

from toolstead.adapters.http.asgi import Headers, HttpResponse

_VARY = (b"vary", b"Origin")
_METHODS = (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE")
_READABLE = (b"access-control-expose-headers", b"Mcp-Session-Id, Retry-After, WWW-Authenticate")
_AGE = (b"access-control-max-age", b"600")


def answer_preflight(headers: Mapping[bytes, bytes]) -> HttpResponse:
    """Answer a preflight request: allow the page, with the headers it requested.

    Cookies are not allowed: a page of another origin sends the token in `Authorization`.
    """
    wanted = headers.get(b"access-control-request-headers", b"")
    allowed = ((b"access-control-allow-headers", wanted),) if wanted else ()
    return HttpResponse(204, b"", (_METHODS, *allowed, _AGE))


def allow_page(origin: bytes) -> Headers:
    """The headers that let a page of another origin read an answer."""
    return ((b"access-control-allow-origin", origin), _READABLE, _VARY)
