"""`toolstead tools`: run as a user runs it, in a process of its own, in a project of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.tool_files import shell, tool, write
from tests.surfaces.talking_project import Project

Finished = subprocess.CompletedProcess[str]


def toolstead(*arguments: str, cwd: Path, stdin: str = "", **environ: str) -> Finished:
    return subprocess.run(
        [sys.executable, "-m", "toolstead", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", **environ},
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def at_terminal(*arguments: str, cwd: Path) -> str:
    """What a person sees at a terminal of 80 columns."""
    return Project(folder=cwd, home=cwd).on_terminal(*arguments)


def tool_file() -> Path:
    """A tool file of the user."""
    folder = Path(os.environ["TOOLSTEAD_HOME"]) / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "mine.json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    (folder / "README.md").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    (tmp_path / "outside.txt").write_text("not yours\n")
    (folder / "way-out").symlink_to(tmp_path / "outside.txt")
    return folder


@pytest.mark.promise("R1")
def test_git_status_prints_what_git_says(project: Path) -> None:
    done = toolstead("tools", "call", "git-status", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "?? README.md\n?? way-out\n"


@pytest.mark.promise("R1")
def test_file_reader_prints_the_lines_that_were_asked_for(project: Path) -> None:
    done = toolstead("tools", "call", "file-reader", "path=README.md", "startLine=1", "endLine=5", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "line 1\nline 2\nline 3\nline 4\nline 5\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["file-reader", "path=../../etc/passwd"], 1, "outside the project"),
        (["file-reader", "path=/etc/passwd"], 1, "outside the project"),
        (["file-reader", "path=way-out"], 1, "outside the project"),
        (["file-reader", "path=missing.txt"], 1, "missing.txt"),
        (["file-reader", "path=README.md", "startLine=five"], 2, '/startLine: expected integer, got string "five"'),
        (["file-reader", "path:=5"], 2, "/path: expected string, got number 5"),
        (["file-reader"], 2, '"path" is missing'),
        (["file-reader", "pth=README.md"], 2, 'did you mean "path"?'),
        (["file-reder", "path=README.md"], 2, "unknown tool 'file-reder'; did you mean 'file-reader'?"),
        (["file-reader", "README.md"], 2, "arguments look like key=value, or key:=JSON"),
        (["file-reader", "path:={"], 2, "not valid JSON"),
        (["file-reader", "--input", "[1]"], 2, "a JSON object is needed"),
        (["git-status", "path=../.."], 1, "outside the project"),
    ],
)
def test_what_goes_wrong_is_said_on_stderr_with_its_exit_status(
    project: Path, arguments: list[str], status: int, said: str
) -> None:
    done = toolstead("tools", "call", *arguments, cwd=project)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_input_comes_from_an_option_or_stdin_and_pairs_win(project: Path) -> None:
    given = json.dumps({"path": "README.md", "startLine": 2, "endLine": 9})
    from_stdin = toolstead("tools", "call", "file-reader", "--input", "-", "endLine=3", cwd=project, stdin=given)
    assert from_stdin.stdout == "line 2\nline 3\n"
    as_option = toolstead("tools", "call", "file-reader", "--input", given, "endLine:=2", cwd=project)
    assert as_option.stdout == "line 2\n"


def test_a_result_is_json_when_asked(project: Path) -> None:
    done = toolstead("tools", "call", "workspace-info", "--json", cwd=project)
    answer = json.loads(done.stdout)
    assert answer["isError"] is False
    assert answer["structuredContent"] == {"projectPath": str(project), "branch": "main", "remoteUrl": None}


def test_outside_a_repository_git_tools_say_a_sentence(tmp_path: Path) -> None:
    done = toolstead("tools", "call", "git-status", cwd=tmp_path)
    assert done.returncode == 1
    assert "not a git repository" in done.stderr.lower() or "no git repository" in done.stderr.lower()
    assert "Traceback" not in done.stderr


NAMES = [
    "git-status",
    "git-diff-summary",
    "workspace-info",
    "file-reader",
    "delegate_status",
    "spawn_agent",
    "signal_parent",
    "delegation__delegate",
    "delegation__checkin",
    "update_plan",
    "time__current_time",
    "vfs_read",
    "vfs_write",
    "vfs_edit",
    "vfs_list",
    "vfs_delete",
    "web_fetch",
]


def test_the_list_fits_a_terminal_is_whole_in_a_pipe_and_has_a_form_for_programs(project: Path) -> None:
    write(tool_file(), shell("said", "true"))
    shown = at_terminal("tools", "list", cwd=project)
    head, *lines = shown.splitlines()
    assert head.split() == ["NAME", "SOURCE", "DESCRIPTION"]
    assert [line.split()[0] for line in lines] == ["said", *NAMES], "a person's own tools come first"
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].endswith("…")
    piped = toolstead("tools", "list", cwd=project).stdout
    assert "…" not in piped
    assert re.search(r"^said +file mine\.json +The tool said\.$", piped, re.MULTILINE)
    assert re.search(r"^time__current_time +plugin time +The current date, .*names?\.$", piped, re.MULTILINE)
    listed = json.loads(toolstead("tools", "list", "--json", cwd=project).stdout)["tools"]
    assert listed[0]["name"] == "git-status"
    assert {tool["source"] for tool in listed} == {"builtin", "plugin"}
    assert all({"description", "origin", "inputSchema"} <= tool.keys() for tool in listed)
    assert all(tool["enabled"] for tool in listed)


def test_show_tells_what_a_tool_takes(project: Path) -> None:
    shown = toolstead("tools", "show", "file-reader", cwd=project)
    assert "path (string)" in shown.stdout
    assert "startLine (integer, optional)" in shown.stdout
    assert json.loads(toolstead("tools", "show", "file-reader", "--json", cwd=project).stdout)["name"] == "file-reader"
    assert toolstead("tools", "show", "nothing", cwd=project).returncode == 2
    write(tool_file(), shell("todos", "grep -rn TODO {{dir}}", "dir"), shell("now", "date"))
    of_file = toolstead("tools", "show", "todos", cwd=project).stdout
    assert f"  runs   grep -rn TODO {{{{dir}}}}\n  file   {tool_file()}\n" in of_file
    assert toolstead("tools", "show", "now", cwd=project).stdout.endswith("Input\n  no parameters\n")
    listed = toolstead("tools", "list", cwd=project).stdout.splitlines()
    assert [line.split()[0] for line in listed[1:3]] == ["todos", "now"]
    for words, said in (
        (("disconnect", "codex"), "toolstead connect CLIENT --remove"),
        (("tools", "remove", "now"), "Delete the tool's file"),
        (("tools", "call", "todos", '{"dir": "."}'), "write --input before a JSON object"),
    ):
        refused = toolstead(*words, cwd=project)
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr


@pytest.mark.promise("T1")
def test_a_tool_that_is_switched_off_is_neither_listed_nor_callable_until_it_is_on_again(project: Path) -> None:
    off = toolstead("tools", "disable", "git-status", cwd=project)
    assert (off.returncode, off.stderr) == (0, "git-status is now switched off\n")
    listed = toolstead("tools", "list", cwd=project).stdout.splitlines()
    assert [line.split(maxsplit=3)[3][:30] for line in listed if line.startswith("git-status ")] == [
        "(switched off) Show which file"
    ]
    tools = json.loads(toolstead("tools", "list", "--json", cwd=project).stdout)["tools"]
    assert [tool["name"] for tool in tools if not tool["enabled"]] == ["git-status"]
    called = toolstead("tools", "call", "git-status", cwd=project)
    assert (called.returncode, called.stdout) == (2, "")
    assert called.stderr == "toolstead: git-status is switched off. Switch it on: toolstead tools enable git-status\n"
    assert "It is switched off." in toolstead("tools", "show", "git-status", cwd=project).stdout
    assert "already" in toolstead("tools", "disable", "git-status", cwd=project).stderr
    toolstead("tools", "enable", "git-status", cwd=project)
    assert toolstead("tools", "call", "git-status", cwd=project).returncode == 0


def test_switching_a_name_that_does_not_exist_is_noted(project: Path) -> None:
    done = toolstead("tools", "disable", "later-tool", cwd=project)
    assert done.returncode == 0
    assert "no tool of this project is called 'later-tool'" in done.stderr
    assert toolstead("tools", "enable", "later-tool", cwd=project).returncode == 0


@pytest.mark.parametrize(
    ("name", "hint"),
    [("git-*", """toolstead config set tools.blocked '["git-*"]'"""), ("git status", "letters, digits, _ and -")],
)
def test_a_pattern_and_a_text_that_is_no_name_are_not_switched_off(name: str, hint: str, project: Path) -> None:
    done = toolstead("tools", "disable", name, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{name}' is no tool's name; " in done.stderr
    assert hint in done.stderr


PLUGIN = """
from toolstead import Plugin, tool

@tool
def shout(text: str) -> str:
    \"\"\"Say it in capitals.\"\"\"
    return text.upper()

plugin = Plugin(name="shouty", version="1", tools=[shout])
"""


@pytest.mark.parametrize("command", ["call", "show", "test"])
def test_a_tool_that_is_quarantined_or_of_a_stopped_plugin_is_refused_with_the_reason(
    command: str, project: Path
) -> None:
    write(tool_file(), shell("list-todos", "grep -rn -- {{patern}} .", "pattern"))
    plugin = tool_file().parents[1] / "plugins" / "shouty.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    toolstead("plugins", "disable", "shouty", cwd=project)
    refused = toolstead("tools", command, "list-todos", cwd=project)
    assert (refused.returncode, refused.stdout) == (2, "")
    said = r"list-todos is not offered: mine\.json:\d+:\d+: .*\{\{patern\}\} is no .*did you mean 'pattern'\?"
    assert re.search(said, refused.stderr), refused.stderr
    off = toolstead("tools", command, "shouty__shout", cwd=project)
    assert off.returncode == 2
    assert (
        "shouty__shout belongs to the plugin shouty, which is switched off: toolstead plugins enable shouty"
        in off.stderr
    )
    toolstead("plugins", "enable", "shouty", cwd=project)
    plugin.write_text(PLUGIN + "1 / 0\n")
    failed = toolstead("tools", command, "shouty__shout", cwd=project)
    assert "a tool of the plugin shouty, which failed: load: ZeroDivisionError" in failed.stderr
    assert "unknown tool 'nobodys'" in toolstead("tools", command, "nobodys", cwd=project).stderr
    write(tool_file().with_name("other.json"), shell("find-text", "grep -rn -- {{pattern}} .", "pattern"))
    other = tool_file().with_name("other.json")
    other.write_text(other.read_text().rpartition("]")[0] + "}")
    unread = toolstead("tools", command, "find-text", cwd=project).stderr
    said = (
        r"unknown tool 'find-text'.*unknown: other\.json:\d+:\d+: .* ']' is needed here, not '}': the list .* at \d+:"
    )
    assert re.search(said, unread), unread
    assert "other.json" not in toolstead("tools", command, "list-todos", cwd=project).stderr


@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_switching_a_misspelled_name_names_the_nearest_and_switches_nothing(project: Path, switch: str) -> None:
    done = toolstead("tools", switch, "git-staus", cwd=project)
    assert (done.returncode, done.stderr) == (2, "toolstead: unknown tool 'git-staus'; did you mean 'git-status'?\n")
    assert not (Path(os.environ["TOOLSTEAD_HOME"]) / "data" / "state.json").exists()


def test_a_name_that_was_never_switched_off_cannot_be_switched_on(project: Path) -> None:
    done = toolstead("tools", "enable", "later-tool", cwd=project)
    assert (done.returncode, done.stderr) == (2, "toolstead: unknown tool 'later-tool'\n")


def test_an_argument_that_a_tool_would_ignore_is_named_with_the_nearest(project: Path) -> None:
    open_schema = tool("hello", {"type": "shell", "command": "echo {{word}}"}, {"word": {"type": "string"}})
    write(tool_file(), open_schema)
    done = toolstead("tools", "call", "hello", "word=x", "wrd=y", cwd=project)
    assert (done.returncode, done.stdout) == (0, "x\n")
    assert done.stderr == "note: hello has no parameter 'wrd'; did you mean 'word'?\n"
    needed = {**open_schema, "inputSchema": {**open_schema["inputSchema"], "required": ["word"]}}
    write(tool_file(), needed)
    done = toolstead("tools", "call", "hello", "wrd=y", cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert '"word" is missing; "wrd" was given instead' in done.stderr


IMAGES = """
import asyncio
from toolstead import Plugin, ToolMeta, ToolResult, tool
from toolstead.types.content import Image, Text

@tool(progress=True)
async def draw(meta: ToolMeta) -> ToolResult:
    "Draw."
    for number in (1, 2):
        await meta.report_progress(number, 2, f"line {number}")
    return ToolResult(content=[Text("drawn"), Image(data=bytes([137]) + b"PNG", mime_type="image/png")])

plugin = Plugin(name="art", version="1", tools=[draw])
"""


def test_an_image_is_written_into_a_file_and_progress_is_shown_on_a_terminal(project: Path, tmp_path: Path) -> None:
    plugins = Path(os.environ["TOOLSTEAD_HOME"]) / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "art.py").write_text(IMAGES)
    plain = toolstead("tools", "call", "art__draw", cwd=project)
    assert (plain.returncode, plain.stdout) == (0, "drawn\n"), plain.stderr
    assert plain.stderr == "[image/png, 4 bytes: --output FILE writes it]\n"
    done = toolstead("tools", "call", "art__draw", "-o", str(tmp_path / "a.png"), cwd=project)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "a.png").read_bytes() == b"\x89PNG"
    assert done.stderr == f"{tmp_path / 'a.png'}: image/png, 4 bytes\n"
    text = toolstead("tools", "call", "git-status", "--output", str(tmp_path / "status.txt"), cwd=project)
    assert (text.returncode, (tmp_path / "status.txt").read_text()) == (0, "?? README.md\n?? way-out\n")
    refused = toolstead("tools", "call", "art__draw", "-o", str(tmp_path / "no" / "a.png"), cwd=project)
    assert (refused.returncode, "there is no folder" in refused.stderr) == (2, True)
    seen = at_terminal("tools", "call", "art__draw", cwd=project)
    assert "1 of 2: line 12 of 2: line 2drawn" in seen.replace("\r\n", "\n")  # each line takes the place of the last


@pytest.mark.promise("T1")
@pytest.mark.parametrize(
    "setting",
    [
        "tools.blocked=['git-*', 'update_plan', 'time__*', 'vfs_*', 'web_*', 'deleg*', 'spawn*', 'signal*']",
        "tools.allowed=['file-reader', 'workspace-info']",
    ],
)
def test_what_the_settings_hide_is_hidden_on_the_command_line(project: Path, setting: str) -> None:
    listed = json.loads(toolstead("--set", setting, "tools", "list", "--json", cwd=project).stdout)["tools"]
    assert [tool["name"] for tool in listed] == ["workspace-info", "file-reader"]
    assert toolstead("tools", "call", "git-status", "--set", setting, cwd=project).returncode == 2


def test_a_project_may_be_named_before_or_after_the_command(project: Path, tmp_path: Path) -> None:
    for arguments in (
        ["--project", str(project), "tools", "call", "git-status"],
        ["tools", "call", "git-status", "--project", str(project)],
    ):
        assert toolstead(*arguments, cwd=tmp_path).stdout == "?? README.md\n?? way-out\n"
    assert "does not exist" in toolstead("tools", "list", "--project", "nowhere", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tool"], "Did you mean 'tools'?"),
        (["tools", "lst"], "no such command 'lst'. Did you mean 'list'?"),
        (["tools", "call"], "Missing argument 'NAME'"),
        (["--set", "tools.tmeout=1", "tools", "list"], "tools.timeout"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_would_be_right(project: Path, arguments: list[str], said: str) -> None:
    done = toolstead(*arguments, cwd=project)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_told(project: Path) -> None:
    assert toolstead("--version", cwd=project).stdout.startswith("toolstead ")


def test_starting_the_command_imports_no_sdk(project: Path) -> None:
    heavy = "{'mcp', 'mcp_types', 'pydantic', 'starlette', 'uvicorn', 'uvloop', 'httpx2', 'anyio'}"
    program = (
        "import sys\nfrom toolstead.console.cli.main import main\n"
        "try:\n    main(['tools', 'call', 'workspace-info'])\n"
        f"except SystemExit:\n    print(sorted({heavy} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project, capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert done.stderr == "[]\n"
