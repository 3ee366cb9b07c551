"""`toolstead completion`: real shells complete commands, options and names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.tool_files import shell, write
from tests.surfaces.talking_project import make_project

HEAVY = "{'sqlalchemy', 'mcp', 'pydantic', 'starlette', 'uvicorn', 'httpx2', 'asyncpg', 'anthropic', 'openai'}"
ASK = """
eval "$(toolstead completion bash)"
ask() {
    COMP_WORDS=("$@") COMP_CWORD=$(( $# - 1 )) COMPREPLY=()
    "$(complete -p toolstead | sed 's/.*-F //; s/ .*//')" toolstead 2>&1
    printf '%s:' "${COMPREPLY[@]}"
}
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the command, for the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "toolstead"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolstead "$@"\n')
    command.chmod(0o755)
    return folder


def complete(*words: str, cwd: Path, programs: Path) -> list[str]:
    """What bash offers for the last word of `toolstead …`."""
    done = subprocess.run(
        ["bash", "--norc", "-c", f'{ASK}\nask toolstead "$@"', "bash", *words],
        cwd=cwd,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return [word for word in done.stdout.split(":") if word]


def test_bash_completes_commands_options_and_every_kind_of_name(tmp_path: Path, home: Path, programs: Path) -> None:
    project = make_project(tmp_path, home)
    tools = project.home / "tools"
    tools.mkdir()
    write(tools / "mine.json", shell("find-text", "true"), shell("find-file", "true"))
    with (project.home / "config.toml").open("a", encoding="utf-8") as config:
        config.write('[profiles.readonly]\nallowed = ["git-*"]\n')
    project.command("ask", "hello")
    project.command("tools", "disable", "find-file")
    (thread,) = [thread["id"] for thread in project.json("threads", "list", "--json")["threads"]]

    def offered(*words: str) -> list[str]:
        return complete(*words, cwd=project.folder, programs=programs)

    assert offered("th") == ["threads"]
    assert offered("tools", "e") == ["enable"]
    assert offered("tools", "list", "--js") == ["--json"]
    assert offered("tools", "call", "find") == ["find-text"]
    assert offered("tools", "enable", "") == ["find-file"]
    assert offered("plugins", "disable", "we") == ["web"]
    assert offered("agents", "show", "m") == ["main"]
    assert offered("mcp", "--profile", "") == ["readonly"]
    assert offered("config", "explain", "tools.time") == ["tools.timeout"]
    assert offered("tools", "list", "--set", "tools.time") == ["tools.timeout="]
    assert offered("threads", "show", thread[:9]) == [thread]
    assert offered("threads", "show", "th*") == []
    assert offered("tasks", "show", "") == []
    assert offered("connect", "cod") == ["codex"]
    assert offered("ask", "--runtime", "scr") == ["scripted"]
    assert offered("keys", "set", "anth") == ["anthropic"]
    assert offered("help", "thr") == ["threads"]
    assert offered("help", "tools", "en") == ["enable"]
    assert offered("approvals", "allow", "") == []


def test_what_fails_completes_nothing_and_says_nothing(tmp_path: Path, home: Path, programs: Path) -> None:
    project = make_project(tmp_path, home)
    (project.home / "config.toml").write_text("[tols]\n")
    assert complete("tools", "call", "", cwd=project.folder, programs=programs) == []
    data = Path(os.environ["TOOLSTEAD_HOME"]) / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "toolstead.db").write_bytes(b"no database")
    assert complete("threads", "show", "", cwd=project.folder, programs=programs) == []
    assert complete("tools", "call", "", "--project", "nowhere", cwd=project.folder, programs=programs) == []


@pytest.mark.parametrize(
    "words", ["tools call g", "threads show t", "tasks show t", "config explain t", "approvals allow a", "t"]
)
def test_completing_imports_no_sdk(tmp_path: Path, words: str) -> None:
    program = (
        "import sys\nfrom toolstead.console.cli.main import main\n"
        f"try:\n    main([])\nexcept SystemExit:\n    print(sorted({HEAVY} & set(sys.modules)), file=sys.stderr)\n"
    )
    asked = {"_TOOLSTEAD_COMPLETE": "bash_complete", "COMP_WORDS": f"toolstead {words}"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **asked, "COMP_CWORD": str(len(words.split()))},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_one_that_the_shell_can_read(name: str, tmp_path: Path, programs: Path) -> None:
    done = subprocess.run([programs / "toolstead", "completion", name], capture_output=True, check=True, cwd=tmp_path)
    assert b"_TOOLSTEAD_COMPLETE" in done.stdout
    if name == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, check=True)
