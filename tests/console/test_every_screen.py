"""Every screen: accessible in light and dark, as wide as a phone, and driven by keys alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.console.screens import await_live, find_call, read_answer
from tests.console.stage import Stage
from tests.e2e import node_packages

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

    from tests.console.audit import Audit

pytestmark = pytest.mark.requires("browser", "git", "models", "node")

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_FIND_VIOLATIONS = """async (rules) => {
    const {violations} = await axe.run(document, {runOnly: rules, resultTypes: ["violations"]});
    return violations.filter(({impact}) => ["serious", "critical"].includes(impact))
        .flatMap(({id, nodes}) => nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary}`));
}"""
_FIND_WIDE = """() => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    return [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > room + 1)
        .slice(0, 3).map((one) => one.outerHTML.slice(0, 160));
}"""


@pytest.fixture(scope="module")
def addresses(stage: Stage) -> Mapping[str, str]:
    """Each screen with something in it, and a text or heading that it shows when it is whole."""
    stage.open_gate("readers")
    release = stage.run("Prepare the release")
    stage.run("Fail", status="failed")
    stage.ask("POST", "/api/runs", {"prompt": "Deploy"})
    handed = stage.ask("GET", "/api/tasks")["tasks"][0]["id"]
    run, thread = release["id"], release["threadId"]
    return {
        "/": "1 call waits for you",
        "/chat": "main answers",
        f"/chat/{thread}": "Release notes",
        "/runs": "Prepare the release",
        f"/runs/{run}": "Count at the gate.",
        f"/runs/{run}/steps/1": "update_plan",
        "/tasks": "There are four files.",
        f"/tasks/{handed}": "Budget of the whole tree",
        "/approvals": "deploy 1.4.2 to production?",
        "/tools": "careful__deploy",
        "/tools/shapes__repeat": "A shared shape.",
        "/editor": "A command",
        "/editor/new/command": "1 good tool, nothing is wrong",
        "/agents": "Reads files and says what is in them.",
        "/agents/reader": "You read what you are asked to read",
        "/plugins": "1.2.0",
        "/plugins/careful": "Targets that a person is asked about.",
        "/sessions": thread,
        "/events": "tool_use",
        "/settings": "tools.timeout",
        "/trust": "Paints the fence.",
        "/nowhere": "There is no such page",
    }


def show_screens(page: Page, addresses: Mapping[str, str], look: Callable[[Page], Any]) -> dict[str, Any]:
    """What a look at each screen finds, where it finds something."""
    found: dict[str, Any] = {}
    for address, shown in addresses.items():
        page.goto(address)
        expect(page.get_by_role("main")).to_contain_text(shown)
        if seen := look(page):
            found[address] = seen
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_is_accessible(
    scheme: str, open_context: Callable[..., BrowserContext], stage: Stage, addresses: Mapping[str, str]
) -> None:
    axe = (node_packages.install() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")

    def look(page: Page) -> Any:
        page.evaluate(axe)
        return page.evaluate(_FIND_VIOLATIONS, RULES)

    page = open_context(color_scheme=scheme, reduced_motion="reduce").new_page()
    page.goto(stage.login)
    assert show_screens(page, addresses, look) == {}
    assert page.locator("html").get_attribute("data-theme") == scheme


def test_no_screen_is_wider_than_a_phone(
    open_context: Callable[..., BrowserContext], stage: Stage, addresses: Mapping[str, str]
) -> None:
    page = open_context(viewport={"width": 360, "height": 740}).new_page()
    page.goto(stage.login)
    assert show_screens(page, addresses, lambda shown: shown.evaluate(_FIND_WIDE)) == {}
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="Tasks").click()
    expect(page.get_by_role("heading", name="Tasks and reviews")).to_be_visible()
    expect(page.get_by_role("link", name="Settings")).not_to_be_in_viewport()


def test_a_whole_job_is_done_with_the_keyboard_alone(page: Page, stage: Stage, addresses: Mapping[str, str]) -> None:
    keys = page.keyboard
    await_live(page)
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    keys.press("g")
    keys.press("c")
    expect(page.get_by_role("textbox", name="What should it do?")).to_be_focused()
    keys.type("Prepare the release")
    keys.press("Enter")
    expect(read_answer(page)).to_contain_text("Release notes")
    _tab_to(page, "button", "update_plan", back=True)
    keys.press("Enter")
    expect(find_call(page, "update_plan").last.get_by_label("Arguments")).to_be_visible()
    _tab_to(page, "link", "the run")
    keys.press("Enter")
    rows = page.get_by_role("treeitem")
    expect(rows).to_have_count(3)
    _tab_to(page, "tree", "Runs")
    keys.press("ArrowLeft")
    expect(rows).to_have_count(1)
    keys.press("ArrowRight")
    expect(rows).to_have_count(3)
    keys.press("End")
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Count at the gate.")).to_be_visible()
    keys.press("g")
    keys.press("a")
    _tab_to(page, "button", "Deny")
    keys.press("Enter")
    expect(page.get_by_role("textbox", name="Why not?")).to_be_focused()
    keys.type("no hands")
    keys.press("Enter")
    expect(page.get_by_text("Nothing waits")).to_be_visible()
    expect(page.get_by_role("region", name="Decided")).to_contain_text("no hands")
    keys.press("g")
    keys.press("t")
    expect(page.get_by_role("link", name="git-status")).to_be_visible()
    keys.press("/")
    keys.type("git-status")
    _tab_to(page, "link", "git-status")
    keys.press("Enter")
    _tab_to(page, "button", "Call it")
    keys.press("Enter")
    expect(page.get_by_role("region", name="Answer")).to_contain_text("done")


def _tab_to(page: Page, role: Any, name: str, *, back: bool = False) -> None:
    """Press Tab until what has this name has the focus."""
    wanted = page.get_by_role(role, name=name).and_(page.locator(":focus"))
    page.get_by_role(role, name=name).first.wait_for()
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if wanted.count():
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", "no visible focus"
            return
    raise AssertionError(f"no Tab leads to {name}")
