"""The guard in front of every route: Host, Origin, token, size and type of the body.

Pure ASGI, so that `/mcp` stands behind the same checks as REST. The order matters: who is not
allowed to ask learns nothing, and no body is read before its sender may send one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from toolstead.adapters.rest.asgi import Answer, ASGIApp, Headers, Message, Receive, Scope, Send
from toolstead.adapters.rest.body import TooLargeError, drain, read_body
from toolstead.adapters.rest.cors import allow_page, preflight
from toolstead.adapters.rest.names import Names
from toolstead.adapters.rest.options import ServerOptions
from toolstead.adapters.rest.problem import (
    BAD_HEADERS,
    BAD_HOST,
    BAD_ORIGIN,
    BAD_TYPE,
    NO_TOKEN,
    STOPPING,
    TOO_LARGE,
    problem,
    readable,
)
from toolstead.adapters.rest.stopping import Stopping
from toolstead.adapters.rest.token import Token, without_token

logger = logging.getLogger(__name__)

CLOSE = (b"connection", b"close")
RETRY_AFTER = (b"retry-after", b"5")
CHALLENGE = (b"www-authenticate", b'Bearer realm="toolstead"')
_ONCE = (b"host", b"origin", b"authorization", b"cookie", b"content-type", b"content-length")
_JSON = re.compile(rb"application/json\s*(?:;\s*charset=\"?utf-?8\"?\s*)?;?", re.IGNORECASE)


class Guard:
    """Lets a request through to the application behind it, or refuses it.

    Raises:
        ServeError: The settings name a host, an origin or a token that could never match.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions, stopping: Stopping) -> None:
        self._app = app
        self._names = Names(options)
        self._token = Token(options.token)
        self._private = Token(options.private_token)
        self._max_body = options.max_body
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then hand it on with its body read."""
        raw: Headers = scope["headers"]
        headers = dict(raw)
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip() != b"0"
        origin = headers.get(b"origin")
        if origin is not None and self._names.is_listed_page(origin):
            send = allow_page(origin, send)
        refusal = self._refuse(scope, raw, headers)
        if refusal is not None:
            await _send_refusal(refusal, receive, send, has_body=has_body)
            return
        if has_body:
            try:
                body = await read_body(receive, headers.get(b"content-length"), self._max_body)
            except TooLargeError as error:
                refusal = problem(
                    TOO_LARGE, str(error), instance=scope["path"], headers=(CLOSE,), maxBody=self._max_body
                )
                await _send_refusal(refusal, receive, send, has_body=True)
                return
            if body is None:
                return
            if body and not _is_json(headers.get(b"content-type")):
                await _wrong_type(scope, headers).send(send)
                return
            receive = _Replay(body, receive)
        await self._app(scope, receive, send)

    def _refuse(self, scope: Scope, raw: Headers, headers: Mapping[bytes, bytes]) -> Answer | None:
        """The refusal of a request by its head, or None when it may pass."""
        path: str = scope["path"]
        if self._stopping.begun:
            detail = "The server is about to stop and takes no new requests; try again in a few seconds."
            return problem(STOPPING, detail, instance=path, headers=(RETRY_AFTER, CLOSE))
        if len(raw) != len(headers) and (twice := _first_repeated(raw)):
            return problem(BAD_HEADERS, f"The header {twice} is there more than once; send it once.", instance=path)
        host = headers.get(b"host")
        if host is None:
            return problem(BAD_HEADERS, "The header Host is missing; it says which server is meant.", instance=path)
        if not self._names.allows_host(host):
            return self._wrong_host(path, host)
        origin = headers.get(b"origin")
        if origin is not None and not self._names.is_own_page(origin, host):
            if not self._names.is_listed_page(origin):
                return self._wrong_origin(path, origin)
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                return preflight(headers)
        if _is_in_address(scope, self._private):
            return _keep_token(scope, self._private, host)
        if self._token.needed and not (self._token.is_shown_by(headers) or self._private.is_shown_by(headers)):
            return self._without_token(scope, host)
        return None

    def _wrong_host(self, path: str, host: bytes) -> Answer:
        shown = readable(host.decode("latin-1"), 100)
        logger.warning("refused a request for the host %r: not a name of this server", shown)
        detail = f"The header Host says {shown!r}. This server answers to loopback names and to the host it is bound to"
        return problem(BAD_HOST, f"{detail}; others are named in `allowed_hosts` under [server].", instance=path)

    def _wrong_origin(self, path: str, origin: bytes) -> Answer:
        shown = readable(origin.decode("latin-1"), 100)
        logger.warning("refused a request of the web page %r: not an allowed origin", shown)
        detail = f"The header Origin says {shown!r}. Only pages of this server may call it"
        return problem(BAD_ORIGIN, f"{detail}; others are named in `allowed_origins` under [server].", instance=path)

    def _without_token(self, scope: Scope, host: bytes) -> Answer:
        if _is_in_address(scope, self._token):
            return _keep_token(scope, self._token, host)
        path: str = scope["path"]
        logger.warning("refused a request for %r: no token, or a wrong one", readable(path, 100))
        detail = "This server wants its token, as `Authorization: Bearer TOKEN`; pages take it once as `?token=TOKEN`."
        return problem(NO_TOKEN, detail, instance=path, headers=(CHALLENGE,))


def _is_in_address(scope: Scope, token: Token) -> bool:
    """Whether a page was opened with this token behind its `?`."""
    path: str = scope["path"]
    is_page = scope["method"] == "GET" and path != "/mcp" and not path.startswith("/api/")
    return is_page and token.is_shown_in(scope["query_string"])


def _keep_token(scope: Scope, token: Token, host: bytes) -> Answer:
    """Lead to the same page without the token in its address, which the browser keeps as a cookie instead."""
    place = without_token(scope["raw_path"], scope["query_string"])
    secret = ((b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer"))
    return Answer(303, b"", ((b"location", place), (b"set-cookie", token.cookie(host)), *secret))


class _Replay:
    """Gives the body that was read as one message, then whatever the client does next."""

    __slots__ = ("_body", "_receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


async def _send_refusal(answer: Answer, receive: Receive, send: Send, *, has_body: bool) -> None:
    """Answer without the body having been read: the connection ends, but the answer arrives."""
    if not has_body:
        await answer.send(send)
        return
    if CLOSE not in answer.headers:
        answer.headers = (*answer.headers, CLOSE)
    await answer.send(send, last=False)
    await drain(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _first_repeated(headers: Headers) -> str | None:
    """The first header that is there twice although it must not be."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in seen and name in _ONCE:
            return name.decode()
        seen.add(name)
    return None


def _is_json(content_type: bytes | None) -> bool:
    return content_type is not None and (
        content_type == b"application/json" or _JSON.fullmatch(content_type.strip()) is not None
    )


def _wrong_type(scope: Scope, headers: Mapping[bytes, bytes]) -> Answer:
    given = headers.get(b"content-type")
    said = f"says {readable(given.decode('latin-1'), 100)!r}" if given else "is missing"
    detail = f"The header Content-Type {said}; a body here is JSON in UTF-8: `Content-Type: application/json`."
    return problem(BAD_TYPE, detail, instance=scope["path"], headers=((b"accept", b"application/json"),))
