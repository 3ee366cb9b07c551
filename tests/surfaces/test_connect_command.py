"""`toolstead connect`: run as a user runs it, on configurations that are there already; nothing in them is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.programs.running import TOOLSTEAD, running
from toolstead.app.connect.clients import CLIENTS, find_home
from toolstead.app.connect.json_text import set_value
from toolstead.app.connect.kept_file import ChangedMeanwhileError
from toolstead.app.connect.plan import find_place, plan_connection, write_change
from toolstead.app.connect.target import Target
from toolstead.app.connect.toml_table import set_table

pytestmark = pytest.mark.promise("B11")

JSON = '{\n  "theme": "dark",\n  "%s": {\n    "github": {"command": "gh-mcp"}\n  },\n  "last": [1.50, 2]\n}'
JSONC = """\
// my own words
{
\t"theme": "dark", /* why */
\t"%s": {
\t\t"github": {"command": "gh-mcp"}, // mine
\t},
}
"""
TOML = """\
# mine
model = "x" # why

[mcp_servers.github]
command = "gh-mcp"

[projects."/a.b"]
trust_level = "trusted" # the last line has no newline"""
FILES = {
    "claude-code": (".claude.json", JSON % "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", JSON % "mcpServers"),
    "codex": (".codex/config.toml", TOML),
    "gemini": (".gemini/settings.json", re.sub(r",(?=( // mine)?\n\t?})", "", JSONC % "mcpServers")),
    "opencode": (".config/opencode/opencode.jsonc", JSONC % "mcp"),
    "cursor": (".cursor/mcp.json", JSONC % "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", JSONC % "servers"),
}
TABLES = {"codex": "mcp_servers", "opencode": "mcp", "vscode": "servers"}


SHOUT = """
from toolstead import tool

@tool
def shout(text: str) -> str:
    '''Say it loud.'''
    return text.upper()
"""


def connect(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolstead", "connect", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.defpath, "COLUMNS": "80", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )


def write_config(home: Path, client: str) -> Path:
    name, text = FILES[client]
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    return path


def copies_of(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.toolstead-*.bak"))


def parse(client: str, text: str) -> dict[str, Any]:
    if client == "codex":
        return tomllib.loads(text)
    lines = [line.partition("//")[0].replace("/* why */", "") for line in text.splitlines()]
    return json.loads(re.sub(r",\s*}", "}", "".join(lines)))


@pytest.mark.parametrize("client", FILES)
def test_a_client_is_connected_shown_and_disconnected_and_keeps_the_rest_of_its_file(
    client: str, home: Path, tmp_path: Path
) -> None:
    path = write_config(home, client)
    before = path.read_bytes()

    done = connect(client, "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["tools"] == len(answer["toolNames"]) > 5
    assert "git-status" in answer["toolNames"]
    assert Path(answer["backup"]).read_bytes() == before
    text = path.read_text("utf-8")
    for note in ("// my own words", "/* why */", "// mine", "# mine", "# why"):
        assert text.count(note) == before.decode().count(note)
    table = TABLES.get(client, "mcpServers")
    servers = parse(client, text)[table]
    entry = servers.pop("toolstead")
    assert {**parse(client, text), table: servers} == parse(client, before.decode())
    assert answer["command"][0] in json.dumps(entry)
    assert Path(answer["command"][0]).is_absolute()
    assert path.stat().st_mode & 0o777 == 0o640

    again = connect(client, cwd=tmp_path)
    assert "was connected already" in again.stdout
    assert (path.read_text("utf-8"), len(copies_of(path))) == (text, 1)
    listed = json.loads(connect("--json", cwd=tmp_path).stdout)["clients"]
    (shown,) = (item for item in listed if item["client"] == client)
    assert shown["found"]
    assert shown["connections"][0]["leadsTo"].endswith(" mcp")

    removed = connect(client, "--remove", cwd=tmp_path)
    assert removed.returncode == 0, removed.stderr
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert "was not connected" in connect(client, "--remove", cwd=tmp_path).stdout


@pytest.mark.parametrize("client", FILES)
def test_a_file_that_is_made_for_us_goes_with_us(client: str, home: Path, tmp_path: Path) -> None:
    shown = connect(client, "--print", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert not (home / FILES[client][0]).exists()
    made = json.loads(connect(client, "--json", cwd=tmp_path).stdout)

    path = Path(made["file"])
    assert path == home / FILES[client][0]
    assert made["backup"] is None
    assert "was not found on this machine" in made["notes"][0]
    assert parse(client, path.read_text("utf-8")) == parse(client, shown.stdout)
    assert connect(client, "--name", "second", "--no-check", cwd=tmp_path).returncode == 0
    assert copies_of(path)

    for arguments in ([], ["--name", "second"]):
        assert connect(client, *arguments, "--remove", cwd=tmp_path).returncode == 0
    assert not path.exists()
    assert (copies_of(path), path.parent in (home, home / ".config") or not path.parent.exists()) == ([], True)
    (found,) = (
        item for item in json.loads(connect("--json", cwd=tmp_path).stdout)["clients"] if item["client"] == client
    )
    assert not found["found"]


def test_a_copy_with_something_of_a_person_stays_when_the_file_that_was_made_for_us_goes(
    home: Path, tmp_path: Path
) -> None:
    assert connect("cursor", "--no-check", "--scope", "project", cwd=tmp_path).returncode == 0
    path = tmp_path / ".cursor" / "mcp.json"
    text = path.read_text("utf-8").replace('"command"', '"disabled": true, "command"')
    path.write_text(text, "utf-8")

    assert connect("cursor", "--scope", "project", "--remove", cwd=tmp_path).returncode == 0

    assert not path.exists()
    assert [copy.read_text("utf-8") for copy in copies_of(path)] == [text]


@pytest.mark.parametrize(
    ("client", "text", "why"),
    [
        ("claude-code", '{"a": 1,\n "b": }', "line 2, column 7"),
        ("claude-code", '{"a": 1} // a note', "line 1, column 10"),
        ("claude-code", '["mcpServers"]', "it holds no object"),
        ("claude-code", '{"mcpServers": []}', "'mcpServers' is no table of servers"),
        ("vscode", '{"servers": {"toolstead": 3}}', "'toolstead' is no server"),
        ("gemini", '{"a": "b\n}', "cannot be read as JSON"),
        ("codex", 'model = "x"\nmodel = "y"\n', "stays as it is: line 2: Cannot overwrite a value"),
        ("claude-code", '{"mcpServers": null}', 'its "mcpServers" is null; make it {}, or take it out'),
        ("gemini", '{\n  "ui": {} // dark\n  ,\n}', "line 3, column 3: nothing follows this comma; remove it"),
        ("codex", "model = '\udcff'\n", "it is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_not_touched(
    client: str, text: str, why: str, home: Path, tmp_path: Path
) -> None:
    path = write_config(home, client)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = path.stat()

    done = connect(client, cwd=tmp_path)

    assert done.returncode == 2
    assert str(path) in done.stderr
    assert why in done.stderr
    assert "Asking" not in done.stderr, "nothing is started for a file that cannot be changed"
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert (path.stat().st_mtime_ns, copies_of(path)) == (before.st_mtime_ns, [])


def test_a_link_stays_a_link_and_what_it_leads_to_is_changed(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "codex.toml"
    real.parent.mkdir()
    path = write_config(home, "codex")
    path.rename(real)
    path.symlink_to(real)

    assert connect("codex", cwd=tmp_path).returncode == 0

    assert path.is_symlink()
    assert not real.is_symlink()
    assert "toolstead" in tomllib.loads(real.read_text("utf-8"))["mcp_servers"]
    assert [copy.read_text("utf-8") for copy in copies_of(real)] == [TOML]


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_what_is_read_only_stays_and_is_named(what: str, home: Path, tmp_path: Path) -> None:
    path = write_config(home, "codex")
    if what == "link":  # as home-manager makes them
        (tmp_path / "store").mkdir()
        real = path.rename(tmp_path / "store" / "config.toml")
        path.symlink_to(real)
        real.chmod(0o444)
    else:
        (path if what == "file" else path.parent).chmod(0o444 if what == "file" else 0o555)
    try:
        done = connect("codex", cwd=tmp_path)
    finally:
        path.parent.chmod(0o755)

    assert done.returncode == 2
    assert "read-only" in done.stderr
    assert "--print" in done.stderr
    assert path.read_text("utf-8") == TOML
    assert copies_of(path.resolve()) == []


MINE: dict[str, dict[str, Any]] = {
    "claude-code": {"alwaysLoad": False, "timeout": 9, "cwd": "/srv"},
    "codex": {
        "env_vars": ["KEY_OF_MINE"],
        "cwd": "/srv",
        "startup_timeout_sec": 60,
        "required": False,
        "enabled": False,
        "tools": {"todos": {"approval_mode": "approve"}},
    },
    "gemini": {"cwd": "/srv", "timeout": 9, "trust": False},
    "opencode": {"cwd": "/srv", "enabled": False, "timeout": 9},
    "cursor": {"envFile": "/srv/.env", "disabled": True},
}


@pytest.mark.parametrize("client", MINE)
def test_an_older_entry_leads_here_again_and_keeps_what_a_person_put_into_it(
    client: str, home: Path, tmp_path: Path
) -> None:
    environ = "environment" if client == "opencode" else "env"
    old: dict[str, Any] = {"command": "/gone/toolstead", "args": ["mcp"]}
    if client == "opencode":
        old = {"type": "local", "command": ["/gone/toolstead", "mcp"]}
    mine = {**MINE[client], environ: {"KEY": "k"}}
    path = write_config(home, client)
    base = (TABLES.get(client, "mcpServers"), "toolstead")
    edit = set_table if client == "codex" else set_value
    path.write_text(edit(path.read_text("utf-8"), base, {**old, **mine}, *([[]] if client == "codex" else [])), "utf-8")
    assert "/gone/toolstead is gone" in " ".join(connect(cwd=tmp_path).stdout.split())

    done = connect(client, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    entry = parse(client, path.read_text("utf-8"))[base[0]]["toolstead"]
    assert "/gone" not in json.dumps(entry)
    places = entry.pop(environ)
    assert places == {"KEY": "k", "TOOLSTEAD_HOME": str(home / ".config" / "toolstead")}
    # What is absent was taken out by the person, and is not added again.
    assert {key: value for key, value in entry.items() if key not in ("type", "command", "args")} == MINE[client]
    is_off = MINE[client].get("enabled") is False or "disabled" in MINE[client]
    assert ("does not use it until you change that" in done.stdout) == is_off


def test_an_entry_that_changes_between_a_command_and_an_address_has_nothing_left_of_the_other(
    home: Path, tmp_path: Path
) -> None:
    path = write_config(home, "codex")
    assert connect("codex", "--no-check", cwd=tmp_path).returncode == 0
    text = path.read_text("utf-8").replace("required = true", 'required = true\ncwd = "/srv"\nenabled_tools = ["a"]')
    path.write_text(text, "utf-8")

    server = ["--url", "https://a.example.com", "--token-env", "TEAM", "--no-check"]
    assert connect("codex", *server, cwd=tmp_path).returncode == 0

    entry = tomllib.loads(path.read_text("utf-8"))["mcp_servers"]["toolstead"]
    address = {"url": "https://a.example.com/mcp", "bearer_token_env_var": "TEAM"}
    assert entry == {**address, "startup_timeout_sec": 30, "enabled_tools": ["a"]}
    cursor = write_config(home, "cursor")
    headers = {"X-Team": "a", "Authorization": "Bearer ${env:OLD}"}
    old = {"url": "https://a.example.com/mcp", "headers": headers}
    cursor.write_text(json.dumps({"mcpServers": {"toolstead": old}}), "utf-8")
    assert connect("cursor", *server, cwd=tmp_path).returncode == 0
    entry = json.loads(cursor.read_text("utf-8"))["mcpServers"]["toolstead"]
    assert entry["headers"] == {"X-Team": "a", "Authorization": "Bearer ${env:TEAM}"}


def test_an_address_that_an_entry_has_is_replaced_neither_by_the_command_nor_by_another(
    home: Path, tmp_path: Path
) -> None:
    path = write_config(home, "claude-code")
    entry = {"type": "http", "url": "https://tools.acme.com/mcp", "headers": {"Authorization": "Bearer ${TEAM}"}}
    text = json.dumps({"mcpServers": {"toolstead": entry}})
    path.write_text(text, "utf-8")

    for arguments in ([], ["--url", "https://b.example.com", "--no-check"]):
        done = connect("claude-code", *arguments, cwd=tmp_path)
        said = "has 'toolstead' for https://tools.acme.com/mcp already; choose another --name"
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert "toolstead connect claude-code --remove" in done.stderr
        assert (path.read_text("utf-8"), copies_of(path)) == (text, [])


def test_servers_in_one_line_of_toml_get_ours_in_their_braces_and_lose_it_again(home: Path, tmp_path: Path) -> None:
    path = write_config(home, "codex")
    text = 'model = "x" # }\nmcp_servers = { a = { command = "npx, }", args = ["{", "b"] } } # mine, {\n[tui]\n'
    path.write_text(text, "utf-8")

    for program in ("/a/toolstead", "/b/toolstead"):
        place = find_place(CLIENTS["codex"], "user", find_home(), tmp_path)
        write_change(place, plan_connection(place, Target(command=(program, "mcp"))))
        servers = tomllib.loads(path.read_text("utf-8"))["mcp_servers"]
        assert (list(servers), servers["toolstead"]["command"]) == (["a", "toolstead"], program)
        assert path.read_text("utf-8").count(" } # mine, {\n[tui]\n") == 1
    assert connect("codex", "--remove", cwd=tmp_path).returncode == 0

    assert path.read_text("utf-8") == text


def test_another_server_of_that_name_is_neither_replaced_nor_removed(home: Path, tmp_path: Path) -> None:
    path = write_config(home, "cursor")
    before = path.read_bytes()

    text = before.decode().replace("github", "toolstead").replace("gh-mcp", "/srv/other-server")
    path.write_text(text, "utf-8")
    for arguments in ([], ["--remove"]):
        done = connect("cursor", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "'toolstead' (/srv/other-server), which is not Toolstead's; choose another --name" in done.stderr
    assert path.read_text("utf-8") == text
    path.write_bytes(before)
    for arguments in (["--name", "github"], ["--name", "github", "--remove"]):
        done = connect("cursor", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert "not Toolstead's; choose another --name" in done.stderr
    assert path.read_bytes() == before
    unknown = connect("curser", cwd=tmp_path)
    assert (unknown.returncode, "did you mean 'cursor'?" in unknown.stderr) == (2, True)


def test_a_python_file_is_connected_under_its_own_name_and_taken_out_by_it(home: Path, tmp_path: Path) -> None:
    path = write_config(home, "claude-code")
    before = path.read_bytes()
    file, other = tmp_path / "my_tools.py", tmp_path / "other" / "my_tools.py"
    other.parent.mkdir()
    for one in (file, other):
        one.write_text(SHOUT, "utf-8")

    done = connect("claude-code", "my_tools.py", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["toolNames"] == ["shout"]
    servers = json.loads(path.read_text("utf-8"))["mcpServers"]
    assert servers["my_tools"]["args"] == ["mcp", str(file)]
    assert "toolstead" not in servers
    assert "my_tools.py" in connect(cwd=tmp_path).stdout
    refused = connect("claude-code", str(other), cwd=tmp_path)
    assert (refused.returncode, f"for another file already, {file}" in refused.stderr) == (2, True)
    named = connect("claude-code", str(other), "--name", "second", cwd=tmp_path)
    assert named.returncode == 0, named.stderr
    missing = connect("codex", "gone.py", cwd=tmp_path)
    assert (missing.returncode, f"there is no file {tmp_path}/gone.py" in missing.stderr) == (2, True)

    # Codex passes nothing on that is not named: what is named is there when the file is tried.
    other.write_text(f"import os\n{SHOUT}\nos.environ['NEEDED']\n", "utf-8")
    for variables, status in (([], 1), (["--env", "NEEDED"], 0)):
        tried = connect("codex", str(other), *variables, cwd=tmp_path, NEEDED="yes")
        assert tried.returncode == status, tried.stderr

    file.unlink()
    for arguments in (["my_tools.py"], ["--name", "second"]):
        assert connect("claude-code", *arguments, "--remove", cwd=tmp_path).returncode == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("client", "written"),
    [
        ("claude-code", {"env": {"A": "${A}", "B": "${B}"}}),
        ("codex", {"env_vars": ["MINE", "A", "B"]}),
        ("gemini", {"env": {"A": "${A}", "B": "${B}"}}),
        ("opencode", {"environment": {"A": "{env:A}", "B": "{env:B}"}}),
        ("cursor", {"env": {"A": "${env:A}", "B": "${env:B}"}}),
        ("vscode", {"env": {"A": "${env:A}", "B": "${env:B}"}}),
    ],
)
def test_a_variable_is_named_in_the_way_of_the_client_and_its_value_is_not_written(
    client: str, written: dict[str, Any], home: Path, tmp_path: Path
) -> None:
    path = write_config(home, client)
    assert connect(client, "--no-check", cwd=tmp_path).returncode == 0
    if client == "codex":
        path.write_text(f'{path.read_text("utf-8").rstrip()}\nenv_vars = ["MINE"]\n', "utf-8")

    done = connect(client, "--env", "A", "--env", "B", cwd=tmp_path, A="the-value-of-a")

    assert done.returncode == 0, done.stderr
    assert "Note: B is not set here" in done.stdout
    text = path.read_text("utf-8")
    assert "the-value-of-a" not in text
    entry = parse(client, text)[TABLES.get(client, "mcpServers")]["toolstead"]
    key = next(iter(written))
    found = entry[key]
    if isinstance(found, dict):
        del found["TOOLSTEAD_HOME"]
    assert found == written[key]
    assert connect(client, cwd=tmp_path).returncode == 0
    assert path.read_text("utf-8") == text


def test_a_variable_cannot_be_named_for_claude_desktop_or_by_its_value(home: Path, tmp_path: Path) -> None:
    for arguments, why in (
        (["claude-desktop", "--env", "A"], 'as "env": {"A": "…"} of our entry'),
        (["cursor", "--env", "A=value"], "and not its value"),
        (["cursor", "--env", "A", "--url", "https://example.com"], "a server has an environment of its own"),
    ):
        done = connect(*arguments, cwd=tmp_path)
        said = " ".join(done.stderr.split())
        assert (done.returncode, why in said) == (2, True), said


def test_the_users_own_tools_are_shown_first_and_a_broken_file_of_theirs_is_named(home: Path, tmp_path: Path) -> None:
    write_config(home, "gemini")
    file = home / ".config" / "toolstead" / "tools" / "mine.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    handler = {"type": "shell", "command": "echo hi"}
    tool = {"name": "zzz", "description": "Say hi to all.", "inputSchema": {"type": "object"}, "handler": handler}
    file.write_text(json.dumps({"name": "mine", "tools": [tool]}), "utf-8")

    bad = file.with_name("bad.json")
    bad.write_text('{"tools": [\n}', "utf-8")
    said = connect("gemini", cwd=tmp_path).stdout
    assert re.search(r"gets   \d+ tools in .* s: zzz, git-status, ", said)
    assert "Note: not every tool is there: ~/.config/toolstead/tools/bad.json:2:1: not valid JSON" in said


def test_a_link_to_a_folder_that_is_not_there_is_named_and_no_folder_is_made(home: Path, tmp_path: Path) -> None:
    gone = tmp_path / "drive" / "codex"
    (home / ".codex").symlink_to(gone)
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").symlink_to(gone / "mcp.json")

    for client in ("codex", "cursor"):
        done = connect(client, "--no-check", cwd=tmp_path)
        assert done.returncode == 2
        assert f"is a link to {gone}" in done.stderr
        assert "nothing was written" in done.stderr
    assert not gone.parent.exists()


def test_five_copies_are_kept_and_the_oldest_goes(home: Path, tmp_path: Path) -> None:
    path = write_config(home, "cursor")
    place = find_place(CLIENTS["cursor"], "user", find_home(), tmp_path)
    for number in range(8):
        write_change(place, plan_connection(place, Target(command=(f"/{number}/toolstead", "mcp"))))

    kept = [re.findall(r"/(\d)/toolstead", copy.read_text("utf-8")) for copy in copies_of(path)]
    assert sorted(kept) == [["2"], ["3"], ["4"], ["5"], ["6"]]


def test_a_file_that_was_made_for_us_goes_also_after_it_was_changed(home: Path, tmp_path: Path) -> None:
    place = find_place(CLIENTS["codex"], "user", find_home(), tmp_path)
    for program in ("/a/toolstead", "/b/toolstead"):
        write_change(place, plan_connection(place, Target(command=(program, "mcp"))))
    assert len(copies_of(place.path)) == 1

    assert connect("codex", "--remove", cwd=tmp_path).returncode == 0

    assert not place.path.exists()


def test_every_entry_of_this_installation_is_taken_out_at_once_and_no_other(home: Path, tmp_path: Path) -> None:
    before = {client: write_config(home, client).read_bytes() for client in FILES}
    for client in FILES:
        assert connect(client, "--no-check", cwd=tmp_path).returncode == 0
    assert connect("codex", "--no-check", "--name", "second", cwd=tmp_path).returncode == 0
    foreign = home / FILES["cursor"][0]
    foreign.write_text('{"mcpServers": {"toolstead": {"command": "/srv/toolstead", "args": ["mcp"]}}}', "utf-8")
    settings = home / ".config" / "toolstead" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("a typo", "utf-8")

    done = connect("--remove", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "Codex is not connected any more (second)." in done.stdout
    before["cursor"] = foreign.read_bytes()
    assert b"/srv/toolstead" in before["cursor"]
    assert {client: (home / FILES[client][0]).read_bytes() for client in FILES} == before


def test_what_does_not_answer_is_not_written_and_the_reason_is_said(home: Path, tmp_path: Path) -> None:
    path = write_config(home, "codex")
    settings = home / ".config" / "toolstead" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("tools.timeout = 'soon'\n", "utf-8")

    done = connect("codex", cwd=tmp_path)

    assert done.returncode == 1
    assert "Codex was not connected" in done.stderr
    assert "tools.timeout" in done.stderr
    assert "Nothing was written" in done.stderr
    settings.write_text("", "utf-8")
    at_home = connect("codex", "--profile", "nope", cwd=home).stderr
    assert "it said: toolstead: the settings have no profile 'nope'" in at_home
    settings.write_text("tools.timeout = 'soon'\n", "utf-8")
    assert (path.read_text("utf-8"), copies_of(path)) == (TOML, [])
    assert connect("codex", "--no-check", cwd=tmp_path).returncode == 0
    assert tomllib.loads(path.read_text("utf-8"))["mcp_servers"]["toolstead"]["required"] is True


def test_one_project_a_profile_and_another_folder_are_in_what_is_written(home: Path, tmp_path: Path) -> None:
    settings = home / ".config" / "toolstead" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[profiles.reader]\nallowed = ["git-*"]\n', "utf-8")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)

    done = connect("codex", "--scope", "project", "--profile", "reader", "--without-asking", "--json", cwd=project)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["toolNames"] == ["git-status", "git-diff-summary"]
    entry = tomllib.loads((project / ".codex" / "config.toml").read_text("utf-8"))["mcp_servers"]["toolstead"]
    assert entry["args"] == ["mcp", "--profile", "reader"]
    assert entry["default_tools_approval_mode"] == "approve"
    other = connect("vscode", "--project", "project", "--print", cwd=tmp_path)
    assert json.loads(other.stdout)["servers"]["toolstead"]["args"] == ["mcp", "--project", str(project)]
    refused = connect("claude-desktop", "--scope", "project", cwd=project)
    assert (refused.returncode, "no configuration for one project" in refused.stderr) == (2, True)


async def test_a_team_server_is_named_with_the_variable_of_its_token_and_never_the_token(
    home: Path, tmp_path: Path
) -> None:
    token = "a-token-of-the-team-0123456789"
    serve = [*TOOLSTEAD, "serve", "--port", "0"]
    async with running(serve, errors=tmp_path / "log.txt", cwd=tmp_path, env={"TOOLSTEAD_TOKEN": token}) as program:
        said = await program.stderr_with("MCP      http")
        url = said.partition("MCP   ")[2].split()[0]
        bare = url.removesuffix("/mcp")

        for client in ("claude-code", "codex", "gemini", "opencode", "cursor", "vscode"):
            done = connect(client, "--url", bare, "--token-env", "TEAM", "--json", cwd=tmp_path, TEAM=token)
            assert done.returncode == 0, done.stderr
            answer = json.loads(done.stdout)
            assert (answer["url"], answer["tools"] > 5) == (url, True)
            text = Path(answer["file"]).read_text("utf-8")
            assert "TEAM" in text
            assert token not in text + done.stdout + done.stderr
            assert connect(client, "--remove", cwd=tmp_path).returncode == 0

        for environ, arguments, why in (
            ({}, ["--token-env", "TEAM"], "TEAM is not set here"),
            ({"TEAM": "wrong"}, ["--token-env", "TEAM"], "does not accept the token in TEAM"),
            ({}, [], "wants a token"),
        ):
            done = connect("cursor", "--url", url, *arguments, cwd=tmp_path, **environ)
            assert (done.returncode, why in done.stderr) == (1, True), done.stderr
        for arguments, why in (
            (["--url", url, "--token-env", token], "not the token itself"),
            (["--url", f"http://x:{token}@h/mcp"], "does not belong into the address"),
            (["--token-env", "TEAM"], "--token-env is for --url"),
        ):
            done = connect("cursor", *arguments, cwd=tmp_path)
            assert (done.returncode, why in done.stderr) == (2, True), done.stderr
        desktop = connect("claude-desktop", "--url", url, cwd=tmp_path)
        assert (desktop.returncode, "Connectors" in desktop.stderr) == (2, True)
    assert not (home / ".cursor" / "mcp.json").exists()


def test_a_file_that_its_program_writes_meanwhile_is_not_overwritten(home: Path, tmp_path: Path) -> None:
    path = write_config(home, "claude-code")
    place = find_place(CLIENTS["claude-code"], "user", find_home(), tmp_path)
    change = plan_connection(place, Target(command=("/bin/toolstead", "mcp")))
    path.write_text('{"theme": "light"}', "utf-8")

    with pytest.raises(ChangedMeanwhileError):
        write_change(place, change)

    assert path.read_text("utf-8") == '{"theme": "light"}'
    assert sorted(found.name for found in path.parent.iterdir() if "claude" in found.name) == [".claude.json"]


def test_claude_codes_own_lock_is_waited_for_and_one_that_was_left_behind_is_not(home: Path, tmp_path: Path) -> None:
    path = write_config(home, "claude-code")
    lock = path.with_name(".claude.json.lock")
    lock.mkdir()
    place = find_place(CLIENTS["claude-code"], "user", find_home(), tmp_path)
    os.utime(lock, (0, 0))

    write_change(place, plan_connection(place, Target(command=("/bin/toolstead", "mcp"))))

    assert "toolstead" in path.read_text("utf-8")
    assert not lock.exists()


def test_what_is_still_connected_is_named_when_an_entry_goes_and_in_the_list(home: Path, tmp_path: Path) -> None:
    write_config(home, "codex")
    for name in ("toolstead", "mine"):
        assert connect("codex", "--no-check", "--name", name, cwd=tmp_path).returncode == 0
    path = home / FILES["codex"][0]
    path.write_text(f"{path.read_text('utf-8')}\nenabled = false\n", "utf-8")

    listed = connect(cwd=tmp_path).stdout
    one = connect("codex", "--remove", cwd=tmp_path).stdout
    none = connect("codex", "--remove", cwd=tmp_path).stdout
    last = connect("codex", "--name", "mine", "--remove", cwd=tmp_path).stdout

    assert re.search(r"^codex +yes +toolstead: .* mcp\n +mine \(off: enabled = false\): .* mcp$", listed, re.MULTILINE)
    still = "Still connected: mine (toolstead connect codex --name mine --remove)"
    assert ("'toolstead' was taken out of Codex." in one, still in one) == (True, True)
    assert ("'toolstead' was not connected" in none, still in none) == (True, True)
    assert ("Codex is not connected any more." in last, "Still" in last) == (True, False)
