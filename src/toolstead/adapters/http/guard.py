"""The guard in front of every route and mount: Host, Origin, token, size and type of the body.

The order matters: a refused client learns nothing, and no body is read before its sender is admitted. Private routes
need the private token besides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from toolstead.adapters.http.access import PROBES, PROFILE_PREFIX, PUBLIC_PREFIX, AccessRules
from toolstead.adapters.http.asgi import (
    BufferedBody,
    Handler,
    Headers,
    HttpRequest,
    HttpResponse,
    Receive,
    Scope,
    Sendable,
    TrackedResponse,
)
from toolstead.adapters.http.body import TooLargeError, drain_body, read_body
from toolstead.adapters.http.html_page import render_token_page, wants_html
from toolstead.adapters.http.names import ServerNames, is_literal_address
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.problem import (
    BAD_HEADERS,
    BAD_HOST,
    BAD_ORIGIN,
    BAD_TYPE,
    NO_TOKEN,
    PRIVATE,
    RETRY_AFTER,
    STOPPING,
    TOO_LARGE,
    make_readable,
    problem_response,
)
from toolstead.adapters.http.refusal_log import RefusalLog
from toolstead.adapters.http.stopping import Stopping
from toolstead.adapters.http.token import AccessToken, strip_token

CLOSE = (b"connection", b"close")
_VARY = (b"vary", b"Origin")
_PAGE_METHODS = (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE")
_PAGE_READABLE = (b"access-control-expose-headers", b"Mcp-Session-Id, Retry-After, WWW-Authenticate")
_PREFLIGHT_AGE = (b"access-control-max-age", b"600")
_READS = ("GET", "HEAD")
_SAFE = ("GET", "HEAD", "OPTIONS")
_FOREIGN_SITES = (b"cross-site", b"same-site")
_ONCE = (b"host", b"origin", b"authorization", b"cookie", b"content-type", b"content-length")
_JSON = re.compile(rb"application/json\s*(?:;\s*charset=\"?utf-?8\"?\s*)?;?", re.IGNORECASE)


class RequestGuard:
    """Admits a request, or refuses it.

    Raises:
        ServeError: The settings name a host, an origin or a token that could never match.
    """

    def __init__(
        self, options: ServerOptions, stopping: Stopping, *, access: AccessRules, programs: Sequence[str] = ()
    ) -> None:
        """Prepare the checks.

        Args:
            options: Which hosts, origins and tokens pass, and how much may be sent.
            stopping: Whether the server still accepts requests.
            access: Decides about tokens that do not open everything.
            programs: Path prefixes that accept no token in the URL, because they are not pages.
        """
        self._names = ServerNames(options)
        self._token = AccessToken(options.token)
        self._private = AccessToken(options.private_token)
        self._needs_token = options.needs_token
        self._access = access
        self._max_body = options.max_body
        self._stopping = stopping
        self._programs = tuple(programs)

    async def admit_request(self, scope: Scope, receive: Receive, response: TrackedResponse) -> Receive | None:
        """Check a request, and read its body.

        Returns:
            Where an admitted request is received from. None for one that was refused and answered, and for
            one whose client disconnected.
        """
        raw: Headers = scope["headers"]
        headers = dict(raw)
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip() != b"0"
        origin = headers.get(b"origin")
        if origin is not None and self._names.is_listed_page(origin):
            response.extra_headers = ((b"access-control-allow-origin", origin), _PAGE_READABLE, _VARY)
        refusal = self._check_head(scope, raw, headers)
        if refusal is None:
            if self._needs_token and not (self._token.is_shown_by(headers) or self._private.is_shown_by(headers)):
                refusal = await self._check_limited(scope, headers)
                if refusal is not None and refusal.status == NO_TOKEN.status and wants_html(headers):
                    refusal = self._show_token_page(scope, refusal)
            elif scope["path"].startswith(PROFILE_PREFIX):
                refusal = self._access.admit_whole(scope)
        if refusal is not None:
            await _send_refusal(refusal, receive, response, has_body=has_body)
            return None
        if has_body:
            try:
                body = await read_body(receive, headers.get(b"content-length"), self._max_body)
            except TooLargeError as error:
                refusal = problem_response(
                    TOO_LARGE, str(error), instance=scope["path"], headers=(CLOSE,), maxBody=self._max_body
                )
                await _send_refusal(refusal, receive, response, has_body=True)
                return None
            if body is None:
                return None
            kind = headers.get(b"content-type", b"")
            if body and kind != b"application/json" and _JSON.fullmatch(kind.strip()) is None:
                await _refuse_type(scope, headers).send(response)
                return None
            receive = BufferedBody(body, receive)
        return receive

    def _check_head(self, scope: Scope, raw: Headers, headers: Mapping[bytes, bytes]) -> HttpResponse | None:
        """The refusal of a request by its head, or None when it may pass."""
        path: str = scope["path"]
        if self._stopping.begun:
            detail = "The server is stopping and accepts no new requests; try again in a few seconds."
            return problem_response(STOPPING, detail, instance=path, headers=(RETRY_AFTER, CLOSE))
        if len(raw) != len(headers) and (twice := _find_repeated(raw)):
            return problem_response(
                BAD_HEADERS, f"The header {twice} was sent more than once; send it once.", instance=path
            )
        host = headers.get(b"host")
        if host is None:
            return problem_response(
                BAD_HEADERS, "The header Host is missing; send the name of this server.", instance=path
            )
        if not self._names.allows_host(host) and not (path in PROBES and is_literal_address(host)):
            return self._refuse_host(scope, host)
        origin = headers.get(b"origin")
        if origin is None:
            # A browser names the page that asks for a change; one that does not still says when it is foreign.
            site = headers.get(b"sec-fetch-site")
            if site is not None and scope["method"] not in _SAFE and site.strip().lower() in _FOREIGN_SITES:
                return self._refuse_site(scope, site)
        elif not self._names.is_own_page(origin, host):
            if not self._names.is_listed_page(origin):
                return self._refuse_origin(scope, origin)
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                return _answer_preflight(headers)
        is_page = scope["method"] == "GET" and not path.startswith(self._programs)
        if is_page and self._private.is_shown_in(scope["query_string"]):
            return self._move_token_to_cookie(scope, self._private, host)
        return None

    def _refuse_host(self, scope: Scope, host: bytes) -> HttpResponse:
        shown = make_readable(host.decode("latin-1"), 100)
        self._access.refusals.note_refusal(scope, BAD_HOST.status, f"the host {shown!r} is not a name of this server")
        detail = f"The header Host is {shown!r}. This server answers to loopback names and to the host it is bound to"
        return problem_response(
            BAD_HOST, f"{detail}; add others to `allowed_hosts` under [server].", instance=scope["path"]
        )

    def _refuse_origin(self, scope: Scope, origin: bytes) -> HttpResponse:
        shown = make_readable(origin.decode("latin-1"), 100)
        self._access.refusals.note_refusal(scope, BAD_ORIGIN.status, f"the web page {shown!r} is not an allowed origin")
        detail = f"The header Origin is {shown!r}. Only pages of this server may call it"
        return problem_response(
            BAD_ORIGIN, f"{detail}; add others to `allowed_origins` under [server].", instance=scope["path"]
        )

    def _refuse_site(self, scope: Scope, site: bytes) -> HttpResponse:
        shown = make_readable(site.decode("latin-1"), 100)
        self._access.refusals.note_refusal(
            scope, BAD_ORIGIN.status, f"an unnamed web page: Sec-Fetch-Site is {shown!r}"
        )
        detail = (
            f"The header Sec-Fetch-Site is {shown!r}, and there is no Origin. "
            "Only pages of this server may change things"
        )
        return problem_response(
            BAD_ORIGIN, f"{detail}; a page in `allowed_origins` must send its Origin.", instance=scope["path"]
        )

    def _show_token_page(self, scope: Scope, refusal: HttpResponse) -> HttpResponse:
        """The same refusal for a person. Where no token is read from the URL, the page leads to the documentation."""
        path: str = scope["path"]
        page = "/docs" if path.startswith(self._programs) else path
        return render_token_page(refusal, page, was_wrong=b"token=" in scope["query_string"])

    def _move_token_to_cookie(self, scope: Scope, token: AccessToken, host: bytes) -> HttpResponse:
        """Redirect to the same page without the token in its URL; the browser keeps it as a cookie."""
        place = strip_token(scope["raw_path"], scope["query_string"])
        cookie = token.make_cookie(host, is_secure=self._names.is_behind_tls(host))
        secret = ((b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer"))
        return HttpResponse(303, b"", ((b"location", place), (b"set-cookie", cookie), *secret))

    async def _check_limited(self, scope: Scope, headers: Mapping[bytes, bytes]) -> HttpResponse | None:
        """The refusal of a request without a token for everything; None where another one admits it."""
        path: str = scope["path"]
        is_page = scope["method"] == "GET" and not path.startswith(self._programs)
        if is_page and self._token.is_shown_in(scope["query_string"]):
            return self._move_token_to_cookie(scope, self._token, headers[b"host"])
        if (is_page and path.startswith(PUBLIC_PREFIX)) or (path in PROBES and scope["method"] in _READS):
            return None
        return await self._access.admit_limited(scope, headers)


class PrivateAccess:
    """Protects the private routes: only requests with the private token pass, and none where there is no such token.

    The server creates that token at its start and writes it only to `server.json`, which the console and the command
    line read. MCP clients, tools and runtimes have at most the general token, so a model cannot approve its own calls.

    Raises:
        ServeError: The options name a host, an origin or a token that could never match.
    """

    def __init__(self, options: ServerOptions) -> None:
        self._token = AccessToken(options.private_token)
        self._names = ServerNames(options)
        self._refusals = RefusalLog()

    def protect_handler(self, handler: Handler) -> Handler:
        """Wrap a handler so that it needs the private token; the refusal of other requests reveals nothing about it."""

        async def answer_request(request: HttpRequest) -> Sendable | None:
            if self.is_admitted(request):
                return await handler(request)
            self._refusals.note_refusal(request.scope, PRIVATE.status, "it needs the private token")
            detail = (
                "Only the owner of this server may do this; the token of the settings is not enough. On the server's "
                "machine: `toolstead approvals`, `toolstead plugins`. Over HTTP: send the private token, from "
                "server.json in the server's data folder (~/.local/share/toolstead unless it was moved)."
            )
            return problem_response(PRIVATE, detail, instance=request.path)

        return answer_request

    def is_admitted(self, request: HttpRequest) -> bool:
        """Whether a request has the private token. The cookie counts only for pages of this server."""
        headers = dict(request.scope["headers"])  # the guard has refused duplicates
        origin = headers.get(b"origin")
        if origin is not None and not self._names.is_own_page(origin, headers[b"host"]):
            # An allowed page may call, but the browser would send the user's cookie with any request of the page.
            headers.pop(b"cookie", None)
        return self._token.is_shown_by(headers)


def _answer_preflight(headers: Mapping[bytes, bytes]) -> HttpResponse:
    """Answer a CORS preflight request: allow the page, with the headers it requested.

    Cookies are not allowed: a page of another origin sends the token in `Authorization`.
    """
    wanted = headers.get(b"access-control-request-headers", b"")
    allowed = ((b"access-control-allow-headers", wanted),) if wanted else ()
    return HttpResponse(204, b"", (_PAGE_METHODS, *allowed, _PREFLIGHT_AGE))


async def _send_refusal(answer: HttpResponse, receive: Receive, response: TrackedResponse, *, has_body: bool) -> None:
    """Answer before the body was read: the connection ends, but the response arrives."""
    if not has_body:
        await answer.send(response)
        return
    if CLOSE not in answer.headers:
        answer.headers = (*answer.headers, CLOSE)
    await answer.send(response, last=False)
    await drain_body(receive)
    await response({"type": "http.response.body", "body": b"", "more_body": False})


def _find_repeated(headers: Headers) -> str | None:
    """The first header that is duplicated and must not be."""
    names = [name for name, _ in headers]
    return next((name.decode() for name in names if name in _ONCE and names.count(name) > 1), None)


def _refuse_type(scope: Scope, headers: Mapping[bytes, bytes]) -> HttpResponse:
    given = headers.get(b"content-type")
    given_type = f"says {make_readable(given.decode('latin-1'), 100)!r}" if given else "is missing"
    detail = f"The header Content-Type {given_type}; a body here is JSON in UTF-8: `Content-Type: application/json`."
    return problem_response(BAD_TYPE, detail, instance=scope["path"], headers=((b"accept", b"application/json"),))
