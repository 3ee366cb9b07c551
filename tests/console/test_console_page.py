"""The page itself: who may do what in it, what it says while the server is away, and that it keeps to its own server."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.audit import Audit
from tests.console.screens import ask_agent, await_live, find_call, go_to, read_answer
from tests.console.stage import Stage, until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.requires("browser", "git", "models")

CLOSED = {
    "Approvals": "Only a person who has logged in sees what waits",
    "Tool editor": "Only a person who has logged in may write tools",
    "Sessions": "Only a person who has logged in sees the sessions",
    "Settings": "Only a person who has logged in sees the settings",
    "Trust": "Only a person who has logged in may approve a project",
}
"""What a screen shows to one who has not logged in."""


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
    for problem in (
        "violates script-src-elem: inline",
        "violates connect-src: https://example.com",
        "violates img-src: http://127.0.0.1:1/x.png",
        "error: a message",
        "warning: another",
        "error: thrown",
        "refused: GET /api/threads/none: 404",
        "elsewhere: http://127.0.0.1:1/x.png",
        "failed: GET http://127.0.0.1:1/x.png",
    ):
        # A look at the page has its messages brought here.
        until(lambda problem=problem: page.title() and problem in "\n".join(audit.problems))
    audit.problems.clear()


def test_who_has_not_logged_in_reads_and_is_told_how_to_get_the_rights(
    open_context: Callable[..., BrowserContext], stage: Stage, audit: Audit
) -> None:
    run = stage.run("Hello")
    waits = stage.ask("POST", "/api/runs", {"prompt": "Deploy"})["runId"]
    page = open_context().new_page()
    page.goto("/")
    login = stage.ask("GET", "/api/access")["login"]
    expect(page.get_by_text(f"Read-only: {login}")).to_be_visible()
    expect(page.get_by_role("region", name="Waiting for a person")).to_have_count(0)
    for screen, sentence in CLOSED.items():
        go_to(page, screen)
        expect(page.get_by_role("main")).to_contain_text(sentence)
        expect(page.get_by_role("main")).to_contain_text(login)
    for address, button in (
        ("/tools", "Read again"),
        ("/tools/git-status", "Call it"),
        ("/chat", "What tools do you have?"),
        (f"/runs/{waits}", "Stop this branch"),
        ("/plugins/careful", "Save"),
        ("/plugins/careful", "Forget what is stored"),
    ):
        page.goto(address)
        expect(page.get_by_role("button", name=button)).to_be_disabled()
    expect(page.get_by_role("switch", name="careful is on")).to_be_disabled()
    page.goto(f"/chat/{run['threadId']}")
    expect(read_answer(page)).to_contain_text("Hello from the model.")
    field = page.get_by_role("textbox", name="Message")
    field.fill("Let me in")
    field.press("Enter")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    expect(page.get_by_role("article")).to_have_count(2)
    # The buttons are a courtesy: the server itself refuses.
    audit.expect_refusal("POST", "/api/trust", 403)
    assert page.evaluate("fetch('/api/trust', {method: 'POST'}).then((answer) => answer.status)") == 403
    stage.ask("POST", f"/api/runs/{waits}/cancel")


def test_logging_in_leaves_a_cookie_that_no_script_and_no_other_page_can_use(page: Page, stage: Stage) -> None:
    expect(page).to_have_url(stage.url + "/")  # the token is not in the history
    expect(page.get_by_text("Read-only")).to_have_count(0)
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert stage.token not in cookie["value"]
    assert page.evaluate("document.cookie") == ""
    answer = page.request.get("/chat/any", headers={"accept": "text/html"})
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_two_tabs_show_the_same_conversation_as_it_happens(page: Page, stage: Stage) -> None:
    ask_agent(page, "Drive to the crossing")
    other = page.context.new_page()
    other.goto(page.url)
    for tab in (page, other):
        expect(find_call(tab, "careful__hold")).to_contain_text("running")
    other.get_by_role("textbox", name="Say something to the run under way").fill("turn left")
    other.keyboard.press("Enter")
    expect(page.get_by_role("article", name="user")).to_have_count(2)
    stage.open_gate("crossing")
    for tab in (page, other):
        expect(read_answer(tab)).to_contain_text("Turned left.")
        expect(tab.get_by_role("article")).to_have_count(3)
    go_to(other, "Approvals")
    page.get_by_role("textbox", name="Message").fill("Deploy")
    page.keyboard.press("Enter")
    card = other.get_by_role("region", name="Approval of careful__deploy")
    card.get_by_role("button", name="Allow", exact=True).click()
    expect(read_answer(page)).to_contain_text("1.4.2 is on production")
    expect(page.get_by_role("region", name="Approval of careful__deploy")).to_have_count(0)


def test_nothing_is_missing_or_twice_after_the_server_was_started_anew(page: Page, stage: Stage, audit: Audit) -> None:
    thread = stage.run("Hello one")["threadId"]
    page.goto(f"/chat/{thread}")
    await_live(page)
    stage.run("Hello two", thread)
    users = page.get_by_role("article", name="user")
    expect(users).to_have_text([_ends("Hello one"), _ends("Hello two")])
    port, old = int(stage.url.rpartition(":")[2]), stage.server
    with audit.without_server():
        stage.stop()
        expect(page.get_by_text("No connection to the server")).to_be_visible()
        stage.start(port)
        assert stage.server is not old
        stage.run("Hello three", thread)
        await_live(page)
    expect(users).to_have_text([_ends("Hello one"), _ends("Hello two"), _ends("Hello three")])
    expect(page.get_by_role("article")).to_have_count(6)
    expect(page.get_by_text("Read-only")).to_be_visible()  # each server has a private token of its own
    other = page.context.new_page()
    other.goto(stage.login)
    expect(other.get_by_text("Read-only")).to_have_count(0)
    other.close()
    page.evaluate("dispatchEvent(new Event('visibilitychange'))")  # one comes back to the first tab
    expect(page.get_by_text("Read-only")).to_have_count(0)
    page.get_by_role("textbox", name="Message").fill("Hello four")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_have_count(8)
    before = page.get_by_role("article").all_inner_texts()
    page.reload()
    expect(page.get_by_role("article")).to_have_count(8)
    assert page.get_by_role("article").all_inner_texts() == before


def _ends(text: str) -> re.Pattern[str]:
    return re.compile(f"{text}$")
