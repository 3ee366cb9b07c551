"""One browser and one server for each module, a context of its own for each test, and an audit of every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests import machine
from tests.console.audit import Audit
from tests.console.stage import Stage, run_stage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

BUILT = machine.ROOT / "src" / "toolstead" / "console" / "web" / "dist" / "index.html"


@pytest.fixture(scope="module")
def browser(_shielded_session: None) -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    from tests.waiting import PATIENCE

    assert BUILT.exists(), "the console is not built: type `make console`"
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        # Chromium's own sandbox is not there for root, nor in most containers; the pages are ours.
        started = playwright.chromium.launch(executable_path=str(machine.browser()), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def stage(_shielded_session: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with run_stage(tmp_path_factory.mktemp("stage")) as running:
        yield running


@pytest.fixture
def audit(stage: Stage) -> Audit:
    return Audit(stage.url)


@pytest.fixture
def open_context(browser: Browser, stage: Stage, audit: Audit) -> Iterator[Callable[..., BrowserContext]]:
    """`open_context(**options)`: a browser of a person's own, watched; in the end nothing has gone wrong in it."""
    opened: list[BrowserContext] = []

    def open_context(**options: object) -> BrowserContext:
        from tests.waiting import PATIENCE

        context = browser.new_context(base_url=stage.url, viewport={"width": 1280, "height": 800}, **(options or {}))
        context.set_default_timeout(PATIENCE * 1000)
        audit.watch(context)
        opened.append(context)
        return context

    yield open_context
    for context in opened:
        context.close()
    audit.check()


@pytest.fixture
def page(open_context: Callable[..., BrowserContext], stage: Stage) -> Page:
    """A page of the owner, who has opened the address with the token: Home."""
    page = open_context().new_page()
    page.goto(stage.login)
    return page
