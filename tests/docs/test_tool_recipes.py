"""docs/tools.md: every JSON block is a file that loads, and every recipe is called.

Each recipe meets a stand-in for its program first, which shows the exact arguments, stdin and
environment; where the machine has the program, and it needs nothing else, it runs too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

from tests.flows.http_internet import reply, serving
from toolstead import Toolstead, validate_tool_file
from toolstead.tools.sources.json_format import ANNOTATIONS, FILE, HANDLERS, TOOL, format_schema

pytestmark = pytest.mark.promise("R2")

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8")
BLOCKS = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RECIPES = {json.loads(block)["tools"][0]["name"]: block for block in BLOCKS}

STAND_IN = f"""#!{sys.executable}
import json, os, sys
seen = {{"argv": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "stdin": sys.stdin.read(), "env": dict(os.environ)}}
with open(os.path.join(os.environ["HOME"], "called.json"), "w") as file:
    json.dump(seen, file)
print("called")
"""


class Call(NamedTuple):
    """A call of a recipe, and what its program must get; the command is quoted as for a shell."""

    tool: str
    input: Mapping[str, Any]
    command: str
    stdin: str = ""
    env: Mapping[str, str] = {}
    answer: str = "called\n"

    @property
    def argv(self) -> list[str]:
        return shlex.split(self.command)


CALLS = [
    Call(
        "search-code",
        {"pattern": "-v; rm -rf ~", "folder": "src", "limit": 3},
        "rg --line-number --no-heading --color=never --max-columns=300 --max-count=3 -- '-v; rm -rf ~' src",
    ),
    Call(
        "dependency-version",
        {"name": 'left"pad'},
        """jq --raw-output --arg name 'left"pad' '.dependencies[$name] // "not a dependency"' package.json""",
    ),
    Call(
        "git-history",
        {"paths": ["a b.py", "-c"], "count": 2},
        "git --no-pager log --max-count=2 --date=short '--format=%h %ad %an: %s' HEAD -- 'a b.py' -c",
    ),
    Call(
        "find-customer",
        {"mail": "x'; drop table customers; --"},
        """psql --no-psqlrc --quiet --csv -v ON_ERROR_STOP=1 -v "mail=x'; drop table customers; --\"""",
        stdin="select id, name, created from customers where mail = :'mail';\n",
        env={"PGDATABASE": "shop", "PGPASSWORD": "a-long-password"},
    ),
    Call("pod-logs", {"pod": "web-1", "lines": 5}, "kubectl logs web-1 --namespace=default --since=1h --tail=5"),
    Call(
        "list-issues",
        {"repository": "python/cpython", "search": "is:open label:bug"},
        "gh issue list --repo=python/cpython '--search=is:open label:bug' --state=open --limit=30 "
        "--json=number,title,state,url",
        env={"GH_TOKEN": "a-long-token"},
    ),
    Call(
        "extract-audio",
        {"video": "-in.mp4", "audio": "out.mp3"},
        "ffmpeg -nostdin -hide_banner -loglevel error -n -protocol_whitelist file -i file:-in.mp4 -vn file:out.mp3",
        answer="called\nwrote out.mp3\n",
    ),
    Call(
        "run-tests",
        {"paths": ["tests/test_a.py", "tests/test_b.py::test_x"]},
        "python3 -m pytest -q --color=no --maxfail=5 tests/test_a.py tests/test_b.py::test_x",
    ),
    Call(
        "service-log",
        {"unit": "nginx.service", "lines": 10},
        "journalctl --no-pager --output=short-iso --unit=nginx.service --since=-1h --lines=10",
    ),
]
SECRETS = {"SHOP_PASSWORD": "a-long-password", "GH_TOKEN": "a-long-token", "PROMETHEUS_TOKEN": "a-long-token"}


class Bench:
    """A project with every file of the page in its tools folder, and a folder that stands first on PATH."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.project, self.home, self.programs = folder / "project", home, folder / "bin"
        self.tools = folder / "tools"
        for made in (self.project, self.programs, self.tools):
            made.mkdir()
        for name, block in RECIPES.items():
            (self.tools / f"{name}.json").write_text(block, "utf-8")

    def put(self, program: str, script: str) -> None:
        file = self.programs / program
        file.write_text(script)
        file.chmod(0o755)

    def stead(self) -> Toolstead:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        environ = {**os.environ, **SECRETS, "PATH": path, "HOME": str(self.home)}
        return Toolstead(self.project, tools_dir=self.tools, environ=environ, watch=False)


@pytest.fixture
def bench(tmp_path: Path, home: Path) -> Bench:
    return Bench(tmp_path, home)


def test_every_json_block_of_the_page_is_a_file_without_a_problem() -> None:
    assert len(BLOCKS) == len(RECIPES) == 12
    for block in BLOCKS:
        found = validate_tool_file(json.loads(block))
        assert found.valid, found.errors
        jsonschema_rs.validator_for(format_schema()).validate(json.loads(block))


def test_ten_recipes_are_called_one_of_them_over_http() -> None:
    recipes = PAGE[PAGE.index("## Ten recipes") :]
    assert recipes.count("\n### ") == 10
    named = {json.loads(block)["tools"][0]["name"] for block in BLOCKS if block in recipes}
    assert named == {call.tool for call in CALLS} | {"query-metrics"}


@pytest.mark.parametrize("kind", HANDLERS)
def test_every_key_of_a_handler_stands_in_its_table(kind: str) -> None:
    section = re.split(r"^##", PAGE[PAGE.index(f"### {kind}\n") + 3 :], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", section, re.MULTILINE)
    properties = HANDLERS[kind]["properties"]
    assert [key for key, _ in rows] == [key for key in properties if key != "type"]
    for key, default in rows:
        if isinstance(said := properties[key].get("default"), int) and said is not False:
            assert default.strip() == str(said)


def test_every_key_of_a_file_and_of_a_tool_is_described() -> None:
    for key in (*FILE["properties"], *TOOL["properties"]):
        assert f"| `{key}` |" in PAGE
    for key in ANNOTATIONS["properties"]:
        assert f"`{key}`" in PAGE


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.tool)
async def test_the_program_of_a_recipe_gets_exactly_these_arguments(call: Call, bench: Bench) -> None:
    bench.put(call.argv[0], STAND_IN)
    async with bench.stead() as stead:
        assert stead.registry.quarantined == ()
        shown = stead.registry.preview_call(call.tool, call.input)
        assert not (bench.home / "called.json").exists()
        result = await stead.call(call.tool, call.input)
    assert (result.text, result.is_error) == (call.answer, False)
    seen = json.loads((bench.home / "called.json").read_text())
    assert seen["argv"] == call.argv
    assert shown["argv"][0][0] == call.argv
    assert seen["stdin"] == call.stdin
    assert {key: seen["env"].get(key) for key in call.env} == call.env
    assert not SECRETS.keys() - call.env.keys() & seen["env"].keys()
    assert "TOOLSTEAD_CALL" in seen["env"]


async def test_search_code_finds_a_line(bench: Bench) -> None:
    (bench.project / "a.py").write_text("one\ntwo\n")
    if shutil.which("rg") is None:
        bench.put("rg", '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nexec grep -rn "$@"\n')
    async with bench.stead() as stead:
        found = await stead.call("search-code", {"pattern": "tw", "folder": "a.py"})
        assert found.text.endswith("2:two\n")
        assert (await stead.call("search-code", {"pattern": "three"})).text == ""


async def test_dependency_version_reads_package_json(bench: Bench) -> None:
    (bench.project / "package.json").write_text('{"dependencies": {"react": "19.0.0"}}')
    if shutil.which("jq") is None:
        bench.put("jq", f"#!{sys.executable}\nimport sys, json\n{JQ}")
    async with bench.stead() as stead:
        assert (await stead.call("dependency-version", {"name": "react"})).text == "19.0.0\n"
        assert (await stead.call("dependency-version", {"name": '"] | env | .["'})).text == "not a dependency\n"


JQ = """
known = json.load(open(sys.argv[-1]))["dependencies"]
print(known.get(sys.argv[sys.argv.index("--arg") + 2], "not a dependency"))
"""


@pytest.mark.requires("git")
async def test_git_history_lists_commits_and_refuses_an_option(bench: Bench) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=bench.project, check=True, timeout=60)

    git("init", "-q", "-b", "main")
    for name in ("a", "b"):
        (bench.project / name).touch()
        git("add", name)
        git("commit", "-q", "-m", f"Add {name}")
    async with bench.stead() as stead:
        both = await stead.call("git-history")
        assert [line.rpartition(" ")[2] for line in both.text.splitlines()] == ["b", "a"]
        assert (await stead.call("git-history", {"paths": ["a"]})).text.endswith("Ada: Add a\n")
        refused = await stead.call("git-history", {"revision": f"--output={bench.project / 'written'}"})
        assert refused.is_error
        assert "begins with a dash" in refused.text
    assert not (bench.project / "written").exists()


async def test_run_tests_answers_with_the_report_good_or_bad(bench: Bench) -> None:
    bench.put("python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (bench.project / "test_good.py").write_text("def test_good(): pass\n")
    (bench.project / "test_bad.py").write_text("def test_bad(): assert 1 == 2\n")
    async with bench.stead() as stead:
        good = await stead.call("run-tests", {"paths": ["test_good.py"]})
        assert not good.is_error, good.text
        assert "1 passed" in good.text
        bad = await stead.call("run-tests")
        assert bad.is_error
        assert "assert 1 == 2" in bad.text
        assert bad.text.endswith("exit status 1")


@pytest.mark.promise("R8")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("git-history", {"revision": "--output=x"}),
        ("pod-logs", {"pod": "--all-containers"}),
        ("pod-logs", {"pod": "web", "namespace": "x --all"}),
        ("list-issues", {"repository": "x/y --web"}),
        ("extract-audio", {"video": "a", "audio": "/etc/passwd"}),
        ("run-tests", {"paths": ["-p", "evil"]}),
        ("service-log", {"unit": "a b"}),
        ("dependency-version", {"name": "--slurp"}),
    ],
)
async def test_what_a_recipe_refuses_never_reaches_its_program(
    tool: str, arguments: dict[str, Any], bench: Bench
) -> None:
    for call in CALLS:
        bench.put(call.argv[0], STAND_IN)
    async with bench.stead() as stead:
        assert (await stead.call(tool, arguments)).is_error
    assert not (bench.home / "called.json").exists()


async def test_query_metrics_asks_the_api_with_its_token(bench: Bench) -> None:
    answer = '{"status": "success", "data": {"result": []}}'
    async with serving(reply(body=answer, content_type="application/json")) as server:
        block = RECIPES["query-metrics"]
        (bench.tools / "query-metrics.json").write_text(block.replace("127.0.0.1:9090", f"127.0.0.1:{server.port}"))
        async with bench.stead() as stead:
            result = await stead.call("query-metrics", {"query": 'up{job="x"} == 0'})
    assert (result.text, result.structured) == (answer, json.loads(answer))
    assert server.targets == ["GET /api/v1/query?query=up%7Bjob%3D%22x%22%7D%20%3D%3D%200"]
    assert server.seen[0].headers["authorization"] == "Bearer a-long-token"


async def test_the_first_file_of_the_page_works(bench: Bench) -> None:
    (bench.project / "a.py").write_text("# TODO: more\n")
    async with bench.stead() as stead:
        assert (await stead.call("list-todos")).text.endswith("a.py:1:# TODO: more\n")
        assert (await stead.call("list-todos", {"pattern": "-x"})).text == ""


def toolstead(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolstead", *arguments],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_the_examples_of_the_page_are_right(bench: Bench) -> None:
    done = toolstead(bench.project, "tools", "test", str(bench.tools / "count-words.json"))
    assert (done.returncode, done.stderr) == (0, "4 examples, none failed, no problems\n")


def test_the_report_that_the_page_shows_is_the_real_one(tmp_path: Path) -> None:
    shown = re.search(r"^```\n(todos\.json:.*)\n```", PAGE, re.MULTILINE)
    assert shown is not None
    (tmp_path / "todos.json").write_text(BLOCKS[0].replace("{{pattern}}", "{{patern}}"))
    done = toolstead(tmp_path, "tools", "check", "todos.json")
    assert done.stdout == f"{tmp_path}/{shown[1]}\n"


def test_the_warning_that_the_page_shows_is_the_real_one(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^todos\.json:.*: warning: .*$", PAGE, re.MULTILINE)
    lines = RECIPES["list-todos"].splitlines(keepends=True)
    (number,) = [number for number, line in enumerate(lines) if '"directory": {' in line]
    lines[number] = '          "directory": { "const": "." }\n'
    (tmp_path / "todos.json").write_text("".join(lines))
    command = [sys.executable, "-m", "toolstead", "tools", "check", "todos.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == f"{tmp_path}/{shown}\n"
