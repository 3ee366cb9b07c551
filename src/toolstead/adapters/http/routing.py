"""The route table: method and path → handler, with each route's description beside it.

A fixed path goes before one with placeholders. What no route has may be a page, or a file of one. The OpenAPI
document is built from the same table.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolstead.adapters.http.access import MCP_PATH, find_access
from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Receive, Scope, Send, Sendable
from toolstead.adapters.http.body import RequestError
from toolstead.adapters.http.guard import PrivateAccess
from toolstead.adapters.http.options import ServerOptions
from toolstead.adapters.http.problem import BAD_METHOD, NOT_FOUND, NOT_IN_PROFILE, problem_response
from toolstead.nearest_names import suggest

_PLACEHOLDER = re.compile(r"\\\{(\w+)\\\}")
FindPage = Callable[[HttpRequest], Awaitable[HttpResponse | None]]
"""Finds the page or file at a path that no route has; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route.

    Attributes:
        method: `GET` (which answers `HEAD` too), `POST`, …
        path: The path, with `{name}` for a placeholder of one segment.
        handler: Answers it.
        operation: Its OpenAPI operation.
        private: Whether it needs the private token.
        for_profiles: Whether who may only use a profile's tools may use it; its handler then narrows what it does.
    """

    method: str
    path: str
    handler: Handler
    operation: Mapping[str, Any]
    private: bool = False
    for_profiles: bool = False


class Routes:
    """Answers a request with the handler of its route.

    Args:
        endpoints: Every route.
        private: Guards the private routes; without it they refuse every request.
        find_page: Asked for `GET` and `HEAD` of paths that no route has.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        private: PrivateAccess | None = None,
        find_page: FindPage | None = None,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self._find_page = find_page
        private = private or PrivateAccess(ServerOptions(private_token=""))
        self._routes: dict[str, list[tuple[re.Pattern[str], Handler]]] = {"GET": [], "HEAD": []}
        for endpoint in sorted(endpoints, key=lambda endpoint: "{" in endpoint.path):
            handler = endpoint.handler if endpoint.for_profiles else _refuse_profiles(endpoint.handler)
            handler = private.protect_handler(handler) if endpoint.private else handler
            pattern = re.compile(_PLACEHOLDER.sub(r"(?P<\1>[^/]+)", re.escape(endpoint.path)))
            for method in ("GET", "HEAD") if endpoint.method == "GET" else (endpoint.method,):
                self._routes.setdefault(method, []).append((pattern, handler))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the route, run its handler, write its answer."""
        method: str = scope["method"]
        path: str = scope["path"]
        found = self._find_handler(method, path)
        if found is None:
            answer = await self._find_unrouted(HttpRequest(scope, receive, {}))
            answer = answer or self._answer_without_handler(method, path)
        else:
            handler, params = found
            try:
                answer = await handler(HttpRequest(scope, receive, params))
            except RequestError as error:
                answer = error.answer
        if answer is not None:
            await answer.send(send)

    def _find_handler(self, method: str, path: str) -> tuple[Handler, dict[str, str]] | None:
        for pattern, handler in self._routes.get(method, ()):
            found = pattern.fullmatch(path)
            if found is not None:
                return handler, found.groupdict()
        return None

    async def _find_unrouted(self, request: HttpRequest) -> HttpResponse | None:
        """The page at a path that no route has. Who may only use the tools of a profile gets none."""
        if self._find_page is None or request.scope["method"] not in ("GET", "HEAD") or find_access(request.scope):
            return None
        return await self._find_page(request)

    def _answer_without_handler(self, method: str, path: str) -> HttpResponse:
        """The answer to `OPTIONS`, to a method the route does not have, or to an unknown path."""
        methods = [name for name in sorted(self._routes) if self._find_handler(name, path) is not None]
        if not methods:
            known = [endpoint.path for endpoint in self.endpoints]
            hint = suggest(path, known, show=str, otherwise="/docs lists every route.")
            return problem_response(NOT_FOUND, f"There is no {path[:200]}; {hint}", instance=path)
        allow = (b"allow", ", ".join([*methods, "OPTIONS"]).encode())
        if method == "OPTIONS":
            return HttpResponse(204, b"", (allow,))
        detail = f"{method} is not allowed here; use {' or '.join(methods)}."
        return problem_response(BAD_METHOD, detail, instance=path, headers=(allow,))


def _refuse_profiles(handler: Handler) -> Handler:
    """Wrap a handler so that who may only use the tools of a profile is refused."""

    async def answer_request(request: HttpRequest) -> Sendable | None:
        if (access := find_access(request.scope)) is None:
            return await handler(request)
        detail = (
            f"Your token gives the tools of the profile {access.profile!r}, and this route shows or changes more. Use "
            f"{MCP_PATH}, /api/tools and /api/runs, or the server's own token."
        )
        return problem_response(NOT_IN_PROFILE, detail, instance=request.path)

    return answer_request
