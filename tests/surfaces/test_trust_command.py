"""`toolstead trust`, and the question on a terminal: each in a process of its own, as people and scripts run it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.flows.hostile_project import TOOLS, HostileProject, hostile_project
from tests.flows.tool_files import content, shell
from tests.programs.running import HANDSHAKE, TOOLSTEAD, running
from tests.programs.terminal import open_terminal
from tests.waiting import until
from toolstead.app.trust.snapshot import PinnedFile, Snapshot

pytestmark = pytest.mark.promise("R8")

QUESTION = "Trust these 7 files? [y/N]: "


@pytest.fixture
def project(tmp_path: Path) -> HostileProject:
    return hostile_project(tmp_path)


def is_plain(text: str) -> bool:
    """Whether a terminal would only show it."""
    return text.replace("\n", "").isprintable()


def on_terminal(project: HostileProject, *arguments: str, answers: Sequence[str] = ()) -> tuple[int, str, str]:
    with open_terminal(project.folder, *arguments) as opened:
        for answer in answers:
            opened.until("[y/N]: ")
            opened.type(answer)
        return opened.end()


# scripts


@pytest.mark.promise("B3", "B4")
def test_from_the_clone_to_the_approval_through_a_change_and_back(project: HostileProject) -> None:
    listed = project.toolstead("tools", "list")
    assert listed.returncode == 0
    assert not [name for name in TOOLS if name in listed.stdout]
    assert "git-status" in listed.stdout
    assert listed.stderr == (
        f"toolstead.trust: {project.folder}: this project brings .claude/agents, .toolstead: skipped, until"
        " you look at it and approve it with `toolstead trust`\n"
    )
    called = project.toolstead("tools", "call", "evil")
    assert (called.returncode, called.stdout) == (2, "")
    explained = project.toolstead("config", "explain", "tools.allowed_hosts")
    assert "127.0.0.1" not in explained.stdout
    assert project.toolstead("trust", "--list").stderr.startswith("no project is trusted")
    assert project.left == []

    trusted = project.toolstead("trust", "--yes")
    assert (trusted.returncode, trusted.stdout) == (0, "")
    for line in (
        f"evil: runs  tee {project.traces}/tool\n      stdin: old\n",
        "evil-program: runs  .toolstead/bin/program",
        "evil-read: reads files in .toolstead/docs",
        ".toolstead/bin/program (a program)",
        "sets  tools.allowed_hosts = ['127.0.0.1:9']",
        "Python that would run inside Toolstead: 3 lines",
        f"trusted: 7 files of {project.folder}",
    ):
        assert line in trusted.stderr
    assert project.left == []
    called = project.toolstead("tools", "call", "evil-program")
    assert (called.returncode, called.stdout, called.stderr) == (0, "old\n", "")
    explained = project.toolstead("config", "explain", "tools.allowed_hosts")
    assert f"{project.config}:2" in explained.stdout
    again = project.toolstead("trust", "--yes")
    assert (again.returncode, again.stderr) == (0, f"{project.folder}: nothing changed since you approved it\n")

    project.write_program("new")
    called = project.toolstead("tools", "call", "evil-program")
    assert (called.returncode, called.stdout) == (0, "old\n")
    assert called.stderr.count("\n") == 1
    assert "changed since you approved it: .toolstead/bin/program changed; the approved version stays" in called.stderr
    assert "7 files, approved " in (listing := project.toolstead("trust", "--list").stdout)
    assert "; waits: .toolstead/bin/program changed\n" in listing
    row = json.loads(project.toolstead("trust", "--list", "--json").stdout)["trusted"][0]
    assert (row["project"], row["state"]) == (str(project.folder), "waits: .toolstead/bin/program changed")
    trusted = project.toolstead("trust", "--yes")
    assert "\n-echo old\n+echo new\n" in trusted.stderr
    assert project.toolstead("tools", "call", "evil-program").stdout == "new\n"

    revoked = project.toolstead("trust", "--revoke")
    assert (revoked.returncode, revoked.stderr) == (0, f"not trusted any more: {project.folder}\n")
    assert project.toolstead("tools", "call", "evil-program").returncode == 2
    revoked = project.toolstead("trust", "--revoke")
    assert revoked.returncode == 1
    assert "nothing to revoke" in revoked.stderr


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (f"x = 0x{'f' * 5_000}", "has a number of 5,002 characters; write at most 200, or a text in quotes"),
        (f"{'.'.join('x' * 20_000)} = 1", "has a key of more than 32 parts; put fewer tables into each other"),
    ],
    ids=["digits", "dots"],
)
@pytest.mark.promise("B3")
def test_settings_that_cannot_be_shown_are_not_approved_and_break_no_command_when_they_were(
    project: HostileProject, bad: str, reason: str
) -> None:
    good = project.config.read_text()
    line = good.count("\n") + 2
    project.config.write_text(f"{good}[plugins.zz]\n{bad}\n")
    refused = project.toolstead("trust", "--yes")
    assert refused.returncode == 1
    assert f"evil: runs  tee {project.traces}/tool" in refused.stderr
    assert f"cannot be approved: .toolstead/config.toml:{line}: {reason}\nnothing was approved; when" in refused.stderr
    assert project.trust.approvals.all_approvals() == []

    project.approve()  # as a version without these bounds did
    for arguments in (
        ["tools", "list"],
        ["tools", "call", "evil"],
        ["config", "explain"],
        ["doctor"],
        ["mcp"],
        ["serve"],
    ):
        done = project.toolstead(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"toolstead: {project.config}:{line}: {reason}\nthe project's settings count as you approved them: mend the"
            " file and run `toolstead trust`, or refuse them with `toolstead trust --revoke`\n"
        )
    again = project.toolstead("trust", "--yes")
    assert again.returncode == 1
    assert (
        f"is as you approved it, and cannot be used:\ncannot be approved: .toolstead/config.toml:{line}" in again.stderr
    )
    assert "7 files, approved" in project.toolstead("trust", "--list").stdout

    project.config.write_text(good)
    assert project.toolstead("trust", "--yes").returncode == 0
    assert project.toolstead("tools", "call", "evil").stdout == "old\n"


def test_following_approves_nothing_that_a_person_could_not(project: HostileProject) -> None:
    project.approve()
    project.config.write_text("[tools]\nnonsense = 1\n")
    served = project.toolstead("serve", "--dev", "--port", "0", "--set", "server.host=203.0.113.1")  # it ends at once
    assert "cannot be approved: .toolstead/config.toml:2: tools.nonsense: unknown key" in served.stderr
    assert b"nonsense" not in (
        project.trust.approvals.approved_content(project.folder, ".toolstead/config.toml") or b""
    )


def test_a_copy_that_was_damaged_or_lost_is_made_whole_by_trusting_again(project: HostileProject) -> None:
    project.approve()
    copies = project.trust.copy / ".toolstead"
    (copies / "tools/evil.json").unlink()
    assert project.toolstead("tools", "call", "evil").returncode == 2
    mended = project.toolstead("trust", "--yes")
    assert "its kept copy was damaged, and is whole again" in mended.stderr
    assert project.toolstead("tools", "call", "evil").stdout == "old\n"
    (copies / "tools/evil.json").unlink()
    project.write_tools("new")
    trusted = project.toolstead("trust", "--yes")
    assert trusted.returncode == 0
    assert "the kept copy of .toolstead/tools/evil.json cannot be read" in trusted.stderr
    assert project.toolstead("tools", "call", "evil").stdout == "new\n"


def test_pins_that_are_broken_are_said_with_what_to_do_and_approve_nothing(project: HostileProject) -> None:
    project.approve()
    (project.trust.approvals.approval_folder(project.folder) / "approval.json").write_text("{}")
    listed = project.toolstead("tools", "list")
    assert listed.returncode == 0
    assert "evil" not in listed.stdout
    assert listed.stderr.count("approval.json cannot be understood") == 1
    trusted = project.toolstead("trust", "--yes")
    assert trusted.returncode == 2
    assert "delete it and run `toolstead trust` again" in trusted.stderr
    assert project.toolstead("trust", "--revoke").returncode == 0


def test_names_that_hide_or_steer_are_shown_escaped_in_every_output(tmp_path: Path) -> None:
    project = hostile_project(tmp_path)
    odd = project.folder.rename(project.folder.with_name("clo\u202e\x07ne\nx"))
    project.folder = odd
    folder = odd / ".toolstead/tools"
    (folder / "na\u202eme\x1b]0;x\x07.json").write_text(content(shell("odd-one", "echo \x1b[2J")))
    (folder / "li\nnk").symlink_to("/")
    os.close(os.open(os.fsencode(folder) + b"/\xff.json", os.O_CREAT | os.O_WRONLY))
    for arguments in (
        ["tools", "list"],
        ["trust", "--yes"],
        ["trust", "--list"],
        ["tools", "list"],
        ["trust", "--revoke"],
    ):
        done = project.toolstead(*arguments, NO_COLOR="1")
        assert done.returncode == 0, done.stderr
        assert is_plain(done.stderr), done.stderr
        assert is_plain(done.stdout), done.stdout
        if arguments == ["trust", "--yes"]:
            assert r".toolstead/tools/na\u{202e}me\u{1b}]0;x\u{7}.json" in done.stderr
            assert r"odd-one: runs  echo \u{1b}[2J" in done.stderr
            assert r".toolstead/tools/\u{dcff}.json: no regular file; it is never read" in done.stderr


@pytest.mark.promise("B10")
def test_a_script_approves_nothing_without_yes(project: HostileProject) -> None:
    for arguments in (["trust"], ["trust", "--follow"]):
        refused = project.toolstead(*arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "evil-program: runs  .toolstead/bin/program" in refused.stderr
        assert "without a terminal no person can be asked; `toolstead trust --yes` approves" in refused.stderr
    assert project.trust.approvals.all_approvals() == []
    assert project.toolstead("trust", "--yes").returncode == 0
    assert project.toolstead("trust").returncode == 0, "nothing changed, so nothing is asked"
    project.write_program("new")
    assert project.toolstead("trust").returncode == 2
    assert project.toolstead("tools", "call", "evil-program").stdout == "old\n"


@pytest.mark.promise("B10")
def test_only_what_is_used_is_asked_about(tmp_path: Path) -> None:
    project = hostile_project(tmp_path)
    for path in (".toolstead", ".claude"):
        shutil.rmtree(project.folder / path)
    status, output, shown = on_terminal(project, "tools", "list")
    assert (status, shown) == (0, ""), "a project with nothing but an .mcp.json, which is not read"
    assert "git-status" in output
    (project.folder / ".claude/agents").mkdir(parents=True)
    (project.folder / ".claude/agents/one.md").write_text("---\nname: one\ndescription: One.\n---\nBe one.\n")
    _, _, shown = on_terminal(project, "tools", "list", answers=["\x04"])
    assert "Trust this file? [y/N]: " in shown
    assert ".mcp.json" not in shown


def test_what_an_earlier_version_kept_besides_is_no_change(project: HostileProject) -> None:
    files = {**project.trust.take_snapshot().files, ".mcp.json": PinnedFile(data=b"{}")}
    project.trust.approvals.approve_snapshot(project.folder, Snapshot(files=files))
    called = project.toolstead("tools", "call", "evil")
    assert (called.returncode, called.stderr) == (0, "")


def test_options_that_exclude_each_other_are_wrong_usage(project: HostileProject) -> None:
    done = project.toolstead("trust", "--list", "--revoke")
    assert done.returncode == 2
    assert "--follow, --list and --revoke exclude each other" in done.stderr


def test_a_project_that_brings_nothing_has_nothing_to_approve(tmp_path: Path) -> None:
    project = hostile_project(tmp_path)
    project.folder = tmp_path
    assert "brings no files of its own" in project.toolstead("--project", str(project.traces), "trust").stderr
    assert project.trust.approvals.all_approvals() == []


# on a terminal


def test_a_person_is_asked_once_and_a_no_is_for_exactly_these_bytes(project: HostileProject) -> None:
    status, output, shown = on_terminal(project, "tools", "list", answers=["n\n"])
    assert status == 0
    assert "git-status" in output
    assert "evil" not in output
    assert "evil-program: runs  .toolstead/bin/program" in shown
    assert QUESTION in shown
    assert "not trusted; `toolstead trust` asks again" in shown
    status, _, shown = on_terminal(project, "tools", "list")
    assert status == 0
    assert "Trust these" not in shown
    assert shown.count("this project brings") == 1
    project.write_program("new")
    _, output, shown = on_terminal(project, "tools", "list", answers=["y\n"])
    assert QUESTION in shown
    assert "evil-program" in output
    project.write_program("newer")
    status, output, shown = on_terminal(project, "tools", "call", "evil-program")
    assert (status, output) == (0, "new\n")
    assert "[y/N]" not in shown


def test_what_is_approved_is_what_was_shown_though_it_is_replaced_while_the_question_stands(
    project: HostileProject,
) -> None:
    with open_terminal(project.folder, "tools", "call", "evil-program") as opened:
        shown = opened.until(QUESTION)
        assert "stdin: old" in shown
        project.write_program("replaced")
        project.write_tools("replaced")
        opened.type("y\n")
        status, output, shown = opened.end()
    assert (status, output) == (0, "old\n")
    assert "changed since you approved it" in shown
    with open_terminal(project.folder, "trust") as opened:
        assert "+echo replaced" in opened.until(QUESTION)
        project.write_program("again")
        opened.type("y\n")
        assert opened.end()[0] == 0
    assert project.toolstead("tools", "call", "evil-program").stdout == "replaced\n"


def test_a_no_or_ctrl_d_to_trust_is_exit_1_and_an_interrupt_approves_nothing(project: HostileProject) -> None:
    for command in (["trust"], ["tools", "call", "evil-program"]):
        with open_terminal(project.folder, *command) as opened:
            opened.until(QUESTION)
            opened.process.send_signal(signal.SIGINT)
            assert opened.end()[0] == 130
    for typed in ("n\n", "\x04"):  # Ctrl-D
        status, _, shown = on_terminal(project, "trust", answers=[typed])
        assert (status, "not trusted; `toolstead trust` asks again" in shown) == (1, True)
    assert project.trust.approvals.all_approvals() == []
    status, _, shown = on_terminal(project, "trust", "--yes")
    assert (status, "[y/N]" in shown) == (0, False)
    assert len(project.trust.approvals.all_approvals()) == 1


def test_what_cannot_be_approved_is_shown_once_and_not_asked_about(project: HostileProject) -> None:
    project.config.write_text("[tools]\nnonsense = 1\n")
    reason = "cannot be approved: .toolstead/config.toml:2: tools.nonsense: unknown key"
    for expected in (1, 0):
        status, output, shown = on_terminal(project, "tools", "list")
        assert status == 0
        assert "git-status" in output
        assert (shown.count(reason), "[y/N]" in shown) == (expected, False)
    status, _, shown = on_terminal(project, "trust")
    assert (status, shown.count(reason), "[y/N]" in shown) == (1, 1, False)


def test_what_cannot_be_read_whole_is_said_and_the_command_goes_on(project: HostileProject) -> None:
    with (project.folder / ".toolstead/huge").open("wb") as huge:
        huge.truncate(9 * 1024 * 1024)
    status, output, shown = on_terminal(project, "tools", "list")
    assert status == 0
    assert "git-status" in output
    assert shown.count("has more than 8,388,608 bytes") == 1
    assert "[y/N]" not in shown


def test_a_server_on_stdio_never_asks(project: HostileProject) -> None:
    me = {"name": "test", "version": "1"}
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": me}
    with open_terminal(project.folder, "mcp") as opened:
        opened.until("this project brings")
        opened.type(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}) + "\n\x04")
        status, output, shown = opened.end()
    assert json.loads(output.splitlines()[0])["result"]["serverInfo"]["name"] == "toolstead"
    assert status == 0
    assert "[y/N]" not in shown


# for authors


async def test_following_approves_changes_while_it_runs_and_none_after(project: HostileProject, tmp_path: Path) -> None:
    def approved() -> bytes | None:
        return project.trust.approvals.approved_content(project.folder, ".toolstead/bin/program")

    async with running(
        [*TOOLSTEAD, "trust", "--yes", "--follow"], errors=tmp_path / "stderr", cwd=project.folder
    ) as following:
        await following.stderr_with("approving every change as it comes")
        project.write_program("new")
        await until(lambda: approved() == project.program.read_bytes())
        assert "approved as it changed: .toolstead/bin/program changed" in await following.stderr_with("approved as it")
    project.write_program("after the end")
    done = await asyncio.to_thread(project.toolstead, "tools", "call", "evil-program")
    assert done.stdout == "new\n"
