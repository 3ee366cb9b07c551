"""Routes about the server: health, the OpenAPI document, and the documentation page."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.routing import Endpoint
from toolstead.adapters.rest.answers import HealthAnswer
from toolstead.adapters.rest.docs_page import STYLE_HASH, render_page
from toolstead.adapters.rest.openapi import Document, build_document, describe_answer, query_parameter, route
from toolstead.tools.registry import Registry

_POLICY = (
    f"default-src 'none'; style-src '{STYLE_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
_NO_SESSIONS = dict.fromkeys(("idle", "live", "hits", "misses", "rebuilt", "evicted"), 0)
_ORIGIN = b"http://toolstead.invalid"
"""Placeholder in the rendered page for the address of the request."""


State = Callable[[str], Mapping[str, Any]]
"""Returns the runtime for a model and the sessions, for health; called often, so it must be cheap."""


def no_state(_: str) -> Mapping[str, Any]:
    """The state of a server without runs."""
    return {
        "runtime": None,
        "runtimeReason": "this server runs no agents",
        "agent": "",
        "model": "",
        "sessions": _NO_SESSIONS,
    }


class Pages:
    """Health and documentation over HTTP."""

    def __init__(
        self,
        registry: Registry,
        version: str,
        state: State,
        endpoints: list[Endpoint],
        *,
        with_token: bool,
        with_mcp: bool,
    ) -> None:
        """Prepare the pages.

        Args:
            registry: Whose generation health reports.
            version: Toolstead's version.
            state: The runtime and the sessions, for health.
            endpoints: All routes of the server; read at the first request, when these pages are among them.
            with_token: Whether the server needs a token.
            with_mcp: Whether `/mcp` is mounted.
        """
        self._registry = registry
        self._version = version
        self._state = state
        self._endpoints = endpoints
        self._with_token = with_token
        self._with_mcp = with_mcp

    @cached_property
    def _document(self) -> Document:
        """The OpenAPI document; built at the first request, because that takes some 50 ms."""
        return build_document(
            self._endpoints, version=self._version, with_token=self._with_token, with_mcp=self._with_mcp
        )

    @cached_property
    def _rendered_page(self) -> bytes:
        return render_page(self._document, origin=_ORIGIN.decode(), with_token=self._with_token).encode()

    @route(
        "GET",
        "/api/health",
        "health",
        "Check that the server is up",
        "Answers as soon as the port is open; does not query the database.",
        parameters=[query_parameter("model", "Say it for this model, instead of the settings' one.", None)],
        for_profiles=True,
        responses=describe_answer(
            HealthAnswer,
            "It is.",
            example={
                "status": "ok",
                "version": "0.1.0",
                "generation": 1,
                "runtime": "kernel",
                "runtimeReason": "ANTHROPIC_API_KEY is set",
                "agent": "main",
                "model": "anthropic:claude-sonnet-5-5",
                "sessions": _NO_SESSIONS,
            },
        ),
    )
    async def get_health(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/health`."""
        # Not refused for what else it holds: probes add what they like.
        model = parse_qs(request.scope["query_string"].decode("latin-1")).get("model", [""])[0]
        generation = self._registry.current.number
        return HttpResponse.of_json(
            {"status": "ok", "version": self._version, "generation": generation, **self._state(model)}
        )

    @route(
        "GET",
        "/openapi.json",
        "openapi",
        "Read the OpenAPI document",
        "Describes exactly the routes that this server has.",
        for_profiles=True,
        responses={
            "200": {"description": "OpenAPI 3.1.", "content": {"application/json": {"schema": {"type": "object"}}}}
        },
    )
    async def get_document(self, _: HttpRequest) -> HttpResponse:
        """`GET /openapi.json`."""
        return HttpResponse.of_json(self._document)

    @route(
        "GET",
        "/docs",
        "docs",
        "Read this page",
        "Rendered by the server from the OpenAPI document; needs no network and no script.",
        for_profiles=True,
        responses={"200": {"description": "HTML.", "content": {"text/html": {"schema": {"type": "string"}}}}},
    )
    async def get_docs(self, request: HttpRequest) -> HttpResponse:
        """`GET /docs`, with the request's own address in the examples."""
        origin = f"http://{html.escape(request.find_header(b'host') or '')}".encode()
        return HttpResponse(200, self._rendered_page.replace(_ORIGIN, origin), PAGE_HEADERS)
