"""The console: its page at `/` and at the address of every screen, its files, and what it may do.

The console is built apart from this package (`make console`); its folder comes from `app`. Its own script decides what
it shows at which address, so the same page answers all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from toolstead.adapters.http.asgi import HttpRequest, HttpResponse
from toolstead.adapters.http.guard import PrivateAccess
from toolstead.adapters.http.html_page import render_html, wants_html
from toolstead.adapters.http.static_files import StaticFiles
from toolstead.adapters.rest.answers import AccessAnswer
from toolstead.adapters.rest.openapi import describe_answer, route

_INDEX: Final = "index.html"
_POLICY: Final = (
    "default-src 'self'; img-src 'self' data: blob:; media-src data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = ((b"content-security-policy", _POLICY.encode()), (b"referrer-policy", b"same-origin"))
_FOR_PROGRAMS: Final = ("/api", "/assets", "/docs", "/mcp", "/.well-known")
"""What is below these is for programs, or has pages of its own: no screen of the console."""
_APPROVAL_PAGES: Final = "/approvals/"
_EXAMPLE_LOGIN: Final = "Open the address with `?token=` that `toolstead serve` showed in its terminal."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSite:
    """The console of a server.

    Attributes:
        folder: Where it was built; nothing is there where it was not.
        login: How a person gets the rights of the private token, in one sentence.
    """

    folder: Path
    login: str


class ConsoleRoutes:
    """The page, its files, and what who opened it may do."""

    def __init__(self, site: ConsoleSite, private: PrivateAccess) -> None:
        self._site = site
        self._private = private
        self._files = StaticFiles(site.folder, headers=_HEADERS)

    @route(
        "GET",
        "/api/access",
        "access",
        "Ask what this client may do",
        "Whether it sends the private token, or its cookie: without it the console is read-only.",
        responses=describe_answer(AccessAnswer, "What it may do.", example={"private": False, "login": _EXAMPLE_LOGIN}),
    )
    async def show_access(self, request: HttpRequest) -> HttpResponse:
        """`GET /api/access`."""
        is_private = self._private.is_admitted(request)
        answer = HttpResponse.of_json(AccessAnswer(private=is_private, login=self._site.login))
        answer.headers = (*answer.headers, (b"cache-control", b"no-store"))
        return answer

    @route(
        "GET",
        "/",
        "console",
        "Open the console",
        "The console's page, also at the address of each of its screens, where a browser asks. What it shows comes "
        "from the routes of this document. Opened once with `?token=` and the private token, it has its rights.",
        responses={"200": {"description": "HTML.", "content": {"text/html": {"schema": {"type": "string"}}}}},
    )
    async def show_page(self, request: HttpRequest) -> HttpResponse:
        """`GET /`."""
        return await self._files.find_file(request, _INDEX) or _render_unbuilt(self._site.folder)

    async def find_page(self, request: HttpRequest) -> HttpResponse | None:
        """A file of the console, or its page where a browser asks for a screen; None for anything else."""
        if file := await self._files.find_file(request, request.path.removeprefix("/")):
            return file
        if wants_html(dict(request.scope["headers"])) and is_screen(request.path):
            return await self.show_page(request)
        return None


def is_screen(path: str) -> bool:
    """Whether the console may have a screen there; only its script knows which it has."""
    below_programs = any(path == prefix or path.startswith(f"{prefix}/") for prefix in _FOR_PROGRAMS)
    return not below_programs and not path.startswith(_APPROVAL_PAGES)


def _render_unbuilt(folder: Path) -> HttpResponse:
    """The page of a server whose console was not built."""
    return render_html(
        200,
        "The console of this server was not built",
        f"<p>There is nothing in <code>{escape(str(folder))}</code>. A package brings the console; in a checkout it is "
        "built from its sources, which <code>make run</code> does by itself. To do only that, type in the checkout:</p>"
        "<pre>make console</pre><p>Then reload this page; the server need not be started anew. "
        'Meanwhile the <a href="/docs">documentation</a> has every route, and everything else works.</p>',
    )
