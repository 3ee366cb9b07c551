"""The MCP Inspector's command line, as a person uses it, against the commands of this project."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import node_packages
from tests.programs.running import TOOLSTEAD, running

pytestmark = [pytest.mark.requires("node"), pytest.mark.promise("B6"), pytest.mark.timeout(700)]


@asynccontextmanager
async def target_of(door: str, folder: Path) -> AsyncIterator[list[str]]:
    """What the Inspector is told: a command to start, or an address."""
    if door == "stdio":
        yield [*TOOLSTEAD, "mcp"]
        return
    async with running([*TOOLSTEAD, "serve", "--port", "0"], errors=folder / "stderr.txt", cwd=folder) as program:
        said = await program.stderr_with("MCP      http")
        yield [said.partition("MCP   ")[2].split()[0]]


async def inspect(target: list[str], folder: Path, *arguments: str) -> Any:
    done = await asyncio.to_thread(node_packages.run, node_packages.INSPECTOR, "--cli", *target, *arguments, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("door", ["stdio", "http"])
async def test_the_inspector_lists_and_calls(door: str, packages: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("first\nsecond\n")
    async with target_of(door, tmp_path) as target:
        listed = await inspect(target, tmp_path, "--method", "tools/list")
        names = [tool["name"] for tool in listed["tools"]]
        assert {"git-status", "git-diff-summary", "workspace-info", "file-reader"} <= set(names)
        reading = ["--method", "tools/call", "--tool-name", "file-reader", "--tool-arg", "path=note.txt"]
        answer = await inspect(target, tmp_path, *reading, "startLine=2")
        assert not answer["isError"]
        assert "second" in answer["content"][0]["text"]
        assert "first" not in answer["content"][0]["text"]


async def test_the_inspector_finds_nothing_wrong_with_our_schemas(packages: Path, tmp_path: Path) -> None:
    await inspect([*TOOLSTEAD, "mcp"], tmp_path, "--method", "tools/list", "--strict")
