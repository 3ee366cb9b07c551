"""docs/vfs.md: its commands print what the page shows, its refusal is the real one, its settings are the defaults."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import msgspec

from tests.surfaces.talking_project import make_project
from toolstead.testing import memory_stead
from toolstead.types.vfs import FileLimits

PAGE = (Path(__file__).parents[2] / "docs" / "vfs.md").read_text("utf-8")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return found


def test_the_commands_print_what_the_page_shows(tmp_path: Path, home: Path) -> None:
    project = make_project(tmp_path, home)
    exchanges = re.findall(r"^\$ toolstead (.*)\n((?:(?!\$ ).*\n)*)", block("console"), re.MULTILINE)
    assert len(exchanges) == 9
    for command, shown in exchanges:
        done = project.command(*shlex.split(command))
        assert done.returncode == 0, done.stderr
        assert TIME.sub("TIME", done.stdout + done.stderr) == TIME.sub("TIME", shown), command
    assert (project.folder / "drafts" / "plan.md").read_text() == "- read\n- write\n"


async def test_the_refusal_is_what_a_model_reads() -> None:
    async with memory_stead() as stead:
        for content in ("- read\n- write\n", "- read\n- write it down\n"):
            await stead.call("vfs_write", {"path": "plan.md", "content": content})
        refused = await stead.call("vfs_write", {"path": "plan.md", "content": "mine", "expectedVersion": 1})
    assert f"{refused.text}\n" == block("text")


def test_the_settings_are_the_defaults() -> None:
    assert tomllib.loads(block("toml"))["plugins"]["vfs"] == msgspec.structs.asdict(FileLimits())
