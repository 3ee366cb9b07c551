"""Home, Runs, Steps and Tasks: what runs, what it cost, what waits, and a branch that a person ends and starts again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.screens import ask_agent, await_live, go_to, read_answer
from tests.console.stage import Stage, run_stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import BrowserContext, Locator, Page

    from tests.console.audit import Audit

pytestmark = pytest.mark.requires("browser", "git", "models")


def find_row(page: Page, text: str) -> Locator:
    """A row of the tree."""
    return page.get_by_role("treeitem").filter(has_text=text)


def test_an_empty_installation_offers_three_things_and_each_works(
    open_context: Callable[..., BrowserContext], audit: Audit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with run_stage(tmp_path_factory.mktemp("empty"), is_empty=True) as empty:
        audit.origin = empty.url
        page = open_context().new_page()
        page.goto(empty.login)
        first = page.get_by_role("region", name="Three things to try")
        expect(first.get_by_role("link")).to_have_count(3)
        expect(page.get_by_text("No agent can answer yet")).to_be_visible()
        first.get_by_role("link", name="Call a tool").click()
        page.get_by_role("button", name="Call it").click()
        expect(page.get_by_role("region", name="Answer")).to_contain_text("done")
        go_to(page, "Home")
        first.get_by_role("link", name="Make a tool").click()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved: find-text can be called now.")).to_be_visible()
        go_to(page, "Home")
        first.get_by_role("link", name="Ask an agent").click()
        expect(page.get_by_text("Nothing can answer yet")).to_be_visible()
        go_to(page, "Home")
        expect(first).to_be_visible()
        page.close()


def test_a_tree_of_runs_grows_and_ends_before_ones_eyes(page: Page, stage: Stage) -> None:
    go_to(page, "Runs")
    expect(page.get_by_text("Nothing has run yet")).to_be_visible()
    await_live(page)
    run = stage.ask("POST", "/api/runs", {"prompt": "Prepare the release"})["runId"]
    page.get_by_role("link", name="Prepare the release").click()
    expect(find_row(page, "main")).to_have_attribute("aria-level", "1")
    expect(find_row(page, "main")).to_contain_text("running")
    expect(find_row(page, "Read the promises.")).to_contain_text("completed")
    expect(find_row(page, "Count at the gate.")).to_contain_text("running")
    expect(find_row(page, "Count at the gate.")).to_have_attribute("aria-level", "2")
    page.get_by_role("tab", name="Timeline").click()
    rows = page.get_by_role("list", name="Timeline").get_by_role("listitem")
    expect(rows.filter(has_text="Count at the gate.")).to_contain_text("running")
    stage.open_gate("readers")
    expect(rows.filter(has_text="completed")).to_have_count(3)
    page.get_by_role("tab", name="Tree (3)").click()
    expect(page.get_by_role("treeitem").filter(has_text="completed")).to_have_count(3)
    runs = stage.ask("GET", f"/api/runs?root={run}")["runs"]
    used = sum(one["usage"]["inputTokens"] + one["usage"]["outputTokens"] for one in runs)
    cost = sum(one["usage"]["cost"] for one in runs)
    assert cost > 0
    expect(page.get_by_role("term").filter(has_text="Tokens").locator("+ dd")).to_have_text(_write_tokens(used))
    expect(page.get_by_role("term").filter(has_text="Cost").locator("+ dd")).to_have_text(f"${cost:.2f}")
    page.get_by_role("tab", name="Answer").click()
    expect(page.get_by_role("heading", name="Release notes")).to_be_visible()


def _write_tokens(count: int) -> str:
    return f"{count:,}".replace(",", " ") if count < 10_000 else f"{count / 1000:.1f} k"


def test_the_log_and_the_steps_of_a_run_say_what_was_sent_and_what_came_back(page: Page, stage: Stage) -> None:
    run = stage.run("Read outside")["id"]
    page.goto(f"/runs/{run}")
    page.get_by_role("tab", name="Log").click()
    lines = page.get_by_role("tabpanel").get_by_role("button", expanded=False)
    expect(lines.filter(has_text="run.started")).to_have_count(1)
    lines.filter(has_text="tool_use").click()
    expect(page.get_by_role("tabpanel")).to_contain_text('"path": "../../etc/passwd"')
    page.get_by_role("tab", name="Steps").click()
    page.get_by_role("link", name="calls file-reader").click()
    expect(page.get_by_role("heading", name="Step 1", exact=True)).to_be_visible()
    expect(page.get_by_label("Arguments")).to_contain_text("../../etc/passwd")
    page.get_by_role("tab", name="Request").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("Read outside")
    page.get_by_role("tab", name="Tools").click()
    expect(page.get_by_role("link", name="called: file-reader")).to_be_visible()
    expect(page.get_by_role("tabpanel").get_by_role("heading", name="file-reader")).to_contain_text("failed")
    page.get_by_role("tab", name="As stored").click()
    expect(page.get_by_label("The step as it is stored")).to_contain_text('"number": 1')
    page.get_by_role("link", name="After").click()
    expect(page.get_by_label("What it said")).to_have_text("That file is outside of the project.")
    page.get_by_role("link", name="The run", exact=True).click()
    page.get_by_role("link", name="Conversation", exact=True).click()
    expect(read_answer(page)).to_contain_text("That file is outside of the project.")


def test_a_stopped_branch_leaves_the_run_above_it_and_can_be_started_again(page: Page, stage: Stage) -> None:
    run = stage.ask("POST", "/api/runs", {"prompt": "Hand on a long count"})["runId"]
    page.goto(f"/runs/{run}")
    find_row(page, "Count behind a closed gate.").click()
    expect(page.get_by_role("heading", name="Count behind a closed gate.")).to_be_visible()
    page.get_by_role("button", name="Stop this branch").click()
    expect(page.get_by_text("Stopped, with everything below it.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop this branch")).to_have_count(0)
    assert "cancelled" in stage.await_run(run, "completed")["result"]
    page.get_by_role("link", name="Task", exact=True).click()
    expect(page.get_by_text("a person cancelled it")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Its work is started again, as a new task.")).to_be_visible()
    go_to(page, "Tasks")
    page.get_by_label("Which tasks").select_option("open")
    again = page.get_by_role("link", name="Count behind a closed gate.")
    expect(again).to_contain_text("running")
    again.click()
    stage.open_gate("closed")
    expect(page.get_by_role("region", name="What came of it")).to_contain_text("It was opened.")
    expect(page.get_by_role("img", name="Tokens:")).to_be_visible()
    page.get_by_text("called").first.click()
    expect(page.get_by_text("closed is open").last).to_be_visible()
    page.get_by_role("link", name="what it retries").click()
    expect(page.get_by_role("main")).to_contain_text("cancelled")
    page.get_by_role("button", name="Start its work again").click()
    expect(page.get_by_role("link", name="what it retries")).to_be_visible()


def test_home_shows_what_runs_what_waits_and_what_failed(page: Page, stage: Stage) -> None:
    stage.run("Fail", status="failed")
    story = stage.ask("POST", "/api/runs", {"prompt": "Tell a story"})["runId"]
    waits = stage.ask("POST", "/api/runs", {"prompt": "Deploy"})["runId"]
    under_way = page.get_by_role("region", name="under way")
    expect(under_way.get_by_role("link", name="Tell a story")).to_contain_text("running")
    failed = page.get_by_role("region", name="Did not succeed lately")
    expect(failed.get_by_role("link", name="Fail")).to_be_visible()
    problems = page.get_by_role("region", name="in files")
    expect(problems).to_contain_text("bad.json:1")
    waiting = page.get_by_role("region", name="Waiting for a person")
    expect(waiting).to_contain_text("1 call waits for you")
    waiting.get_by_role("button", name="Allow", exact=True).click()
    expect(waiting).to_have_count(0)
    stage.await_run(waits, "completed")
    stage.ask("POST", f"/api/runs/{story}/cancel")
    expect(under_way).to_have_count(0)
    expect(page.get_by_role("link", name="Tell a story")).to_contain_text("cancelled")


def test_approvals_lists_what_waits_and_what_was_decided(page: Page, stage: Stage, audit: Audit) -> None:
    go_to(page, "Approvals")
    expect(page.get_by_text("Nothing waits")).to_be_visible()
    await_live(page)
    first = stage.ask("POST", "/api/runs", {"prompt": "Deploy one"})["runId"]
    card = page.get_by_role("region", name="Approval of careful__deploy")
    expect(card).to_contain_text("asked by careful")
    card.get_by_role("button", name="Edit and allow").click()
    card.get_by_role("tab", name="JSON").click()
    card.get_by_label("Arguments as JSON").fill('{"target": "production", "version": 3}')
    audit.expect_refusal("POST", "/api/approvals/.*", 422)
    card.get_by_role("button", name="Allow with these arguments").click()
    expect(card.get_by_role("alert")).to_contain_text("version")
    card.get_by_label("Arguments as JSON").fill('{"target": "production", "version": "3.0"}')
    card.get_by_role("button", name="Allow with these arguments").click()
    assert stage.await_run(first, "completed")["result"] == "The tool said: 3.0 is on production"
    second = stage.ask("POST", "/api/runs", {"prompt": "Deploy two"})["runId"]
    card.get_by_role("button", name="Deny").click()
    card.get_by_role("textbox", name="Why not?").fill("not today")
    card.get_by_role("button", name="Deny").click()
    assert "not today" in stage.await_run(second, "completed")["result"]
    decided = page.get_by_role("region", name="Decided")
    expect(decided.get_by_role("listitem").filter(has_text="allowed, edited")).to_be_visible()
    expect(decided.get_by_role("listitem").filter(has_text="not today")).to_contain_text("denied")
