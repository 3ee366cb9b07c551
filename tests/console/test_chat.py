"""Chat: what an agent says and does as it does it, and a person who steers, stops and decides in the same place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.screens import ask_agent, find_call, go_to, read_answer
from tests.console.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.requires("browser", "git", "models")


def test_text_is_shown_while_it_is_written_and_stays_when_a_person_stops_the_run(page: Page) -> None:
    ask_agent(page, "Tell a story")
    written = page.locator("[data-streaming]")  # the model keeps its stream open
    expect(written).to_contain_text("Once upon a time")
    expect(written).to_contain_text("Every agent could find it.")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped.", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    expect(page.get_by_text("Every agent could find it.")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Conversations").get_by_text("cancelled")).to_be_visible()


def test_plan_calls_delegated_work_and_answer_are_shown_live_and_again_from_the_store(page: Page, stage: Stage) -> None:
    ask_agent(page, "Prepare the release")
    expect(page.get_by_text("Plan: 1 of 2 done")).to_be_visible()
    handed = find_call(page, "delegate_agent")
    expect(handed.get_by_role("link", name="reader")).to_have_count(2)
    expect(handed.get_by_role("listitem").filter(has_text="completed")).to_have_count(1)
    expect(handed.get_by_role("listitem").filter(has_text="running")).to_have_count(1)
    stage.open_gate("readers")
    expect(read_answer(page).get_by_role("heading", name="Release notes")).to_be_visible()
    expect(page.get_by_text("Plan: 2 of 2 done")).to_be_visible()
    link = read_answer(page).get_by_role("link", name="the changes")
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    expect(read_answer(page)).to_contain_text("(example.com)")
    page.reload()
    expect(read_answer(page).get_by_role("cell", name="notes.md")).to_be_visible()
    _look_into(find_call(page, "git-status"))
    go_to(page, "Home")
    page.go_back()
    expect(read_answer(page)).to_contain_text("clean")


def _look_into(call: Locator) -> None:
    expect(call).to_contain_text("done")
    call.get_by_role("button", expanded=False).click()
    expect(call.get_by_label("Arguments")).to_have_text("{}")
    expect(call).to_contain_text("notes.md")
    call.get_by_text("The same call elsewhere").click()
    expect(call.get_by_label("The call as CLI")).to_have_text("toolstead tools call git-status")
    call.get_by_role("radio", name="curl").check()
    expect(call.get_by_label("The call as curl")).to_contain_text("/api/tools/git-status/call")
    call.get_by_role("radio", name="Python").check()
    expect(call.get_by_label("The call as Python")).to_contain_text('stead.call("git-status", {})')


def test_what_a_person_says_meanwhile_steers_the_run_under_way(page: Page, stage: Stage) -> None:
    ask_agent(page, "Drive to the crossing")
    expect(find_call(page, "careful__hold")).to_contain_text("running")
    page.get_by_role("textbox", name="Say something to the run under way").fill("turn left")
    page.get_by_role("button", name="Steer").click()
    expect(page.get_by_role("article", name="user").filter(has_text="turn left")).to_be_visible()
    stage.open_gate("crossing")
    expect(read_answer(page)).to_contain_text("Turned left.")
    expect(page.get_by_role("article", name="user")).to_have_count(2)


def test_a_call_that_waits_is_decided_in_its_conversation(page: Page) -> None:
    ask_agent(page, "Deploy")
    waiting = page.get_by_role("region", name="Approval of careful__deploy")
    expect(waiting).to_contain_text("deploy 1.4.2 to production?")
    expect(page.get_by_role("link", name="Approvals")).to_contain_text("1")
    waiting.get_by_role("button", name="Allow", exact=True).click()
    expect(read_answer(page)).to_contain_text("The tool said: 1.4.2 is on production")
    expect(waiting).to_have_count(0)

    page.get_by_role("textbox", name="Message").fill("Deploy once more")
    page.get_by_role("button", name="Send").click()
    waiting.get_by_role("button", name="Edit and allow").click()
    waiting.get_by_role("textbox", name="version").fill("2.0.0")
    waiting.get_by_role("button", name="Allow with these arguments").click()
    expect(read_answer(page)).to_contain_text("The tool said: 2.0.0 is on production")

    page.get_by_role("textbox", name="Message").fill("Deploy again")
    page.keyboard.press("Enter")
    waiting.get_by_role("button", name="Deny").click()
    waiting.get_by_role("textbox", name="Why not?").fill("not on a Friday")
    page.keyboard.press("Enter")
    expect(read_answer(page)).to_contain_text("not on a Friday")
    expect(find_call(page, "careful__deploy").last).to_contain_text("failed")


def test_older_messages_of_a_long_conversation_come_when_they_are_asked_for(page: Page, stage: Stage) -> None:
    thread = stage.run("Count to three hundred")["threadId"]
    page.goto(f"/chat/{thread}")
    expect(read_answer(page)).to_contain_text("Counted.")
    expect(page.get_by_role("article", name="user")).to_have_count(0)
    log = page.get_by_role("log", name="Transcript")
    while not page.get_by_role("article", name="user").is_visible():
        log.hover()
        page.mouse.wheel(0, -4000)
    expect(page.get_by_role("article", name="user")).to_contain_text("Count to three hundred")
    expect(page.get_by_role("button", name="Older messages")).to_have_count(0)
    page.get_by_role("button", name="To the end").click()
    expect(read_answer(page)).to_contain_text("Counted.")
    names = page.locator(".call-head strong").all_text_contents()
    assert set(names) == {"careful__count"}
    assert re.fullmatch(r"(number=\d+)+", "".join(page.locator(".call-head .truncate").all_text_contents()))


def test_what_went_wrong_is_said_where_it_happened(page: Page) -> None:
    ask_agent(page, "Read outside")
    expect(find_call(page, "file-reader")).to_contain_text("failed")
    expect(read_answer(page)).to_contain_text("That file is outside of the project.")
    ask_agent(page, "Fail")
    expect(page.get_by_text("The run ended with an error")).to_contain_text("The model does not like this.")
