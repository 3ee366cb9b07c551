"""docs/tools.md, "A tool in a minute": exactly its commands, its edit and its call, while a client is connected."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.programs.clients import Ear, Era, connected, names_of, names_with, text_of
from tests.programs.running import TOOLSTEAD
from tests.waiting import PATIENCE
from toolstead.tools.sources.json_draft import draft_shell

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("## A tool in a minute") : PAGE.index("## By hand")]

EDITOR = """
import json, os, sys
before, after = json.loads(os.environ["EDIT"])
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
assert text.count(before) == 1
with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write(text.replace(before, after))
"""


def block(language: str) -> str:
    """The only block of the section in this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
    return found


def transcript() -> Iterator[tuple[list[str], str]]:
    """Each command, and all that it prints."""
    for part in block("console").split("$ ")[1:]:
        command, _, printed = part.partition("\n")
        yield shlex.split(command), printed


async def run(command: list[str], folder: Path, environ: dict[str, str]) -> str:
    """What a command prints, on stdout and stderr, in the order in which a person sees it."""
    assert command[0] == "toolstead"
    process = await asyncio.create_subprocess_exec(
        *TOOLSTEAD,
        *command[1:],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, printed
    return printed.decode()


@pytest.mark.promise("R5")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_tool_is_made_edited_and_called_by_a_client_that_was_connected_before(
    era: Era, tmp_path: Path, home: Path
) -> None:
    before, after = (line[1:] for line in block("diff").splitlines())
    told, asked, answered = (line.removeprefix("client ") for line in block("text").splitlines())
    assert told == "← notifications/tools/list_changed"
    call = json.loads(asked.removeprefix("→ tools/call "))
    script, project = tmp_path / "my editor.py", tmp_path / "project"
    script.write_text(EDITOR, "utf-8")
    project.mkdir()
    (project / "notes.txt").write_text("TODO: water the plants\n")
    environ = {"EDITOR": shlex.join([sys.executable, str(script)]), "VISUAL": "", "EDIT": json.dumps([before, after])}

    program, *arguments = [*TOOLSTEAD, "mcp"]
    server = StdioServerParameters(command=program, args=arguments, cwd=project, env=dict(os.environ))
    ear = Ear()
    with (tmp_path / "stderr.txt").open("w") as errors:
        started = stdio_client(server, errlog=errors)
        async with connected(started, era, message_handler=ear.message) as client, ear.open(client, era):
            assert call["name"] not in await names_of(client)
            for command, printed in transcript():
                assert await run(command, project, environ) == printed.replace("/home/ada", str(home))
            await names_with(client, ear, lambda names: call["name"] in names)
            wanted = json.loads("{" + after.strip().rstrip(",") + "}")["description"]
            while [tool.description for tool in (await client.list_tools()).tools][-1] != wanted:
                await ear.next()  # of the edit, where the draft was seen first
            result = await client.call_tool(call["name"], call["arguments"])
    assert text_of(result) == answered.removeprefix("← ") + "\n"


def test_the_table_of_guesses_says_what_is_guessed() -> None:
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|$", SECTION, re.MULTILINE)
    assert len(rows) == 4
    for names, guess in rows:
        for name in re.findall(r"`(\w+)…?`", names):
            (tool,) = draft_shell("x", f"echo {{{{{name}}}}}")["tools"]
            schema = tool["inputSchema"]["properties"][name]
            assert schema["type"] == ("integer" if "whole number" in guess else "string"), name
            assert ("default" in schema) is ("default" in guess or "unless said" in guess), name
