"""Secrets are masked wherever settings are shown; what is no secret is not."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.app.layers import load_settings
from toolstead.app.masks import MASK, mask_value


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("server.token", "s3cret", MASK),
        ("server.token", "x", MASK),
        ("server.token", "", ""),
        ("server.token", "auto", "auto"),
        ("server.host", "127.0.0.1", "127.0.0.1"),
        ("limits.token_budget", 500, 500),
        ("plugins.p.api_key", "k", MASK),
        ("plugins.p.apiKey", "k", MASK),
        ("plugins.p.APITOKEN", "k", MASK),
        ("plugins.p.client_secret", "k", MASK),
        ("plugins.p.password", "k", MASK),
        ("plugins.p.api_key", "auto", MASK),
        ("plugins.p.pin_key", 1234, MASK),
        ("plugins.p.keys", ["a", "b"], MASK),
        ("plugins.p.secrets.first", "k", MASK),
        ("plugins.p.use_token", True, True),
        ("plugins.p.api_key", "", ""),
        ("plugins.keyboard.layout", "de", "de"),
        ("plugins.p.accounts", [{"name": "n", "token": "t"}], [{"name": "n", "token": MASK}]),
        ("plugins.p.models", ["haiku"], ["haiku"]),
        ("mcp_servers.github.env.GITHUB_PAT", "k", MASK),
        ("mcp_servers.github.headers.X-Auth", "k", MASK),
        ("mcp_servers.github.command", "server", "server"),
        ("plugins.p.env.PLACE", "k", "k"),
        ("mcp_servers.a.url", "https://me:pw@host/x", f"https://{MASK}@host/x"),
        ("tools.proxy", "http://me:pw@proxy:1", f"http://{MASK}@proxy:1"),
        ("tools.proxy", "http://proxy:1/@x", "http://proxy:1/@x"),
    ],
)
def test_a_value_is_shown_or_masked_by_its_name(path: str, value: Any, shown: Any) -> None:
    assert mask_value(path.split("."), value) == shown


def test_the_explanation_masks_the_value_and_what_it_overrode_but_the_settings_have_it() -> None:
    loaded = load_settings(
        environ={"TOOLSTEAD_TOKEN": "first-secret"},
        user_config=None,
        project_config=None,
        given={"plugins": {"p": {"api_key": "third-secret"}}},
        overrides=["server.token=second-secret", "plugins.p.api_key.deep=fourth-secret"],
    )

    assert loaded.settings.server.token == "second-secret"
    assert loaded.settings.plugins == {"p": {"api_key": {"deep": "fourth-secret"}}}
    assert "-secret" not in repr(loaded.explain_values())
    assert "-secret" not in repr(loaded)
    (token,) = [item for item in loaded.explain_values() if item.key == "server.token"]
    assert token.value == MASK
    assert token.masked
    assert token.overrode == ((MASK, "environment TOOLSTEAD_TOKEN"), ("", "default"))


def test_a_table_that_was_replaced_is_masked_by_its_own_names() -> None:
    loaded = load_settings(
        environ={},
        user_config=None,
        project_config=None,
        given={"plugins": {"p": {"login": {"token": "first-secret"}}}},
        overrides=["plugins.p.login=none"],
    )

    (login,) = [item for item in loaded.explain_values() if item.key == "plugins.p.login"]
    assert login.overrode == (({"token": MASK}, "Toolstead(settings=…)"),)
