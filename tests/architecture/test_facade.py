"""The public names, and what importing them costs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolstead
from tests.architecture.sources import PACKAGE, ROOT, parsed
from toolstead.app.version import VERSION

NAMES = [
    "Allow",
    "Annotations",
    "Ask",
    "Audio",
    "Deny",
    "Hooks",
    "Image",
    "Plugin",
    "PluginContext",
    "Prompt",
    "RefusedError",
    "Rejected",
    "Rewrite",
    "Text",
    "Tool",
    "ToolError",
    "ToolMeta",
    "ToolResult",
    "Toolstead",
    "ToolsteadError",
    "UnknownToolError",
    "Validation",
    "Verdict",
    "tool",
    "validate_tool_file",
]
MOST_NAMES = 25
FOREIGN = [
    "anthropic",
    "claude_agent_sdk",
    "dbos",
    "fastapi",
    "google",
    "mcp",
    "mcp_types",
    "openai",
    "openai_codex",
    "opentelemetry",
    "pydantic_ai",
    "sqlalchemy",
    "starlette",
    "textual",
    "uvicorn",
    "uvloop",
    "httptools",
    "httpx2",
    "click",
]

WATCHED = """
import os, sys, threading
deeds = []
def watch(event, arguments):
    if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return
    if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.putenv", "os.unsetenv", "os.chdir", "os.fork",
                 "os.posix_spawn", "subprocess.Popen", "_thread.start_new_thread", "_thread.start_joinable_thread",
                 "signal.signal") or event.startswith(("socket.", "sqlite3.")):
        deeds.append((event, repr(arguments)[:200]))
before, environment, threads = set(sys.modules), dict(os.environ), threading.active_count()
sys.addaudithook(watch)
{statement}
found = list(deeds)
assert dict(os.environ) == environment, "the environment was changed"
assert threading.active_count() == threads, "a worker was started"
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
for deed in found:
    print(*deed, file=sys.stderr)
"""


def _modules_after(statement: str, folder: Path) -> set[str]:
    """The top-level modules that a statement loads in a fresh process; it may do nothing else."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WATCHED.format(statement=statement)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", f"importing did something: {done.stderr}"
    assert list(folder.iterdir()) == []
    return set(done.stdout.split())


def test_the_public_names_are_these() -> None:
    assert sorted(toolstead.__all__) == sorted([*NAMES, "__version__"])


def test_the_version_that_doors_tell_is_the_package_s() -> None:
    assert toolstead.__version__ == VERSION


def test_the_public_names_are_few() -> None:
    assert len(NAMES) <= MOST_NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_can_be_imported_from_the_facade(name: str) -> None:
    assert getattr(toolstead, name).__module__.startswith("toolstead.")
    assert name in dir(toolstead)


def test_a_name_the_facade_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        toolstead.nonsense  # noqa: B018 - the access is the test


def test_type_checkers_and_the_facade_find_the_same_names_in_the_same_homes() -> None:
    tree = parsed(PACKAGE / "__init__.py")
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    told = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == toolstead._HOMES


def test_importing_the_facade_loads_next_to_nothing_and_does_nothing(tmp_path: Path) -> None:
    loaded = _modules_after("import toolstead", tmp_path)
    assert "toolstead" in loaded
    assert not loaded & {*FOREIGN, "asyncio", "pydantic", "msgspec", "jsonschema_rs", "inspect", "logging"}


def test_the_words_of_a_plugin_author_load_no_foreign_sdk(tmp_path: Path) -> None:
    loaded = _modules_after("from toolstead import Tool, ToolResult, tool", tmp_path)
    assert "toolstead" in loaded
    assert not loaded & set(FOREIGN)


@pytest.mark.parametrize(
    "statement",
    [
        "open('stray', 'w').close()",
        "os.close(os.open(os.devnull, os.O_WRONLY))",
        "os.environ['STRAY'] = '1'",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import socket; socket.socket()",
    ],
)
def test_a_deed_at_import_time_would_be_seen(statement: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        _modules_after(statement, tmp_path)
