"""A project's own programs run from the approved copy: whatever names them leads there, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.tool_files import content, shell, tool
from toolyard.tools.handlers.http_client import GuardedClient
from toolyard.tools.handlers.pinned import Pinned
from toolyard.tools.handlers.surroundings import Surroundings
from toolyard.tools.sources.json_file import FileReader, LoadedFile

pytestmark = pytest.mark.promise("R8")

PROJECT = Path("/home/me/project")
COPY = Path("/data/trust/0f/current/.toolyard")
SPACED = Path("/my data/current/.toolyard")


def load(given: Any, copy: Path = COPY, root: Path = PROJECT, **environ: str) -> LoadedFile:
    pinned = Pinned(live=root / ".toolyard", copy=copy)
    reader = FileReader(Surroundings(root=root, environ=environ, pinned=pinned), GuardedClient)
    return reader.read(Path("/file.json"), content(given).encode())


def shown(command: str, input: dict[str, Any] | None = None, *, copy: Path = COPY, **handler: Any) -> dict[str, Any]:
    """What would run."""
    loaded = load(shell("tool", command, *(input or {}), **handler), copy)
    assert loaded.problems == ()
    preview: dict[str, Any] = loaded.tools[0].tool.handler.preview(input or {})
    return preview


def argv(command: str, input: dict[str, Any] | None = None, **handler: Any) -> list[str]:
    return shown(command, input, **handler)["argv"][0][0]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (".toolyard/bin/p x", [f"{COPY}/bin/p", "x"]),
        ("./.toolyard/bin/p", [f"{COPY}/bin/p"]),
        ("x/../.toolyard/bin/p", [f"{COPY}/bin/p"]),
        (".toolyard/x/../bin/./p", [f"{COPY}/bin/p"]),
        (".toolyard//bin/p", [f"{COPY}/bin/p"]),
        (".toolyard/../.toolyard/bin/p", [f"{COPY}/bin/p"]),
        (f"{PROJECT}/.toolyard/bin/p", [f"{COPY}/bin/p"]),
        (f"/{PROJECT}/.toolyard/bin/p", [f"{COPY}/bin/p"]),
        (f"//{PROJECT}/.toolyard/bin/p", [f"{COPY}/bin/p"]),
        ("../project/.toolyard/bin/p", [f"{COPY}/bin/p"]),
        ("'.tool'yard/bin/p", [f"{COPY}/bin/p"]),
        (".Toolyard/bin/p", [f"{COPY}/bin/p"]),
        ("sh .toolyard/bin/p.sh a", ["sh", f"{COPY}/bin/p.sh", "a"]),
        ("python3 -u .toolyard/p.py", ["python3", "-u", f"{COPY}/p.py"]),
        ("sh -c .toolyard/bin/p", ["sh", "-c", f"{COPY}/bin/p"]),
        ("nice -n 5 .toolyard/bin/p", ["nice", "-n", "5", f"{COPY}/bin/p"]),
        ("find .toolyard/bin -name x", ["find", f"{COPY}/bin", "-name", "x"]),
        ("cat .toolyard/", ["cat", f"{COPY}/"]),
        ("cat .toolyard", ["cat", f"{COPY}"]),
        ("tool --file=.toolyard/x", ["tool", f"--file={COPY}/x"]),
        ("tool --files=a,.toolyard/x,.toolyard/y", ["tool", f"--files=a,{COPY}/x,{COPY}/y"]),
        ("tool if=.toolyard/x", ["tool", f"if={COPY}/x"]),
        ("env PATH=.toolyard/bin:/bin p", ["env", f"PATH={COPY}/bin:/bin", "p"]),
        ("docker run -v ./.toolyard:/x img", ["docker", "run", "-v", f"{COPY}:/x", "img"]),
        ("tool file:.toolyard/x", ["tool", f"file:{COPY}/x"]),
    ],
)
def test_words_that_lead_into_the_folder_lead_into_the_copy(command: str, words: list[str]) -> None:
    assert argv(command) == words


@pytest.mark.parametrize(
    "command",
    [
        ".toolyard-other/p",
        ".toolyard.old/p",
        "tool -I.toolyards/lib",
        "echo .toolyard-other/x",
        "echo x.toolyard/y",
        "echo ../.toolyard/x",
        "echo sub/.toolyard/x",
        "echo .toolyards",
    ],
)
def test_what_leads_elsewhere_is_left_alone(command: str) -> None:
    assert argv(command) == command.split()


def test_prose_that_no_program_runs_is_left_alone() -> None:
    assert argv("echo 'look into .toolyard for more'") == ["echo", "look into .toolyard for more"]


def test_every_command_of_a_script_is_led() -> None:
    found = shown(".toolyard/a | .toolyard/b && .toolyard/c || .toolyard/d ; .toolyard/e")["argv"]
    assert [argv for pipeline in found for argv in pipeline] == [[f"{COPY}/{name}"] for name in "abcde"]


def test_what_a_caller_gives_is_put_behind_the_copys_path_and_never_led_itself() -> None:
    assert argv("cat .toolyard/{{x}}", {"x": "a"}) == ["cat", f"{COPY}/a"]
    assert argv("cat {{x}}", {"x": ".toolyard/a"}) == ["cat", ".toolyard/a"]


def test_the_folder_a_command_runs_in_is_led_and_its_words_are_told_from_there() -> None:
    assert shown("./p", cwd=".toolyard/bin")["cwd"] == f"{COPY}/bin"
    assert shown("./p", cwd="sub/../.toolyard")["cwd"] == str(COPY)
    assert shown("../.toolyard/p", cwd="sub")["argv"] == [[[f"{COPY}/p"]]]
    assert shown("../../.toolyard/bin/p", cwd=".toolyard/bin")["argv"] == [[[f"{COPY}/bin/p"]]]
    assert shown("cat .toolyard/p", cwd="sub")["argv"] == [[["cat", ".toolyard/p"]]]


CODE = "code that names .toolyard would use what lies there now, not what was approved"
OPTION = "an option that names .toolyard would"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sh -c '. .toolyard/env.sh; run'", CODE),
        ("sh -c 'exec .toolyard/bin/p'", CODE),
        ("sh -c '.toolyard/bin/p && .toolyard/bin/q'", CODE),
        ("sh -c 'cd .Toolyard; ./p'", CODE),
        ('bash -lc "cd .toolyard && ./p"', CODE),
        ("""python3 -c 'open(".toolyard/x")'""", CODE),
        ("perl -e 'do(\".toolyard/x\")'", CODE),
        ("env sh -c 'cd .toolyard'", CODE),
        ("sh -c ../other/.toolyard/x", CODE),
        ("/proc/self/cwd/.toolyard/bin/p", CODE),
        ("awk 'BEGIN { system(\".toolyard/p\") }'", CODE),
        ("echo 'exec .toolyard/bin/p' | sh", CODE),
        ("echo 'exec .toolyard/bin/p' | cat | sh", CODE),
        ("perl -I.toolyard/lib x.pl", OPTION),
        ("make -f.toolyard/Makefile", OPTION),
        ("tool --with=x,-I.toolyard/lib", OPTION),
    ],
)
def test_what_names_the_folder_where_nothing_can_be_put_in_its_place_is_refused(command: str, message: str) -> None:
    loaded = load(shell("tool", command))
    assert loaded.tools == ()
    assert [message in problem.message for problem in loaded.problems] == [True]


@pytest.mark.parametrize(
    "command", ["cat {{x}}/.toolyard/a", "cat a{{x}}/.toolyard/a", "cat .toolyard/{{x}}/.toolyard/a"]
)
def test_a_path_behind_a_placeholder_that_names_the_folder_is_refused(command: str) -> None:
    loaded = load(shell("tool", command, "x"))
    assert "a path behind a placeholder that names .toolyard would" in loaded.problems[0].message


def test_prose_behind_a_placeholder_is_left_alone() -> None:
    assert argv("echo '{{x}}, see .toolyard'", {"x": "a"}) == ["echo", "a, see .toolyard"]


def test_code_on_stdin_that_names_the_folder_is_refused_and_other_text_is_not() -> None:
    assert CODE in load(shell("tool", "sh", stdin=". .toolyard/x")).problems[0].message
    assert CODE in load(shell("tool", "cat | sh", stdin=". .toolyard/x")).problems[0].message
    assert load(shell("tool", "cat", stdin="see .toolyard/x")).problems == ()
    assert load(shell("tool", "sh", stdin="echo hello")).problems == ()


def test_a_copy_whose_path_is_no_plain_word_is_never_put_into_code() -> None:
    assert argv("sh .toolyard/x.sh", copy=SPACED) == ["sh", f"{SPACED}/x.sh"]
    for command in ("sh -c .toolyard/bin/p", "echo .toolyard/bin/p | sh"):
        assert "which cannot be put into code" in load(shell("tool", command), SPACED).problems[0].message


@pytest.mark.parametrize(
    "value",
    [
        "--require ./.toolyard/x.js",
        "-I.toolyard/lib",
        "${PWD}/.toolyard/bin",
        "/bin:-r.toolyard/x",
        "a b/.toolyard/../c .toolyard",
    ],
)
def test_a_value_of_the_environment_that_cannot_be_led_is_refused_at_its_place(value: str) -> None:
    given = shell("tool", "true", env={"OPTIONS": value})
    loaded = load(given)
    assert loaded.tools == ()
    assert "a value that names .toolyard would" in loaded.problems[0].message
    line = next(number for number, line in enumerate(content(given).splitlines(), 1) if "OPTIONS" in line)
    assert loaded.problems[0].line == line


def test_values_of_the_environment_are_led_part_by_part() -> None:
    pinned = Pinned(live=PROJECT / ".toolyard", copy=COPY)
    for value, led in {
        ".toolyard/bin": f"{COPY}/bin",
        ".toolyard/bin:/usr/bin:x/../.toolyard": f"{COPY}/bin:/usr/bin:{COPY}",
        f"{PROJECT}/.toolyard/lib": f"{COPY}/lib",
        "-javaagent:.toolyard/a.jar": f"-javaagent:{COPY}/a.jar",
        "nothing": "nothing",
    }.items():
        pinned.check_variables({"X": value}, PROJECT)
        assert pinned.variable(value, PROJECT) == led
    assert pinned.variable("../.toolyard/bin", PROJECT / "sub") == f"{COPY}/bin"


def test_the_base_of_a_tool_that_reads_files_is_led() -> None:
    for base in (".toolyard/docs", "./x/../.toolyard/docs/", f"{PROJECT}/.toolyard/docs"):
        loaded = load(tool("read", {"type": "file-read", "basePath": base}, {"path": {"type": "string"}}))
        preview = loaded.tools[0].tool.handler.preview({"path": "a"})
        assert preview["file"] == f"{COPY}/docs/a"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose live programs say so, and a copy that says it was approved."""
    for folder, says in (("project/.toolyard", "live"), ("copy", "approved")):
        (tmp_path / folder / "bin").mkdir(parents=True)
        for name in ("p", "q.sh"):
            program = tmp_path / folder / "bin" / name
            program.write_text(f"#!/bin/sh\necho {says} $(cat $(dirname $0)/words)\n")
            program.chmod(0o755)
        (tmp_path / folder / "bin/words").write_text(says)
    (tmp_path / "project/sub").mkdir()
    return tmp_path / "project"


@pytest.mark.parametrize(
    "handler",
    [
        {"command": ".toolyard/bin/p"},
        {"command": "sub/../.toolyard/bin/p"},
        {"command": "../.toolyard/bin/p", "cwd": "sub"},
        {"command": "./p", "cwd": ".toolyard/bin"},
        {"command": "sh .toolyard/bin/q.sh"},
        {"command": "sh -c .toolyard/bin/p"},
        {"command": "p", "env": {"PATH": ".toolyard/bin:/usr/bin:/bin"}},
        {"command": "p", "env": {"PATH": "${ELSEWHERE}/bin:/usr/bin:/bin"}},
        {"command": "env PATH=.toolyard/bin:/usr/bin:/bin p"},
        {"command": "cat .toolyard/bin/q.sh | sh -s", "cwd": "."},
        {"command": "env --chdir=.toolyard/bin ./p"},
    ],
    ids=json.dumps,
)
async def test_what_runs_is_what_was_approved(handler: dict[str, Any], project: Path, tmp_path: Path) -> None:
    given = tool("t", {"type": "shell", **handler})
    environ = {"PATH": "/usr/bin:/bin", "ELSEWHERE": str(project / ".toolyard")}
    loaded = load(given, tmp_path / "copy", project, **environ)
    assert loaded.problems == ()
    registered = loaded.tools[0]
    result = await registered.tool.handler(registered.context, {}, None)
    assert result.text.split()[0] == "approved"
    assert "live" not in result.text
