"""The model knows every documented key, and the documentation every key of the model."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from toolstead.app.layers import load_settings
from toolstead.app.settings import (
    IN_EFFECT,
    OPEN_TABLES,
    PROFILES,
    UNIONS,
    ProfileSettings,
    ServerSettings,
    Settings,
    known_keys,
)
from toolstead.app.toml_text import toml_value

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
ROW = re.compile(r"^\| `(?P<key>[a-z_.]+)` \| `(?P<default>[^`]*)` \| (?P<allowed>.*?) \| (?P<used>yes|not yet) \|")


def rows() -> dict[str, re.Match[str]]:
    found = [ROW.match(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {row["key"]: row for row in found if row}


def test_the_page_lists_exactly_the_keys_of_the_model() -> None:
    assert list(rows()) == [".".join(key.path) for key in known_keys().values()]


@pytest.mark.parametrize("key", known_keys().values(), ids=lambda key: ".".join(key.path))
def test_the_page_tells_default_meaning_and_use_of(key: object) -> None:
    row = rows()[".".join(key.path)]

    assert row["default"] == toml_value(key.default)
    assert row["allowed"].startswith(key.allowed.replace("|", "\\|"))
    assert row["used"] == ("yes" if ".".join(key.path) in IN_EFFECT else "not yet")


def test_the_complete_file_on_the_page_is_accepted_and_says_the_defaults(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(# Every key.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    file = tmp_path / "config.toml"
    file.write_text(block[1], encoding="utf-8")

    loaded = load_settings(environ={}, user_config=file, project_config=None)

    said = tomllib.loads(block[1])
    assert {*said} == {*Settings.__struct_fields__}
    for item in loaded.explain_values():
        if item.path[0] not in (*OPEN_TABLES, PROFILES):
            assert item.value == known_keys()[item.path].default
            assert item.origin.startswith(f"{file}:"), f"{item.key} is not in the file"


def test_keys_in_effect_and_unions_are_keys() -> None:
    names = {".".join(key.path) for key in known_keys().values()}

    assert names >= IN_EFFECT
    assert known_keys().keys() >= UNIONS


def test_every_default_passes_its_own_check() -> None:
    everything: dict[str, object] = {}
    for path, key in known_keys().items():
        table = everything
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = key.default

    loaded = load_settings(environ={}, user_config=None, project_config=None, given=everything)

    assert loaded.settings == Settings()


def test_a_struct_that_is_printed_does_not_tell_secrets() -> None:
    server = ServerSettings(token="hush-hush")
    profile = ProfileSettings(token="hush-hush")
    settings = Settings(server=server, plugins={"p": {"api_key": "hush-hush"}}, profiles={"p": profile})

    assert "hush-hush" not in repr(server)
    assert "hush-hush" not in repr(settings)
    assert "hush-hush" not in repr(profile)
    assert "8420" in repr(settings)
