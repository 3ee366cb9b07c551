"""`toolstead threads`: run as a user runs it, by itself and beside a running server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.surfaces.talking_project import Project, make_project

both_ways = pytest.mark.parametrize("server", [False, True], ids=["alone", "server"])


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    return make_project(tmp_path, home)


@both_ways
async def test_conversations_are_listed_shown_renamed_and_deleted(project: Project, server: bool) -> None:
    long = "a question that goes on and on, " * 8
    async with project.served(server=server):
        ask = asyncio.to_thread
        empty = await ask(project.command, "threads", "list")
        assert (empty.returncode, empty.stdout) == (0, "")
        assert "there are none yet" in empty.stderr
        assert (await ask(project.command, "ask", "first")).returncode == 0
        t1 = project.last_thread()
        assert (await ask(project.command, "ask", long)).returncode == 0
        assert (await ask(project.command, "ask", "fail", "--thread", t1)).returncode == 1
        head, *lines = (await ask(project.command, "threads", "list")).stdout.splitlines()
        assert head.split() == ["THREAD", "STATUS", "AGENT", "USED", "TITLE"]
        assert [line.split()[:3] for line in lines] == [  # the last used first
            [t1, "failed", "main"],
            [project.last_thread(), "completed", "main"],
        ]
        assert lines[1].endswith(f"{long[:79].rstrip()}…")  # in a pipe nothing is cut but the title itself
        shown = (await ask(project.json, "threads", "list", "--json", "--limit", "1"))["threads"]
        assert [(thread["id"], thread["status"], thread["project"]) for thread in shown] == [
            (t1, "failed", str(project.folder))
        ]
        thread = await ask(project.command, "threads", "show", t1.removeprefix("thread_")[:20])
        first, about, *rest = thread.stdout.splitlines()
        assert (first, about) == ("first", f"{t1}  failed  {project.folder}")
        said = [line.split("  ")[0] for line in rest if line]
        assert said == ["user", "first", "assistant", "Hello first", "user", "fail", "failed: the model is tired"]
        as_json = await ask(project.json, "threads", "show", t1, "--json")
        assert [(one["role"], one["content"]) for one in as_json["messages"]] == [
            ("user", "first"),
            ("assistant", "Hello first"),
            ("user", "fail"),
        ]
        assert [event["type"] for event in as_json["events"]] == ["error"]
        renamed = await ask(project.command, "threads", "rename", t1, "Ünïcode 🙂")
        assert (renamed.returncode, renamed.stderr) == (0, f"{t1} is called 'Ünïcode 🙂' now\n")
        assert "Ünïcode 🙂" in (await ask(project.command, "threads", "list")).stdout
        deleted = await ask(project.command, "threads", "delete", t1)
        assert (deleted.returncode, deleted.stderr) == (0, f"{t1} is deleted\n")
        for arguments in (["show", t1], ["rename", t1, "x"], ["delete", t1]):
            gone = await ask(project.command, "threads", *arguments)
            assert (gone.returncode, gone.stdout) == (2, "")
            assert f"no thread '{t1}'" in gone.stderr
            assert "Traceback" not in gone.stderr
    assert [prompt for prompt, _ in project.runs()] == [long]


@both_ways
async def test_a_conversation_is_shown_with_the_tools_that_were_called(project: Project, server: bool) -> None:
    async with project.served(server=server):
        for prompt in ("where", "missing"):
            assert (await asyncio.to_thread(project.command, "ask", prompt)).returncode == 0
            lines = (await asyncio.to_thread(project.command, "threads", "show", project.last_thread())).stdout
            user, called, *_ = lines.split("\n\n")[1].split("\n", 2)[1:]
            assert user == prompt
            assert called.startswith("· workspace-info {}  0." if prompt == "where" else "· no-such-tool  0.")
            assert ("\n  failed: unknown tool 'no-such-tool'" in lines) is (prompt == "missing")


def test_other_projects_have_lists_of_their_own(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other", project.home)
    (other.folder / ".toolstead").mkdir(parents=True)
    for one, prompt in ((project, "here"), (other, "there")):
        assert one.command("ask", prompt).returncode == 0
    assert [thread["title"] for thread in project.json("threads", "list", "--json")["threads"]] == ["here"]
    everywhere = project.command("threads", "list", "--all").stdout.splitlines()
    assert [line.split()[-1] for line in everywhere] == ["TITLE", "there", "here"]
    assert str(other.folder) in everywhere[1]
    assert other.command("ask", "-c", "again").stderr.splitlines()[0].endswith("  there")


def test_what_steers_a_terminal_is_escaped_on_one_and_passed_on_as_it_is_elsewhere(project: Project) -> None:
    odd, shown = "a\x1b]0;x\x07\u202eb\n\tc\x9b2J é", "a\\u{1b}]0;x\\u{7}\\u{202e}b\n\tc\\u{9b}2J é"
    assert project.command("ask", odd).stdout == f"Hello {odd}\n"
    t1 = project.last_thread()
    assert odd in project.command("threads", "show", t1).stdout
    assert project.json("threads", "show", t1, "--json")["messages"][0]["content"] == odd
    asked = project.on_terminal("ask", odd)
    assert f"Hello {shown}\n" in asked
    outputs = {arguments: project.on_terminal("threads", *arguments) for arguments in (("list",), ("show", t1))}
    assert "Hello a\\u{1b}]0;x\\u{7}\\u{202e}b\n" in outputs[("show", t1)]
    assert "a\\u{1b}]0;x\\u{7}\\u{202e}b" in outputs[("list",)]
    assert t1 not in outputs[("list",)]
    assert t1[len("thread_") :][:13] in outputs[("list",)]
    assert all(len(line) <= 80 for line in outputs[("list",)].splitlines())
    as_json = project.on_terminal("threads", "show", t1, "--json")
    assert json.loads(as_json)["messages"][0]["content"] == odd
    for text in (asked, as_json, *outputs.values()):
        assert text.replace("\n", "").replace("\t", "").isprintable()


async def test_deleting_a_conversation_that_the_server_is_busy_with_ends_its_run(project: Project) -> None:
    async with project.served(server=True), project.started("ask", "hang") as asking:
        await project.sees_run("hang", "running")
        assert (await asyncio.to_thread(project.command, "threads", "delete", project.last_thread())).returncode == 0
        assert await asking.ended() in {1, 2}
        assert "Traceback" not in asking.stderr
    assert project.runs() == []


def test_an_export_has_the_thread_its_messages_and_its_events(project: Project, tmp_path: Path) -> None:
    assert project.command("ask", "where").returncode == 0
    t1 = project.last_thread()
    exported = project.json("threads", "export", t1[:30])
    assert next(message["content"] for message in exported["messages"]) == "where"
    kinds = [event["type"] for event in exported["events"]]
    assert kinds[0] == "message"
    assert kinds[-1] == "completed"
    assert {"run.started", "tool_use", "tool_result"} <= set(kinds)
    target = tmp_path / "out.json"
    done = project.command("threads", "export", t1, "--output", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"2 messages written to {target}\n"
    assert json.loads(target.read_text(encoding="utf-8")) == exported
    assert project.command("threads", "export", "nope").returncode == 2
    refused = project.command("threads", "export", t1, "--output", str(tmp_path / "no" / "where.json"))
    assert refused.returncode == 2
    assert "name a file that can be written" in refused.stderr
    assert "Traceback" not in refused.stderr
