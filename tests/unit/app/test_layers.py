"""The layers of settings: each overrides the ones below, and each value says where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstead.app.layers import GIVEN, Explained, LoadedSettings, load_settings, settings_for
from toolstead.app.places import Places
from toolstead.errors import SettingsError
from toolstead.processes.mark import MARK


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "user.toml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project.toml"


def load(
    environ: dict[str, str] | None = None,
    user: Path | None = None,
    project: Path | None = None,
    overrides: tuple[str, ...] = (),
    given: dict[str, Any] | None = None,
) -> LoadedSettings:
    return load_settings(
        environ=environ or {},
        user_config=user,
        project_config=(project, project.read_bytes()) if project is not None else None,
        overrides=overrides,
        given=given,
    )


def told(loaded: LoadedSettings, key: str) -> Explained:
    (found,) = [item for item in loaded.explain_values() if item.key == key]
    return found


@pytest.mark.parametrize("top", range(6))
def test_each_layer_overrides_those_below_and_says_so(top: int, user: Path, project: Path) -> None:
    user.write_text("[tools]\ntimeout = 1\n", encoding="utf-8")
    project.write_text("\n[tools]\ntimeout = 2\n", encoding="utf-8")
    origins = [
        (60, "default"),
        (1, f"{user}:2"),
        (2, f"{project}:3"),
        (3, "environment TOOLSTEAD_TOOLS__TIMEOUT"),
        (4, GIVEN),
        (5, "--set"),
    ]

    loaded = load(
        user=user if top >= 1 else None,
        project=project if top >= 2 else None,
        environ={"TOOLSTEAD_TOOLS__TIMEOUT": "3"} if top >= 3 else None,
        given={"tools": {"timeout": 4}} if top >= 4 else None,
        overrides=("tools.timeout=5",) if top >= 5 else (),
    )

    value, origin = origins[top]
    assert loaded.settings.tools.timeout == value
    assert told(loaded, "tools.timeout").value == value
    assert told(loaded, "tools.timeout").origin == origin
    assert told(loaded, "tools.timeout").overrode == tuple(reversed(origins[:top]))


def test_nothing_said_anywhere_gives_the_documented_defaults() -> None:
    settings = load().settings

    assert settings.tools.allowed == ("*",)
    assert settings.tools.max_output == 262_144
    assert settings.server.host == "127.0.0.1"
    assert settings.server.port == 8420
    assert settings.sessions.ttl == 480
    assert settings.plugins == {}


def test_absent_files_are_no_error(tmp_path: Path) -> None:
    assert load(user=tmp_path / "no" / "config.toml").settings.server.port == 8420


def test_tables_merge_and_lists_replace(user: Path, project: Path) -> None:
    user.write_text(
        '[tools]\nallowed = ["a", "b"]\n[plugins.p]\nx = 1\ny = [1, 2]\n[plugins.p.deep]\nk = 1\n', encoding="utf-8"
    )
    project.write_text(
        '[tools]\nallowed = ["c"]\n[plugins.p]\ny = [3]\nz = 4\n[plugins.p.deep]\nl = 2\n', encoding="utf-8"
    )

    settings = load(user=user, project=project).settings

    assert settings.tools.allowed == ("c",)
    assert settings.plugins == {"p": {"x": 1, "y": [3], "z": 4, "deep": {"k": 1, "l": 2}}}


def test_what_is_blocked_anywhere_is_blocked(user: Path, project: Path) -> None:
    user.write_text('[tools]\nblocked = ["a", "b"]\n', encoding="utf-8")
    project.write_text('[tools]\nblocked = ["b", "c"]\n', encoding="utf-8")

    loaded = load(user=user, project=project, overrides=('tools.blocked=["d"]', "tools.blocked=[]"))

    assert loaded.settings.tools.blocked == ("a", "b", "c", "d")
    explained = told(loaded, "tools.blocked")
    assert explained.value == ["a", "b", "c", "d"]
    assert explained.origin == f"{user}:2 + {project}:2 + --set"
    assert explained.overrode == ()
    assert told(load(), "tools.blocked").origin == "default"


def test_a_value_may_take_the_place_of_a_plugins_table_and_the_other_way_round(user: Path, project: Path) -> None:
    user.write_text("[plugins.p]\na = 1\n[plugins.p.b]\nc = 2\n", encoding="utf-8")
    project.write_text("[plugins.p]\nb = 5\na.x = 1\n", encoding="utf-8")

    loaded = load(user=user, project=project)

    assert loaded.settings.plugins == {"p": {"a": {"x": 1}, "b": 5}}
    assert told(loaded, "plugins.p.b").overrode == (({"c": 2}, f"{user}:4"),)
    assert told(loaded, "plugins.p.a.x").overrode == ((1, f"{user}:2"),)


def test_an_empty_table_of_a_plugin_is_kept_and_empties_nothing(user: Path, project: Path) -> None:
    user.write_text("[plugins.p]\na = 1\n[plugins.q]\n[plugins.r]\n", encoding="utf-8")
    project.write_text("[plugins.p]\n[plugins.r]\nx = 1\n", encoding="utf-8")

    loaded = load(user=user, project=project)

    assert loaded.settings.plugins == {"p": {"a": 1}, "q": {}, "r": {"x": 1}}
    assert told(loaded, "plugins.r.x").overrode == ()


def test_the_explanation_has_the_documented_order(user: Path) -> None:
    user.write_text("[plugins.z]\nb = 1\na = 1\n[plugins.a.sub]\nk = 1\n[plugins.a]\nz = 1\n", encoding="utf-8")

    names = [item.key for item in load(user=user).explain_values()]

    assert names[:3] == ["runtime.default", "runtime.agent", "runtime.model"]
    assert names[-1] == "server.oauth.jwks_uri"
    plugins = [name for name in names if name.startswith("plugins")]
    assert plugins == ["plugins.a.z", "plugins.a.sub.k", "plugins.z.a", "plugins.z.b"]
    assert names.index("sessions.max_live") < names.index("plugins.a.z") < names.index("server.host")


def test_the_explanation_tells_what_nothing_reads_yet() -> None:
    loaded = load(overrides=("plugins.p.x=1", "mcp_servers.s.x=1"))

    assert told(loaded, "tools.timeout").in_effect
    assert told(loaded, "plugins.p.x").in_effect
    assert told(loaded, "multi_agent.agents").in_effect
    assert not told(loaded, "mcp_servers.s.x").in_effect


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30", 30),
        (" 1.5 ", 1.5),
        ("true", True),
        ('["a", "b"]', ["a", "b"]),
        ("{k = 1}", {"k": 1}),
        ('"quoted"', "quoted"),
        ("bare", "bare"),
        ("two words", "two words"),
        ("", ""),
        ("http://x/#y", "http://x/#y"),
        ("[broken", "[broken"),
        ("1\nother = 2", "1\nother = 2"),
        ("9" * 5000, "9" * 5000),
        ("[" * 5000, "[" * 5000),
        ("a=b", "a=b"),
    ],
)
def test_a_value_is_toml_and_what_is_no_toml_is_text(text: str, value: object) -> None:
    by_option = load(overrides=(f"plugins.p.x={text}",)).settings.plugins["p"]["x"]
    by_environment = load(environ={"TOOLSTEAD_PLUGINS__P__X": text}).settings.plugins["p"]["x"]

    assert by_option == value
    assert by_environment == value


def test_the_environment_reaches_deeper_tables() -> None:
    settings = load(
        environ={
            "TOOLSTEAD_RUNTIME__CLAUDE__TOOLS": '["Read"]',
            "TOOLSTEAD_MCP_SERVERS__GITHUB__ENV__A": "1",
            "TOOLSTEAD_MCP_SERVERS__GITHUB__ENV": '{GITHUB_TOKEN = "x", a = 0}',
            "HOME": "/home/me",
            "NOT_TOOLSTEAD_X": "1",
        }
    ).settings

    assert settings.runtime.claude.tools == ("Read",)
    assert settings.mcp_servers == {"github": {"env": {"GITHUB_TOKEN": "x", "a": 1}}}


def test_the_names_with_one_underscore_are_no_settings() -> None:
    fixed = {
        "TOOLSTEAD_HOME": "/x",
        "TOOLSTEAD_TOOLS_DIR": "/y",
        "TOOLSTEAD_DATABASE_URL": "postgres://",
        "TOOLSTEAD_REQUIRE": "git",
        MARK: "a command that a tool started",
    }

    assert load(environ=fixed).settings == load().settings


def test_the_token_may_come_from_its_own_name_word_for_word(user: Path) -> None:
    user.write_text('[server]\ntoken = "auto"\n', encoding="utf-8")

    loaded = load(user=user, environ={"TOOLSTEAD_TOKEN": "12345"})

    assert loaded.settings.server.token == "12345"
    assert told(loaded, "server.token").origin == "environment TOOLSTEAD_TOKEN"
    assert told(loaded, "server.token").overrode == (("auto", f"{user}:2"), ("", "default"))


def test_an_empty_token_variable_counts_as_none_and_takes_no_token_away(user: Path) -> None:
    user.write_text('[server]\ntoken = "auto"\n', encoding="utf-8")

    assert load(user=user, environ={"TOOLSTEAD_TOKEN": ""}).settings.server.token == "auto"


def test_a_later_override_wins_and_quoted_parts_are_understood() -> None:
    loaded = load(overrides=("tools.timeout=1", "tools.timeout = 2", 'plugins."a.b".x=1'))

    assert loaded.settings.tools.timeout == 2
    assert told(loaded, "tools.timeout").overrode == ((1, "--set"), (60, "default"))
    assert loaded.settings.plugins == {"a.b": {"x": 1}}
    assert told(loaded, 'plugins."a.b".x').path == ("plugins", "a.b", "x")


def test_python_may_give_tuples_and_other_mappings() -> None:
    settings = load(given={"tools": {"allowed": ("a", "b")}, "plugins": {"p": {"x": ("y",)}}}).settings

    assert settings.tools.allowed == ("a", "b")
    assert settings.plugins["p"]["x"] == ["y"]


def test_a_byte_order_mark_and_windows_line_ends_are_read(user: Path) -> None:
    user.write_bytes(b"\xef\xbb\xbf[tools]\r\ntimeout = 7\r\n")

    loaded = load(user=user)

    assert loaded.settings.tools.timeout == 7
    assert told(loaded, "tools.timeout").origin == f"{user}:2"


class TestSettingsForAProject:
    @pytest.fixture
    def places(self, tmp_path: Path) -> Places:
        project = tmp_path / "project"
        (project / ".toolstead").mkdir(parents=True)
        (tmp_path / "user").mkdir()
        return Places(project=project, user=tmp_path / "user", data=tmp_path / "data")

    def test_a_projects_own_file_is_not_read(self, places: Places) -> None:
        (places.project / ".toolstead/config.toml").write_text("[tools]\ntimeout = 1\n", encoding="utf-8")

        assert settings_for(places, environ={}).settings.tools.timeout == 60

    def test_what_was_approved_of_a_project_counts_whatever_its_file_says_now(self, places: Places) -> None:
        (places.project / ".toolstead/config.toml").write_text("[tools]\ntimeout = 1\n", encoding="utf-8")

        loaded = settings_for(places, environ={}, approved_config=b"[tools]\ntimeout = 2\n")

        assert loaded.settings.tools.timeout == 2
        assert told(loaded, "tools.timeout").origin == f"{places.project}/.toolstead/config.toml:2"

    def test_no_file_is_no_reason_for_a_warning(self, places: Places, caplog: pytest.LogCaptureFixture) -> None:
        settings_for(places, environ={})

        assert not caplog.records

    def test_a_user_folder_inside_the_project_is_read_as_the_users(
        self, places: Places, caplog: pytest.LogCaptureFixture
    ) -> None:
        (places.project / ".toolstead/config.toml").write_text("[tools]\ntimeout = 1\n", encoding="utf-8")
        inside = Places(project=places.project, user=places.project / ".toolstead", data=places.data)

        assert settings_for(inside, environ={}).settings.tools.timeout == 1
        assert not caplog.records

    def test_the_environment_of_the_process_counts_unless_another_is_given(
        self, places: Places, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOOLSTEAD_TOOLS__TIMEOUT", "3")

        assert settings_for(places).settings.tools.timeout == 3
        assert settings_for(places, environ={}).settings.tools.timeout == 60

    def test_overrides_and_python_reach_the_layers(self, places: Places) -> None:
        settings = settings_for(
            places, environ={}, given={"tools": {"timeout": 1, "max_output": 2000}}, overrides=["tools.timeout=2"]
        ).settings

        assert settings.tools.timeout == 2
        assert settings.tools.max_output == 2000


def test_an_error_in_a_lower_layer_is_told_even_when_overridden(user: Path) -> None:
    user.write_text("[tools]\ntimeout = 0\n", encoding="utf-8")

    with pytest.raises(SettingsError, match=r"user\.toml:2"):
        load(user=user, overrides=("tools.timeout=5",))
