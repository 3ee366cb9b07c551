"""The laboratory of MCP clients, which no other test runs: its table fits its drivers, its page and itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.results import FIRST_LINE
from tests.clients.table import CHECKS, CLIENTS, Client

ROOT = Path(__file__).parents[2]
LABORATORY = ROOT / "tests" / "clients"
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
NAMED = "".join((LABORATORY / name).read_text(encoding="utf-8") for name in ("bridges.py", "programs.py", "meeting.py"))


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_each_client_has_a_driver_pinned_packages_and_reasons_for_what_is_tried(client: Client) -> None:
    if client.driver.endswith((".py", ".mjs")):
        assert (LABORATORY / "drivers" / client.driver).is_file()
        assert client.python or client.node
    else:
        assert f'"{client.driver}"' in NAMED
    for package in (*client.python, *client.node):
        assert re.fullmatch(r"[@\w./-]+(\[[\w,]+\])?(==|<|@)[\w.]+", package), package
    assert set(client.checks) <= set(CHECKS)
    for reasons in (client.limits, client.ours):
        assert {key.partition(" ")[0] for key in reasons} <= set(client.checks)
        assert {key.partition(" ")[2] for key in reasons} <= {"", *client.transports}
    assert not client.limits.keys() & client.ours.keys()


def test_every_driver_is_used() -> None:
    scripts = {path.name for path in (LABORATORY / "drivers").iterdir() if path.name.startswith("with_")}
    assert scripts == {client.driver for client in CLIENTS.values() if "." in client.driver}


def test_the_page_shows_every_client_and_every_check() -> None:
    assert FIRST_LINE in PAGE
    for client in CLIENTS.values():
        assert f"| {client.title} |" in PAGE, client.title
    for check, meaning in CHECKS.items():
        assert f"| {check} | {meaning} |" in PAGE
