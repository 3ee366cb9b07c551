"""`toolstead agents`, each command in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.agents.bad_files import BAD_FILES
from toolstead.agents.frontmatter_schema import frontmatter_schema

Finished = subprocess.CompletedProcess[str]
GOOD = "---\ndescription: Reviews.\ntools: [git-status]\n---\nReview it.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project, with the user's folder in `home`."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def toolstead(project: Path, *arguments: str) -> Finished:
    return subprocess.run(
        [sys.executable, "-m", "toolstead", *arguments],
        cwd=project,
        env={**os.environ, "COLUMNS": "80", "TOOLSTEAD_HOME": str(project.parent / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.promise("K6")
def test_check_says_every_finding_as_a_compiler_would_and_exits_with_1_for_errors(project: Path) -> None:
    folder = project / "drafts"
    bad = {name: file for name, file in BAD_FILES.items() if file.scope == "user" and "model" not in name}
    for name, file in bad.items():
        write(folder, f"{name.replace(' ', '-')}.md", file.text)
    write(folder, "good.md", GOOD)
    done = toolstead(project, "agents", "check", "drafts")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert all(re.match(r"/.*\.md:\d+:\d+: (error|warning|note): \S", line) for line in lines)
    for name, file in bad.items():
        start = f"{folder / name.replace(' ', '-')}.md:{file.line}:{file.column}: {file.severity}: "
        assert [said for said in lines if said.startswith(start) and all(part in said for part in file.says)], name
    assert not [line for line in lines if "good.md" in line]
    assert re.fullmatch(rf"{len(bad) + 1} files, \d+ good agents?, \d+ errors, \d+ warnings, \d+ notes?\n", done.stderr)


def test_check_without_paths_looks_at_the_folders_of_the_user_and_the_project(project: Path) -> None:
    done = toolstead(project, "agents", "check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "0 files, 0 good agents, no findings\n")
    mine = write(project.parent / "home" / "agents", "helper.md", GOOD.replace("git-status", "git-stauts"))
    ours = write(project / ".toolstead" / "agents", "helper.md", GOOD)
    write(project / ".claude" / "agents" / "team", "claude.md", "---\nname: c\ndescription: d\ntools: Read\n---\nx\n")
    done = toolstead(project, "agents", "check", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["files"], found["agents"]) == (0, 3, ["c", "helper"])
    (note,) = found["findings"]
    assert (note["severity"], note["source"]) == ("note", str(ours))
    assert f"replaces the agent of the user ({mine})" in note["message"]

    done = toolstead(project, "agents", "check", str(mine))
    assert done.returncode == 0
    assert done.stdout == f"{mine}:3:1: warning: tools: `git-stauts` matches no tool; did you mean `git-status`?\n"
    done = toolstead(project, "agents", "check", "nothing.md")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file or folder: nothing.md" in done.stderr


@pytest.mark.parametrize("named", [True, False], ids=["name", "file's name"])
def test_check_warns_of_an_agent_that_no_agent_can_delegate_to(project: Path, named: bool) -> None:
    text = f"---\ndescription: d\n{'name: Researcher' if named else 'model: sonnet'}\n---\nDo it.\n"
    file = write(project.parent / "home" / "agents", "Researcher.md", text)
    done = toolstead(project, "agents", "check")
    at = "3:7" if named else "2:1"
    assert done.returncode == 0
    said = "warning: no agent can delegate to it: `delegate_agent` takes names of small letters, digits, `_` and `-`; "
    assert done.stdout == f"{file}:{at}: {said}call it `researcher`\n"
    text = "---\nname: Researcher\ndescription: d\n---\nDo it.\n"
    write(project / ".claude" / "agents", "theirs.md", text.replace("Researcher", "Reviewer"))
    assert "theirs.md:2:7: note: no agent can delegate to it" in toolstead(project, "agents", "check").stdout


def test_names_of_the_settings_that_no_agent_has_are_warned_of(project: Path) -> None:
    home = project.parent / "home"
    write(home / "agents", "researcher.md", GOOD.replace("name: helper", "name: researcher"))
    (home / "config.toml").write_text('[multi_agent]\nagents = ["researcher", "researcher2", "nobody"]\n')
    (project / "script.yaml").write_text("- say: hello\n")
    missing = [
        "multi_agent.agents: warning: there is no agent `researcher2`; did you mean `researcher`?",
        "multi_agent.agents: warning: there is no agent `nobody`; `toolstead agents list` shows them",
    ]
    done = toolstead(project, "agents", "check")
    assert (done.returncode, done.stdout.splitlines()) == (0, missing)
    of_doctor = json.loads(toolstead(project, "doctor", "--json").stdout)["delegates"]
    assert of_doctor == [line.replace(" warning:", "") for line in missing]
    scripted = ("--set", "runtime.default=scripted", "--set", "runtime.scripted.script=script.yaml")
    asked = toolstead(project, "ask", "--verbose", *scripted, "hi")
    assert (asked.returncode, asked.stdout) == (0, "hello\n")
    assert all(line in asked.stderr for line in missing)


def test_new_writes_a_file_that_is_good_and_never_over_another_one(project: Path) -> None:
    done = toolstead(project, "agents", "new", "reviewer", "--description", "Use: it", "--tools", "git-status, git-*")
    path = project.parent / "home" / "agents" / "reviewer.md"
    assert (done.returncode, done.stdout) == (0, f"{path}\n")
    assert f"toolstead agents check {path}" in done.stderr
    assert 'toolstead ask --agent reviewer "…"' in done.stderr
    assert "tools: [git-status, git-*]" in path.read_text(encoding="utf-8")
    done = toolstead(project, "agents", "check", str(path))
    assert (done.returncode, done.stdout) == (0, "")

    path.write_text("mine", encoding="utf-8")
    done = toolstead(project, "agents", "new", "reviewer")
    assert (done.returncode, done.stdout, path.read_text(encoding="utf-8")) == (2, "", "mine")
    assert "exists already" in done.stderr

    done = toolstead(project, "agents", "new", "ours", "--in-project", "--model", "opus")
    assert done.stdout == f"{project / '.toolstead' / 'agents' / 'ours.md'}\n"
    assert "toolstead trust" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("../evil",), "write `evil`"),
        (("a", "--model", "gpd-nonsense"), "model"),
        (("a", "--tools", "git status"), "`git-*` is needed"),
        (("a", "--description", "a\u202eb"), "U+202E"),
    ],
    ids=["name", "model", "tools", "description"],
)
def test_new_refuses_what_the_check_would_refuse(project: Path, arguments: tuple[str, ...], says: str) -> None:
    done = toolstead(project, "agents", "new", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert not (project.parent / "home" / "agents").exists()
    assert not list(project.parent.rglob("*.md"))


def test_schema_prints_the_schema_of_the_frontmatter(project: Path) -> None:
    done = toolstead(project, "agents", "schema")
    assert json.loads(done.stdout) == frontmatter_schema()


SHOWN = """\
---
description: Reviews a change with care, and says what is wrong, what is missing, and what would be better there.
model: google:gemini-3.8-flash
tools:
  - "git-*"
  - {name: summarize, description: Sums up., prompt: "Sum up {{text}}", parameters: {text: {type: string}}}
disallowed_tools: [git-diff-summary]
max_turns: 5
limits: {max_depth: 2}
---
You review.
"""


def write_shown(project: Path) -> tuple[Path, Path]:
    """An agent and the user's settings."""
    home = project.parent / "home"
    settings = write(home, "config.toml", '[limits]\nmax_depth = 3\n[tools]\nblocked = ["file-*"]\n')
    return write(home / "agents", "reviewer.md", SHOWN), settings


def test_list_shows_every_agent_in_a_line_and_reports_bad_files_on_stderr(project: Path) -> None:
    write_shown(project)
    bad = write(project.parent / "home" / "agents", "bad.md", "---\nmodell: x\n---\nx\n")
    done = toolstead(project, "agents", "list")
    assert done.returncode == 0
    head, *lines = done.stdout.splitlines()
    assert head == "NAME      FROM      DESCRIPTION"
    assert [line.split()[0] for line in lines] == ["main", "reviewer"]
    assert lines[0] == "main      built in  Answers with every tool."
    assert lines[1].startswith("reviewer  user      Reviews a change with care")
    assert len(lines[1]) > 80, "what goes into a pipe is not cut"
    error, note = done.stderr.splitlines()
    assert error == f"{bad}:2:1: error: `modell` is no key of an agent; did you mean `model`?"
    assert note.endswith("such as a running server, goes on with that version")
    shown = toolstead(project, "agents", "show", "bad")
    assert (shown.returncode, error in shown.stderr, note.removeprefix("note: ") in shown.stderr) == (2, True, True)
    listed = json.loads(toolstead(project, "agents", "list", "--json").stdout)
    assert [one["name"] for one in listed["agents"]] == ["main", "reviewer"]
    assert {(one["severity"], one["source"]) for one in listed["findings"]} >= {("error", str(bad))}
    assert "instructions" not in listed["agents"][1]


@pytest.mark.promise("B3")
def test_show_says_what_an_agent_runs_with_where_that_is_set_and_why_it_has_its_tools(project: Path) -> None:
    path, settings = write_shown(project)
    done = toolstead(project, "agents", "show", "reviewer", "--set", "limits.max_fanout=4")
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if str(project.parent) not in line) <= 80
    text = " ".join(done.stdout.split())
    for said in (
        f"reviewer (user: {path})",
        f'model = "google:gemini-3.8-flash" from {path}:3 instead of "" (runtime.model, default)',
        f"max_turns = 5 (from {path}:8",
        f"limits.max_depth = 2 from {path}:9 instead of 3 (limits.max_depth, {settings}:2)",
        "limits.max_fanout = 4 (from --set)",
        "limits.max_descendants = 64 (default)",
        f'tools = ["git-*"] from {path}:4 instead of ["*"] (tools.allowed, default)',
        "agents = [] (default)",
        "--tools says why git-status, summarize",
    ):
        assert said in text or said.replace("(from", "from") in text, said

    done = toolstead(project, "agents", "show", "reviewer", "--tools")
    tools = done.stdout.partition("\nTools\n")[2]
    assert max(map(len, tools.splitlines())) <= 80
    reasons = {one[4:].split()[0]: (one[2], " ".join(one.split()[2:])) for one in re.split(r"\n(?=  [+-])", tools)}
    assert reasons["git-status"] == ("+", "named by 'git-*' in `tools` of the agent reviewer")
    assert reasons["git-diff-summary"] == (
        "-",
        "blocked by 'git-diff-summary' in `disallowed_tools` of the agent reviewer",
    )
    assert reasons["file-reader"] == ("-", "blocked by 'file-*' in tools.blocked")
    assert reasons["workspace-info"] == ("-", "not named by `tools` of the agent reviewer")
    assert reasons["summarize"] == ("+", "its file defines it")

    shown = json.loads(toolstead(project, "agents", "show", "reviewer", "--json", "--set", "limits.max_depth=0").stdout)
    effective = {one["key"]: one for one in shown["effective"]}
    assert effective["limits.max_depth"] == {
        "key": "limits.max_depth",
        "value": 2,
        "origin": f"{path}:9",
        "overrode": "0 (limits.max_depth, --set)",
    }
    assert {one["name"]: one["isOffered"] for one in shown["offers"]}["summarize"] is True
    path.write_text(path.read_text(encoding="utf-8").replace("max_depth: 2", "max_depth: 0"), encoding="utf-8")
    shown = json.loads(toolstead(project, "agents", "show", "reviewer", "--json").stdout)
    (reason,) = [one for one in shown["offers"] if one["name"] == "summarize"]
    assert reason == {
        "name": "summarize",
        "isOffered": False,
        "reason": "it starts agents, and this run may start none: limits.max_depth or `agents: []` says so",
    }


def test_an_agent_that_is_not_there_is_refused_with_the_nearest_name(project: Path) -> None:
    write_shown(project)
    for arguments in (("agents", "show", "reviewr"), ("ask", "--agent", "reviewr", "hello")):
        done = toolstead(project, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        expected = "there is no agent 'reviewr'; did you mean 'reviewer'? The agents are main, reviewer\n"
        assert done.stderr == f"toolstead: {expected}"
