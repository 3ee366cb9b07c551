"""`toolstead config`: run as a user runs it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from toolstead.app.layers import load_settings
from toolstead.app.settings import Settings


@pytest.fixture
def config(home: Path) -> Path:
    file = home / ".config" / "toolstead" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


def run(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolstead", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_show_prints_toml_that_means_the_same_settings(config: Path, tmp_path: Path) -> None:
    config.write_text(
        '[tools]\nblocked = ["git-*"]\nproxy = "a \\"b\\" \\u007f"\n[plugins.p]\nz = {}\na = [{k = 1}]\n'
        '[plugins.p.deep]\nx = 1979-05-27\n["plugins"."q r"]\n',
        encoding="utf-8",
    )

    shown = run("config", "show", "--set", "tools.timeout=1.5", cwd=tmp_path)

    assert shown.returncode == 0, shown.stderr
    again = tmp_path / "again.toml"
    again.write_text(shown.stdout, encoding="utf-8")
    loaded = load_settings(environ={}, user_config=again, project_config=None).settings
    assert (
        loaded
        == load_settings(environ={}, user_config=config, project_config=None, overrides=["tools.timeout=1.5"]).settings
    )
    assert loaded != Settings()
    assert {*tomllib.loads(shown.stdout)} >= {"runtime", "tools", "limits", "plugins", "server"}


def test_show_masks_secrets(config: Path, tmp_path: Path) -> None:
    config.write_text('[plugins.p]\napi_key = "first-secret"\n', encoding="utf-8")

    shown = run("config", "show", cwd=tmp_path, TOOLSTEAD_TOKEN="second-secret")

    assert "-secret" not in shown.stdout + shown.stderr
    assert tomllib.loads(shown.stdout)["server"]["token"] == "********"
    assert 'api_key = "********"  # masked' in shown.stdout


@pytest.mark.promise("B3")
def test_explain_tells_each_value_its_origin_and_what_it_overrode(config: Path, tmp_path: Path) -> None:
    config.write_text("\n[tools]\ntimeout = 20\n", encoding="utf-8")

    shown = run("--set", "tools.timeout=5", "config", "explain", "tools", cwd=tmp_path, TOOLSTEAD_TOOLS__TIMEOUT="10")

    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "tools.include_plan_tool = true  (default)",
        'tools.allowed = ["*"]  (default)',
        "tools.blocked = []  (default)",
        "tools.allowed_hosts = []  (default)",
        "tools.timeout = 5",
        "    from --set",
        "    instead of 10 (environment TOOLSTEAD_TOOLS__TIMEOUT)",
        *_folded(f"instead of 20 ({config}:3)"),
        "    instead of 60 (default)",
        "tools.max_output = 262144  (default)",
        'tools.proxy = ""  (default)',
    ]


def _folded(note: str) -> list[str]:
    """Fold as the command does: a path is never cut."""
    if len(note) + 4 <= 80:
        return [f"    {note}"]
    head, _, path = note.rpartition(" ")
    return [f"    {head}", f"        {path}"]


def test_explain_of_everything_is_readable_at_80_columns(tmp_path: Path) -> None:
    names = json.dumps([f"a-rather-long-tool-name-{number}" for number in range(12)])

    shown = run("config", "explain", "--set", f"tools.allowed={names}", "--set", f"tools.blocked={names}", cwd=tmp_path)

    lines = shown.stdout.splitlines()
    assert len(lines) > 30
    assert max(map(len, lines)) <= 80
    assert '    "a-rather-long-tool-name-11",' in lines


def test_a_path_longer_than_a_line_is_not_cut_in_two(tmp_path: Path) -> None:
    own = tmp_path / ("long-name-" * 5) / ("other-name-" * 5)
    own.mkdir(parents=True)
    (own / "config.toml").write_text("[server]\nport = 1\n", encoding="utf-8")

    shown = run("config", "explain", "server.port", cwd=tmp_path, TOOLSTEAD_HOME=str(own))

    assert f"{own / 'config.toml'}:2" in shown.stdout


@pytest.mark.promise("B3")
def test_explain_as_json_has_the_same_facts(config: Path, tmp_path: Path) -> None:
    config.write_text('[server]\ntoken = "auto"\nport = 1\n', encoding="utf-8")

    shown = run("config", "explain", "server", "--json", cwd=tmp_path, TOOLSTEAD_TOKEN="a-secret")

    settings = {item["key"]: item for item in json.loads(shown.stdout)["settings"]}
    assert settings["server.token"] == {
        "key": "server.token",
        "value": "********",
        "origin": "environment TOOLSTEAD_TOKEN",
        "overrode": [{"value": "auto", "origin": f"{config}:2"}, {"value": "", "origin": "default"}],
        "inEffect": True,
    }
    assert settings["server.port"]["value"] == 1
    assert all(key.startswith("server.") for key in settings)


def test_explain_of_one_key_tells_that_key_alone(tmp_path: Path) -> None:
    shown = run("config", "explain", "server.port", cwd=tmp_path)

    assert shown.stdout == "server.port = 8420  (default)\n"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("tools.timeot", "the nearest is tools.timeout"),
        ("tool", "the nearest is tools"),
        ("plugins.nowhere", "is not set anywhere"),
    ],
)
def test_explain_of_an_unknown_key_is_wrong_usage(key: str, text: str, tmp_path: Path) -> None:
    shown = run("config", "explain", key, cwd=tmp_path)

    assert shown.returncode == 2
    assert text in shown.stderr
    assert shown.stdout == ""


def test_a_mistake_in_the_file_is_told_with_its_line(config: Path, tmp_path: Path) -> None:
    config.write_text("[tools]\ntimeot = 5\n", encoding="utf-8")

    shown = run("config", "show", cwd=tmp_path)

    assert shown.returncode == 2
    assert shown.stderr == f"toolstead: {config}:2: tools.timeot: unknown key; did you mean tools.timeout?\n"
    assert shown.stdout == ""


def test_a_projects_own_settings_are_not_read_and_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / ".toolstead").mkdir()
    (tmp_path / ".toolstead" / "config.toml").write_text("[tools]\ntimeout = 1\n", encoding="utf-8")

    shown = run("config", "explain", "tools.timeout", "--project", str(tmp_path), cwd=tmp_path.parent)

    assert shown.stdout == "tools.timeout = 60  (default)\n"
    (line,) = shown.stderr.splitlines()
    assert f"{tmp_path}: this project brings .toolstead: skipped" in line
    assert "`toolstead trust`" in line


def test_a_project_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    shown = run("config", "show", "--project", "nowhere", cwd=tmp_path)

    assert shown.returncode == 2
    assert "nowhere' does not exist" in shown.stderr


BEFORE = """# mine
[runtime]
model = "x"   # why

# of tools
[tools] # t
timeout = 5
  blocked = [
  "a", # one
]

# end
"""


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        (("set", "runtime.model", "sonnet"), 'model = "x"   # why', 'model = "sonnet"   # why'),
        (("set", "tools.blocked", '["git-*"]'), '  blocked = [\n  "a", # one\n]', '  blocked = ["git-*"]'),
        (("set", "tools.proxy", "http://p:1"), '"a", # one\n]\n', '"a", # one\n]\nproxy = "http://p:1"\n'),
        (("set", "plugins.web.search", "brave"), "# end\n", '# end\n\n[plugins.web]\nsearch = "brave"\n'),
        (("unset", "tools.timeout"), "timeout = 5\n", ""),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_set_changes_one_key_and_nothing_else_of_the_file(
    config: Path, tmp_path: Path, *, arguments: tuple[str, ...], old: str, new: str, newline: str
) -> None:
    config.write_bytes(BEFORE.replace("\n", newline).encode())
    config.chmod(0o640)

    done = run("config", *arguments, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert config.read_bytes().decode() == BEFORE.replace(old, new).replace("\n", newline)
    assert config.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("before", "arguments", "said"),
    [
        (BEFORE, ("set", "tools.timeot", "3"), "tools.timeot: unknown key; did you mean tools.timeout?"),
        (BEFORE, ("set", "limits.max_depth", "-1"), "found -1 (a whole number); it must be a whole number, 0 or more"),
        (BEFORE, ("set", "tools", "3"), "tools: "),
        (BEFORE, ("set", "tools.", "3"), "is not of the form section.key"),
        (BEFORE, ("unset", "tools.proxy"), "tools.proxy is not set in "),
        ("[tools]\ntimeout = yes\n", ("set", "tools.proxy", "x"), "is not valid TOML"),
        ('runtime = {model = "x"}\n', ("set", "runtime.model", "openai:y"), "edit the file"),
        ('[mcp]\ntitle = """\n[tools]\n"""\n[tools]\ntimeout = 0\n', ("set", "tools.proxy", "x"), "tools.timeout"),
    ],
)
def test_what_cannot_be_set_is_refused_and_the_file_is_as_it_was(
    config: Path, tmp_path: Path, before: str, arguments: tuple[str, ...], said: str
) -> None:
    config.write_text(before, encoding="utf-8")

    done = run("config", *arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert config.read_text(encoding="utf-8") == before
    assert [path.name for path in config.parent.iterdir() if path.name != "data"] == ["config.toml"]


def test_a_key_is_set_where_a_text_only_looks_like_its_table(config: Path, tmp_path: Path) -> None:
    config.write_text('[mcp]\ntitle = """\n[tools]\n"""\n', encoding="utf-8")

    assert run("config", "set", "tools.timeout", "9", cwd=tmp_path).returncode == 0

    assert tomllib.loads(config.read_text(encoding="utf-8")) == {"mcp": {"title": "[tools]\n"}, "tools": {"timeout": 9}}


def test_the_file_behind_a_link_is_changed_and_a_higher_layer_is_named(config: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text("", encoding="utf-8")
    config.symlink_to(tmp_path / "dotfiles.toml")

    done = run("config", "set", "tools.timeout", "9", cwd=tmp_path, TOOLSTEAD_TOOLS__TIMEOUT="7")

    assert config.is_symlink()
    assert (tmp_path / "dotfiles.toml").read_text(encoding="utf-8") == "[tools]\ntimeout = 9\n"
    assert done.stderr.splitlines()[1] == "environment TOOLSTEAD_TOOLS__TIMEOUT counts before it: 7"


def test_path_shows_each_file_and_whether_it_counts(config: Path, tmp_path: Path) -> None:
    set_up = run("config", "set", "tools.timeout", "9", "--scope", "project", "--json", cwd=tmp_path)
    own = tmp_path / ".toolstead" / "config.toml"
    assert json.loads(set_up.stdout) == {
        "file": str(own),
        "key": "tools.timeout",
        "inEffect": {"value": 60.0, "origin": "default"},
    }
    assert "It counts after `toolstead trust`" in set_up.stderr

    layers = json.loads(run("config", "path", "--json", cwd=tmp_path, TOOLSTEAD_TOOLS__PROXY="").stdout)["layers"]

    assert layers == [
        {"name": "user", "path": str(config), "exists": False, "state": "not there"},
        {"name": "project", "path": str(own), "exists": True, "state": "not approved: toolstead trust"},
        {"name": "environment", "path": "TOOLSTEAD_TOOLS__PROXY", "exists": True, "state": "counts"},
    ]
    assert run("config", "path", "--user", cwd=tmp_path).stdout == f"{config}\n"
    shown = json.loads(run("config", "show", "--json", cwd=tmp_path, TOOLSTEAD_TOKEN="0123456789abcdef").stdout)
    assert (shown["tools"]["timeout"], shown["server"]["token"]) == (60.0, "********")


SHOUTY = """
from dataclasses import dataclass
from toolstead import Plugin

@dataclass(frozen=True)
class Settings:
    volume: int = 1

plugin = Plugin(name="shouty", settings=Settings)
"""


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("plugins.shouty.volume", "loud", "plugins.shouty: volume: it must be a whole number, not text"),
        ("plugins.shouty.volum", "3", "there is no setting 'volum'; did you mean 'volume'?"),
        ("delegation.gates", '[{command = "a && b"}]', "item 1: no shell is started, so `&&` has no meaning"),
        ("delegation.gates", '[{command = "a"}, {files = ["../x"]}]', "item 2: '../x' leads out of the task's folder"),
    ],
)
def test_a_value_that_could_never_work_is_not_written(
    config: Path, tmp_path: Path, key: str, value: str, why: str
) -> None:
    (config.parent / "plugins").mkdir()
    (config.parent / "plugins" / "shouty.py").write_text(SHOUTY, "utf-8")

    refused = run("config", "set", key, value, cwd=tmp_path)

    assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
    assert not config.exists()
