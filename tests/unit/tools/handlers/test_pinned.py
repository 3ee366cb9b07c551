"""A project's own programs run from the approved copy: whatever names them leads there, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.tool_files import content, shell, tool
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.handlers.pinned import Pinned
from toolstead.tools.sources.json_file import FileReader, LoadedFile

pytestmark = pytest.mark.promise("R8")

PROJECT = Path("/home/me/project")
COPY = Path("/data/trust/0f/current/.toolstead")
SPACED = Path("/my data/current/.toolstead")


def load(given: Any, copy: Path = COPY, root: Path = PROJECT, **environ: str) -> LoadedFile:
    pinned = Pinned(live=root / ".toolstead", copy=copy)
    reader = FileReader(Surroundings(root=root, environ=environ, pinned=pinned), GuardedClient)
    return reader.read(Path("/file.json"), content(given).encode())


def shown(command: str, input: dict[str, Any] | None = None, *, copy: Path = COPY, **handler: Any) -> dict[str, Any]:
    """What would run."""
    loaded = load(shell("tool", command, *(input or {}), **handler), copy)
    assert loaded.problems == ()
    preview: dict[str, Any] = loaded.tools[0].tool.handler.preview_call(input or {})
    return preview


def argv(command: str, input: dict[str, Any] | None = None, **handler: Any) -> list[str]:
    return shown(command, input, **handler)["argv"][0][0]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (".toolstead/bin/p x", [f"{COPY}/bin/p", "x"]),
        ("./.toolstead/bin/p", [f"{COPY}/bin/p"]),
        ("x/../.toolstead/bin/p", [f"{COPY}/bin/p"]),
        (".toolstead/x/../bin/./p", [f"{COPY}/bin/p"]),
        (".toolstead//bin/p", [f"{COPY}/bin/p"]),
        (".toolstead/../.toolstead/bin/p", [f"{COPY}/bin/p"]),
        (f"{PROJECT}/.toolstead/bin/p", [f"{COPY}/bin/p"]),
        (f"/{PROJECT}/.toolstead/bin/p", [f"{COPY}/bin/p"]),
        (f"//{PROJECT}/.toolstead/bin/p", [f"{COPY}/bin/p"]),
        ("../project/.toolstead/bin/p", [f"{COPY}/bin/p"]),
        ("'.tool'stead/bin/p", [f"{COPY}/bin/p"]),
        (".Toolstead/bin/p", [f"{COPY}/bin/p"]),
        ("sh .toolstead/bin/p.sh a", ["sh", f"{COPY}/bin/p.sh", "a"]),
        ("python3 -u .toolstead/p.py", ["python3", "-u", f"{COPY}/p.py"]),
        ("sh -c .toolstead/bin/p", ["sh", "-c", f"{COPY}/bin/p"]),
        ("nice -n 5 .toolstead/bin/p", ["nice", "-n", "5", f"{COPY}/bin/p"]),
        ("find .toolstead/bin -name x", ["find", f"{COPY}/bin", "-name", "x"]),
        ("cat .toolstead/", ["cat", f"{COPY}/"]),
        ("cat .toolstead", ["cat", f"{COPY}"]),
        ("tool --file=.toolstead/x", ["tool", f"--file={COPY}/x"]),
        ("tool --files=a,.toolstead/x,.toolstead/y", ["tool", f"--files=a,{COPY}/x,{COPY}/y"]),
        ("tool if=.toolstead/x", ["tool", f"if={COPY}/x"]),
        ("env PATH=.toolstead/bin:/bin p", ["env", f"PATH={COPY}/bin:/bin", "p"]),
        ("docker run -v ./.toolstead:/x img", ["docker", "run", "-v", f"{COPY}:/x", "img"]),
        ("tool file:.toolstead/x", ["tool", f"file:{COPY}/x"]),
    ],
)
def test_words_that_lead_into_the_folder_lead_into_the_copy(command: str, words: list[str]) -> None:
    assert argv(command) == words


@pytest.mark.parametrize(
    "command",
    [
        ".toolstead-other/p",
        ".toolstead.old/p",
        "tool -I.toolsteads/lib",
        "echo .toolstead-other/x",
        "echo x.toolstead/y",
        "echo ../.toolstead/x",
        "echo sub/.toolstead/x",
        "echo .toolsteads",
    ],
)
def test_what_leads_elsewhere_is_left_alone(command: str) -> None:
    assert argv(command) == command.split()


def test_prose_that_no_program_runs_is_left_alone() -> None:
    assert argv("echo 'look into .toolstead for more'") == ["echo", "look into .toolstead for more"]


def test_every_command_of_a_script_is_led() -> None:
    found = shown(".toolstead/a | .toolstead/b && .toolstead/c || .toolstead/d ; .toolstead/e")["argv"]
    assert [argv for pipeline in found for argv in pipeline] == [[f"{COPY}/{name}"] for name in "abcde"]


def test_what_a_caller_gives_is_put_behind_the_copys_path_and_never_led_itself() -> None:
    assert argv("cat .toolstead/{{x}}", {"x": "a"}) == ["cat", f"{COPY}/a"]
    assert argv("cat {{x}}", {"x": ".toolstead/a"}) == ["cat", ".toolstead/a"]


def test_the_folder_a_command_runs_in_is_led_and_its_words_are_told_from_there() -> None:
    assert shown("./p", cwd=".toolstead/bin")["cwd"] == f"{COPY}/bin"
    assert shown("./p", cwd="sub/../.toolstead")["cwd"] == str(COPY)
    assert shown("../.toolstead/p", cwd="sub")["argv"] == [[[f"{COPY}/p"]]]
    assert shown("../../.toolstead/bin/p", cwd=".toolstead/bin")["argv"] == [[[f"{COPY}/bin/p"]]]
    assert shown("cat .toolstead/p", cwd="sub")["argv"] == [[["cat", ".toolstead/p"]]]


CODE = "code that names .toolstead would use what lies there now, not what was approved"
OPTION = "an option that names .toolstead would"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sh -c '. .toolstead/env.sh; run'", CODE),
        ("sh -c 'exec .toolstead/bin/p'", CODE),
        ("sh -c '.toolstead/bin/p && .toolstead/bin/q'", CODE),
        ("sh -c 'cd .Toolstead; ./p'", CODE),
        ('bash -lc "cd .toolstead && ./p"', CODE),
        ("""python3 -c 'open(".toolstead/x")'""", CODE),
        ("perl -e 'do(\".toolstead/x\")'", CODE),
        ("env sh -c 'cd .toolstead'", CODE),
        ("sh -c ../other/.toolstead/x", CODE),
        ("/proc/self/cwd/.toolstead/bin/p", CODE),
        ("awk 'BEGIN { system(\".toolstead/p\") }'", CODE),
        ("echo 'exec .toolstead/bin/p' | sh", CODE),
        ("echo 'exec .toolstead/bin/p' | cat | sh", CODE),
        ("perl -I.toolstead/lib x.pl", OPTION),
        ("make -f.toolstead/Makefile", OPTION),
        ("tool --with=x,-I.toolstead/lib", OPTION),
    ],
)
def test_what_names_the_folder_where_nothing_can_be_put_in_its_place_is_refused(command: str, message: str) -> None:
    loaded = load(shell("tool", command))
    assert loaded.tools == ()
    assert [message in problem.message for problem in loaded.problems] == [True]


@pytest.mark.parametrize(
    "command", ["cat {{x}}/.toolstead/a", "cat a{{x}}/.toolstead/a", "cat .toolstead/{{x}}/.toolstead/a"]
)
def test_a_path_behind_a_placeholder_that_names_the_folder_is_refused(command: str) -> None:
    loaded = load(shell("tool", command, "x"))
    assert "a path behind a placeholder that names .toolstead would" in loaded.problems[0].message


def test_prose_behind_a_placeholder_is_left_alone() -> None:
    assert argv("echo '{{x}}, see .toolstead'", {"x": "a"}) == ["echo", "a, see .toolstead"]


def test_code_on_stdin_that_names_the_folder_is_refused_and_other_text_is_not() -> None:
    assert CODE in load(shell("tool", "sh", stdin=". .toolstead/x")).problems[0].message
    assert CODE in load(shell("tool", "cat | sh", stdin=". .toolstead/x")).problems[0].message
    assert load(shell("tool", "cat", stdin="see .toolstead/x")).problems == ()
    assert load(shell("tool", "sh", stdin="echo hello")).problems == ()


def test_a_copy_whose_path_is_no_plain_word_is_never_put_into_code() -> None:
    assert argv("sh .toolstead/x.sh", copy=SPACED) == ["sh", f"{SPACED}/x.sh"]
    for command in ("sh -c .toolstead/bin/p", "echo .toolstead/bin/p | sh"):
        assert "which cannot be put into code" in load(shell("tool", command), SPACED).problems[0].message


@pytest.mark.parametrize(
    "value",
    [
        "--require ./.toolstead/x.js",
        "-I.toolstead/lib",
        "${PWD}/.toolstead/bin",
        "/bin:-r.toolstead/x",
        "a b/.toolstead/../c .toolstead",
    ],
)
def test_a_value_of_the_environment_that_cannot_be_led_is_refused_at_its_place(value: str) -> None:
    given = shell("tool", "true", env={"OPTIONS": value})
    loaded = load(given)
    assert loaded.tools == ()
    assert "a value that names .toolstead would" in loaded.problems[0].message
    line = next(number for number, line in enumerate(content(given).splitlines(), 1) if "OPTIONS" in line)
    assert loaded.problems[0].line == line


def test_values_of_the_environment_are_led_part_by_part() -> None:
    pinned = Pinned(live=PROJECT / ".toolstead", copy=COPY)
    for value, led in {
        ".toolstead/bin": f"{COPY}/bin",
        ".toolstead/bin:/usr/bin:x/../.toolstead": f"{COPY}/bin:/usr/bin:{COPY}",
        f"{PROJECT}/.toolstead/lib": f"{COPY}/lib",
        "-javaagent:.toolstead/a.jar": f"-javaagent:{COPY}/a.jar",
        "nothing": "nothing",
    }.items():
        pinned.check_variables({"X": value}, PROJECT)
        assert pinned.pin_variable(value, PROJECT) == led
    assert pinned.pin_variable("../.toolstead/bin", PROJECT / "sub") == f"{COPY}/bin"


def test_the_base_of_a_tool_that_reads_files_is_led() -> None:
    for base in (".toolstead/docs", "./x/../.toolstead/docs/", f"{PROJECT}/.toolstead/docs"):
        loaded = load(tool("read", {"type": "file-read", "basePath": base}, {"path": {"type": "string"}}))
        preview = loaded.tools[0].tool.handler.preview_call({"path": "a"})
        assert preview["file"] == f"{COPY}/docs/a"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose live programs say so, and a copy that says it was approved."""
    for folder, says in (("project/.toolstead", "live"), ("copy", "approved")):
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
        {"command": ".toolstead/bin/p"},
        {"command": "sub/../.toolstead/bin/p"},
        {"command": "../.toolstead/bin/p", "cwd": "sub"},
        {"command": "./p", "cwd": ".toolstead/bin"},
        {"command": "sh .toolstead/bin/q.sh"},
        {"command": "sh -c .toolstead/bin/p"},
        {"command": "p", "env": {"PATH": ".toolstead/bin:/usr/bin:/bin"}},
        {"command": "p", "env": {"PATH": "${ELSEWHERE}/bin:/usr/bin:/bin"}},
        {"command": "env PATH=.toolstead/bin:/usr/bin:/bin p"},
        {"command": "cat .toolstead/bin/q.sh | sh -s", "cwd": "."},
        {"command": "env --chdir=.toolstead/bin ./p"},
    ],
    ids=json.dumps,
)
async def test_what_runs_is_what_was_approved(handler: dict[str, Any], project: Path, tmp_path: Path) -> None:
    given = tool("t", {"type": "shell", **handler})
    environ = {"PATH": "/usr/bin:/bin", "ELSEWHERE": str(project / ".toolstead")}
    loaded = load(given, tmp_path / "copy", project, **environ)
    assert loaded.problems == ()
    registered = loaded.tools[0]
    result = await registered.tool.handler(registered.context, {}, None)
    assert result.text.split()[0] == "approved"
    assert "live" not in result.text
