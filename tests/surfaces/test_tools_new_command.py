"""`toolstead tools new`: a template in, a file out that checks, tests and can be called at once."""

from __future__ import annotations

import io
import json
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.flows.http_internet import reply, serving
from tests.flows.tool_files import content, shell, write
from tests.programs.running import TOOLSTEAD, running
from toolstead.console.cli.main import main
from toolstead.tools.sources.json_format import format_schema

pytestmark = pytest.mark.promise("B4")

Finished = subprocess.CompletedProcess[str]
SEARCH = ("--shell", "grep -rn -- {{pattern}} {{dir}}")


class Desk:
    """Where somebody writes tools: a project, their own folder of tool files, programs that are first on PATH."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.project, self.programs, self.tools = folder / "project", folder / "bin", home / ".config/toolstead/tools"
        self.project.mkdir()
        self.programs.mkdir()

    def spawn(self, *arguments: str, **environ: str) -> Finished:
        """Run `toolstead tools …` in a process of its own; without an editor unless one is given."""
        command = [*TOOLSTEAD, "tools", *arguments]
        env = {**os.environ, "COLUMNS": "80", "VISUAL": "", "EDITOR": "", **environ}
        return subprocess.run(
            command,
            cwd=self.project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def run(self, *arguments: str, **environ: str) -> Finished:
        """The same in this process, which is ten times faster; what is logged is not in its stderr."""
        return self.toolstead("tools", *arguments, **environ)

    def toolstead(self, *arguments: str, **environ: str) -> Finished:
        output, errors, status = io.StringIO(), io.StringIO(), None
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
            patch.chdir(self.project)
            for name, value in {"COLUMNS": "80", "VISUAL": "", "EDITOR": "", **environ}.items():
                patch.setenv(name, value)
            try:
                main(list(arguments))
            except SystemExit as end:
                status = end.code
        assert isinstance(status, int)
        return Finished(arguments, status, output.getvalue(), errors.getvalue())

    def editor(self, code: str) -> str:
        """The command of an editor: this Python code, with the file's path in `path`."""
        script = self.programs / "my editor.py"
        script.write_text(f"import pathlib, sys\npath = pathlib.Path(sys.argv[-1])\n{code}\n", "utf-8")
        return shlex.join([sys.executable, str(script), "--wait"])

    def tool(self, name: str) -> Any:
        return json.loads((self.tools / f"{name}.json").read_text("utf-8"))["tools"][0]

    @property
    def written(self) -> list[str]:
        return sorted(path.name for path in self.tools.iterdir()) if self.tools.exists() else []


@pytest.fixture
def desk(tmp_path: Path, home: Path) -> Iterator[Desk]:
    before = logging.getLogger("toolstead").level
    yield Desk(tmp_path, home)
    logging.getLogger("toolstead").setLevel(before)


TEMPLATES = {
    "search-code": ("--shell", "rg -n {{pattern}} {{dir}}"),
    "first-lines": ("--shell", "head -n {{count}} {{file}}"),
    "find-todos": ("--shell", "grep -rn '{{pattern}}' {{directory}} || true"),
    "commits": ("--shell", "git log --oneline -n {{limit}} | sort"),
    "today": ("--shell", "date"),
    "odd_text": ("--shell", """printf '%s "ü" \\ <&> \t\n{y} 日本\n' {{my param}} "\\$HOME" """),
    "get-user": ("--http", "GET https://api.example.com/users/{{id}}"),
    "find-page": ("--http", "https://api.example.com/?q={{q}}&page={{page}}"),
    "set-port": ("--http", "http://localhost:8000/ports/{{port}}", "--method", "put"),
    "health": ("--http", "head {{url}}/health"),
    "read-notes": ("--file", "notes with blanks"),
    "read-home": ("--file", "~/notes"),
}


def test_every_new_file_checks_and_tests_well_at_once_on_a_machine_without_its_program(desk: Desk) -> None:
    for name, template in TEMPLATES.items():
        done = desk.run("new", name, *template)
        assert (done.returncode, done.stdout) == (0, f"{desk.tools / name}.json\n"), done.stderr
    done = desk.run("check", PATH=str(desk.programs))
    number = len(TEMPLATES)
    (warning,) = done.stdout.splitlines()
    assert f"{desk.tools / 'odd_text.json'}:" in warning
    assert 'takes no argument named "my param"' in warning
    assert done.stderr == f"{number} files, {number} good tools, no problems, 1 warning\n"
    assert done.returncode == 0
    done = desk.run("test", PATH=str(desk.programs))
    assert sorted(done.stdout.splitlines()) == sorted(f"ok   {name} example 1 (built, not run)" for name in TEMPLATES)
    assert done.stderr == f"{number} examples ({number} built, not run), none failed, no problems\n"
    assert done.returncode == 0
    handlers = {name: desk.tool(name)["handler"] for name in TEMPLATES}
    assert [handlers[name].get("method") for name in ("get-user", "find-page", "set-port", "health")] == [
        "GET",
        "GET",
        "PUT",
        "HEAD",
    ]
    assert handlers["odd_text"]["command"] == TEMPLATES["odd_text"][1]


def test_before_the_first_tool_there_is_nothing_to_complain_about(desk: Desk) -> None:
    done = desk.run("check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "0 files, 0 good tools, no problems\n")
    assert not desk.tools.exists()


def test_what_is_printed_fits_a_small_terminal_and_its_commands_work(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("TODO: rest\n")
    done = desk.spawn("new", "find-text", *SEARCH)
    assert all(len(line) <= 80 for line in done.stderr.splitlines())
    assert "  find-text pattern [dir]\n  Run `grep -rn -- <pattern> <dir>`. Answers its output.\n" in done.stderr
    commands = [shlex.split(line, comments=True) for line in done.stderr.splitlines() if line.startswith("  toolstead")]
    assert [command[:3] for command in commands] == [["toolstead", "tools", each] for each in ("check", "test", "call")]
    answers = [desk.spawn(*command[2:]) for command in commands]
    assert [answer.returncode for answer in answers] == [0, 0, 0]
    assert answers[-1].stdout == "./a.txt:1:TODO: rest\n"


def test_the_example_names_a_file_that_is_there(desk: Desk) -> None:
    for name in (".hidden.md", "b.bin", "notes.txt"):
        (desk.project / name).touch()
    assert "tools call later file=notes.txt" in desk.run("new", "later", "--shell", "wc -l {{file}}").stderr


def test_nothing_is_run_or_sent_while_a_tool_is_made_and_tested(desk: Desk) -> None:
    assert desk.run("new", "mine", "--shell", "touch ran {{x}}").returncode == 0
    assert desk.run("test", "mine").returncode == 0
    assert not (desk.project / "ran").exists()
    assert desk.run("call", "mine", "x=1").returncode == 0
    assert (desk.project / "ran").exists()


def test_an_example_runs_once_it_no_longer_says_that_it_does_not(desk: Desk) -> None:
    desk.run("new", "say", "--shell", "echo {{text}}")
    file = desk.tools / "say.json"
    file.write_text(file.read_text().replace('"run": false', '"expect": "another"'))
    done = desk.run("test", "say")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "FAIL say example 1")
    assert "expected 'another', got 'example\\n'" in done.stdout
    assert done.stderr == "1 example, 1 failed, no problems\n"


def test_a_description_may_be_given(desk: Desk) -> None:
    said = desk.run("new", "find-text", *SEARCH, "--description", 'Find "it" – ünd more.').stderr
    assert "The types and example are drafts" in said
    assert desk.tool("find-text")["description"] == 'Find "it" – ünd more.'
    done = desk.run("new", "other", *SEARCH, "--description", "")
    assert (done.returncode, desk.written) == (2, [".toolstead-schema.json", "find-text.json"])
    assert "tool 'other': description: it is empty" in done.stderr


async def test_a_post_has_headers_and_a_body_of_declared_parameters(desk: Desk, tmp_path: Path) -> None:
    async with serving(reply(body="made")) as server:
        declared = ("--param", "title:string", "--param", "labels?:array", "--param", "limit:integer=5")
        header = ("--header", "Authorization: Bearer ${GIT_TOKEN}")
        done = desk.spawn("new", "issue", "--http", f"POST http://127.0.0.1:{server.port}/i", *header, *declared)
        assert "GIT_TOKEN is not set in this environment" in " ".join(done.stderr.split())
        call = [*TOOLSTEAD, "tools", "call", "issue", "title=a"]
        environ = {"GIT_TOKEN": "s3cret-value"}
        async with running(call, errors=tmp_path / "errors.txt", cwd=desk.project, env=environ) as program:
            assert await program.line() == b"made\n"
        (seen,) = server.seen
        assert (seen.headers["authorization"], json.loads(seen.body)) == (
            "Bearer s3cret-value",
            {"title": "a", "limit": 5},
        )
    schema = desk.tool("issue")["inputSchema"]
    assert (schema["required"], schema["additionalProperties"]) == (["title"], False)
    assert schema["properties"]["labels"] == {
        "type": "array",
        "description": "The labels.",
        "items": {"type": "string"},
    }
    assert "s3cret" not in (desk.tools / "issue.json").read_text()


def test_a_declared_parameter_replaces_what_was_guessed(desk: Desk) -> None:
    declared = ("--param", "limit:string=all", "--param", "ratio:number=0.5", "--param", "loud:boolean")
    desk.run("new", "mine", "--shell", "echo {{limit}} {{ratio}} {{loud}} {{page}}", *declared)
    properties = desk.tool("mine")["inputSchema"]["properties"]
    assert {name: (one["type"], one.get("default")) for name, one in properties.items()} == {
        "limit": ("string", "all"),
        "ratio": ("number", 0.5),
        "loud": ("boolean", None),
        "page": ("integer", 1),
    }
    assert desk.run("call", "mine", "loud=true").stdout == "all 0.5 true 1\n"
    wrong = desk.run("call", "mine", "loud=true", "pge=2")
    assert (wrong.returncode, '"pge" is not allowed here; did you mean "page"?' in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--shell", "echo {{a}}", "--param", "b:string"), "the command has no such placeholder; write {{b}}"),
        (("--shell", "echo {{a}}", "--param", "a:strng"), "there is no type 'strng'; did you mean 'string'?"),
        (("--shell", "echo {{a}}", "--param", "a:integer=x"), "'x' is no integer; write it as in a:integer=20"),
        (("--shell", "echo {{a}}", "--param", "a:integer=true"), "'true' is no integer"),
        (("--shell", "echo {{a}}", "--param", "a"), "a parameter looks like name:type or name:type=default"),
        (("--shell", "echo {{a}}", *("--param", "a:string") * 2), "a is declared twice"),
        (("--shell", "true", "--header", "A: b"), "--header belongs to --http"),
        (("--file", ".", "--param", "a:string"), "--param belongs to --shell and --http"),
        (("--http", "http://example.com", "--header", "A b"), "a header looks like 'Authorization: Bearer ${TOKEN}'"),
        (("--http", "http://example.com", *("--header", "A: b") * 2), "A is given twice"),
    ],
)
def test_what_is_declared_wrongly_is_refused_and_nothing_is_written(
    arguments: tuple[str, ...], said: str, desk: Desk
) -> None:
    done = desk.run("new", "mine", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not desk.tools.exists()


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (("--shell", "echo {text} {{dir}}"), "{text} is text of the template, no parameter; did you mean {{text}}?"),
        (
            ("--http", "GET https://example.com/{id}"),
            "{id} is text of the template, no parameter; did you mean {{id}}?",
        ),
        (("--shell", "no-such-program | sort"), "no-such-program is not on your PATH"),
        (("--shell", "grep -n x {{file}} || true"), "`|| true` hides every failure of grep"),
        (
            ("--shell", "cd sub && ls {{dir}}"),
            'cd belongs to a shell, and there is none: set "cwd": "sub" in the handler',
        ),
        (("--file", "/nonexistent"), "there is no folder /nonexistent"),
        (
            ("--http", "https://example.com/", "--header", "X-Api-Key: $TOKEN"),
            "$TOKEN in X-Api-Key is text as it stands; did you mean ${TOKEN}?",
        ),
        (("--http", "POST https://example.com/"), "it takes no arguments, so the body is always empty"),
        (("--http", "https://example.com/", "--header", "X-Api-Key: abc"), "the value of X-Api-Key is in the file"),
    ],
)
def test_what_will_surprise_the_author_is_said_when_the_file_is_made(
    template: tuple[str, ...], said: str, desk: Desk
) -> None:
    done = desk.run("new", "mine", *template)
    assert done.returncode == 0
    assert f"warning: {said}" in " ".join(done.stderr.split())
    assert any(said in one for one in json.loads(desk.run("new", "other", *template, "--json").stdout)["advice"])


@pytest.mark.parametrize("template", ["grep -n x {{file}}", "echo '{{text}}' | sort", "echo \"a{}b\" '${x}'"])
def test_a_good_template_gets_no_advice(template: str, desk: Desk) -> None:
    assert "warning" not in desk.run("new", "mine", "--shell", template).stderr


async def test_a_host_of_this_machine_that_is_written_out_can_be_reached_at_once(desk: Desk, tmp_path: Path) -> None:
    async with serving(reply(body="pong")) as server:
        done = desk.spawn("new", "ping", "--http", f"http://127.0.0.1:{server.port}/ping/{{{{id}}}}")
        assert f"It may reach 127.0.0.1:{server.port}, which is private" in done.stderr
        call = [*TOOLSTEAD, "tools", "call", "ping", "id=a/b"]
        async with running(call, errors=tmp_path / "errors.txt", cwd=desk.project) as program:
            assert await program.line() == b"pong\n"
            assert await program.ended() == 0
    assert server.targets == ["GET /ping/a%2Fb"]


# Editors


def test_the_schema_that_editors_go_by_stands_beside_the_file_and_is_brought_up_to_date(desk: Desk) -> None:
    desk.run("new", "one", "--shell", "true")
    schema = desk.tools / ".toolstead-schema.json"
    named = json.loads((desk.tools / "one.json").read_text())["$schema"]
    assert (desk.tools / named).resolve() == schema.resolve()
    assert schema.read_text() == desk.run("schema").stdout
    schema.write_text("{}")
    desk.run("new", "two", "--shell", "true")
    assert json.loads(schema.read_text()) == format_schema()


def test_the_file_is_opened_in_the_users_editor_and_checked_when_that_is_closed(desk: Desk) -> None:
    editor = desk.editor("path.write_text(path.read_text().replace('Run `', 'Runs well: `'))")
    done = desk.spawn("new", "find-text", *SEARCH, "--edit", VISUAL=editor, EDITOR="false")
    assert (done.returncode, done.stdout) == (0, f"{desk.tools / 'find-text.json'}\n")
    assert "Runs well: `grep" in done.stderr
    assert "toolstead tools call find-text pattern=TODO" in done.stderr
    assert desk.tool("find-text")["description"].startswith("Runs well: ")


def test_what_the_edit_broke_is_said_as_a_compiler_would(desk: Desk) -> None:
    editor = desk.editor("path.write_text(path.read_text().replace('{{pattern}}', '{{patern}}'))")
    done = desk.run("new", "find-text", *SEARCH, "--edit", EDITOR=editor)
    file = desk.tools / "find-text.json"
    problem = "handler.command: {{patern}} is no property of the inputSchema; did you mean 'pattern'?"
    assert done.stdout == f"{file}\n{file}:23:20: tool 'find-text': {problem}\n"
    assert (done.returncode, done.stderr) == (1, "1 problem; fix the file, then: toolstead tools check\n")


def test_an_edit_that_takes_anothers_name_or_a_bad_default_is_told_of(desk: Desk) -> None:
    desk.run("new", "zebra", "--shell", "true")
    editor = desk.editor('path.write_text(path.read_text().replace(\'"name": "ape"\', \'"name": "zebra"\'))')
    done = desk.run("new", "ape", "--shell", "true", "--edit", EDITOR=editor)
    assert done.returncode == 1
    assert f"name: the name is already held by {desk.tools / 'zebra.json'}" in done.stdout
    editor = desk.editor('path.write_text(path.read_text().replace(\'"default": "."\', \'"default": 5\'))')
    done = desk.spawn("new", "find-text", *SEARCH, "--edit", EDITOR=editor)
    assert done.returncode == 0
    assert "the default 5 does not fit its own schema and is not filled in" in done.stderr


def test_what_known_clients_cannot_take_of_an_edited_file_is_told_and_is_no_failure(desk: Desk) -> None:
    editor = desk.editor('path.write_text(path.read_text().replace(\'"type": "string"\', \'"const": "TODO"\', 1))')
    done = desk.run("new", "find-text", "--shell", "echo {{pattern}}", "--edit", EDITOR=editor)
    assert (done.returncode, done.stdout) == (0, f"{desk.tools / 'find-text.json'}\n"), done.stderr
    assert ": warning: tool 'find-text': autogen-ext: loads no tool at all, because \"pattern\" has no" in done.stderr


def test_a_tool_that_was_renamed_in_the_editor_is_shown_by_its_new_name(desk: Desk) -> None:
    editor = desk.editor("path.write_text(path.read_text().replace('find-text', 'look-for'))")
    done = desk.run("new", "find-text", *SEARCH, "--edit", EDITOR=editor)
    assert done.returncode == 0
    assert "toolstead tools call look-for pattern=TODO" in done.stderr
    editor = desk.editor("""path.write_text('{"name": "x", "tools": []}')""")
    done = desk.run("new", "other", "--shell", "true", "--edit", EDITOR=editor)
    assert (done.returncode, done.stderr) == (0, f"{desk.tools / 'other.json'} holds no tool\n")
    done = desk.run("new", "gone", "--shell", "true", "--edit", EDITOR=desk.editor("path.unlink()"))
    assert (done.returncode, "gone.json: cannot be read: No such file" in done.stdout) == (1, True)


def test_an_editor_that_fails_is_told_of_and_the_file_stays(desk: Desk) -> None:
    done = desk.run("new", "one", "--shell", "true", "--edit", EDITOR=desk.editor("sys.exit(3)"))
    assert done.returncode == 1
    assert "ended with status 3; the file is checked anyway" in done.stderr
    assert "one.json" in desk.written
    no_program = desk.programs / "no-program"
    no_program.write_bytes(b"\x7fELF")
    no_program.chmod(0o755)
    done = desk.run("new", "two", "--shell", "true", "--edit", EDITOR=str(no_program))
    assert done.returncode == 1
    assert f"no-program cannot be started: Exec format error; open {desk.tools / 'two.json'} yourself" in done.stderr


def test_without_an_editor_the_path_is_said_and_no_editor_hangs_where_nobody_sits(desk: Desk) -> None:
    (desk.programs / "vi").write_text("#!/bin/sh\nexit 9\n")
    (desk.programs / "vi").chmod(0o755)
    path = f"{desk.programs}{os.pathsep}{os.environ['PATH']}"
    done = desk.spawn("new", "one", "--shell", "true", "--edit", PATH=path)
    assert (done.returncode, done.stdout) == (1, f"{desk.tools / 'one.json'}\n")
    assert done.stderr == f"no editor is set: set VISUAL or EDITOR, or open {desk.tools / 'one.json'} yourself\n"
    done = desk.run("new", "two", "--shell", "true", "--edit", EDITOR="no-such-editor")
    assert (done.returncode, desk.written) == (2, [".toolstead-schema.json", "one.json"])
    assert done.stderr.startswith("toolstead: environment EDITOR: 'no-such-editor' begins with no program")


# Into the project


def test_a_tool_of_the_project_is_written_there_and_trust_is_pointed_to(desk: Desk) -> None:
    done = desk.run("new", "ours", *SEARCH, "--in-project")
    file = desk.project / ".toolstead" / "tools" / "ours.json"
    assert (done.returncode, done.stdout) == (0, f"{file}\n")
    assert "  toolstead trust " in done.stderr
    assert not desk.written
    commands = [shlex.split(line, comments=True)[2:] for line in done.stderr.splitlines() if "toolstead tools" in line]
    assert [desk.run(*command).returncode for command in commands[:2]] == [0, 0]
    again = desk.run("new", "ours", *SEARCH, "--in-project")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    file.rename(file.with_name("theirs.json"))
    again = desk.run("new", "ours", *SEARCH, "--in-project")
    assert f"the name is already held by {file.with_name('theirs.json')}" in again.stderr
    assert desk.run("new", "more", "--shell", "true", "--in-project").returncode == 0
    assert desk.toolstead("trust", "--yes").returncode == 0
    assert desk.run("call", "more").returncode == 0
    last = desk.run("new", "last", "--shell", "true", "--in-project")
    assert (last.returncode, desk.run("call", "last").returncode) == (0, 2)
    elsewhere = desk.run("new", "ours", *SEARCH, "--in-project", "--project", str(desk.programs))
    assert elsewhere.stdout == f"{desk.programs / '.toolstead' / 'tools' / 'ours.json'}\n"


@pytest.mark.parametrize(
    ("template", "meaning"),
    [
        ("grep -rnF -- {{text}} {{dir}}", "grep ends with status 1 when nothing is found"),
        ("sort {{file}} | diff - other", "diff ends with status 1 when there are differences"),
        ("grep -n x {{file}} || true", None),
        ("sort {{file}}", None),
    ],
)
def test_a_search_gets_the_exit_statuses_that_are_answers_and_that_is_said(
    template: str, meaning: str | None, desk: Desk
) -> None:
    done = desk.run("new", "mine", "--shell", template)
    (written,) = json.loads((desk.tools / "mine.json").read_bytes())["tools"]
    assert written["handler"].get("okStatus") == ([0, 1] if meaning else None)
    said = f'{meaning}: "okStatus": [0, 1] in the file makes that an answer'
    assert (said in " ".join(done.stderr.split())) == (meaning is not None)


def test_a_value_that_would_run_as_code_needs_an_option_that_the_refusal_names(desk: Desk) -> None:
    refused = desk.run("new", "mine", "--shell", "python3 -c {{code}}")
    assert refused.returncode == 2
    assert refused.stderr.endswith('"allowScript": ["code"]; here: --allow-script code\n')
    assert desk.run("new", "mine", "--shell", "python3 -c {{code}}", "--allow-script", "code").returncode == 0
    (written,) = json.loads((desk.tools / "mine.json").read_bytes())["tools"]
    assert written["handler"]["allowScript"] == ["code"]


# Refused, with nothing written


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (("--shell", "{{program}} x"), "handler.command: {{program}} stands where its value would run as code"),
        (("--shell", "python3 -c {{code}}"), "handler.command: {{code}} stands where its value would run as code"),
        (("--shell", "echo {{x}} > out"), "handler.command: redirection (`>`) is not supported"),
        (("--shell", "echo $HOME"), "handler.command: variables and substitution (`$`) are not supported"),
        (("--shell", "echo {{x"), "handler.command: `{{` is never closed"),
        (("--shell", " "), "handler.command: the command is empty"),
        (("--http", "ftp://example.com/"), "handler.url: the address cannot be used"),
        (("--http", "https://{{host}}/x"), "handler.url: {{host}} stands in the user info, host or port"),
        (("--http", "FETCH https://example.com/"), "handler.method: expected one of"),
        (("--file", "{{dir}}"), "handler.basePath: a placeholder may not stand here"),
    ],
)
def test_a_template_that_could_not_work_is_refused_in_the_loaders_words(
    template: tuple[str, str], said: str, desk: Desk
) -> None:
    done = desk.run("new", "mine", *template)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("toolstead: tool 'mine': ")
    assert said in done.stderr
    assert not desk.tools.exists()


@pytest.mark.parametrize("name", ["../mine", "a b", "", "x" * 65, "ä", ".hidden", "a.json"])
def test_a_name_that_no_tool_can_have_is_refused(name: str, desk: Desk) -> None:
    done = desk.run("new", name, "--shell", "true")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "name: " in done.stderr
    assert not desk.tools.exists()


def test_a_name_that_has_a_holder_is_refused_with_the_holders_place(desk: Desk) -> None:
    desk.tools.mkdir(parents=True)
    write(desk.tools / "others.json", shell("taken", "true"), shell("off", "true"))
    broken = content(shell("broken", "true")).replace('"true"', '"true >"')
    (desk.tools / "bad.json").write_text(broken)
    desk.run("disable", "off")
    desk.run("disable", "workspace-info")
    before = desk.written
    for name, holder in (
        ("taken", str(desk.tools / "others.json")),
        ("off", str(desk.tools / "others.json")),
        ("broken", str(desk.tools / "bad.json")),
        ("git-status", "builtin toolstead.tools.builtin.git_status"),
        ("workspace-info", "a tool that is blocked or switched off here"),
    ):
        for where in ((), ("--in-project",)):
            done = desk.run("new", name, *SEARCH, *where)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert f"name: the name is already held by {holder}; choose another" in done.stderr
    assert desk.written == before
    assert not (desk.project / ".toolstead").exists()


def test_a_file_that_is_there_is_never_written_over(desk: Desk) -> None:
    desk.tools.mkdir(parents=True)
    file = desk.tools / "mine.json"
    file.write_text("my notes")
    done = desk.run("new", "mine", *SEARCH)
    assert (done.returncode, done.stdout, file.read_text()) == (2, "", "my notes")
    assert done.stderr == f"toolstead: {file} exists already; edit that file, or choose another name\n"
    assert desk.written == ["mine.json"]


def test_a_folder_that_cannot_be_written_is_told_of_in_one_line(desk: Desk, tmp_path: Path) -> None:
    locked = Path("/sys") if os.geteuid() == 0 else tmp_path / "locked"  # root may write wherever writing is possible
    if locked.parent == tmp_path:
        locked.mkdir(0o555)
    done = desk.run("new", "mine", *SEARCH, TOOLSTEAD_TOOLS_DIR=str(locked))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"toolstead: {locked / 'mine.json'} cannot be written: ")
    (tmp_path / "file").touch()
    done = desk.run("new", "mine", *SEARCH, TOOLSTEAD_TOOLS_DIR=str(tmp_path / "file"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"toolstead: the folder {tmp_path / 'file'} cannot be made: File exists"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--shell", "true", "--file", "."),
        ("--shell", "true", "--method", "GET"),
        ("--http", "GET https://example.com/", "--method", "POST"),
    ],
)
def test_exactly_one_template_is_needed(arguments: tuple[str, ...], desk: Desk) -> None:
    done = desk.run("new", "mine", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: " in done.stderr
    assert not desk.tools.exists()


def test_text_that_is_not_utf_8_is_refused(desk: Desk) -> None:
    done = desk.spawn("new", "mine", "--shell", os.fsdecode(b"echo \xff"))
    assert (done.returncode, desk.tools.exists()) == (2, False)
    assert done.stderr == "toolstead: the arguments are not valid UTF-8, which a tool file must be\n"


def test_a_tool_that_the_settings_hide_is_written_with_a_note(desk: Desk) -> None:
    done = desk.run("new", "mine", *SEARCH, "--set", 'tools.blocked=["mi*"]')
    assert (done.returncode, "mine.json" in desk.written) == (0, True)
    assert "note: mine cannot be called now: it is switched off, or tools.allowed and tools.blocked" in done.stderr
