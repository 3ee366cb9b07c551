"""What no page of the console may do, watched for as long as a browser has it open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, Response

_GIVEN_UP = "net::ERR_ABORTED"
"""The page itself no longer wanted the answer: it moved on, or another question took the place of the first."""
_REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`violates ${event.effectiveDirective}: ${event.blockedURI}`));
"""


@dataclass  # playwright keeps its wrappers of handlers on the object, so there are no slots
class Audit:
    """What went wrong in the pages of a browser context: messages of errors, failed requests, and requests elsewhere."""

    origin: str
    problems: list[str] = field(default_factory=list[str])
    _refusals: list[tuple[str, re.Pattern[str], int]] = field(default_factory=list[tuple[str, re.Pattern[str], int]])
    _is_away: bool = False

    def watch(self, context: BrowserContext) -> None:
        """Watch every page that is opened from now on."""
        context.add_init_script(_REPORT_VIOLATIONS)
        context.on("page", self._watch_page)
        context.on("request", self._note_request)
        context.on("requestfailed", self._note_failure)
        context.on("response", self._note_answer)

    def expect_refusal(self, method: str, path: str, status: int) -> None:
        """Have the server refuse, once, a request whose path matches."""
        self._refusals.append((method, re.compile(path), status))

    @contextmanager
    def without_server(self) -> Iterator[None]:
        """While the server is away, requests fail."""
        self._is_away = True
        yield
        self._is_away = False

    def check(self) -> None:
        """Nothing went wrong, and what was to be refused was."""
        assert self.problems == []
        assert self._refusals == [], "these requests were not refused"

    def _watch_page(self, page: Page) -> None:
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("crash", lambda _: self.problems.append("the page crashed"))

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.text.startswith("Failed to load resource"):  # `_note_answer` and `_note_failure` know more
            return
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.type}: {message.text}")

    def _note_request(self, request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme not in {"data", "blob"} and f"{place.scheme}://{place.netloc}" != self.origin:
            self.problems.append(f"elsewhere: {request.url}")

    def _note_failure(self, request: Request) -> None:
        if request.failure != _GIVEN_UP and not self._is_away:
            self.problems.append(f"failed: {request.method} {request.url}: {request.failure}")

    def _note_answer(self, response: Response) -> None:
        if response.status < 400:
            return
        method, path = response.request.method, urlsplit(response.url).path
        for expected in self._refusals:
            if expected[0] == method and expected[1].fullmatch(path) and expected[2] == response.status:
                self._refusals.remove(expected)
                return
        self.problems.append(f"refused: {method} {path}: {response.status}")
