"""A project's own plugins run as they were approved or not at all; the user's own need nobody's word."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs.plugin_stead import Stead, stead_in_another_process
from tests.waiting import PATIENCE, until
from toolstead import Toolstead
from toolstead.app.places import find_places
from toolstead.app.trust.approved import ProjectTrust
from toolstead.errors import UnknownToolError

pytestmark = pytest.mark.promise("P8")

_PLUGIN = '''
from pathlib import Path

from toolstead import Plugin, tool

TRACES = Path({traces!r})


def note(text):
    with (TRACES / "{name}").open("a") as file:
        file.write(text + "\\n")


note("imported {word}")


@tool
async def say() -> str:
    """Say which code this is."""
    return "{word}"


async def start(ctx):
    note("started {word}")


async def stop(ctx):
    note("stopped {word}")


plugin = Plugin(name="{name}", version="1.0.0", start=start, stop=stop, tools=[say])
'''


class Clone:
    """A repository with a plugin of its own, and the traces that its code leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.traces = folder / "traces"
        self.plugins = self.folder / ".toolstead" / "plugins"
        self.users = Path(os.environ["TOOLSTEAD_HOME"], "plugins")
        for made in (self.plugins, self.traces, self.users):
            made.mkdir(parents=True)
        self.write("old")

    def code(self, word: str, name: str = "evil") -> str:
        return _PLUGIN.format(traces=str(self.traces), word=word, name=name)

    def write(self, word: str, name: str = "evil", *, users: bool = False) -> Path:
        path = (self.users if users else self.plugins) / f"{name}.py"
        path.write_text(self.code(word, name))
        return path

    @property
    def trust(self) -> ProjectTrust:
        return ProjectTrust(find_places(explicit=self.folder))

    def approve(self) -> None:
        self.trust.approvals.approve_snapshot(self.folder, self.trust.take_snapshot())

    def revoke(self) -> None:
        assert self.trust.approvals.revoke_approval(self.folder)

    def left(self, name: str = "evil") -> list[str]:
        trace = self.traces / name
        return trace.read_text().splitlines() if trace.exists() else []

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Stead]:
        home = Path(os.environ["TOOLSTEAD_HOME"])
        async with stead_in_another_process(self.folder, home) as stead:
            yield stead


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path.resolve())


def view(stead: Toolstead, name: str = "evil") -> Any:
    return next((one for one in stead.plugins.show_plugins() if one["name"] == name), None)


async def said(stead: Toolstead, tool: str = "evil__say") -> str | None:
    try:
        return (await stead.call(tool, {})).text
    except UnknownToolError:
        return None


async def eventually(stead: Toolstead, text: str | None, tool: str = "evil__say") -> None:
    async with asyncio.timeout(PATIENCE):
        while await said(stead, tool) != text:
            await asyncio.sleep(0.02)


async def test_an_untrusted_projects_plugin_is_never_imported(clone: Clone) -> None:
    (clone.plugins / "__init__.py").write_text(f"open({str(clone.traces / 'init')!r}, 'w')")
    (clone.folder / ".toolstead" / "config.toml").write_text("[plugins.evil]\nenabled = true\n")
    async with Toolstead(clone.folder) as stead, clone.process() as other:
        assert (await said(stead), view(stead)) == (None, None)
        await stead.registry.reload_plugins()
        await stead.conversations()
        assert (await said(stead), await other.call("evil__say"), view(stead)) == (None, None, None)
        assert any("skipped, until you look at it" in problem.message for problem in stead.registry.quarantined)
    assert list(clone.traces.iterdir()) == []
    assert not list(clone.folder.rglob("*.pyc")), "nothing was compiled beside it either"


async def test_what_was_approved_runs_through_changes_and_restarts_until_the_new_one_is_approved(clone: Clone) -> None:
    clone.approve()
    async with Toolstead(clone.folder) as stead, clone.process() as other:
        assert other.pid != os.getpid()
        assert (await said(stead), await other.call("evil__say")) == ("old", "old")
        assert clone.left() == ["imported old", "started old"] * 2
        clone.write("new")
        clone.write("brand new", "second")
        await until(
            lambda: any("changed since you approved" in problem.message for problem in stead.registry.quarantined)
        )
        await stead.registry.reload_plugins()
        assert (await said(stead), await said(stead, "second__say")) == ("old", None)
        async with Toolstead(clone.folder) as restarted:
            assert (await said(restarted), await said(restarted, "second__say")) == ("old", None)
            assert view(restarted)["origin"] == str(clone.plugins / "evil.py")
        assert "imported new" not in clone.left()
        assert clone.left("second") == []
        clone.approve()
        await eventually(stead, "new")
        await other.says("new", "evil__say")
        await eventually(stead, "brand new", "second__say")
        assert clone.left().count("stopped old") == 3, "here, there, and at the end of the restarted one"
    assert clone.left()[-1] == "stopped new"


@pytest.mark.parametrize("watch", [True, False], ids=["watching", "asked"])
async def test_revoking_stops_it_at_once_in_every_process(clone: Clone, watch: bool) -> None:
    clone.approve()
    async with Toolstead(clone.folder, watch=watch) as stead, clone.process() as other:
        assert (await said(stead), await other.call("evil__say")) == ("old", "old")
        clone.revoke()
        if not watch:
            await stead.registry.reload_plugins()
            assert await said(stead) is None
        await eventually(stead, None)
        await other.says(None, "evil__say")
        await until(lambda: clone.left().count("stopped old") == 2)
        assert view(stead) is None
        async with Toolstead(clone.folder) as again:
            assert (await said(again), view(again)) == (None, None)
        clone.approve()
        if not watch:
            await stead.registry.reload_plugins()
            assert await said(stead) == "old"
        await other.says("old", "evil__say")


async def test_a_kept_copy_that_was_tampered_with_is_not_loaded(clone: Clone) -> None:
    clone.approve()
    kept = next(path for path in clone.trust.copy.rglob("evil.py"))
    kept.chmod(0o600)
    kept.write_text(clone.code("tampered"))
    async with Toolstead(clone.folder) as stead:
        assert await said(stead) is None
        assert any("evil.py" in problem.source for problem in stead.registry.quarantined)
    assert clone.left() == []


async def test_links_and_hostile_names_lead_nowhere(clone: Clone) -> None:
    outside = clone.traces.parent / "outside.py"
    outside.write_text(clone.code("linked", "linked"))
    (clone.plugins / "linked.py").symlink_to(outside)
    (clone.plugins / "folder.py").mkdir()
    (clone.plugins / "folder.py" / "inner.py").write_text(clone.code("inner", "inner"))
    (clone.plugins / "deep").mkdir()
    (clone.plugins / "deep" / "hidden.py").write_text(clone.code("deep", "hidden"))
    hostile = {
        "time": "time",  # a first-party one's
        "plan": "plan",
        "evil__x": "evil__x",  # would look like another's tool
        "a b": "a b",
        "e\u202evil": "e\u202evil",
        "-x": "other",
        "UP": "up",
        "x" * 33: "x" * 33,
        "_private": "_private",
        ".dot": ".dot",
        "os": "os",  # harmless: it takes no module's place
    }
    for file, name in hostile.items():
        (clone.plugins / f"{file}.py").write_text(clone.code("hostile", name))
    clone.approve()
    (clone.plugins / "late.py").symlink_to(outside)
    async with Toolstead(clone.folder) as stead:
        shown = {
            (one["name"], one["state"])
            for one in stead.plugins.show_plugins()
            if one["origin"].startswith(str(clone.folder))
        }
        assert {name for name, state in shown if state == "running"} == {"evil", "os"}
        assert {name for name, state in shown if state == "failed"} >= {"time", "plan", "evil__x", "a b", "-x", "UP"}
        assert not {name for name, _ in shown} & {"linked", "late", "folder", "inner", "hidden", "_private", ".dot"}
        assert view(stead, "time")["origin"] == "toolstead.extensions.time"
        assert stead.registry.has_tool("update_plan")
        assert not stead.registry.has_tool("time__say")
        told = [problem.message + problem.source for problem in stead.registry.quarantined]
        assert "\u202e" not in "".join(told + [one["origin"] + one["name"] for one in stead.plugins.show_plugins()])
        assert os.path.join is sys.modules["os"].path.join
        assert await said(stead) == "old"
    names = {path.name for path in clone.traces.iterdir()}
    assert names & {"linked", "inner", "hidden", "time", "plan", "_private", ".dot"} == set()


async def test_metadata_that_lies_in_the_project_offers_no_plugin(clone: Clone) -> None:
    (clone.folder / "sneaky.py").write_text(clone.code("sneaky", "sneaky"))
    metadata = clone.folder / "sneaky-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sneaky\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[toolstead.plugins]\nsneaky = sneaky:plugin\n")
    command = [sys.executable, "-m", "toolstead", "plugins", "list", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=clone.folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert b'"time"' in out, "Python put this folder on its path"
    assert b"sneaky" not in out
    assert list(clone.traces.iterdir()) == []


async def test_a_plugin_of_the_users_own_folder_needs_no_trust_and_keeps_its_name(clone: Clone) -> None:
    clone.write("mine", users=True)
    clone.approve()
    async with Toolstead(clone.folder) as stead:
        assert await said(stead) == "mine"
        running, refused = (one for one in stead.plugins.show_plugins() if one["name"] == "evil")
        assert (running["state"], running["origin"]) == ("running", str(clone.users / "evil.py"))
        assert (refused["state"], "already held by" in refused["error"]) == ("failed", True)
    assert clone.left() == ["imported mine", "started mine", "stopped mine"]


async def test_a_reload_takes_in_an_edited_plugin_and_one_that_became_bad_fails_alone(clone: Clone) -> None:
    mine, other = clone.write("one", "mine", users=True), clone.write("calm", "other", users=True)
    async with Toolstead(clone.folder) as stead:
        assert await said(stead, "mine__say") == "one"
        clone.write("two", "mine", users=True)
        assert (await stead.registry.reload_plugins()).changes.changed == ("mine__say",)
        assert await said(stead, "mine__say") == "two"
        for bad, why in (
            ("def broken(:", "mine.py:1"),
            ("import sys; sys.exit(3)", "SystemExit"),
            ("plugin = 5", "plugin"),
            ("", "has no `plugin`"),
            (clone.code("renamed", "renamed"), "name"),
        ):
            mine.write_text(bad)
            reloaded = await stead.registry.reload_plugins()
            assert (view(stead, "mine")["state"], why in view(stead, "mine")["error"]) == ("failed", True), bad
            assert any("mine" in error.message for error in reloaded.errors)
            assert (await said(stead, "mine__say"), await said(stead, "other__say")) == (None, "calm")
        clone.write("three", "mine", users=True)
        await stead.registry.reload_plugins()
        assert await said(stead, "mine__say") == "three"
        mine.unlink()
        await stead.registry.reload_plugins()
        assert (await said(stead, "mine__say"), view(stead, "mine")) == (None, None)
        other.unlink()
        os.mkfifo(other)  # which nobody writes into
        await asyncio.wait_for(stead.registry.reload_plugins(), PATIENCE)
        assert view(stead, "other")["state"] == "failed"
        assert any(problem.source == str(other) for problem in stead.registry.quarantined)
    assert clone.left("other") == ["imported calm", "started calm", "stopped calm"], "its neighbour was left alone"
