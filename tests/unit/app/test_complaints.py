"""A setting that is wrong is refused with its place, what was found and what would be right."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from toolstead.app.layers import load_settings
from toolstead.errors import SettingsError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def refused(
    *overrides: str,
    text: str | bytes | None = None,
    file: Path | None = None,
    environ: dict[str, str] | None = None,
    given: Any = None,
) -> SettingsError:
    if text is not None and file is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as caught:
        load_settings(environ=environ or {}, user_config=file, project_config=None, overrides=overrides, given=given)
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("[tools]\ntimeout = 0\n", 2, "tools.timeout"),
        ("# x\n\ntools.timeout = 0\n", 3, "tools.timeout"),
        ("tools = {allowed = ['*'], timeout = 0}\n", 1, "tools.timeout"),
        ("\n[tools]\n'timeout' = 0\n", 3, "tools.timeout"),
        ('["tools"]\n"time\\u006fut" = 0\n', 2, "tools.timeout"),
        ("[tools]\r\nallowed = [\r\n  'a',\r\n]\r\ntimeout = 0\r\n", 5, "tools.timeout"),
        ("[tools]\nallowed = [\n  'a',\n  # why\n  7,\n]\n", 2, "tools.allowed"),
        ("[runtime.claude]\n\ntools = ['x', 1]", 3, "runtime.claude.tools"),
        ("[runtime]\nclaude.tools = 'x'", 2, "runtime.claude.tools"),
        ("[tools.timeout]\nx = 1", 1, "tools.timeout"),
        ("[server]\nport = 1\n[[tools]]\ntimeout = 1", 3, "tools"),
        ("\nplugins = 1", 2, "plugins"),
        ("[plugins]\nx = 1", 2, "plugins.x"),
    ],
)
def test_a_bad_value_is_found_on_its_line(text: str, line: int, key: str, file: Path) -> None:
    error = refused(text=text, file=file)

    assert error.origin == f"{file}:{line}"
    assert error.key == key
    assert "it must be" in error.reason


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("tools.timeout=0", "found 0 (a whole number); it must be a number of seconds above 0"),
        ("tools.timeout=-1.5", "found -1.5 (a number); it must be a number of seconds above 0"),
        ("tools.timeout=inf", "found inf (a number); it must be a number of seconds above 0"),
        ("tools.timeout=nan", "found nan (a number); it must be a number of seconds above 0"),
        ("tools.timeout=soon", 'found "soon" (text); it must be a number of seconds above 0'),
        ("tools.timeout=true", "found true (true or false); it must be a number of seconds above 0"),
        ("tools.max_output=1023", "found 1023 (a whole number); it must be a whole number of bytes, 1024 or more"),
        ("server.max_body=1023", "found 1023 (a whole number); it must be a whole number of bytes, 1024 or more"),
        (
            "server.port=65536",
            "found 65536 (a whole number); it must be a whole number from 0 (any free port) to 65535",
        ),
        ("server.port=-1", "found -1 (a whole number); it must be a whole number from 0 (any free port) to 65535"),
        ("server.host=", 'found "" (text); it must be a host name or address'),
        ("server.host=http://x", 'found "http://x" (text); it must be a host name or address'),
        ("limits.cost_budget=inf", "found inf (a number); it must be an amount in USD, 0 or more"),
        ("limits.max_depth=1.5", "found 1.5 (a number); it must be a whole number, 0 or more"),
        ("sessions.max_live=0", "found 0 (a whole number); it must be a whole number, 1 or more"),
        ("tools.proxy=5", "found 5 (a whole number); it must be text; in quotes it is text"),
        ("tools.proxy=2024-01-01", "found 2024-01-01 (a date or time); it must be text"),
        (
            "runtime.default=claud",
            'found "claud" (text); it must be one of auto, kernel, claude, codex, scripted',
        ),
        (
            "tools.blocked=git-*",
            (
                'found "git-*" (text); it must be a list of tool names or patterns, such as ["git-*"]'
                ' (letters, digits, _ - and * ? [ ]); write ["git-*"]'
            ),
        ),
        (
            'tools.blocked=["ok", "git status"]',
            (
                'found "git status" (text) as item 2; it must be a list of tool names or patterns, such as ["git-*"]'
                " (letters, digits, _ - and * ? [ ])"
            ),
        ),
        (
            'server.allowed_origins=["https://a.org/"]',
            (
                'found "https://a.org/" (text) as item 1; it must be a list of origins, such as ["https://example.org"]'
                " (scheme and host, no path)"
            ),
        ),
        (
            'server.allowed_hosts=["https://a.org"]',
            (
                'found "https://a.org" (text) as item 1; it must be a list of hosts, such as'
                ' ["example.org", "10.0.0.7:8080"]'
            ),
        ),
        ("tools=5", "found 5 (a whole number); it must be a table: [tools]"),
        ("plugins=5", "found a whole number; it must be a table: [plugins.NAME]"),
        ("profiles=5", "found a whole number; it must be a table: [profiles.NAME]"),
        ("profiles.p=hush", "found text; it must be a table: [profiles.NAME]"),
        ("profiles.p.alowed=[]", "unknown key; did you mean profiles.p.allowed?"),
        ("profiles.p.xyz={a=1}", "unknown key; known here: allowed, blocked, token, scope"),
        ('profiles."a b"={}', "is no name of a profile: use 1 to 64 letters, digits, _ and -; it is in URLs"),
        (
            "profiles.p.token=auto",
            'found "********" (text); it must be ASCII text without blanks, not "auto", or "" for none',
        ),
        ("plugins.p=hush", "found text; it must be a table: [plugins.p]"),
    ],
)
def test_a_bad_value_is_told_with_what_was_found_and_what_is_allowed(override: str, reason: str) -> None:
    error = refused(override)

    assert error.reason == reason
    assert error.origin == "--set"
    assert str(error) == f"--set: {override.partition('=')[0]}: {reason}"


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("tools.timeot=1", "unknown key; did you mean tools.timeout?"),
        ("tool.timeout=1", "unknown key; did you mean tools?"),
        ("plugin.validation.enabled=true", "unknown key; did you mean plugins?"),
        ("timeout=1", "unknown key; did you mean tools.timeout?"),
        ("server.timeout=1", "unknown key; did you mean server.ask_timeout?"),
        ("server.allowed=1", "unknown key; did you mean server.allowed_hosts?"),
        ("runtime.claud.tools=[]", "unknown key; did you mean runtime.claude?"),
        ("limits.ttl=1", "unknown key; did you mean sessions.ttl?"),
        ("agents=[]", "unknown key; did you mean multi_agent.agents?"),
    ],
)
def test_an_unknown_key_names_the_nearest_one(override: str, reason: str) -> None:
    assert refused(override).reason == reason


def test_an_unknown_key_like_no_other_lists_its_neighbours() -> None:
    reason = refused("sessions.zzz=1").reason
    assert reason.endswith("; known here: ttl, max, max_live")
    assert "the nearest" not in reason
    assert "did you mean" not in refused("foo.bar=1").reason


def test_an_unknown_key_is_found_on_its_line(file: Path) -> None:
    error = refused(text="[server]\nport = 1\n\nprot = 2\n", file=file)

    assert error.origin == f"{file}:4"
    assert error.key == "server.prot"
    assert "server.port" in error.reason


def test_a_dot_inside_a_quoted_name_is_explained(file: Path) -> None:
    error = refused(text='"tools.timeout" = 1\n', file=file)

    assert error.origin == f"{file}:1"
    assert "the dot is inside a name" in error.reason
    assert "tools.timeout" in refused(given={"tools.timeout": 1}).reason


def test_all_faults_of_a_file_are_told_together(file: Path) -> None:
    error = refused(text="[tools]\ntimeout = 0\nx_y = 1\n[server]\nport = 'a'\n", file=file)

    assert error.key == "tools.timeout"
    lines = str(error).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{file}:2", f"{file}:3", f"{file}:5"]
    assert "server.port" in lines[2]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[tools]\ntimeout = \n", 2, "Invalid value"),
        ("a = 1\na = 2\n", 2, "Cannot overwrite"),
        ("x = [\n 1,\n", 2, "at end of document"),
        ("[tools\n", 1, "Expected ']'"),
    ],
)
def test_a_syntax_error_is_told_with_file_and_line(text: str, line: int, why: str, file: Path) -> None:
    error = refused(text=text, file=file)

    assert error.origin == f"{file}:{line}"
    assert error.key == ""
    assert error.reason.startswith("is not valid TOML: ")
    assert why in error.reason


def test_a_file_nested_without_end_is_refused(file: Path) -> None:
    assert "nested too deeply" in refused(text="a = " + "[" * 9000 + "]" * 9000, file=file).reason


def test_a_file_that_is_not_utf8_is_refused_with_the_line(file: Path) -> None:
    error = refused(text=b"[tools]\n# caf\xe9\n", file=file)

    assert error.origin == f"{file}:2"
    assert "UTF-8" in error.reason


def test_a_file_of_too_many_bytes_is_refused_though_it_has_fewer_characters(file: Path) -> None:
    error = refused(text="# " + "é" * 200_000, file=file)

    assert error.origin == str(file)
    assert error.reason == "has more than 262,144 bytes, the most that settings have; remove what is no setting"


def test_a_file_that_cannot_be_read_is_refused(file: Path) -> None:
    file.mkdir()

    error = refused(file=file)

    assert error.origin == str(file)
    assert error.reason == "cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("TOOLSTEAD_TOOLS_TIMEOUT", "unknown name; did you mean TOOLSTEAD_TOOLS__TIMEOUT?"),
        ("TOOLSTEAD_PORT", "unknown name; did you mean TOOLSTEAD_SERVER__PORT?"),
        ("TOOLSTEAD_SERVER_PORT", "unknown name; did you mean TOOLSTEAD_SERVER__PORT?"),
        ("TOOLSTEAD_TOKN", "unknown name; the nearest is TOOLSTEAD_TOKEN"),
        ("TOOLSTEAD_HOM", "unknown name; the nearest is TOOLSTEAD_HOME"),
        ("TOOLSTEAD_TOOLS__", "unknown name; the nearest is TOOLSTEAD_TOOLS_DIR"),
        ("TOOLSTEAD___PORT", "unknown name; the nearest is TOOLSTEAD_SERVER__PORT"),
        ("TOOLSTEAD_", "unknown name; the nearest is "),
        ("TOOLSTEAD_TOOLS__TIMEOT", "unknown key; did you mean TOOLSTEAD_TOOLS__TIMEOUT?"),
        ("TOOLSTEAD_TOOL__TIMEOUT", "unknown key; did you mean TOOLSTEAD_TOOLS__<KEY>?"),
        ("TOOLSTEAD_tools__timeout", "settings in the environment are written in capitals: TOOLSTEAD_TOOLS__TIMEOUT"),
        ("TOOLSTEAD_TOOLS__TIMEOUT", 'found "x" (text)'),
    ],
)
def test_a_wrong_name_in_the_environment_is_refused_with_the_nearest(name: str, reason: str) -> None:
    error = refused(environ={name: "x"})

    assert error.origin == f"environment {name}"
    assert error.reason.startswith(reason)


@pytest.mark.parametrize(
    "override", ["tools.timeout", "=5", "tools..timeout=5", "", "tools timeout=5", '"tools.timeout=5']
)
def test_an_override_of_another_form_is_refused(override: str) -> None:
    error = refused(override)

    assert error.origin == "--set"
    assert "section.key=value" in error.reason


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"plugins": {"p": {"x": None}}}, "None"),
        ({"plugins": {"p": {"x": {1, 2}}}}, "a Python set"),
        ({"plugins": {"p": {"x": [object()]}}}, "a Python object"),
        ({"plugins": {"p": {"x": [{1: 2}]}}}, "a table with names that are not text"),
        ({"plugins": {"p": {"x": "\udcff"}}}, "text that is not valid Unicode"),
        ({"tools": {"allowed": {"a"}}}, "a Python set"),
        ({"tools": {"timeout": None}}, "None"),
        ({"tools": {"proxy": "\udcff"}}, "text that is not valid Unicode"),
        ({"tools": None}, "None"),
    ],
)
def test_what_toml_cannot_hold_is_refused_from_python_too(given: Any, found: str) -> None:
    error = refused(given=given)

    assert error.origin == "Toolstead(settings=…)"
    assert error.reason.startswith(f"found {found}")


def test_what_goes_beyond_the_bounds_is_refused_from_python_too() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep, "b": [[1]]}
    error = refused(given={"plugins": {"p": deep}})
    assert (error.key, error.origin) == ("plugins.p.a", "Toolstead(settings=…)")
    assert error.reason == "is nested too deeply: more than 32 tables and lists within each other; use fewer"
    assert "found a number of more than 200 digits" in refused(given={"plugins": {"p": {"x": 10**5_000}}}).reason
    assert "found text with a null character" in refused(given={"tools": {"proxy": "a\0"}}).reason
    for name, why in {"a\0": "text with a null character", "\udcff": "text that is not valid Unicode"}.items():
        assert refused(given={"plugins": {name: {"x": 1}}}).reason == f"has a name that is {why}; give it another"
        assert "names that are not valid text" in refused(given={"plugins": {"p": {"x": [{name: 1}]}}}).reason
    lines = refused(given={f"a{number}": 1 for number in range(9_000)}).reason.splitlines()
    assert (len(lines), lines[-1]) == (51, "8,950 more faults; mend these first")
    assert "'x.x" in (reason := refused(f"{'.'.join('x' * 40_000)}=1").reason)
    assert "has a key of more than 32 parts" in reason


def test_a_name_that_is_not_text_is_refused() -> None:
    assert "names are text" in refused(given={"tools": {5: 1}}).reason


def test_an_endless_value_is_shown_in_part() -> None:
    assert len(refused("tools.timeout=" + "x" * 10_000).reason) < 250


@pytest.mark.parametrize(
    ("override", "environ", "given"),
    [
        ("server.token=[4711]", None, None),
        (None, {"TOOLSTEAD_TOKEN": "47 11"}, None),
        (None, {"TOOLSTEAD_SERVER__TOKEN": "4711"}, None),
        (None, None, {"server": {"token": datetime.date(4711, 1, 1)}}),
        ("plugins.api_key=4711", None, None),
        ("tools.timeout=http://me:4711@x/", None, None),
        ("plugins p.api_key=4711", None, None),
    ],
)
def test_a_complaint_never_tells_a_secret(
    override: str | None, environ: dict[str, str] | None, given: dict[str, Any] | None
) -> None:
    error = refused(*([override] if override else []), environ=environ, given=given)

    assert "4711" not in str(error)
    assert "47 11" not in str(error)
