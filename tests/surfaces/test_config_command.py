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
        ("plugins.validation", "is not set anywhere"),
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
