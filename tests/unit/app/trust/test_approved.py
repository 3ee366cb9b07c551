"""What the loaders are given: the approved bytes of this very approval, or nothing and a reason."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tests.flows.tool_files import content, shell
from toolstead.app.places import Places
from toolstead.app.trust import approvals as kept_approvals
from toolstead.app.trust.approved import ApprovedFiles, ApprovedReader, ProjectTrust
from toolstead.tools.handlers.handler_context import Surroundings
from toolstead.tools.handlers.http_client import GuardedClient
from toolstead.tools.sources import Offers
from toolstead.tools.sources.json_file import FileReader
from toolstead.tools.sources.json_files import describe_problem
from toolstead.types.tool import Problem

pytestmark = pytest.mark.promise("R8")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    project = tmp_path / "project"
    (project / ".toolstead/tools").mkdir(parents=True)
    (project / ".toolstead/tools/a.json").write_text(content(shell("mine", "echo old")))
    return Places(project=project, user=tmp_path / "user", data=tmp_path / "data")


@pytest.fixture
def trust(places: Places) -> ProjectTrust:
    return ProjectTrust(places)


@pytest.fixture
def file(places: Places) -> Path:
    return places.project / ".toolstead/tools/a.json"


@pytest.fixture
def files(trust: ProjectTrust, places: Places) -> ApprovedFiles:
    surroundings = Surroundings(root=places.project, environ={})
    return ApprovedFiles(trust, ApprovedReader(FileReader(surroundings, GuardedClient), trust))


def approve(trust: ProjectTrust) -> None:
    trust.approvals.approve_snapshot(trust.project, trust.take_snapshot())


def commands(offers: Offers) -> list[str]:
    return [tool.tool.handler.preview_call({})["command"] for tool in offers.tools]


def messages(trust: ProjectTrust) -> list[str]:
    return [problem.message for problem in trust.waiting]


async def test_a_project_nobody_looked_at_is_one_problem_and_no_tool(trust: ProjectTrust, files: ApprovedFiles) -> None:
    assert trust.refresh_approval() is True
    assert trust.refresh_approval() is False
    assert (trust.approval, trust.approved_config()) == (None, None)
    assert messages(trust) == [
        "this project brings .toolstead: skipped, until you look at it and approve it with `toolstead trust`"
    ]
    assert (await trust.load()).tools == ()
    assert await files.load() == Offers()


async def test_files_of_an_approval_that_is_newer_than_the_one_in_hand_are_refused_and_then_taken(
    trust: ProjectTrust, files: ApprovedFiles, file: Path
) -> None:
    approve(trust)
    trust.refresh_approval()
    assert commands(await files.load()) == ["echo old"]
    file.write_text(content(shell("mine", "echo new")))
    approve(trust)  # by another process, right after this one looked
    between = await files.load()
    assert commands(between) == ["echo old"]
    (problem,) = between.problems
    assert problem.message.startswith("the kept copy of .toolstead/tools/a.json is not what was approved, so it")
    trust.refresh_approval()
    after = await files.load()
    assert (commands(after), after.problems) == (["echo new"], [])


async def test_an_approval_that_was_taken_back_has_no_tools_though_its_bytes_are_still_there(
    trust: ProjectTrust, files: ApprovedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve(trust)
    trust.refresh_approval()
    assert commands(await files.load()) == ["echo old"]
    copy = (trust.copy / ".toolstead/tools").resolve()
    monkeypatch.setattr(kept_approvals, "_delete_unused", lambda *_, **__: None)
    trust.approvals.revoke_approval(trust.project)
    trust.copy.symlink_to(copy.parents[1])
    trust.refresh_approval()
    assert ((trust.copy / ".toolstead/tools") / "a.json").exists()
    assert await files.load() == Offers()
    assert files.loaded_files() == []


async def test_a_kept_copy_that_was_tampered_with_is_refused_and_said(
    trust: ProjectTrust, files: ApprovedFiles, caplog: pytest.LogCaptureFixture
) -> None:
    config = trust.project / ".toolstead/config.toml"
    config.write_text("[tools]\n")
    approve(trust)
    trust.refresh_approval()
    assert trust.approved_config() == b"[tools]\n"
    for path in (".toolstead/tools/a.json", ".toolstead/config.toml"):
        (trust.copy / path).chmod(0o600)
        (trust.copy / path).write_text(content(shell("evil", "evil")))
    assert (await files.load()).tools == []
    assert trust.approved_config() is None
    assert caplog.text.count("is not what was approved, so it is not used") == 2


def test_pins_that_became_unreadable_change_nothing_that_was_learnt_and_are_a_problem(
    trust: ProjectTrust, places: Places
) -> None:
    approve(trust)
    trust.refresh_approval()
    learnt = trust.approval
    assert learnt is not None
    (trust.approvals.approval_folder(trust.project) / "approval.json").write_text("{")
    assert trust.refresh_approval() is True
    assert trust.approval is learnt
    assert "delete it and run `toolstead trust` again" in messages(trust)[0]
    fresh = ProjectTrust(places)
    fresh.refresh_approval()
    assert fresh.approval is None


def test_what_cannot_be_read_now_leaves_the_approved_version(
    trust: ProjectTrust, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve(trust)
    monkeypatch.setattr("toolstead.app.trust.snapshot.MOST_FILES", 1)
    trust.refresh_approval()
    assert trust.approval is not None
    assert "brings more than 1 files" in messages(trust)[0]


def test_names_are_escaped_in_problems_and_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    project = tmp_path / "pro\x1b[31mject"
    (project / ".toolstead").mkdir(parents=True)
    for name in (b"link\x1b[2J\n", b"\xff"):
        Path(os.fsdecode(os.fsencode(project) + b"/.toolstead/" + name)).symlink_to("/")
    (project / ".toolstead/na\u202eme").write_text("")
    trust = ProjectTrust(Places(project=project, user=tmp_path / "user", data=tmp_path / "data"))
    with caplog.at_level(logging.WARNING):
        trust.refresh_approval()
        approve(trust)
        (project / ".toolstead/na\u202eme").write_text("other")
        trust.refresh_approval()
    assert [problem.source.removeprefix(str(tmp_path)) for problem in trust.waiting] == [
        r"/pro\u{1b}[31mject/.toolstead/link\u{1b}[2J\n",
        r"/pro\u{1b}[31mject/.toolstead/\u{dcff}",
        r"/pro\u{1b}[31mject",
    ]
    assert r"changed since you approved it: .toolstead/na\u{202e}me changed;" in messages(trust)[-1]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) >= 3
    assert all(message.isprintable() for message in told)


def test_a_problem_is_told_with_the_name_of_its_file_escaped() -> None:
    assert describe_problem(Problem(source="/a\x1bb\n", message="bad", line=1, column=2)) == r"/a\u{1b}b\n:1:2: bad"


@pytest.mark.parametrize(("own", "brought"), [(".toolstead", []), (".toolstead/mine", [".toolstead/config.toml"])])
def test_the_users_own_folder_needs_no_trust_though_it_lies_in_the_project(
    tmp_path: Path, own: str, brought: list[str]
) -> None:
    user = tmp_path / own
    user.mkdir(parents=True)
    for folder in (tmp_path / ".toolstead", user):
        (folder / "config.toml").write_text("")
    trust = ProjectTrust(Places(project=tmp_path, user=user, data=user / "data"))
    for _ in range(2):
        assert list(trust.take_snapshot().files) == brought
        approve(trust)


def test_a_link_to_the_users_own_folder_is_no_way_around_trust(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    for folder in (project, user):
        folder.mkdir()
    (project / ".toolstead").symlink_to(user)
    trust = ProjectTrust(Places(project=project, user=user, data=tmp_path / "data"))
    assert trust.users_own is None
    assert trust.take_snapshot().skipped == (".toolstead",)
