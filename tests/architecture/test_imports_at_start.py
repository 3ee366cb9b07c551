"""`toolstead mcp` imports nothing before its first answers that these do not need: a client waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOREIGN = {
    "mcp",
    "mcp_types",
    "pydantic",
    "starlette",
    "uvicorn",
    "anyio",
    "sqlalchemy",
    "sqlite3",
    "asyncpg",
    "httpx2",
}
FOREIGN |= {"httpcore2", "yaml", "click", "watchfiles", "uvloop", "jsonschema_rs"}
STANDARD = {"importlib.metadata", "difflib", "shutil", "tempfile", "zipfile", "http", "tomllib"}
OURS = {
    "toolstead.adapters.claude",
    "toolstead.adapters.codex",
    "toolstead.adapters.http",
    "toolstead.adapters.mcp.server",
    "toolstead.adapters.providers",
    "toolstead.adapters.rest",
    "toolstead.adapters.scripted",
    "toolstead.adapters.storage",
    "toolstead.app.runtimes",
    "toolstead.console.cli.group",
    "toolstead.invoker",
    "toolstead.kernel",
    "toolstead.orchestrator.feed",
    "toolstead.orchestrator.journal",
    "toolstead.orchestrator.orchestrator",
    "toolstead.processes",
    "toolstead.schema.adapted",
    "toolstead.tools.builtin.git",
    "toolstead.tools.handlers",
    "toolstead.tools.sources.json_file",
    "toolstead.types.run",
    "toolstead.types.thread",
}
MOST_DATACLASSES = 30
"""To define a frozen one costs a start 0.5 ms, a struct 0.02: what nobody outside sees is a struct on this way."""

PROGRAM = """
import atexit, dataclasses, sys
made = 0
define = dataclasses.dataclass
def counted(*arguments, **options):
    global made
    made += 1
    return define(*arguments, **options)
dataclasses.dataclass = counted
from toolstead.console.cli.main import main
atexit.register(lambda: print(made, *sorted(sys.modules), file=sys.stderr))
main(["mcp"])
"""
ASKED: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, set[str]]:
    """How many dataclasses a start defined, and the modules it loaded, when it had answered."""
    folder = tmp_path_factory.mktemp("start")
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TOOLSTEAD_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=work,
        env={**environ, "HOME": str(home), "TOOLSTEAD_HOME": str(home / ".toolstead")},
        input="".join(json.dumps(message) + "\n" for message in ASKED),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {tool["name"] for tool in answers[-1]["result"]["tools"]} >= {"file-reader", "git-status"}
    count, *loaded = done.stderr.splitlines()[-1].split()
    return int(count), set(loaded)


@pytest.mark.parametrize("name", sorted(FOREIGN | STANDARD | OURS))
def test_the_start_of_the_stdio_server_does_not_import(start: tuple[int, set[str]], name: str) -> None:
    found = sorted(loaded for loaded in start[1] if loaded == name or loaded.startswith(f"{name}."))
    assert not found


def test_the_start_of_the_stdio_server_defines_few_dataclasses(start: tuple[int, set[str]]) -> None:
    assert start[0] <= MOST_DATACLASSES


def test_what_the_start_needs_is_among_what_it_imports(start: tuple[int, set[str]]) -> None:
    assert start[1] >= {
        "asyncio",
        "msgspec",
        "toolstead.app.stead",
        "toolstead.console.cli.stdio",
        "toolstead.types.tool",
    }


def test_a_command_line_that_is_not_plain_goes_through_click(tmp_path: Path) -> None:
    program = PROGRAM.replace('["mcp"]', '["mcp", "--help"]')
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert "Serve MCP on stdin and stdout." in done.stdout
    assert "click" in done.stderr.split()
