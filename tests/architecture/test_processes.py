"""Only `toolstead.processes` starts programs: what another place started, nobody would watch, bound and end."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.sources import module_name, parsed, shown, source_files, uses

STARTS = re.compile(
    r"subprocess\.(Popen|run|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|asyncio(\.subprocess)?\.create_subprocess_(exec|shell)"
    r"|os\.(fork|forkpty|killpg|popen|posix_spawnp?|spawn[lv]p?e?|exec[lv]p?e?|system)"
    r"|multiprocessing\b.*"
)
METHODS = {"subprocess_exec", "subprocess_shell"}
OWNER = "toolstead.processes.owner"
_EDITOR = "the user's editor shares our terminal, so it must share our session"
EXCEPTIONS = {"toolstead.console.cli.tool_new": _EDITOR, "toolstead.console.cli.argument_editor": _EDITOR}


def _starts(tree: ast.Module) -> list[tuple[int, str]]:
    """Where a file starts processes or signals their groups, methods of an event loop included."""
    found = [(line, name) for line, name in uses(tree) if STARTS.fullmatch(name)]
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return found + [(f.lineno, f.attr) for f in calls if isinstance(f, ast.Attribute) and f.attr in METHODS]


def _places() -> dict[str, list[str]]:
    """By module, what it does with processes."""
    found = {
        module_name(path): [f"{shown(path, line)}: {name}" for line, name in _starts(parsed(path))]
        for path in source_files()
    }
    return {name: places for name, places in found.items() if places}


def test_one_module_starts_programs_and_signals_their_groups() -> None:
    places = _places()
    assert places.keys() == {OWNER, *EXCEPTIONS}, f"use toolstead.processes: {places}"
    assert len([place for place in places[OWNER] if place.endswith("os.killpg")]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess\nsubprocess.run(['ls'])",
        "from subprocess import Popen as P",
        "import asyncio\nasyncio.create_subprocess_exec('ls')",
        "from asyncio import subprocess\nsubprocess.create_subprocess_exec('ls')",
        "import asyncio\nasyncio.get_running_loop().subprocess_exec(None, 'ls')",
        "import os\nos.execvp('ls', [])",
        "import os\nos.killpg(1, 9)",
        "from multiprocessing import Process",
    ],
)
def test_every_way_to_start_one_is_seen(text: str) -> None:
    assert _starts(ast.parse(text))


def test_a_constant_and_an_error_are_fine() -> None:
    assert not _starts(ast.parse("import subprocess\nsubprocess.DEVNULL, subprocess.SubprocessError"))
