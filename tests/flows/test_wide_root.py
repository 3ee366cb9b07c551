"""A project's root of `/` or of the home folder: no model may read every file of the user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.tool_files import content, tool
from tests.programs.running import TOOLSTEAD, wire_to
from toolstead import Toolstead, UnknownToolError

pytestmark = pytest.mark.promise("R8")

PATH = {"path": {"type": "string"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a secret, a folder of notes, and tools of the user's own for both."""
    home = tmp_path.resolve() / "people/ada"
    tools = home / "config/tools"
    tools.mkdir(parents=True)
    (home / "notes").mkdir()
    (home / "notes/today.txt").write_text("buy milk")
    (home / "secret.txt").write_text("s3cret")
    (home / "people.md").write_text("Ada")
    (tools / "mine.json").write_text(
        content(
            tool("notes", {"type": "file-read", "basePath": str(home / "notes")}, PATH),
            tool("anything", {"type": "file-read", "basePath": "."}, PATH),
        )
    )
    (home / "config/config.toml").write_text('[mcp]\nresources = ["*.md"]\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TOOLSTEAD_HOME", str(home / "config"))
    return home


@pytest.mark.parametrize("place", ["home", "above", "whole"])
async def test_below_a_root_that_holds_the_home_folder_no_file_is_read(home: Path, place: str) -> None:
    root = {"home": home, "above": home.parent, "whole": Path("/")}[place]
    async with Toolstead(root, watch=False) as stead:
        assert not stead.registry.has_tool("file-reader")
        assert str(root) in stead.wide_root
        with pytest.raises(UnknownToolError, match="file-reader cannot be called here: the project's root is"):
            await stead.call("file-reader", {"path": str(home.relative_to(root) / "secret.txt")})
        assert (await stead.call("notes", {"path": "today.txt"})).text == "buy milk"
        refused = await stead.call("anything", {"path": str(home.relative_to(root) / "secret.txt")})
        assert (refused.is_error, "s3cret" in refused.text, "--project" in refused.text) == (True, False, True)


async def test_in_a_folder_of_the_home_files_are_read(home: Path) -> None:
    async with Toolstead(home / "notes", watch=False) as stead:
        assert stead.wide_root == ""
        assert (await stead.call("file-reader", {"path": "today.txt"})).text == "buy milk"
        assert (await stead.call("anything", {"path": "today.txt"})).text == "buy milk"


async def test_a_server_that_a_client_started_at_home_offers_no_files_and_logs_why_once(home: Path) -> None:
    async with wire_to([*TOOLSTEAD, "mcp"], home) as wire:
        await wire.shake_hands()
        await wire.say({"jsonrpc": "2.0", "id": "tools", "method": "tools/list", "params": {}})
        tools = {one["name"] for one in (await wire.answer("tools"))["result"]["tools"]}
        await wire.say({"jsonrpc": "2.0", "id": "files", "method": "resources/list", "params": {}})
        assert (await wire.answer("files"))["result"]["resources"] == []
        assert ("file-reader" in tools, "git-status" in tools) == (False, True)
        errors = wire.program.stderr
    assert errors.count("file-reader is switched off: the project's root is") == 1


def test_the_list_of_tools_says_why_it_is_missing(home: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "toolstead", "tools", "list", "--json"],
        cwd=home,
        env=os.environ,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert "file-reader" not in {one["name"] for one in json.loads(listed.stdout)["tools"]}
    assert f"file-reader is switched off: the project's root is {home}, which is your home folder" in listed.stderr
