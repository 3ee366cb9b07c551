"""How a person gets about in the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def go_to(page: Page, screen: str) -> None:
    """Open a screen by its name in the menu."""
    page.get_by_role("navigation", name="Screens").get_by_role("link", name=screen).click()
    expect(page).to_have_title(f"{screen} · Toolstead")


def await_live(page: Page) -> None:
    """Wait until the page has its connection: what happens from now on, it is sent."""
    expect(page.locator(".side-foot [data-live=live]")).to_be_visible()


def ask_agent(page: Page, prompt: str) -> None:
    """Begin a conversation in Chat."""
    go_to(page, "Chat")
    field = page.get_by_role("textbox", name="What should it do?")
    if not field.is_visible():
        page.get_by_role("link", name="New conversation").click()
    field.fill(prompt)
    field.press("Enter")
    expect(page.get_by_role("heading", name=prompt)).to_be_visible()


def read_answer(page: Page) -> Locator:
    """What an agent has said, the last message."""
    return page.get_by_role("article", name="assistant").last


def find_call(page: Page, tool: str) -> Locator:
    """The card of a call in a conversation."""
    return page.get_by_role("region", name=f"Call of {tool}")
