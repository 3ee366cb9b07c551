"""The route table: method and path → handler, with each route's description beside it.

Matching is a look-up, not a search: a fixed path by its text, a path with placeholders by the number of its segments.
Other paths go to the longest matching prefix, for files. The OpenAPI document is built from the same table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolstead.adapters.http.asgi import Handler, HttpRequest, HttpResponse, Receive, Scope, Send
from toolstead.adapters.http.private import PrivateAccess, refuse_everybody
from toolstead.adapters.http.problem import BAD_METHOD, NOT_FOUND, problem_response
from toolstead.errors import suggest

REMAINDER = "remainder"
"""The parameter with the rest of the path, for the handler of a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route.

    Attributes:
        method: `GET` (which answers `HEAD` too), `POST`, …
        path: The path, with `{name}` for a placeholder of one segment.
        handler: Answers it.
        operation: Its OpenAPI operation.
        private: Whether it needs the private token.
    """

    method: str
    path: str
    handler: Handler
    operation: Mapping[str, Any]
    private: bool = False


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A path with placeholders, split into fixed and free segments."""

    fixed: tuple[tuple[int, str], ...]
    free: tuple[tuple[int, str], ...]
    handler: Handler

    def match_segments(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The values of the placeholders in a path, or None when it does not match."""
        for index, text in self.fixed:
            if segments[index] != text:
                return None
        params = {name: segments[index] for index, name in self.free}
        return params if all(params.values()) else None


class Routes:
    """Answers a request with the handler of its route.

    Args:
        endpoints: Every route.
        private: Guards the private routes; without it they refuse every request.
        prefixes: Handlers of `GET` and `HEAD` for all paths below a prefix such as `/console/` that no route has.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        private: PrivateAccess | None = None,
        prefixes: Mapping[str, Handler] | None = None,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self._prefixes = sorted((prefixes or {}).items(), key=lambda entry: len(entry[0]), reverse=True)
        self._fixed: dict[tuple[str, str], Handler] = {}
        self._open: dict[tuple[str, int], list[_Pattern]] = {}
        for endpoint in self.endpoints:
            handler = endpoint.handler
            if endpoint.private:
                handler = private.protect_handler(handler) if private is not None else refuse_everybody
            for method in ("GET", "HEAD") if endpoint.method == "GET" else (endpoint.method,):
                self._add_route(method, endpoint.path, handler)
        self._methods = sorted({"GET", "HEAD", *(method for method, _ in (*self._fixed, *self._open))})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the route, run its handler, write its answer."""
        method: str = scope["method"]
        path: str = scope["path"]
        found = self._find_handler(method, path)
        if found is None:
            answer = self._answer_without_handler(method, path)
        else:
            handler, params = found
            answer = await handler(HttpRequest(scope, receive, params))
        if answer is not None:
            await answer.send(send)

    def _add_route(self, method: str, path: str, handler: Handler) -> None:
        if "{" not in path:
            self._fixed[method, path] = handler
            return
        segments = list(enumerate(path.split("/")))
        fixed = tuple((index, text) for index, text in segments if not text.startswith("{"))
        free = tuple((index, text[1:-1]) for index, text in segments if text.startswith("{"))
        self._open.setdefault((method, len(segments)), []).append(_Pattern(fixed, free, handler))

    def _find_handler(self, method: str, path: str) -> tuple[Handler, dict[str, str]] | None:
        handler = self._fixed.get((method, path))
        if handler is not None:
            return handler, {}
        segments = path.split("/")
        for pattern in self._open.get((method, len(segments)), ()):
            params = pattern.match_segments(segments)
            if params is not None:
                return pattern.handler, params
        if method in ("GET", "HEAD"):
            for prefix, handler in self._prefixes:
                if path.startswith(prefix):
                    return handler, {REMAINDER: path.removeprefix(prefix)}
        return None

    def _answer_without_handler(self, method: str, path: str) -> HttpResponse:
        """The answer to `OPTIONS`, to a method the route does not have, or to an unknown path."""
        methods = [name for name in self._methods if self._find_handler(name, path) is not None]
        if not methods:
            known = [endpoint.path for endpoint in self.endpoints]
            hint = suggest(path, known, show=str, otherwise="/docs lists every route.")
            return problem_response(NOT_FOUND, f"There is no {path[:200]}; {hint}", instance=path)
        allow = (b"allow", ", ".join([*methods, "OPTIONS"]).encode())
        if method == "OPTIONS":
            return HttpResponse(204, b"", (allow,))
        detail = f"{method} is not allowed here; use {' or '.join(methods)}."
        return problem_response(BAD_METHOD, detail, instance=path, headers=(allow,))
