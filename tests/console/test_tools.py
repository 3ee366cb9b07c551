"""Tools and their editor: found, called by a form or as JSON, reloaded before one's eyes, written and deleted."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.console.screens import await_live, go_to
from tests.console.stage import Stage, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.console.audit import Audit

pytestmark = pytest.mark.requires("browser", "git", "models")

COUNTER: dict[str, Any] = {
    "name": "word-count",
    "description": "Count the words of a text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "handler": {"type": "shell", "command": "echo {{text}}"},
}


def write_tools(stage: Stage, name: str, *tools: dict[str, Any]) -> None:
    """A tool file of the user, saved by another program."""
    (stage.config / "tools" / f"{name}.json").write_text(json.dumps({"name": name, "tools": tools}), encoding="utf-8")


def call_tool(page: Page) -> Locator:
    """Call the tool whose page is open; its answer."""
    page.get_by_role("button", name="Call it").click()
    answer = page.get_by_role("region", name="Answer")
    expect(answer).to_contain_text("done")
    return answer


def test_a_saved_file_flashes_in_the_list_and_says_what_changed(page: Page, stage: Stage) -> None:
    go_to(page, "Tools")
    await_live(page)
    problems = page.get_by_role("region", name="kept out")
    expect(problems).to_contain_text("bad.json:1")
    expect(problems).to_contain_text('did you mean "description"?')
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="word-count"))
    note = page.get_by_role("status").filter(has_text="word-count")

    write_tools(stage, "mine", COUNTER)
    expect(note).to_contain_text("added: word-count")
    expect(row).to_have_class("flash")
    more = {**COUNTER["inputSchema"], "required": ["text", "unit"]}
    more["properties"] = {"text": {"type": "string"}, "unit": {"type": "string"}}
    write_tools(stage, "mine", {**COUNTER, "inputSchema": more})
    expect(note).to_contain_text("changed: word-count")
    expect(note).to_contain_text("(breaking)")
    write_tools(stage, "mine", {**COUNTER, "handler": {}})
    expect(problems).to_contain_text("mine.json:1")
    expect(row).to_contain_text("stale")
    (stage.config / "tools" / "mine.json").unlink()
    expect(note).to_contain_text("removed: word-count")
    expect(row).to_have_count(0)


def test_tools_are_found_by_word_and_by_source_and_read_again(page: Page) -> None:
    go_to(page, "Tools")
    rows = page.get_by_role("main").get_by_role("listitem")
    expect(rows.filter(has_text="careful__deploy")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("deploy version")
    expect(rows.filter(has_text="careful__deploy")).to_be_visible()
    expect(rows.filter(has_text="git-status")).to_have_count(0)
    page.get_by_label("Source").select_option("builtin")
    expect(page.get_by_text("No tool matches")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(rows.filter(has_text="git-status")).to_be_visible()
    page.get_by_role("button", name="Read again").click()
    expect(page.get_by_text("Read again, with")).to_be_visible()


def test_a_form_sends_each_kind_of_value_as_its_schema_has_it(page: Page, stage: Stage) -> None:
    page.goto("/tools/shapes__repeat")
    expect(page.get_by_label("fallback")).to_have_attribute("placeholder", "as before")
    page.get_by_label("text").fill("two words")
    page.get_by_label("word", exact=True).select_option("green")
    page.get_by_label("whole").fill("7")
    page.get_by_label("part").fill("2.5")
    page.get_by_label("yes").check()
    page.get_by_label("day").fill("2026-02-28")
    lines = page.get_by_role("group", name="lines")
    for number, text in enumerate(("one", "two", "three")):
        lines.get_by_role("button", name="Add").click()
        lines.get_by_role("textbox").nth(number).fill(text)
    lines.get_by_role("button", name="Remove").nth(1).click()
    page.get_by_role("group", name="place").get_by_label("x").fill("4")
    rows = page.get_by_role("group", name="rows")
    rows.get_by_role("button", name="Add").click()
    rows.get_by_label("key").fill("door")
    either = page.locator("#arguments_either__oneof_select")
    either.select_option(label="a name")
    page.locator("#arguments_either").fill("Ada")
    page.get_by_label("known").fill("shared")
    more = page.get_by_role("group", name="more")
    more.get_by_role("button", name="Add").click()
    more.get_by_role("textbox").nth(1).fill("kept")
    wanted = {
        "text": "two words", "word": "green", "whole": 7, "part": 2.5, "yes": True, "day": "2026-02-28",
        "lines": ["one", "three"], "place": {"x": 4}, "rows": [{"key": "door"}], "either": "Ada", "known": "shared",
        "more": {"newKey": "kept"}, "fallback": "as before",
    }  # fmt: skip
    got = json.loads(call_tool(page).locator("pre").first.inner_text())
    assert {key: value for key, value in got.items() if key != "fixed"} == wanted
    page.get_by_role("tab", name="JSON").click()
    assert json.loads(page.get_by_label("Arguments as JSON").input_value())["lines"] == ["one", "three"]


def test_arguments_are_given_as_json_too_and_what_is_wrong_is_said_before_and_by_the_server(page: Page) -> None:
    page.goto("/tools/shapes__repeat")
    page.get_by_role("tab", name="JSON").click()
    field = page.get_by_label("Arguments as JSON")
    field.fill('{"text": "abc",')
    expect(page.get_by_text("Not JSON:")).to_be_visible()
    expect(page.get_by_role("button", name="Call it")).to_be_disabled()
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_text("The JSON cannot be read")).to_be_visible()
    page.get_by_role("tab", name="JSON").click()
    field.fill('{"text": "abc", "whole": 12}')
    page.get_by_role("button", name="Call it").click()
    expect(page.get_by_role("region", name="Answer")).to_contain_text("whole")
    field.fill('{"text": "abc", "any": [1, {"deep": null}]}')
    field.press("Control+Enter")
    expect(page.get_by_role("region", name="Answer")).to_contain_text('"deep": null')
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_label("text")).to_have_value("abc")
    page.get_by_text("The same call elsewhere").click()
    expect(page.get_by_label("The call as CLI")).to_contain_text("tools call shapes__repeat text=abc")


def test_a_call_under_way_is_stopped_and_what_a_tool_did_is_listed(page: Page, stage: Stage) -> None:
    page.goto("/tools/careful__hold")
    page.get_by_label("gate").fill("never")
    page.get_by_role("button", name="Call it").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("region", name="Answer")).to_contain_text("Stopped: the call was cancelled.")
    stage.run("Read outside")
    page.goto("/tools/file-reader")
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("tabpanel").get_by_role("listitem").first).to_contain_text("failed")
    page.get_by_role("tabpanel").get_by_role("link", name="run").first.click()
    expect(page.get_by_role("heading", name="Read outside")).to_be_visible()


def test_a_tool_says_who_can_see_it_and_how_to_connect_a_client(page: Page) -> None:
    page.goto("/tools/careful__deploy")
    page.get_by_role("tab", name="Who can see it").click()
    agents = page.get_by_role("tabpanel").get_by_role("listitem")
    expect(agents.filter(has_text="main")).to_contain_text("sees it")
    expect(agents.filter(has_text="reader")).to_contain_text("does not see it")
    expect(agents.filter(has_text="reader")).to_contain_text("tools")
    page.get_by_role("tab", name="Schema").click()
    expect(page.get_by_label("Input schema")).to_contain_text('"version"')
    page.get_by_role("tab", name="Connect a client").click()
    expect(page.get_by_label("Commands that connect a client")).to_contain_text("toolstead connect codex")


def test_a_tool_is_made_from_a_template_tried_saved_called_changed_and_deleted(page: Page, stage: Stage) -> None:
    go_to(page, "Tool editor")
    page.get_by_role("link", name="A command").click()
    page.get_by_label("text*", exact=True).fill("water; rm -rf /")
    argv = page.get_by_role("list", name="Program and arguments").get_by_role("listitem")
    expect(argv).to_have_text(["grep", "-rnF", "--", "water; rm -rf /", "."])
    page.get_by_label("File name").fill("finder")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved: find-text can be called now.")).to_be_visible()
    expect(page).to_have_url(stage.url + "/editor/finder")
    go_to(page, "Tools")
    page.get_by_role("link", name="find-text").click()
    page.get_by_label("text").fill("water")
    expect(call_tool(page)).to_contain_text("notes.md:1:# We promise water and light")

    go_to(page, "Tool editor")
    page.get_by_role("link", name="finder").click()
    text = page.get_by_label("Text", exact=True)
    text.fill(text.input_value().replace("Find a text", "Find a word"))
    expect(page.get_by_text("1 good tool, nothing is wrong")).to_be_visible()
    text.press("Control+s")
    expect(page.get_by_role("button", name="Save the change")).to_be_disabled()
    expect(page.get_by_text("Saved: find-text can be called now.").last).to_be_visible()
    text.press("End")
    text.press_sequentially(" ")  # what is typed after it was saved stays
    expect(page.get_by_role("button", name="Save the change")).to_be_enabled()
    until(lambda: "Find a word" in (stage.config / "tools" / "finder.json").read_text(encoding="utf-8"))
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("finder.json is deleted")).to_be_visible()
    expect(page).to_have_url(stage.url + "/editor")
    assert not (stage.config / "tools" / "finder.json").exists()


def test_a_broken_text_names_the_line_and_leads_there(page: Page) -> None:
    page.goto("/editor/new/request")
    page.get_by_label("package*").fill("tool stead")
    expect(page.get_by_text("GET https://example.com/packages/tool%20stead")).to_be_visible()
    text = page.get_by_label("Text", exact=True)
    lines = text.input_value().split("\n")
    text.fill("\n".join([*lines[:3], "  oops", *lines[3:]]))
    place = page.get_by_role("button", name="4:3")
    expect(place).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    place.click()
    expect(text).to_be_focused()
    start: int = text.evaluate("(field) => field.selectionStart")
    assert text.input_value()[start : start + 4] == "oops"


def test_what_another_program_wrote_meanwhile_is_never_overwritten(page: Page, stage: Stage, audit: Audit) -> None:
    shared = {**COUNTER, "name": "shared-count"}
    write_tools(stage, "shared", shared)
    page.goto("/editor/shared")
    text = page.get_by_label("Text", exact=True)
    expect(text).to_have_value(re.compile("Count the words"))
    write_tools(stage, "shared", {**shared, "description": "Written by another."})
    text.fill(text.input_value().replace("Count the", "Count all"))
    audit.expect_refusal("PUT", "/api/tool-files/shared", 409)
    page.get_by_role("button", name="Save the change").click()
    expect(page.get_by_role("alert")).to_contain_text("shared.json has changed")
    assert "Count all" in text.input_value()
    assert "Written by another." in (stage.config / "tools" / "shared.json").read_text(encoding="utf-8")
    (stage.config / "tools" / "shared.json").unlink()
