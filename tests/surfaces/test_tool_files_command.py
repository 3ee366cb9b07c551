"""`toolstead tools check`, `test`, `show --input`, `schema` and `reload`, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.flows.broken_files import MISTAKES, SHAPES, base
from tests.flows.http_internet import Seen, reply, serving
from tests.flows.tool_files import DOCUMENT, content, shell, tool, write
from tests.programs.running import TOOLSTEAD, Program, running
from tests.waiting import until
from toolstead.app.server_file import RunningServer, ServerFile
from toolstead.schema.client_limits import LIMITS

Finished = subprocess.CompletedProcess[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project whose tool files are in `tools`."""
    (tmp_path / "tools").mkdir()
    return tmp_path


def toolstead(folder: Path, *arguments: str, **environ: str) -> Finished:
    return subprocess.run(
        [sys.executable, "-m", "toolstead", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", "TOOLSTEAD_TOOLS_DIR": str(folder / "tools"), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


# check


@pytest.mark.promise("R4")
def test_check_says_every_problem_as_a_compiler_would_and_exits_with_1(folder: Path) -> None:
    tools = folder / "tools"
    (tools / "a-good.json").write_text(base("good-a"))
    for mistake in MISTAKES:
        (tools / f"{mistake.name}.json").write_bytes(mistake.file)
    done = toolstead(folder, "tools", "check")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert all(re.match(r"/.*\.json:\d+:\d+: ", line) for line in lines)
    for mistake in MISTAKES:
        line, column = mistake.where
        start = f"{tools / mistake.name}.json:{line}:{column}: "
        message = mistake.message.replace("plugin good (", "")
        assert [said for said in lines if said.startswith(start) and message in said], mistake.name
    assert done.stderr == f"{len(MISTAKES) + 1} files, 1 good tool, {len(lines)} problems\n"


@pytest.mark.promise("R4")
def test_check_looks_at_the_files_and_folders_that_are_named(folder: Path) -> None:
    (folder / "tools" / "bad.json").write_text("nonsense")
    other = folder / "other"
    other.mkdir()
    write(other / "good.json", shell("one", "true"), shell("two", "true"))
    done = toolstead(folder, "tools", "check", "other")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "1 file, 2 good tools, no problems\n")
    done = toolstead(folder, "tools", "check", "other/good.json", "tools/bad.json")
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert done.stdout.startswith(f"{folder / 'tools' / 'bad.json'}:1:1: not valid JSON: a value is needed here")
    done = toolstead(folder, "tools", "check", "nothing.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such file or folder: nothing.json" in done.stderr
    (folder / "kit.py").write_text("")
    for command in ("check", "test"):
        done = toolstead(folder, "tools", command, "kit.py")
        assert (done.returncode, done.stdout) == (2, "")
        assert (
            f"kit.py is Python; `tools {command}` reads tool files (JSON); `toolstead tools list --file kit.py`"
            in done.stderr
        )


def test_check_without_paths_reads_a_projects_files_as_they_are_approved_or_not(folder: Path) -> None:
    (folder / "home" / "tools").mkdir(parents=True)
    write(folder / "home" / "tools" / "mine.json", shell("mine", "true"))
    (folder / ".toolstead" / "tools").mkdir(parents=True)
    bad = folder / ".toolstead" / "tools" / "bad.json"
    bad.write_text("nonsense")
    done = toolstead(folder, "tools", "check", TOOLSTEAD_HOME=str(folder / "home"), TOOLSTEAD_TOOLS_DIR="")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{bad}:1:1: not valid JSON")
    assert done.stderr.endswith("2 files, 1 good tool, 1 problem\n")


def test_check_warns_of_a_default_that_does_not_fit(folder: Path) -> None:
    (folder / "tools" / "a.json").write_text(base("a").replace('"TODO"', "5").replace('"examples"', '"examples"'))
    done = toolstead(folder, "tools", "check")
    assert done.returncode == 0
    assert "a.json:12:24: tool 'a': the default 5 does not fit its own schema and is not filled in" in done.stderr


def test_check_warns_of_what_known_clients_cannot_take(folder: Path) -> None:
    path = folder / "tools" / "a.json"
    names = [f"limit-{number}".ljust((limit.longest_name or 0) + 1, "-") for number, limit in enumerate(LIMITS)]
    tools = [shell(name, "true") for name in names]
    given = [{**tool, "inputSchema": limit.example} for tool, limit in zip(tools, LIMITS, strict=True)]
    lines = ",\n".join(json.dumps(tool) for tool in [*given, shell("plain", "echo {{x}}", "x")])
    path.write_text(f'{{"name": "all", "tools": [\n{lines}]}}')
    done = toolstead(folder, "tools", "check")
    for number, (name, limit) in enumerate(zip(names, LIMITS, strict=True)):
        start = f"{path}:{number + 2}:"
        end = f": {limit.severity}: tool {name!r}: {limit.clients}: {limit.effect}, because "
        (line,) = [said for said in done.stdout.splitlines() if said.startswith(start) and end in said]
        assert line.endswith(f"; {limit.remedy}")
    assert "'plain'" not in done.stdout
    assert done.returncode == 0
    assert re.fullmatch(rf"1 file, {len(LIMITS) + 1} good tools, no problems, \d+ warnings, \d+ notes?\n", done.stderr)
    sent = json.loads(toolstead(folder, "tools", "check", "--json").stdout)
    assert (sent["files"], len(sent["tools"]), sent["problems"]) == (1, len(LIMITS) + 1, [])
    assert len(sent["warnings"]) == len(done.stdout.splitlines())
    assert sent["warnings"][0] == {
        "severity": "warning",
        "source": str(path),
        "toolName": "limit-0",
        "clients": LIMITS[0].clients,
        "message": 'load no tool at all, because the schema of "amount" is true; write a schema with a "type"',
        "line": 2,
        "column": lines.index("true}") + 1,
    }


def test_check_gives_at_most_fifty_warnings_for_a_file_and_counts_the_rest(folder: Path) -> None:
    path = folder / "tools" / "a.json"
    odd = {"type": "object", "properties": {"_a\u202e": {"type": "string"}}}
    write(path, *({**shell(f"odd-{number}", "true"), "inputSchema": odd} for number in range(60)), {"name": "bad"})
    done = toolstead(folder, "tools", "check")
    said = [line for line in done.stdout.splitlines() if ": warning: " in line]
    assert (done.returncode, len(said)) == (1, 51)
    assert said[-1] == f"{path}:1:1: warning: clients: reach 70 more of their limits in this file; change these first"
    assert "\u202e" not in done.stdout


# test


EXAMPLES = [
    shell("exact", "echo {{x}}", "x", examples=[{"input": {"x": "hi"}, "expect": "hi"}]),
    shell("contains", "echo a {{x}} c", "x", examples=[{"input": {"x": "b"}, "expect": {"contains": "b c"}}]),
    shell("schema", "echo '[1, 2]'", examples=[{"input": {}, "expect": {"schema": {"items": {"type": "integer"}}}}]),
    shell("runs", "true", examples=[{"input": {}}]),
]


@pytest.mark.promise("B4")
def test_examples_are_run_and_compared_by_exact_text_part_and_schema(folder: Path) -> None:
    write(folder / "tools" / "a.json", *EXAMPLES)
    done = toolstead(folder, "tools", "test")
    assert (done.returncode, done.stderr) == (0, "4 examples, none failed, no problems\n")
    assert done.stdout.splitlines() == [f"ok   {name} example 1" for name in ("exact", "contains", "schema", "runs")]


@pytest.mark.promise("B4")
@pytest.mark.parametrize(
    ("command", "expect", "reason"),
    [
        ("echo other", "hi", r"expected 'hi', got 'other\n'"),
        ("echo other", {"contains": "hi"}, r"expected text that contains 'hi', got 'other\n'"),
        ("echo other", {"schema": {"type": "integer"}}, r"expected JSON, got 'other\n'"),
        ("echo true", {"schema": {"type": "integer"}}, "(arguments): expected integer, got true"),
        ("false", None, "exit status 1"),
        ("no-such-program", None, "no-such-program: program not found"),
    ],
)
def test_an_example_that_fails_says_why_and_the_exit_status_is_1(
    folder: Path, command: str, expect: Any, reason: str
) -> None:
    example = {"input": {}} if expect is None else {"input": {}, "expect": expect}
    write(folder / "tools" / "a.json", shell("bad", command, examples=[example]), *EXAMPLES)
    done = toolstead(folder, "tools", "test")
    assert (done.returncode, done.stderr) == (1, "5 examples, 1 failed, no problems\n")
    assert done.stdout.splitlines()[:2] == ["FAIL bad example 1", f"     {reason}"] or reason in done.stdout


@pytest.mark.promise("B4")
def test_tools_and_files_are_tested_by_name(folder: Path) -> None:
    write(folder / "tools" / "a.json", *EXAMPLES)
    other = folder / "other"
    other.mkdir()
    write(other / "b.json", shell("other", "echo b", examples=[{"input": {}, "expect": "b"}]))
    write(other / "c.json", shell("third", "echo c", examples=[{"input": {}, "expect": "c"}]))
    assert toolstead(folder, "tools", "test", "exact", "runs").stdout == "ok   exact example 1\nok   runs example 1\n"
    assert toolstead(folder, "tools", "test", "other/b.json").stdout == "ok   other example 1\n"
    for named in ("other", "other/", str(other)):
        assert toolstead(folder, "tools", "test", named).stdout == "ok   other example 1\nok   third example 1\n"
    (folder / "exact").mkdir()  # no tool file is in it, so the word means the tool
    assert toolstead(folder, "tools", "test", "exact").stdout == "ok   exact example 1\n"
    as_json = json.loads(toolstead(folder, "tools", "test", "other", "--json").stdout)
    assert as_json["examples"][0] == {"tool": "other", "number": 1, "ok": True, "wasRun": True}
    assert as_json["problems"] == []
    unknown = toolstead(folder, "tools", "test", "exat")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "unknown tool 'exat'; did you mean 'exact'" in unknown.stderr
    missing = toolstead(folder, "tools", "test", "missing.json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "no such file or folder" in missing.stderr
    both = toolstead(folder, "tools", "test", "tools/a.json", "other/b.json")
    assert (both.returncode, both.stdout) == (2, "")
    assert "one folder" in both.stderr


@pytest.mark.promise("B4")
def test_a_tool_that_could_not_be_loaded_or_called_is_a_failure_and_no_example_is_a_note(folder: Path) -> None:
    write(folder / "tools" / "a.json", {"name": "broken"}, shell("fine", "true"))
    done = toolstead(folder, "tools", "test")
    assert done.returncode == 1
    assert re.match(r"FAIL .*a\.json:\d+:\d+: tool 'broken': \"description\" is missing", done.stdout)
    assert "no example was run" in done.stderr
    write(folder / "tools" / "a.json", *EXAMPLES)
    blocked = toolstead(folder, "tools", "test", "--set", "tools.blocked=['runs']")
    assert blocked.returncode == 1
    assert "it cannot be called here: it is switched off or blocked" in blocked.stdout


# show


@pytest.mark.promise("R2")
def test_show_prints_what_would_run_and_runs_nothing(folder: Path) -> None:
    marker = folder / "ran"
    write(
        folder / "tools" / "a.json",
        shell(
            "touch", "touch {{file}} && sort -r | head -n {{n}} || true", "file", "n", stdin="{{file}}\n", cwd="tools"
        ),
        tool(
            "fetch",
            {"type": "http", "url": "https://example.org/{{id}}/x", "headers": {"Authorization": "Bearer ${KEY}"}},
            {"id": {"type": "string"}, "q": {"type": "array"}},
        ),
        tool("read", {"type": "file-read", "basePath": "tools"}, {"path": {"type": "string"}}),
    )
    given = json.dumps({"file": str(marker), "n": "2"})
    shown = json.loads(toolstead(folder, "tools", "show", "touch", "--input", given).stdout)
    assert shown == {
        "command": f"touch {marker} && sort -r | head -n 2 || true",
        "argv": [[["touch", str(marker)]], [["sort", "-r"], ["head", "-n", "2"]], [["true"]]],
        "cwd": str(folder / "tools"),
        "stdin": f"{marker}\n",
    }
    assert not marker.exists()
    given = json.dumps({"id": "a/b c", "q": ["x"]})
    shown = json.loads(toolstead(folder, "tools", "show", "fetch", "--input", given, KEY="s3cret-value").stdout)
    assert (shown["method"], shown["url"], shown["body"]) == ("POST", "https://example.org/a%2Fb%20c/x", {"q": ["x"]})
    assert shown["headers"] == {"Authorization": "Bearer ********"}
    shown = json.loads(toolstead(folder, "tools", "show", "read", "--input", '{"path": "a.json"}').stdout)
    assert shown == {"file": str(folder / "tools" / "a.json"), "maxSize": 1_048_576}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("say", '{"x": 5}', "/x: expected string, got number 5"),
        ("say", '{"x": "-n"}', "begins with a dash"),
        ("say", "nonsense", "not valid JSON"),
        ("sy", "{}", "did you mean 'say'"),
        ("git-status", "{}", "only tools from files can be shown before they run"),
    ],
)
def test_what_could_not_run_is_said_instead(folder: Path, name: str, given: str, said: str) -> None:
    write(folder / "tools" / "a.json", shell("say", "echo {{x}}", "x"))
    done = toolstead(folder, "tools", "show", name, "--input", given)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# schema


EVERY_KEY = {
    "$schema": "./schema.json",
    "name": "all",
    "version": "1",
    "tools": [
        {
            **shell("a", "cat {{x}}", "x", examples=[{"input": {"x": "y"}, "expect": {"schema": True}}]),
            "outputSchema": {"type": "object"},
            "annotations": {"title": "A", "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True},
        },
        shell(
            "b",
            "cat",
            "x",
            timeout=1,
            cwd=".",
            env={"A": "${B}"},
            stdin="{{x}}",
            maxOutput=1_024,
            stream=True,
            allowLeadingDash=["x"],
            allowScript=["x"],
        ),
        tool(
            "c", {"type": "http", "url": "http://x", "method": "PATCH", "headers": {}, "timeout": 5, "maxOutput": 2_048}
        ),
        tool("d", {"type": "http", "url": "{{u}}/x", "allowedHosts": ["x"]}, {"u": {"type": "string"}}),
        tool("e", {"type": "file-read", "basePath": ".", "maxSize": 1}, {"path": {"type": "string"}}),
    ],
}


@pytest.mark.promise("R2")
def test_the_schema_of_the_format_takes_every_good_file_and_no_misshapen_one(folder: Path) -> None:
    done = toolstead(folder, "tools", "schema")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.validator_for(schema)
    for good in (
        json.loads(DOCUMENT),
        EVERY_KEY,
        {"name": "n", "tools": []},
        *(json.loads(base(m.name)) for m in MISTAKES),
    ):
        validator.validate(good)
    (folder / "tools" / "all.json").write_text(json.dumps(EVERY_KEY))
    assert toolstead(folder, "tools", "check").stdout == ""
    for mistake in MISTAKES:
        if mistake.name in SHAPES:
            assert not validator.is_valid(json.loads(mistake.file)), mistake.name
    for bad in (
        [],
        {},
        {"name": "x"},
        {"name": "", "tools": []},
        {"name": "x", "tools": [{}]},
        {"name": 1, "tools": []},
    ):
        assert not validator.is_valid(bad), bad
    for change in ({"type": "bash"}, {}, {"type": "shell"}, {"type": "shell", "command": ""}, {"type": "http"}, "ls"):
        assert not validator.is_valid({"name": "x", "tools": [{**shell("a", "ls"), "handler": change}]}), change


# reload


@asynccontextmanager
async def server(folder: Path, *arguments: str, **environ: str) -> AsyncIterator[tuple[Program, RunningServer]]:
    """`toolstead serve` for this project, once it is in `server.json`."""
    environ["TOOLSTEAD_TOOLS_DIR"] = str(folder / "tools")
    command = [*TOOLSTEAD, "serve", "--port", "0", *arguments]
    async with running(command, errors=folder / "stderr.txt", cwd=folder, env=environ) as program:
        yield program, await until(lambda: servers().find_server(folder.resolve()))


def servers() -> ServerFile:
    return ServerFile(Path(os.environ["TOOLSTEAD_HOME"], "data"))


@pytest.mark.promise("R5")
async def test_reload_asks_the_running_server_of_this_project_and_says_so(folder: Path) -> None:
    tools = folder / "tools"
    write(tools / "a.json", shell("a", "echo {{x}}", "x"))
    async with server(folder, "--set", "server.token='auto'") as (program, found):
        assert (Path(os.environ["TOOLSTEAD_HOME"]) / "data" / "server.json").stat().st_mode & 0o777 == 0o600
        assert (found.pid, len(found.token) > 20) == (program.pid, True)
        done = await asyncio.to_thread(toolstead, folder, "tools", "reload")
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"reloaded by the server at {found.url}\n18 tools\n"
        # The command looks elsewhere, so it is the server that has read this.
        (tools / "b.json").write_text("nonsense")
        done = await asyncio.to_thread(toolstead, folder, "tools", "reload", "--json", TOOLSTEAD_TOOLS_DIR="elsewhere")
        assert done.returncode == 1
        assert [Path(error["source"]).name for error in json.loads(done.stdout)["errors"]] == ["b.json"]
        by_url = await asyncio.to_thread(toolstead, folder.parent, "tools", "reload", "--url", found.url)
        assert by_url.stderr.startswith(f"reloaded by the server at {found.url}\n")
        assert f"{tools / 'b.json'}:1:1: not valid JSON" in by_url.stdout
        os.kill(program.pid, 15)
        await program.ended()
        assert servers().find_server(folder.resolve()) is None


@pytest.mark.promise("R5")
async def test_tools_of_a_server_are_listed_shown_and_called_by_its_address(folder: Path) -> None:
    write(folder / "tools" / "a.json", shell("a", "echo {{x}}", "x"))
    async with server(folder) as (_, found):

        async def ask(*arguments: str) -> Any:
            elsewhere = {"TOOLSTEAD_TOOLS_DIR": "elsewhere"}  # what answers is the server
            return await asyncio.to_thread(toolstead, folder, "tools", *arguments, "--url", found.url, **elsewhere)

        listed = (await ask("list")).stdout
        assert re.search(r"^a +file a\.json ", listed, re.MULTILINE)
        assert json.loads((await ask("show", "a", "--json")).stdout)["name"] == "a"
        called = await ask("call", "a", "x=hello")
        assert (called.returncode, called.stdout) == (0, "hello\n")
        wrong = await ask("call", "a", "x:=5")
        assert (wrong.returncode, "/x: expected string, got number 5" in wrong.stderr) == (2, True)
        unknown = await ask("call", "aa")
        assert (unknown.returncode, "did you mean 'a'?" in unknown.stderr) == (2, True)
        refused = await ask("show", "a", "--input", "{}")
        assert (refused.returncode, "a server does not show what a call would run" in refused.stderr) == (2, True)


@pytest.mark.promise("R5", "B4")
async def test_what_a_reload_changed_is_printed_with_what_breaks_callers(folder: Path) -> None:
    answer = {
        "success": True,
        "toolCount": 7,
        "errors": [],
        "added": ["new"],
        "removed": ["old"],
        "changed": ["a"],
        "schemaChanges": {
            "a": [
                {"pointer": "/properties/y", "change": "was added", "breaking": True},
                {"pointer": "/description", "change": "x became y", "breaking": False},
            ]
        },
    }
    async with serving(reply(body=json.dumps(answer), content_type="application/json")) as other:
        done = await asyncio.to_thread(toolstead, folder, "tools", "reload", "--url", f"http://127.0.0.1:{other.port}/")
    assert done.stdout.splitlines() == [
        "added  new",
        "removed  old",
        "changed  a",
        "         /properties/y: was added (breaks callers)",
        "         /description: x became y (harmless)",
    ]


@pytest.mark.promise("R5")
def test_without_a_server_reload_works_in_the_command_itself(folder: Path) -> None:
    write(folder / "tools" / "a.json", shell("a", "true"))
    done = toolstead(folder, "tools", "reload")
    assert (done.returncode, done.stdout) == (0, "")
    said = "the files were read; no `toolstead serve` runs here, and connected clients reload by themselves"
    assert done.stderr == f"{said}\n18 tools\n"
    (folder / "tools" / "b.json").write_text("nonsense")
    assert toolstead(folder, "tools", "reload").returncode == 1


@pytest.mark.promise("R5")
def test_a_server_that_was_killed_counts_as_absent(folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(timeout=30)
    for pid in (ended.pid, os.getpid()):  # gone, and given to somebody else
        data = Path(os.environ["TOOLSTEAD_HOME"], "data")
        data.mkdir(parents=True, exist_ok=True)
        entry = {"url": "http://127.0.0.1:9", "token": "t", "pid": pid}
        (data / "server.json").write_text(json.dumps({str(folder.resolve()): entry}))
        done = toolstead(folder, "tools", "reload")
        assert done.returncode == 0
        assert "no `toolstead serve` runs here" in done.stderr
        assert ("does not answer any more" in done.stderr) == (pid == os.getpid())


@pytest.mark.promise("R5")
async def test_the_token_of_a_server_goes_nowhere_else(folder: Path) -> None:
    heard: list[str | None] = []

    def script(seen: Seen) -> bytes:
        heard.append(seen.headers.get("authorization"))
        return (
            reply("302 Found", location="http://127.0.0.1:9/") if seen.target.startswith("/away") else reply(body="{}")
        )

    with servers().announce_server(folder.resolve(), "http://127.0.0.1:9", "the-secret-token"):
        async with serving(script) as other:
            address = f"http://127.0.0.1:{other.port}"
            away = await asyncio.to_thread(toolstead, folder, "tools", "reload", "--url", f"{address}/away")
            assert (away.returncode, "answered 302" in away.stderr) == (2, True)
            odd = await asyncio.to_thread(
                toolstead, folder, "tools", "reload", "--url", address, TOOLSTEAD_TOKEN="mine"
            )
            assert (odd.returncode, "not as a Toolstead server does" in odd.stderr) == (2, True)
    assert heard == [None, "Bearer mine"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9", "cannot be reached: no server listens there"),
        ("file:///etc/passwd", "an address begins with http:// or https://"),
        ("127.0.0.1:9", "an address begins with http:// or https://"),
    ],
)
def test_an_address_that_cannot_be_asked_is_a_sentence(folder: Path, url: str, said: str) -> None:
    done = toolstead(folder, "tools", "reload", "--url", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_list_names_what_was_set_aside_with_its_place(folder: Path) -> None:
    (folder / "tools" / "a.json").write_text(content(shell("fine", "true"), {"name": "bad"}))
    done = toolstead(folder, "tools", "list")
    assert done.returncode == 0
    assert "fine" in done.stdout
    assert re.search(
        r"^quarantined: .*a\.json:\d+:\d+: tool 'bad': \"description\" is missing", done.stderr, re.MULTILINE
    )


def test_the_list_names_a_broken_plugin_once(folder: Path) -> None:
    plugins = folder / "home" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "bad.py").write_text("raise ValueError('no')\n")
    done = toolstead(folder, "tools", "list", TOOLSTEAD_HOME=str(folder / "home"))
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"quarantined: {plugins / 'bad.py'}: plugin 'bad': load: ValueError: no")


def test_check_names_what_is_wrong_with_prompts_too(folder: Path) -> None:
    bad = folder / "home" / "prompts" / "bad.md"
    bad.parent.mkdir(parents=True)
    bad.write_text("---\ntitel: x\n---\nText.\n")
    done = toolstead(folder, "tools", "check", TOOLSTEAD_HOME=str(folder / "home"))
    assert done.returncode == 1
    assert f"{bad}:2:1: error: `titel` is no key of a prompt; did you mean `title`?" in done.stdout
