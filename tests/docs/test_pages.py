"""Every block of every page is run as it stands, from top to bottom, by a reader with an empty home.

A file is written, a program is started, a command is typed, and what the page shows of its output is looked for in
what is printed: line by line, in order; `…` stands for anything, and ids, times and sizes for themselves. So is what
Python shows behind a `print`, as `# → text`. A comment above a block says what is special:
`<!-- run: exit=2 needs=model server -->`, `<!-- file: ~/notes.txt -->` or `<!-- not run: why -->`. With
`calls=TOOL` the model calls this tool, and answers with what it found: a TODO.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import machine
from tests.docs.page_blocks import Block, read_blocks, read_commands
from tests.docs.page_shell import PageShell
from toolstead.app.layers import load_settings
from toolstead.tools.sources.json_file import validate_tool_file

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
TODO = "TODO: water the plants"
MODEL = """
- when: TODO
  call: [{{tool: {tool}, input: {input}}}]
- say: "One is open: {{{{result}}}}"
"""
ANSWER = f"One is open: ./notes.txt:1:{TODO}"
"""What that says when the tool's answer has reached the model, and only then."""
INPUTS = {"find-text": {"text": "TODO"}, "todos": {}}
VARYING = {
    r"/home/ada": "HOME",
    r"\b(?:task|thread|run|msg|approval|call|res)_\w+…?": r"\w+",
    r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?": r"[-\d :.TZ]+",
    r"\b\d+(?:\.\d+)?(?:ms|s|m|h)\b": r"[\d.]+(ms|s|m|h)",
    r"\b\d{10,}(?:\.\d+)?\b": r"[\d.]+",
    r"\b\d+\.\d{2,}\b": r"[\d.]+",
}
"""What differs from reader to reader → what stands for it."""


def pages() -> list[Any]:
    found: list[Any] = []
    for page in PAGES:
        blocks = list(read_blocks(page))
        if any(not block.skipped for block in blocks):
            needs = {need for block in blocks for need in block.needs}
            marks = [pytest.mark.requires("claude")] if "claude-code" in needs else []
            marks += [pytest.mark.requires("models")] if "model" in needs else []
            marks += [pytest.mark.requires("sqlite3")] if "sqlite3" in needs else []
            marks += [pytest.mark.requires("netns")] if any("server" in block.options for block in blocks) else []
            found.append(pytest.param(page, id=page.stem, marks=marks))
    return found


@pytest.mark.parametrize("page", pages())
def test_every_block_of_the_page_runs_as_it_stands(page: Path, tmp_path: Path) -> None:
    blocks = list(read_blocks(page))
    needs = {need for block in blocks for need in block.needs}
    # Never the keyring of the person who runs the tests.
    shell = PageShell(tmp_path, {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"})
    try:
        if needs & {"claude-code", "model"}:
            (tool,) = {block.options["calls"] for block in blocks if "calls" in block.options} or {""}
            add_model(shell, tmp_path, tool)
        for block in blocks:
            if block.skipped:
                continue
            try:
                run_block(shell, block)
            except AssertionError as error:
                raise AssertionError(f"{page.name}:{block.line}: {error}") from None
    finally:
        shell.close()


def add_model(shell: PageShell, folder: Path, tool: str) -> None:
    """Let a script answer for the model's API, and put the real Claude Code on the reader's PATH."""
    script = folder / "model.yaml"
    turns = MODEL.format(tool=tool, input=json.dumps(INPUTS[tool])) if tool else "- say: Nothing yet."
    script.write_text(turns, "utf-8")
    shell.write_file("notes.txt", TODO + "\n")
    printed = shell.start_server(f"'{sys.executable}' '{Path(__file__).parent / 'model_api.py'}' '{script}'")
    variables = [*printed.split(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "MCP_CONNECTION_NONBLOCKING=0"]
    shell.run("export " + " ".join(variables))
    if machine.reason_for_lack("claude") is None:
        shell.add_program("claude", [str(machine.claude())])


def run_block(shell: PageShell, block: Block) -> None:
    wanted = int(block.options.get("exit", "0"))
    if block.language == "console":
        for command in read_commands(block):
            if "server" in block.options:
                look_for(command.shown, shell.start_server(command.line), shell)
                continue
            ran = shell.run(command.line)
            assert ran.status == wanted, f"`{command.line}` ended with {ran.status}:\n{ran.output}"
            if tool := block.options.get("calls"):
                assert ANSWER in ran.output, f"`{command.line}`: {tool}'s answer did not reach the model:\n{ran.output}"
            look_for(command.shown, ran.output, shell)
        return
    check_text(block, shell)
    if block.path:
        path = shell.write_file(block.path, block.text)
        if block.language == "python":
            if "server" in block.options:
                shell.start_server(f"python '{path}'")
                return
            command = f"python -m pytest -q {path.name}" if path.name.startswith("test_") else f"python '{path}'"
            ran = shell.run(command)
            assert ran.status == wanted, f"`{command}` ended with {ran.status}:\n{ran.output}"
            look_for(re.findall(r"print\(.*\)  # → (.+)$", block.text, re.MULTILINE), ran.output, shell)


def check_text(block: Block, shell: PageShell) -> None:
    """A file, or a part of one, has to be what its language says."""
    match block.language:
        case "json":
            document = json.loads(block.text)
            if isinstance(document, dict) and "tools" in document and "handler" in str(document):
                assert validate_tool_file(document).valid, validate_tool_file(document).errors
        case "yaml":
            yaml.safe_load(block.text)
        case "toml":
            document = tomllib.loads(block.text)
            if "project" not in document and "build-system" not in document:
                file = shell.home / "settings-of-the-page.toml"
                file.write_text(block.text, "utf-8")
                load_settings(environ={}, user_config=file, project_config=None)
        case "python":
            assert block.path, "a block of Python begins with a comment that names its file, as in `# my_tools.py`"
            compile(block.text, block.path, "exec")
        case _:
            assert block.path, "say which file this is: <!-- file: PATH -->, or why it is none: <!-- not run: why -->"


def look_for(shown: list[str], printed: str, shell: PageShell) -> None:
    """Each line that is shown has to be among those that are printed, in order."""
    lines = iter(printed.splitlines())
    for line in shown:
        if not line.strip() or line.strip() == "…":
            continue
        pattern = re.compile(pattern_of(line).replace("HOME", re.escape(str(shell.home))))
        assert any(pattern.fullmatch(one.rstrip()) for one in lines), f"not printed: {line}\nprinted:\n{printed}"


def pattern_of(line: str) -> str:
    """What a line that is shown says, with anything for what varies; columns may be wider or narrower."""
    pattern, at = "", 0
    for found in re.finditer("|".join(VARYING), line):
        stands_for = next(other for what, other in VARYING.items() if re.fullmatch(what, found[0]))
        pattern += re.escape(line[at : found.start()]) + stands_for
        at = found.end()
    return re.sub(r"(\\ )+", " +", pattern + re.escape(line[at:].rstrip())).replace("…", ".*")
