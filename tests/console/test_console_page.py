"""The page itself: who may do what in it, what it says while the server is away, and that it keeps to its own server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.audit import Audit
from tests.console.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.requires("browser", "git", "models")


def test_the_audit_of_these_tests_reports_each_kind_of_problem(page: Page, audit: Audit) -> None:
    page.evaluate("""async () => {
        const script = document.createElement("script");
        script.textContent = "window.bad = 1";
        document.body.append(script);
        console.error("a message");
        console.warn("another");
        setTimeout(() => { throw new Error("thrown"); });
        await fetch("/api/threads/none").catch(() => 0);
        await fetch("https://example.com/").catch(() => 0);
        new Image().src = "http://127.0.0.1:1/x.png";
    }""")
    page.reload()
    found, audit.problems[:] = "\n".join(audit.problems), []
    for problem in (
        "violates script-src-elem: inline",
        "violates connect-src: https://example.com",
        "violates img-src: http://127",
        "error: a message",
        "warning: another",
        "error: thrown",
        "refused: GET /api/threads/none: 404",
        "elsewhere: http://127.0.0.1:1/x.png",
        "failed: GET http://127.0.0.1:1/x.png",
    ):
        assert problem in found
