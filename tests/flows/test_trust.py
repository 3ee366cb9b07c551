"""Trust through the Python door: what a project brings counts as it was approved, while the stead is open too."""

from __future__ import annotations

import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.flows.hostile_project import TOOLS, HostileProject, hostile_project
from tests.flows.http_internet import reply, serving
from tests.flows.tool_files import stale, told
from tests.waiting import until
from toolstead import Toolstead
from toolstead.errors import SettingsError, UnknownToolError
from toolstead.orchestrator.feed import EventReader

pytestmark = pytest.mark.promise("R8")


@pytest.fixture
def project(tmp_path: Path) -> HostileProject:
    return hostile_project(tmp_path)


def names(stead: Toolstead) -> set[str]:
    return {info.name for info in stead.registry.list_tools()}


def quarantined(stead: Toolstead) -> list[str]:
    return [problem.message for problem in stead.registry.quarantined]


async def text(stead: Toolstead, name: str, **input: str) -> str:
    return (await stead.call(name, input)).text.strip()


@asynccontextmanager
async def changes(stead: Toolstead) -> AsyncIterator[EventReader]:
    with stead.events(["tools.changed"]) as events:
        yield events


async def every_answer(stead: Toolstead) -> set[str]:
    """What the tool, the program and the file of the project say."""
    return {await text(stead, "evil"), await text(stead, "evil-program"), await text(stead, "evil-read", path="a.txt")}


async def test_before_trust_nothing_of_a_project_is_listed_called_or_set(project: HostileProject) -> None:
    async with Toolstead(project.folder) as stead:
        assert names(stead).isdisjoint(TOOLS)
        assert "git-status" in names(stead)
        for name in (*TOOLS, "evil-agent-tool"):
            with pytest.raises(UnknownToolError):
                await stead.call(name)
        (waits,) = quarantined(stead)
        assert waits.startswith("this project brings .claude/agents, .toolstead: skipped, until you look")
        tools = stead.loaded.settings.tools
        assert (list(tools.allowed_hosts), list(tools.blocked)) == ([], [])
        await stead.registry.reload_plugins()
        assert names(stead).isdisjoint(TOOLS)
    assert project.left == []


@pytest.mark.promise("B4")
async def test_an_open_stead_takes_an_approval_keeps_it_through_changes_and_gives_it_back(tmp_path: Path) -> None:
    async with serving(reply(body=b"inside")) as server:
        project = hostile_project(tmp_path, server.port)
        async with Toolstead(project.folder) as stead, changes(stead) as events:
            project.approve()
            await told(events, lambda data: set(TOOLS) <= set(data["added"]))
            assert await every_answer(stead) == {"old"}
            assert await text(stead, "evil-http") == "inside"
            assert "git-status" not in names(stead)
            assert quarantined(stead) == []

            project.write_tools("new")
            project.write_program("new")
            (project.folder / ".toolstead/docs/a.txt").write_text("new")
            project.config.write_text("[tools]\ntimeout = 5\n")
            (project.folder / ".toolstead/plugins/evil.py").unlink()
            await until(lambda: any("program" in message for message in quarantined(stead)))
            await until(lambda: any("evil.py removed" in message for message in quarantined(stead)))
            assert "the approved version stays until `toolstead trust`" in quarantined(stead)[0]
            await stead.registry.reload_plugins()
            assert await every_answer(stead) == {"old"}
            assert "git-status" not in names(stead)
            async with Toolstead(project.folder) as restarted:
                assert await text(restarted, "evil") == "old"
                assert restarted.loaded.settings.tools.timeout == 60

            project.approve()
            await told(events, lambda data: "evil" in data["changed"])
            await until(lambda: quarantined(stead) == [])
            assert await every_answer(stead) == {"new"}
            assert "git-status" in names(stead)
            refused = await stead.call("evil-http")
            assert refused.is_error
            assert "inside" not in refused.text

            project.revoke()
            await told(events, lambda data: set(TOOLS) <= set(data["removed"]))
            with pytest.raises(UnknownToolError):
                await stead.call("evil")
            assert stead.loaded.settings.tools.timeout == 60
    assert project.left == ["plugin", "program", "tool"]


@pytest.mark.promise("B3")
async def test_what_a_projects_settings_allowed_goes_with_the_approval(tmp_path: Path) -> None:
    async with serving(reply(body=b"inside")) as server:
        project = hostile_project(tmp_path, server.port)
        user = Path(os.environ["TOOLSTEAD_HOME"], "tools")
        user.mkdir(parents=True)
        (user / "own.json").write_text(project.tools.read_text().replace("evil", "own").replace(".toolstead/bin", "x"))
        project.approve()
        async with Toolstead(project.folder) as stead:
            assert await text(stead, "own-http") == "inside"
            assert "git-status" not in names(stead)
            project.revoke()
            await until(lambda: "git-status" in names(stead))
            refused = await stead.call("own-http")
            assert refused.is_error
            assert "127.0.0.1" in refused.text


async def test_settings_that_cannot_be_understood_leave_those_before(
    project: HostileProject, caplog: pytest.LogCaptureFixture
) -> None:
    project.approve()
    async with Toolstead(project.folder) as stead:
        project.config.write_text("[tools]\nnonsense = 1\n")
        project.approve()
        await until(lambda: "the settings are unchanged" in caplog.text)
        assert list(stead.loaded.settings.tools.blocked) == ["git-*"]
        assert await text(stead, "evil") == "old"
    with pytest.raises(SettingsError, match=r"config\.toml:2"):
        Toolstead(project.folder)


@pytest.mark.promise("R6")
async def test_what_is_approved_stays_while_no_file_can_be_opened_and_is_read_again_afterwards(
    project: HostileProject, caplog: pytest.LogCaptureFixture
) -> None:
    project.approve()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Toolstead(project.folder) as stead:
        await stead.registry.reload_plugins()
        known = names(stead)
        assert known >= {*TOOLS}
        assert "git-status" not in known
        plugins = [(view["name"], view["state"]) for view in stead.plugins.show_plugins()]
        project.write_tools("new")
        project.config.write_text(project.config.read_text().replace("git-*", "file-*"))
        project.approve()
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            await until(lambda: "Too many open files" in caplog.text)
            for _ in range(3):
                await stead.registry.reload_plugins()
                assert names(stead) == known
                assert [(view["name"], view["state"]) for view in stead.plugins.show_plugins()] == plugins
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        await until(lambda: "git-status" in names(stead) and "file-reader" not in names(stead))
        assert await text(stead, "evil") == "new"
        assert not stale(stead)
        assert "the settings are unchanged" not in caplog.text


@pytest.mark.parametrize("kind", ["rename", "mode", "addition", "removal"])
async def test_renames_modes_additions_and_removals_wait_too(project: HostileProject, kind: str) -> None:
    project.approve()
    if kind == "rename":
        project.program.rename(project.program.with_name("other"))
        waits = ".toolstead/bin/other added; .toolstead/bin/program removed"
    elif kind == "mode":
        project.program.chmod(0o644)
        waits = ".toolstead/bin/program changed"
    elif kind == "addition":
        project.tools.with_name("more.json").write_text(project.tools.read_text().replace("evil", "more"))
        waits = ".toolstead/tools/more.json added"
    else:
        project.tools.unlink()
        waits = ".toolstead/tools/evil.json removed"
    async with Toolstead(project.folder, watch=False) as stead:
        assert quarantined(stead) == [
            f"changed since you approved it: {waits}; the approved version stays until `toolstead trust`"
        ]
        assert await text(stead, "evil-program") == "old"
        assert "more" not in names(stead)


async def test_what_was_approved_runs_though_links_lead_elsewhere_now(project: HostileProject, tmp_path: Path) -> None:
    project.approve()
    there = tmp_path / "elsewhere"
    (project.folder / ".toolstead").rename(there)
    (project.folder / ".toolstead").symlink_to(there)
    (there / "bin/program").write_text("#!/bin/sh\necho new\n")
    (there / "docs/a.txt").write_text("new")
    async with Toolstead(project.folder, watch=False) as stead:
        assert await text(stead, "evil-program") == "old"
        assert await text(stead, "evil-read", path="a.txt") == "old"
        assert "never read through one" in quarantined(stead)[0]


async def test_files_that_are_replaced_all_the_time_run_only_as_they_were_approved(project: HostileProject) -> None:
    project.approve()
    async with Toolstead(project.folder) as stead:
        for number in range(15):
            project.write_tools(f"new{number}")
            project.write_program(f"new{number}")
            await stead.registry.reload_plugins()
            assert await text(stead, "evil-program") == await text(stead, "evil") == "old"


async def test_a_tampered_copy_of_a_tool_file_is_set_aside(project: HostileProject) -> None:
    project.approve()
    copy = project.trust.copy / ".toolstead/tools/evil.json"
    copy.chmod(0o600)
    copy.write_text(copy.read_text().replace("old", "new"))
    async with Toolstead(project.folder, watch=False) as stead:
        assert names(stead).isdisjoint(TOOLS)
        assert "is not what was approved, so it is not used" in quarantined(stead)[0]


async def test_pins_that_are_broken_approve_nothing(project: HostileProject) -> None:
    project.approve()
    (project.trust.approvals.approval_folder(project.folder) / "approval.json").write_text("{}")
    async with Toolstead(project.folder, watch=False) as stead:
        assert names(stead).isdisjoint(TOOLS)
        assert "cannot be understood" in quarantined(stead)[0]
        assert list(stead.loaded.settings.tools.blocked) == []


async def test_the_folder_that_the_environment_names_takes_the_place_of_the_projects_tools(
    project: HostileProject, tmp_path: Path
) -> None:
    project.approve()
    async with Toolstead(project.folder, tools_dir=tmp_path, watch=False) as stead:
        assert names(stead).isdisjoint(TOOLS)


# for authors


async def test_following_takes_each_change_and_half_written_files_keep_their_last_good_tools(
    project: HostileProject,
) -> None:
    async with Toolstead(project.folder, follow=True) as stead:
        assert await text(stead, "evil") == "old"
        whole = project.tools.read_text()
        project.write_program("new")
        project.tools.write_text(whole[: len(whole) // 2])
        await until(lambda: stale(stead))
        assert set(stale(stead)) == set(TOOLS)
        assert await text(stead, "evil") == "old"
        assert await text(stead, "evil-program") == "new"
        project.write_tools("new")
        await until(lambda: not stale(stead))
        assert await text(stead, "evil") == "new"
    project.write_tools("after the end")
    async with Toolstead(project.folder) as stead:
        assert await text(stead, "evil") == "new"
        assert "evil.json changed" in quarantined(stead)[0]
        assert (
            project.trust.approvals.approved_content(project.folder, ".toolstead/bin/program")
            == project.program.read_bytes()
        )
