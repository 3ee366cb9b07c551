"""The mask of a stead's secrets: keys, settings, what tool files name, and the password of the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.flows.tool_files import shell, tool, write
from toolstead import Toolstead
from toolstead.app.keys import Keys
from toolstead.app.secret_mask import FRESH_SECONDS, SecretMask
from toolstead.app.settings import ServerSettings, Settings
from toolstead.tools.handlers.secrets import MASK
from toolstead.tools.registry import Registry


def mask_of(environ: dict[str, str], settings: Settings | None = None, now: list[float] | None = None) -> SecretMask:
    clock = now or [0.0]
    return SecretMask(Keys(environ), Registry(()), lambda: settings or Settings(), monotonic=lambda: clock[0])


@pytest.mark.parametrize(
    "name", ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "HF_TOKEN", "TAVILY_API_KEY"]
)
def test_the_keys_of_providers_are_masked(name: str) -> None:
    assert mask_of({name: "sk-0123456789"})()("my key: sk-0123456789.") == f"my key: {MASK}."


def test_secret_settings_are_masked_and_others_are_not() -> None:
    settings = Settings(
        server=ServerSettings(token="token-of-the-server"),
        plugins={
            "web": {"api_key": "key-of-a-plugin", "title": "name-of-a-plugin", "more": [{"password": "pass-word-1"}]}
        },
        mcp_servers={"files": {"headers": {"x-auth": "header-of-a-server"}, "command": "some-command"}},
    )
    shown = mask_of({"TOOLSTEAD_DATABASE_URL": "postgresql://me:pass-word-2@host/db"}, settings)()
    for secret in ("token-of-the-server", "key-of-a-plugin", "pass-word-1", "pass-word-2", "header-of-a-server"):
        assert shown(f"<{secret}>") == f"<{MASK}>"
    for plain in ("name-of-a-plugin", "some-command", "postgresql"):
        assert shown(plain) == plain


async def test_what_tool_files_take_from_the_environment_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, handler = tmp_path / "home", {"type": "http", "url": "https://x.test/", "headers": {"a": "${HEADER_SECRET}"}}
    (home / "tools").mkdir(parents=True)
    write(home / "tools" / "one.json", shell("one", "env", env={"TOKEN": "${SHELL_SECRET}"}))
    write(home / "tools" / "two.json", tool("two", handler, {}))
    environ = {"TOOLSTEAD_HOME": str(home), "SHELL_SECRET": "of-the-shell", "HEADER_SECRET": "of-the-header"}
    async with Toolstead(tmp_path, environ={**environ, "OTHER": "something-else"}, watch=False) as stead:
        parts: Any = stead._parts
        shown = SecretMask(Keys(parts._keys.environ), parts.registry, Settings)()
    assert shown("of-the-shell, of-the-header, something-else") == f"{MASK}, {MASK}, something-else"


def test_a_key_that_comes_later_is_masked_soon() -> None:
    environ, now = dict[str, str](), [0.0]
    mask = mask_of(environ, now=now)
    assert mask()("sk-0123456789") == "sk-0123456789"
    environ["OPENAI_API_KEY"] = "sk-0123456789"
    assert mask() is mask(), "it is not made again at once"
    now[0] += FRESH_SECONDS
    assert mask()("sk-0123456789") == MASK


def test_a_bad_address_of_the_database_hides_nothing_and_breaks_nothing() -> None:
    assert mask_of({"TOOLSTEAD_DATABASE_URL": "postgresql://[bad"})()("x") == "x"
