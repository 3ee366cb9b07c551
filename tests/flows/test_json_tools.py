"""JSON tool files through the public doors: the document's examples, broken files, hostile values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.flows.broken_files import MISTAKES, base
from tests.flows.http_internet import reply, serving
from tests.flows.tool_files import DOCUMENT, ask, opened, served, shell, tool, write
from toolstead import Toolstead, validate_tool_file
from toolstead.types.result import Failure


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a comment to find, and the document's own file."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("x = 1\n# TODO: more\n# FIXME: less\n")
    (tmp_path / "tools" / "my-tools.json").write_text(DOCUMENT)
    return tmp_path


# the document's two examples


@pytest.mark.promise("R2")
async def test_the_documents_file_loads_unchanged_from_the_folder_the_environment_names(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSTEAD_TOOLS_DIR", str(project / "tools"))
    async with Toolstead(project, watch=False) as stead:
        infos = {info.name: info.to_json() for info in stead.registry.list_tools()}
        assert stead.registry.quarantined == ()
    for given in json.loads(DOCUMENT)["tools"]:
        assert infos[given["name"]] == {
            "name": given["name"],
            "description": given["description"],
            "source": "plugin",
            "pluginName": "my-tools",
            "origin": str(project / "tools" / "my-tools.json"),
            "inputSchema": given["inputSchema"],
        }


@pytest.mark.promise("R2")
async def test_list_todos_finds_what_is_there_and_nothing_found_is_an_empty_answer(project: Path) -> None:
    async with opened(project, watch=False) as stead:
        found = await stead.call("list-todos", {"pattern": "TODO", "directory": "src"})
        assert (found.text, found.is_error) == ("src/app.py:2:# TODO: more\n", False)
        nothing = await stead.call("list-todos", {"pattern": "XYZZY", "directory": "src"})
        assert (nothing.text, nothing.is_error) == ("", False)
        everywhere = await stead.call("list-todos", {"pattern": "FIXME"})
        assert everywhere.text.endswith("src/app.py:3:# FIXME: less\n")


@pytest.mark.promise("R2")
async def test_list_todos_without_a_pattern_names_it_and_suggests_a_default_which_then_works(project: Path) -> None:
    async with opened(project, watch=False) as stead:
        failed = await stead.call("list-todos", {"directory": "src"})
        assert failed.is_error
        assert "'pattern' is missing" in failed.text
        assert "add a \"default\" for 'pattern' to the tool's inputSchema" in failed.text
        mended = DOCUMENT.replace('"Search pattern (default: TODO)"', '"Search pattern", "default": "TODO"')
        (project / "tools" / "my-tools.json").write_text(mended)
        assert (await stead.registry.reload_plugins()).success
        assert (await stead.call("list-todos", {"directory": "src"})).text == "src/app.py:2:# TODO: more\n"


@pytest.mark.promise("R2", "R8")
@pytest.mark.parametrize("named", ["127.0.0.1", "127.0.0.1:{port}"])
async def test_check_api_reaches_a_local_server_only_when_the_settings_name_it(project: Path, named: str) -> None:
    async with serving(reply(body='{"status":"ok"}', content_type="application/json")) as server:
        arguments = {"url": f"http://127.0.0.1:{server.port}"}
        settings = {"tools": {"allowed_hosts": [named.format(port=server.port)]}}
        async with opened(project, watch=False, settings=settings) as stead:
            assert (await stead.call("check-api", arguments)).text == '{"status":"ok"}'
        async with opened(project, watch=False) as stead:
            refused = await stead.call("check-api", arguments)
    assert refused.failure == Failure.REFUSED
    assert "127.0.0.1" in refused.text
    assert server.targets == ["GET /health"]


# broken files


def spoil(folder: Path) -> None:
    """A folder with every mistake in a file of its own, and two good files among them."""
    (folder / "a-good.json").write_text(base("good-a").replace("file of good-a", "good"))
    for mistake in MISTAKES:
        (folder / f"{mistake.name}.json").write_bytes(mistake.file)
    (folder / "z-good.json").write_bytes(b"\xef\xbb\xbf" + base("good-z").encode())


@pytest.mark.promise("R4")
async def test_every_broken_file_is_set_aside_alone_and_says_where_and_how_to_mend_it(project: Path) -> None:
    folder = project / "tools"
    spoil(folder)
    async with opened(project, watch=False) as stead, served(stead) as address:
        listed = await ask("GET", f"{address}/api/tools")
        names = [
            tool["name"]
            for tool in listed["tools"]
            if tool["source"] == "plugin" and tool["pluginName"] not in ("time", "delegation")
        ]
        assert sorted(names) == ["check-api", "good-a", "good-z", "list-todos"]
        assert not (await stead.call("good-z", {"pattern": "TODO"})).is_error
        problems = listed["quarantined"]
        for mistake in MISTAKES:
            source = str(folder / f"{mistake.name}.json")
            found = next(p for p in problems if p["source"] == source and mistake.message in p["message"])
            assert (found["line"], found["column"]) == mistake.where, found
            assert found.get("toolName") == (mistake.name if mistake.tool == "own" else mistake.tool), found
        assert problems == [problem.to_json() for problem in stead.registry.quarantined]

        for mistake in MISTAKES:  # what the messages say to type is what was there before
            (folder / f"{mistake.name}.json").write_text(base(mistake.name))
        reloaded = await ask("POST", f"{address}/api/tools/reload", {})
        assert (reloaded["success"], reloaded["errors"]) == (True, [])
        assert sorted(reloaded["added"]) == sorted(mistake.name for mistake in MISTAKES)
        assert reloaded["toolCount"] == listed["counts"]["total"] + len(MISTAKES)


@pytest.mark.promise("R4")
async def test_a_bad_tool_leaves_the_other_tools_of_its_file_alone(project: Path) -> None:
    folder = project / "tools"
    write(folder / "mixed.json", shell("first", "echo 1"), {"name": "second"}, shell("third", "echo 3"))
    async with opened(project, watch=False) as stead:
        assert [(await stead.call(name)).text for name in ("first", "third")] == ["1\n", "3\n"]
        assert {problem.tool_name for problem in stead.registry.quarantined} == {"second"}
        assert not stead.registry.has_tool("second")


@pytest.mark.promise("R4")
async def test_two_files_with_one_name_keep_the_first_and_the_second_is_named_with_its_line(project: Path) -> None:
    folder = project / "tools"
    write(folder / "b.json", shell("same", "echo b"), name="of b")
    write(folder / "a.json", shell("other", "true"), shell("same", "echo a"), name="of a")
    async with opened(project, watch=False) as stead:
        assert (await stead.call("same")).text == "a\n"
        (problem,) = stead.registry.quarantined
    assert problem.to_json() == {
        "source": str(folder / "b.json"),
        "toolName": "same",
        "line": 5,
        "column": 15,
        "message": f"name: the name is already held by plugin of a ({folder / 'a.json'}); "
        "choose another, or remove that one first",
    }


# hostile values


HOSTILE = ["; touch {m}", "$(touch {m})", "`touch {m}`", "| touch {m}", "&& touch {m}", "z\ntouch {m}", "'touch {m}'"]


@pytest.mark.promise("R8")
@pytest.mark.parametrize("value", HOSTILE)
async def test_what_looks_like_a_command_in_a_value_is_an_argument(project: Path, value: str) -> None:
    marker = project / "ran"
    hostile = value.format(m=marker)
    write(
        project / "tools" / "say.json",
        shell("say", "printf '%s' {{x}}", "x"),
        shell("quoted", 'printf %s "{{x}}" | cat || true', "x"),
        shell("read", "cat", "x", stdin="{{x}}"),
    )
    async with opened(project, watch=False) as stead, served(stead) as address:
        for name in ("say", "quoted", "read"):
            answer = await ask("POST", f"{address}/api/tools/{name}/call", {"input": {"x": hostile}})
            assert (answer["content"][0]["text"], answer["isError"]) == (hostile, False)
        found = await stead.call("list-todos", {"pattern": hostile, "directory": "src"})
        assert (found.text, found.is_error) == ("", False)
    assert not marker.exists()


@pytest.mark.promise("R8")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("-f/etc/passwd", "begins with a dash"),
        ("--help", "begins with a dash"),
        ("a\0b", "null byte"),
        ("a\ud800b", "half of a surrogate pair"),
        ("x" * 10_001, "10,001 characters long; at most 10,000"),
    ],
)
async def test_options_null_bytes_and_endless_values_are_refused(project: Path, value: str, said: str) -> None:
    async with opened(project, watch=False) as stead:
        refused = await stead.call("list-todos", {"pattern": value, "directory": "src"})
    assert refused.is_error
    assert said in refused.text


@pytest.mark.promise("R8")
@pytest.mark.parametrize(
    "handler",
    [
        {"command": "sh -c {{x}}"},
        {"command": "python3 -c 'print({{x}})'"},
        {"command": "echo {{x}} | sh"},
        {"command": "cat {{x}} | psql shop"},
        {"command": "sh", "stdin": "{{x}}"},
        {"command": "bash -s now", "stdin": "{{x}}"},
        {"command": "psql shop", "stdin": "{{x}}"},
        {"command": "psql -v a=1 -f -", "stdin": "{{x}}"},
        {"command": "cat | python3 -", "stdin": "{{x}}"},
        {"command": "xargs rm", "stdin": "{{x}}"},
    ],
)
def test_a_value_that_would_run_as_code_is_refused_when_the_file_is_read(handler: dict[str, str]) -> None:
    given = tool("t", {"type": "shell", **handler}, {"x": {"type": "string"}})
    refused = validate_tool_file({"name": "n", "tools": [given]})
    assert len(refused.errors) == 1
    assert "would run as code" in refused.errors[0]
    accepted = tool("t", {"type": "shell", "allowScript": ["x"], **handler}, {"x": {"type": "string"}})
    assert validate_tool_file({"name": "n", "tools": [accepted]}).valid


@pytest.mark.promise("R2", "R8")
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "out", "../data-old/secret", "sub/../../secret", "a\0"])
async def test_a_file_read_tool_never_leaves_its_folder(project: Path, path: str) -> None:
    data = project / "data"
    for folder in (data, project / "data-old"):
        folder.mkdir()
    (project / "secret").write_text("not yours")
    (project / "data-old" / "secret").write_text("not yours")
    (data / "mine.txt").write_text("mine")
    (data / "out").symlink_to(project / "secret")
    write(
        project / "tools" / "read.json",
        tool("read", {"type": "file-read", "basePath": "data", "maxSize": 8}, {"path": {"type": "string"}}),
    )
    async with opened(project, watch=False) as stead:
        assert (await stead.call("read", {"path": "mine.txt"})).text == "mine"
        refused = await stead.call("read", {"path": path})
        assert refused.failure == Failure.REFUSED
        assert "not yours" not in refused.text
        (data / "large").write_text("x" * 9)
        large = await stead.call("read", {"path": "large"})
        assert large.is_error
        assert "has 9 bytes; at most 8 are read" in large.text
