"""Every Python example in the documentation is run as it stands, and every shell one is a real command."""

from __future__ import annotations

import asyncio
import functools
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from toolstead.console.cli.group import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[Any]:
    found: list[Any] = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text("utf-8")):
            found += [
                pytest.param(line[2:].split("#")[0].strip(), id=f"{page.name}: {line[2:50]}")
                for line in block.splitlines()
                if line.startswith("$ toolstead")
            ]
    return found


@functools.cache
def help_text(*group: str) -> str:
    """What `--help` prints; many lines of the pages show the same command."""
    done = subprocess.run(
        [sys.executable, "-m", "toolstead", *group, "--help"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("command", commands())
def test_every_toolstead_command_shown_exists(command: str) -> None:
    words = shlex.split(command)
    assert words[1] in COMMANDS
    group = (
        words[1:3] if words[1] in ("agents", "tools", "config", "tasks", "threads", "plugins", "vfs") else words[1:2]
    )
    text = help_text(*group)
    for option in (word for word in words[3:] if word.startswith("--")):
        assert option in text


async def test_the_python_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks are one program: `async with` blocks stay open for those that follow."""
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON.findall((ROOT / "docs" / "python.md").read_text("utf-8"))
    first, writing, registering, models, gates, testing = blocks
    await run(first)
    names = await run(writing, "return {'tools': tools, 'greet': greet}")
    greet = names["greet"]
    from toolstead.testing import memory_stead

    async with memory_stead() as stead:
        await run(registering.split("with stead.events")[0], stead=stead, greet=greet)
        watching = asyncio.create_task(run(registering[registering.index("with stead.events") :], stead=stead))
        await asyncio.sleep(0)
        stead.registry.register(*names["tools"])
        with stead.events(["tools.changed"]) as told:
            stead.registry.unregister("raw")
            await asyncio.wait_for(anext(told), 5)
        await asyncio.sleep(0)
        assert "tools.changed" in capsys.readouterr().out
        stead.registry.register(names["tools"][1])
        watching.cancel()
        assert (await stead.call("greet", {"name": "Ada", "shout": True})).text == "Hello, ADA!"
        assert (await stead.call("raw", {"x": 1}, thread_id="t")).text == "t: 1"
        assert (await stead.call("simple", {"x": "1"}, thread_id="t")).text == "t: 1"
        calls = [line for line in models.splitlines() if not line.startswith("await stead.serve_")]
        assert len(calls) == 5
        await run("\n".join(calls), stead=stead)
    await run(gates)
    await run(testing, greet=greet)


async def run(code: str, tail: str = "", **names: Any) -> Any:
    """Run a block with `await` at its top level, as a reader would inside an async function."""
    body = textwrap.indent(code + "\n" + tail, "    ")
    scope: dict[str, Any] = {**names}
    exec(compile(f"async def block():\n{body}", "example", "exec", dont_inherit=True), scope)
    return await scope["block"]()
