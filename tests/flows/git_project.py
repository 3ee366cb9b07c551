"""A project with a git repository, and its built-in tools behind a real registry and dispatcher."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from toolstead.orchestrator.event_log import EventLog
from toolstead.tools.builtin import builtin_offers
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.tools.sources import FixedSource
from toolstead.types.content import Text
from toolstead.types.result import ToolResult

Call = Callable[..., Awaitable[ToolResult]]
STATUS = " M a.txt\nA  c.txt\n?? d.txt\n"
UNSTAGED = " a.txt | 1 +\n 1 file changed, 1 insertion(+)\n"
STAGED = " c.txt | 1 +\n 1 file changed, 1 insertion(+)\n"


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def repository(folder: Path) -> Path:
    """Three committed files: attributes that name drivers, and two texts."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "remote", "add", "origin", "https://example.org/a.git")
    (folder / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").write_text("two\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def change(folder: Path) -> None:
    """Change one file, stage one, leave one untracked, and touch one so that git must look into it."""
    (folder / "c.txt").write_text("new\n")
    git(folder, "add", "c.txt")
    (folder / "a.txt").write_text("one\nmore\n")
    (folder / "d.txt").write_text("untracked\n")
    os.utime(folder / "b.txt", (1_000_000_000, 1_000_000_000))


async def tools_of(root: Path, environ: dict[str, str] | None = None, seconds: float = 60) -> Call:
    """`await call("git-status", path="src")` for a project."""
    offers = builtin_offers(root, dict(os.environ) if environ is None else environ)
    registry = Registry([FixedSource(name="builtin", offers=offers)])
    swap = await registry.reload()
    assert not swap.problems
    dispatcher = Dispatcher(registry, events=EventLog(), cwd=root, timeout=seconds)

    async def call(name: str, **arguments: Any) -> ToolResult:
        return await dispatcher.call(name, arguments)

    return call


def first_text(result: ToolResult) -> str:
    """What the tool found, without its notes."""
    assert not result.is_error, result.text
    first = result.content[0]
    assert isinstance(first, Text)
    return first.text
