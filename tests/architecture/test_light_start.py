"""Commands that need no conversations import nothing for them: no database, no YAML, no runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOREIGN = {"sqlalchemy", "asyncpg", "yaml", "sqlite3"}
OURS = {
    "toolstead.adapters.storage",
    "toolstead.adapters.scripted",
    "toolstead.adapters.rest",
    "toolstead.adapters.http",
}
SERVES = {"mcp", "starlette", "uvicorn"}

PROGRAM = """
import sys
from toolstead.console.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, *sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (["tools", "list"], FOREIGN | OURS | SERVES),
        (["tools", "call", "workspace-info"], FOREIGN | OURS | SERVES),
        (["mcp"], FOREIGN | OURS),
        (["config", "show"], FOREIGN | OURS | SERVES),
        (["threads", "--help"], FOREIGN | OURS | SERVES),
        (["tasks", "--help"], FOREIGN | OURS | SERVES),
        (["ask", "--help"], FOREIGN | OURS | SERVES),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(tmp_path: Path, arguments: list[str], forbidden: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    status, *loaded = done.stderr.splitlines()[-1].split()
    assert status == "0", done.stderr
    assert "toolstead.console.cli.invocation" in loaded
    assert not forbidden & set(loaded)
