"""`toolstead vfs`: run as a user runs it, by itself and beside a running server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.surfaces.talking_project import Project, make_project
from tests.surfaces.test_threads_command import both_ways


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    return make_project(tmp_path, home)


def refusal_of(project: Project, *arguments: str, status: int = 2) -> str:
    done = project.command("vfs", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.promise("K2")
@both_ways
async def test_files_are_listed_shown_compared_and_restored(project: Project, server: bool) -> None:
    ask = asyncio.to_thread

    async def write(content: str) -> None:
        arguments = ["path=notes/plan.md", f"content={content}"]
        assert (await ask(project.command, "tools", "call", "vfs_write", *arguments)).returncode == 0

    async def say(*arguments: str) -> str:
        done = await ask(project.command, "vfs", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with project.served(server=server):
        empty = await ask(project.command, "vfs", "ls")
        assert (empty.returncode, empty.stdout) == (0, "")
        assert "there are no files in the tree of thread 'default'" in empty.stderr
        await write("one\ntwo\n")
        await write("one\n2\n")
        assert [line.split() for line in (await say("ls", "notes/")).splitlines()] == [
            ["VERSION", "BYTES", "WRITTEN", "BY", "PATH"],
            ["2", "6", *(await say("ls")).split()[7:9], "client", "notes/plan.md"],
        ]
        assert json.loads(await say("cat", "notes/plan.md", "--json"))["content"] == "one\n2\n"
        assert all(len(line) <= 80 for line in (await say("ls")).splitlines())
        assert await say("cat", "notes/plan.md") == "one\n2\n"
        assert await say("cat", "notes/plan.md", "--version", "1") == "one\ntwo\n"
        diff = "--- notes/plan.md (version 1)\n+++ notes/plan.md (version 2)\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        assert await say("diff", "notes/plan.md") == diff
        assert await say("diff", "notes/plan.md", "--from", "1", "--to", "2") == diff
        assert "+one" in await say("diff", "notes/plan.md", "--to", "1")
        await ask(project.command, "tools", "call", "vfs_delete", "path=notes/plan.md")
        assert "no file 'notes/plan.md'" in await ask(refusal_of, project, "cat", "notes/plan.md")
        assert "is the deletion" in await ask(refusal_of, project, "restore", "notes/plan.md", "--version", "3")
        restored = await ask(project.command, "vfs", "restore", "notes/plan.md", "--version", "1")
        assert restored.stderr == "notes/plan.md: version 4 has the text of version 1 again\n"
        assert await say("cat", "notes/plan.md") == "one\ntwo\n"
        logged = [line.split() for line in (await say("log", "notes/plan.md")).splitlines()]
        assert [(one[0], one[1], one[4]) for one in logged] == [
            ("VERSION", "BYTES", "RUN"),
            ("4", "8", "user"),
            ("3", "deleted", "client"),
            ("2", "6", "client"),
            ("1", "8", "client"),
        ]
        versions = (await ask(project.json, "vfs", "log", "notes/plan.md", "--json", "--limit", "2"))["versions"]
        assert [one["version"] for one in versions] == [4, 3]
        files = (await ask(project.json, "vfs", "ls", "--json"))["files"]
        assert [(one["path"], one["version"]) for one in files] == [("notes/plan.md", 4)]
        assert (await ask(project.json, "vfs", "ls", "--json", "--thread", "other"))["files"] == []
        assert "a part `..`" in await ask(refusal_of, project, "cat", "../x")
        for command in (["log", "nope"], ["diff", "nope"], ["restore", "nope", "--version", "1"]):
            assert "no file 'nope" in (await ask(refusal_of, project, *command)).replace("shared ", "")


@both_ways
async def test_a_folder_is_imported_and_exported_as_it_was(project: Project, server: bool, tmp_path: Path) -> None:
    ask = asyncio.to_thread
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    texts = {"a.md": "one\r\ntwo", "sub/ü/b.txt": "ü\n", "empty": ""}
    for path, text in texts.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(text.encode())
    async with project.served(server=server):
        done = await ask(project.command, "vfs", "import", str(source), "--thread", "t1")
        assert (done.returncode, done.stderr) == (0, "3 files imported\n")
        (source / "binary").write_bytes(b"\0\1")
        (source / "latin").write_bytes("ü".encode("latin-1"))
        (tmp_path / "secret").write_text("not in the folder")
        (source / "link").symlink_to(tmp_path / "secret")
        os.mkfifo(source / "pipe")
        done = await ask(project.command, "vfs", "import", str(source), "--thread", "t1")
        assert done.returncode == 1
        lines = done.stderr.splitlines()
        assert [line.split(": ")[1] for line in lines[:-1]] == ["binary", "latin", "link", "pipe"]
        assert lines[-1] == "3 files imported"
        assert (await ask(project.command, "vfs", "import", str(source / "a.md"))).returncode == 0
        assert (await ask(project.command, "vfs", "cat", "a.md")).stdout == "one\ntwo", "the text mode of this test"
        done = await ask(project.command, "vfs", "export", str(target), "--thread", "t1")
        assert (done.returncode, done.stderr) == (0, f"3 files written to {target}\n")
        found = {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}
        assert found == {path: text.encode() for path, text in texts.items()}
        (target / "a.md").write_text("changed")
        refused = await ask(refusal_of, project, "export", str(target), "--thread", "t1")
        assert "a.md, empty, sub/ü/b.txt already; --force overwrites, and nothing was written" in " ".join(
            refused.split()
        )
        assert (target / "a.md").read_text() == "changed"
        forced = await ask(project.command, "vfs", "export", str(target), "--thread", "t1", "--force")
        assert forced.returncode == 0
        assert (target / "a.md").read_bytes() == b"one\r\ntwo"


def test_an_export_never_writes_through_a_link_or_outside_its_folder(project: Project, tmp_path: Path) -> None:
    outside, source, target = tmp_path / "outside", tmp_path / "source", tmp_path / "target"
    for folder in (outside, source / "sub", target):
        folder.mkdir(parents=True)
    (source / "sub" / "a").write_text("ours")
    (source / "b").write_text("ours")
    assert project.command("vfs", "import", str(source)).returncode == 0
    (outside / "b").write_text("theirs")
    (target / "b").symlink_to(outside / "b")
    forced = project.command("vfs", "export", str(target), "--force")
    assert forced.returncode == 0, forced.stderr
    assert ((target / "b").is_symlink(), (target / "b").read_text(), (outside / "b").read_text()) == (
        False,
        "ours",
        "theirs",
    )
    for number, force in enumerate(([], ["--force"])):
        folder = tmp_path / f"linked-{number}"
        folder.mkdir()
        (folder / "sub").symlink_to(outside)
        refused = refusal_of(project, "export", str(folder), *force)
        assert "sub/a: cannot be written: Not a directory" in " ".join(refused.split())
        assert "1 file of 2 written" in " ".join(refused.split())
    dangling = tmp_path / "dangling"
    dangling.mkdir()
    (dangling / "b").symlink_to(outside / "new")
    assert "b already" in " ".join(refusal_of(project, "export", str(dangling)).split())
    assert sorted(path.name for path in outside.iterdir()) == ["b"]
    assert "name a folder" in refusal_of(project, "export", str(source / "b"))
