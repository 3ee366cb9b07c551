"""Only `toolstead.app` reads the environment; everybody else is given what they need."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.sources import module_name, parsed, shown, source_files, uses

READERS = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "os.path.expandvars", "os.path.expanduser"}
READERS |= {"pathlib.Path.home", "pathlib.Path.expanduser", "os.putenv", "os.unsetenv"}


def _reads(tree: ast.Module) -> list[tuple[int, str]]:
    """Where a file reads the environment, `expanduser()` on any object included."""
    found = [(line, name) for line, name in uses(tree) if name in READERS]
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    found += [(f.lineno, f.attr) for f in calls if isinstance(f, ast.Attribute) and f.attr == "expanduser"]
    return found


def test_only_app_reads_the_environment() -> None:
    readers = [
        f"{shown(path, line)}: {name}"
        for path in source_files()
        if not module_name(path).startswith("toolstead.app")
        for line, name in _reads(parsed(path))
    ]
    assert not readers, f"take it as an argument; app reads it: {readers}"


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['X']",
        "import os as o\no.getenv('X')",
        "from os import environ",
        "from os import environ as e\ne.get('X')",
        "from pathlib import Path\nPath.home()",
        "from pathlib import Path\nPath('~').expanduser()",
    ],
)
def test_every_way_to_read_the_environment_is_seen(text: str) -> None:
    assert _reads(ast.parse(text))


def test_a_parameter_named_environ_is_fine() -> None:
    assert not _reads(ast.parse("def f(environ):\n    return environ['HOME']"))
