"""Agents, Plugins, Sessions, Events, Settings and Trust: what is there, what it is set to, and what takes effect at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.screens import await_live, go_to
from tests.console.stage import MODEL, Stage

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.audit import Audit

pytestmark = pytest.mark.requires("browser", "git", "models")


def test_an_agent_shows_its_file_its_limits_and_why_it_does_not_see_a_tool(page: Page, stage: Stage) -> None:
    go_to(page, "Agents")
    page.get_by_role("link", name="reader").click()
    expect(page.get_by_role("tabpanel", name="Instructions")).to_contain_text("You read what you are asked to read")
    expect(page.get_by_text(str(stage.config / "agents" / "reader.md"))).to_be_visible()
    page.get_by_role("tab", name="What it can see").click()
    tools = page.get_by_role("tabpanel").get_by_role("listitem")
    page.get_by_label("Which tools").select_option("seen")
    expect(tools.filter(has_text="file-reader")).to_be_visible()
    expect(tools.filter(has_text="careful__deploy")).to_have_count(0)
    page.get_by_label("Which tools").select_option("hidden")
    expect(tools.filter(has_text="careful__deploy")).to_contain_text("tools")
    page.get_by_role("tab", name="Limits and gates").click()
    expect(page.get_by_role("row", name="token_budget")).to_contain_text("100000")
    page.get_by_role("tab", name="Custom tools (0)").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("It has none")


def test_an_agents_file_that_is_saved_appears_and_a_wrong_one_is_a_finding(page: Page, stage: Stage) -> None:
    go_to(page, "Agents")
    await_live(page)
    path = stage.config / "agents" / "judge.md"
    path.write_text("---\nname: judge\ndescription: Judges.\n---\nJudge.\n", encoding="utf-8")
    expect(page.get_by_role("link", name="judge")).to_contain_text("Judges.")
    path.write_text("---\nname: judge\ndescription: Judges.\nmax_turn: 3\n---\nJudge.\n", encoding="utf-8")
    expect(page.get_by_role("region", name="in the files")).to_contain_text("max_turns")
    path.unlink()
    expect(page.get_by_role("link", name="judge")).to_have_count(0)


def test_a_plugin_is_switched_off_and_on_with_effect_at_once(page: Page, stage: Stage) -> None:
    go_to(page, "Plugins")
    switch = page.get_by_role("switch", name="careful is on")
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="careful"))
    expect(row).to_contain_text("3 tools")
    switch.click()
    expect(page.get_by_text("careful is off.")).to_be_visible()
    expect(row).to_contain_text("disabled")
    assert "careful__deploy" not in _list_tools(stage)
    go_to(page, "Tools")
    expect(page.get_by_role("link", name="git-status")).to_be_visible()
    expect(page.get_by_role("link", name="careful__deploy")).to_have_count(0)
    go_to(page, "Plugins")
    expect(switch).not_to_be_checked()
    switch.click()
    expect(page.get_by_text("careful is on.")).to_be_visible()
    expect(switch).to_be_checked()
    assert "careful__deploy" in _list_tools(stage)


def _list_tools(stage: Stage) -> set[str]:
    return {tool["name"] for tool in stage.ask("GET", "/api/tools")["tools"]}


def test_the_settings_of_a_plugin_are_saved_refused_in_the_servers_words_and_forgotten(
    page: Page, stage: Stage, audit: Audit
) -> None:
    go_to(page, "Plugins")
    page.get_by_role("link", name="careful").click()
    seconds = page.get_by_label("seconds")
    expect(seconds).to_have_value("600")
    seconds.fill("90")
    targets = page.get_by_role("group", name="targets")
    targets.get_by_role("button", name="Add").click()
    targets.get_by_role("textbox").nth(1).fill("staging")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("careful: stored, and in effect in every process.")).to_be_visible()
    run = stage.ask("POST", "/api/runs", {"prompt": "Deploy"})["runId"]
    go_to(page, "Approvals")
    card = page.get_by_role("region", name="Approval of careful__deploy")
    expect(card).to_contain_text("denied in 1 min")  # 90 seconds, as it was set
    card.get_by_role("button", name="Allow", exact=True).click()
    stage.await_run(run, "completed")

    page.goto("/plugins/careful")
    page.get_by_role("tab", name="JSON").click()
    page.get_by_label("Arguments as JSON").fill('{"targets": ["production"], "seconds": 9999, "dry": false}')
    audit.expect_refusal("PATCH", "/api/plugins/careful", 422)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("less than or equal to 3600")
    page.get_by_role("button", name="Forget what is stored").click()
    page.get_by_role("tab", name="Form").click()
    expect(seconds).to_have_value("600")


def test_sessions_lists_the_open_connections(page: Page, stage: Stage) -> None:
    go_to(page, "Sessions")
    thread = stage.run("Hello")["threadId"]
    row = page.get_by_role("row").filter(has_text=thread)
    expect(row).to_contain_text("idle")
    expect(row).to_contain_text("kernel")
    row.get_by_role("link", name=thread).click()
    expect(page.get_by_role("article", name="assistant")).to_contain_text("Hello from the model.")


def test_events_are_filtered_paused_looked_into_and_downloaded(page: Page, stage: Stage) -> None:
    thread = stage.run("Read outside")["threadId"]
    go_to(page, "Events")
    await_live(page)
    log = page.get_by_role("log", name="Events")
    page.get_by_label("Thread, run or task").fill(thread)
    page.get_by_label("Types, with commas").fill("tool_use,tool_result")
    expect(log.get_by_role("button", name="tool_")).to_have_count(2)
    expect(page.get_by_text("2 events", exact=True)).to_be_visible()
    log.get_by_role("button", name="tool_use").click()
    chosen = page.get_by_role("region", name="The chosen event")
    expect(chosen).to_contain_text('"../../etc/passwd"')
    chosen.get_by_role("button", name="Close").click()
    page.get_by_label("Search the events that are loaded").fill("no such words")
    expect(page.get_by_text("0 events of 2")).to_be_visible()
    expect(page.get_by_role("button", name="Download these")).to_be_disabled()
    page.get_by_label("Search the events that are loaded").fill("")

    page.get_by_role("button", name="Pause").click()
    stage.run("Read outside, again", thread)
    expect(page.get_by_role("button", name="Go on (2 new)")).to_be_visible()
    expect(log.get_by_role("button", name="tool_")).to_have_count(2)
    page.get_by_role("button", name="Go on (2 new)").click()
    expect(log.get_by_role("button", name="tool_")).to_have_count(4)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download these").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    events = [json.loads(line) for line in text.splitlines()]
    assert [event["type"] for event in events] == ["tool_use", "tool_result"] * 2
    assert {event["threadId"] for event in events} == {thread}


def test_settings_say_what_counts_and_where_it_comes_from(page: Page, stage: Stage) -> None:
    go_to(page, "Settings")
    page.get_by_label("Search settings").fill("runtime.model")
    row = page.get_by_role("row", name="runtime.model")
    expect(row).to_contain_text(MODEL)
    expect(row).to_contain_text(str(stage.config / "config.toml"))
    page.get_by_label("Search settings").fill("")
    page.get_by_label("only those that are set").check()
    expect(page.get_by_role("row", name="multi_agent.agents")).to_contain_text('["reader"]')
    expect(page.get_by_role("row", name="tools.timeout")).to_have_count(0)


def test_a_project_is_approved_as_it_is_shown_and_its_agent_appears(page: Page, stage: Stage, audit: Audit) -> None:
    go_to(page, "Agents")
    expect(page.get_by_role("link", name="reader")).to_be_visible()
    expect(page.get_by_role("link", name="painter")).to_have_count(0)
    go_to(page, "Trust")
    expect(page.get_by_label("Changes")).to_contain_text("description: Paints the fence.")
    painter = stage.project / ".toolstead" / "agents" / "painter.md"
    painter.write_text(painter.read_text(encoding="utf-8").replace("the fence", "the door"), encoding="utf-8")
    audit.expect_refusal("POST", "/api/trust", 409)
    page.get_by_role("button", name="Approve what is shown").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Changes")).to_contain_text("description: Paints the door.")
    page.get_by_role("button", name="Approve what is shown").click()
    expect(page.get_by_text("Approved: its tools and agents are read now.")).to_be_visible()
    go_to(page, "Agents")
    expect(page.get_by_role("link", name="painter")).to_contain_text("Paints the door.")
    go_to(page, "Trust")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Not trusted any more.")).to_be_visible()
    go_to(page, "Agents")
    expect(page.get_by_role("link", name="painter")).to_have_count(0)
