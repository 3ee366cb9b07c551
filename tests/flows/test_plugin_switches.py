"""Plugins are switched and set in one process, and every other one obeys without a restart."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.postgres_server import running_server
from tests.programs.killed_runs import postgres_place
from tests.programs.plugin_stead import stead_in_another_process
from tests.waiting import PATIENCE, until
from toolstead import Toolstead
from toolstead.adapters.storage.store import open_store
from toolstead.errors import NotFoundError, PluginError, SettingsError, StateError, StorageError, UnknownToolError
from toolstead.types.plugin_row import PluginRow

KEY = "a-secret-of-the-user"
OTHER = "another-secret-of-the-user"
SHOUTY = '''
from dataclasses import dataclass, field
from pathlib import Path

from toolstead import Hooks, Plugin, PluginContext, tool


@dataclass
class Settings:
    volume: int = 1
    mark: str = ""
    api_key: str = ""
    proxy: str = ""
    accounts: list[dict[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    nested: dict[str, str] = field(default_factory=dict)


@tool
async def shout(ctx: PluginContext, text: str) -> str:
    """Say it louder."""
    return text.upper() * ctx.settings.volume + ctx.settings.mark


async def register(ctx):
    async def changed(settings):
        ctx.logger.info("now at volume %s", settings.volume)

    return Hooks(on_settings_change=changed)


plugin = Plugin(name="shouty", version="1.0.0", register=register, settings=Settings, tools=[shout])
'''

pytestmark = pytest.mark.promise("P8")


class Machine:
    """A home of its own, with the plugin in it."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.environ = environ
        (self.home / "plugins").mkdir(parents=True)
        (self.home / "plugins/shouty.py").write_text(SHOUTY)
        self.project.mkdir()

    @property
    def state(self) -> Path:
        return self.home / "data" / "state.json"

    @property
    def mirrored(self) -> Any:
        return json.loads(self.state.read_bytes())["plugins"] if self.state.exists() else {}

    def mirror(self, **plugins: Any) -> None:
        self.state.parent.mkdir(exist_ok=True)
        self.state.write_text(json.dumps({"version": 1, "disabledTools": ["file-reader"], "plugins": plugins}))

    def stead(self, **options: Any) -> Toolstead:
        environ = {**os.environ, "TOOLSTEAD_HOME": str(self.home), **self.environ}
        return Toolstead(self.project, environ=environ, **options)

    def process(self) -> Any:
        return stead_in_another_process(self.project, self.home, **self.environ)

    async def store(self, name: str, row: PluginRow) -> None:
        """What is set in the database, behind everybody's back."""
        (self.home / "data").mkdir(exist_ok=True)
        store = await open_store(self.environ.get("TOOLSTEAD_DATABASE_URL") or self.home / "data" / "toolstead.db")
        before = (await store.list_plugins()).get(name, PluginRow())
        assert await store.replace_plugin(name, before, row)
        await store.close()

    async def stored(self) -> Any:
        store = await open_store(self.environ.get("TOOLSTEAD_DATABASE_URL") or self.home / "data" / "toolstead.db")
        try:
            return dict(await store.list_plugins())
        finally:
            await store.close()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@asynccontextmanager
async def two_machines(folder: Path, kind: str) -> AsyncIterator[tuple[Machine, Machine]]:
    """Two processes' places: one and the same with SQLite; two machines that share a Postgres."""
    if kind == "one machine":
        machine = Machine(folder)
        yield machine, machine
        return
    with running_server() as socket:
        async with postgres_place(socket, folder, "switches") as place:
            for name in ("a", "b"):
                (folder / name).mkdir()
            yield (
                Machine(folder / "a", TOOLSTEAD_DATABASE_URL=place.url or ""),
                Machine(folder / "b", TOOLSTEAD_DATABASE_URL=place.url or ""),
            )


kinds = pytest.mark.parametrize(
    "kind", ["one machine", pytest.param("two machines", marks=pytest.mark.requires("postgres"))]
)


def view(stead: Toolstead, name: str = "shouty") -> Any:
    return next(one for one in stead.plugins.show_plugins() if one["name"] == name)


async def said(stead: Toolstead) -> str | None:
    try:
        return (await stead.call("shouty__shout", {"text": "a"})).text
    except UnknownToolError:
        return None


async def eventually(stead: Toolstead, text: str | None) -> None:
    async with asyncio.timeout(PATIENCE):
        while await said(stead) != text:
            await asyncio.sleep(0.02)


@kinds
async def test_what_one_process_switches_and_sets_counts_in_another_one_without_a_restart(
    tmp_path: Path, kind: str
) -> None:
    async with two_machines(tmp_path, kind) as (here, there), here.process() as one, there.process() as other:
        print(f"process {one.pid} changes, process {other.pid} obeys")
        assert len({one.pid, other.pid, os.getpid()}) == 3
        if here is not there:
            await one.do("open")
            await other.do("open")  # as `toolstead serve` and `toolstead mcp` do when they have started
            assert here.state != there.state
        await one.says("A")
        await other.says("A")
        await one.do("change", name="shouty", enabled=False)
        assert await one.call(text="a") is None
        await other.says(None)
        assert (await other.shown())["state"] == "disabled"
        await one.do("change", name="shouty", enabled=True, settings={"volume": 3, "api_key": KEY})
        await other.says("AAA")
        shown = await other.shown()
        assert (shown["state"], shown["settings"]["volume"], shown["settings"]["api_key"]) == ("running", 3, "********")
        assert "now at volume 3" not in other.stderr, "it was started with them"
        await other.do("change", name="shouty", settings={"volume": 2})
        await one.says("AA")
        assert "now at volume 2" in one.stderr, "it was told while it ran"
        await one.do("reset", name="shouty")
        await other.says("A")
        assert here.mirrored == {}
        await until(lambda: there.mirrored == {})
        assert KEY not in one.stderr + other.stderr


@kinds
async def test_two_processes_that_set_one_plugin_a_hundred_times_at_once_lose_nothing(
    tmp_path: Path, kind: str
) -> None:
    async with two_machines(tmp_path, kind) as (here, there), here.process() as one, there.process() as other:
        assert one.pid != other.pid
        if here is not there:
            await one.do("open")
            await other.do("open")
        await asyncio.gather(
            one.do("count", name="shouty", key="one", to=100), other.do("count", name="shouty", key="other", to=100)
        )
        counts = {f"{key}-{number}": number for key in ("one", "other") for number in range(100)}
        assert (await here.stored())["shouty"].settings == {"counts": counts}
        async with asyncio.timeout(PATIENCE):
            for process in (one, other):
                while (await process.shown())["settings"]["counts"] != counts:
                    await asyncio.sleep(0.02)
        await until(lambda: here.mirrored == there.mirrored == {"shouty": {"settings": {"counts": counts}}})


async def test_settings_files_give_first_values_what_is_set_wins_and_a_reset_forgets_it(machine: Machine) -> None:
    first = '[plugins.shouty]\nenabled = false\nvolume = 2\nmark = "!"\n[plugins.shouty.nested]\na = "1"\nb = "2"\n'
    (machine.home / "config.toml").write_text(first)
    async with machine.stead() as stead:
        assert (await said(stead), view(stead)["enabled"]) == (None, False)
        await stead.plugins.change_plugin("shouty", enabled=True)
        assert await said(stead) == "AA!"
        changed = await stead.plugins.change_plugin("shouty", settings={"volume": 3, "nested": {"b": "3", "c": "4"}})
        assert (await said(stead), changed["settings"]["nested"]) == ("AAA!", {"a": "1", "b": "3", "c": "4"})
        await stead.plugins.change_plugin("shouty", settings={"volume": None})
        assert await said(stead) == "AA!", "taking one back leaves the others"
        assert view(stead)["settings"]["nested"]["b"] == "3"
    async with machine.stead() as again:
        assert (await said(again), view(again)["settings"]["nested"]["c"]) == ("AA!", "4")
        assert (await again.plugins.reset_plugin("shouty"))["enabled"] is False
        assert await said(again) is None
        assert (await machine.stored(), machine.mirrored) == ({}, {})
    for bad in ('"no"', "0", "{}"):
        (machine.home / "config.toml").write_text(f"[plugins.shouty]\nenabled = {bad}\n")
        with pytest.raises(SettingsError, match=r"plugins\.shouty\.enabled.*must be true or false"):
            machine.stead()


async def test_where_file_and_database_disagree_the_database_counts_as_soon_as_it_is_open(machine: Machine) -> None:
    await machine.store("shouty", PluginRow(settings={"volume": 3}))
    machine.mirror(shouty={"enabled": False}, gone={"enabled": True})
    async with machine.stead() as stead, machine.process() as other:
        assert await said(stead) is None, "a start opens no database"
        assert await other.call(text="a") is None
        await stead.conversations()
        await eventually(stead, "AAA")
        await other.says("AAA")
        assert machine.mirrored == {"shouty": {"settings": {"volume": 3}}}
        assert json.loads(machine.state.read_bytes())["disabledTools"] == ["file-reader"]
        assert stat.S_IMODE(machine.state.stat().st_mode) == 0o600


async def test_a_missing_file_is_made_again_from_the_database(machine: Machine) -> None:
    await machine.store("shouty", PluginRow(enabled=False))
    async with machine.stead() as stead:
        assert await said(stead) == "A"
        await stead.conversations()
        await eventually(stead, None)
        assert machine.mirrored == {"shouty": {"enabled": False}}
        assert stat.S_IMODE(machine.state.stat().st_mode) == 0o600
        async with machine.process() as other:
            await other.do("open")
            machine.mirror(shouty={"enabled": True})  # whoever writes it by hand sets nothing
            await until(lambda: machine.mirrored == {"shouty": {"enabled": False}})
            assert (await said(stead), await other.call(text="a")) == (None, None)
            machine.state.unlink()
            await stead.plugins.change_plugin("shouty", settings={"volume": 2})
            assert machine.mirrored == {"shouty": {"enabled": False, "settings": {"volume": 2}}}
            assert (await said(stead), await other.call(text="a")) == (None, None)


async def test_a_file_that_cannot_be_understood_keeps_a_stead_from_opening_and_a_change_from_being_begun(
    machine: Machine,
) -> None:
    async with machine.stead() as stead:
        await stead.plugins.change_plugin("shouty", settings={"volume": 2})
        for content in ("{", '{"version": 1, "plugins": {"shouty": {"enabled": "no"}}}'):
            machine.state.write_text(content)
            for work in (stead.plugins.change_plugin("shouty", enabled=False), stead.plugins.reset_plugin("shouty")):
                with pytest.raises(StateError, match=r"state\.json is not valid and is left unchanged"):
                    await work
            assert await said(stead) == "AA"
            assert machine.state.read_text() == content
            assert (await machine.stored())["shouty"] == PluginRow(settings={"volume": 2})
            with pytest.raises(StateError, match="is not valid"):
                async with machine.stead():
                    raise AssertionError


async def test_a_file_that_cannot_be_written_is_said_and_the_change_counts_here(machine: Machine) -> None:
    async with machine.stead() as stead:
        await stead.plugins.change_plugin("shouty", settings={"volume": 2})
        in_the_way = machine.state.with_name("state.json.new")
        in_the_way.mkdir()  # root may write read-only files
        with pytest.raises(StateError, match=r"cannot be written.*it is stored and applies in this process"):
            await stead.plugins.change_plugin("shouty", settings={"volume": 3})
        assert await said(stead) == "AAA"
        assert (await machine.stored())["shouty"] == PluginRow(settings={"volume": 3})
        assert machine.mirrored == {"shouty": {"settings": {"volume": 2}}}
        in_the_way.rmdir()
        await stead.plugins.change_plugin("shouty", settings={"mark": "!"})
        assert machine.mirrored == {"shouty": {"settings": {"volume": 3, "mark": "!"}}}
        assert await said(stead) == "AAA!"


async def test_a_database_that_cannot_be_opened_refuses_the_change_and_nothing_is_half_done(machine: Machine) -> None:
    (machine.home / "data" / "toolstead.db").mkdir(parents=True)
    async with machine.stead() as stead:
        for work in (
            stead.plugins.change_plugin("shouty", enabled=False),
            stead.plugins.change_plugin("shouty", settings={"volume": 2}),
            stead.plugins.reset_plugin("shouty"),
        ):
            with pytest.raises(StorageError, match=r"toolstead\.db"):
                await work
        assert (await said(stead), view(stead)["enabled"]) == ("A", True)
        assert "plugins" not in json.loads(machine.state.read_text())


async def test_a_database_that_cannot_be_written_refuses_the_change_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolstead.adapters.storage.store.PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(
        "toolstead.adapters.storage.store.open_store.__kwdefaults__", {**open_store.__kwdefaults__, "patience": 0.2}
    )
    async with machine.stead() as stead:
        await stead.plugins.change_plugin("shouty", settings={"volume": 2})
        database = sqlite3.connect(machine.home / "data" / "toolstead.db", isolation_level=None)
        database.execute("BEGIN EXCLUSIVE")
        try:
            with pytest.raises(StorageError):
                await stead.plugins.change_plugin("shouty", enabled=False, settings={"volume": 3})
        finally:
            database.close()
        assert (await said(stead), machine.mirrored) == ("AA", {"shouty": {"settings": {"volume": 2}}})
        assert (await machine.stored())["shouty"] == PluginRow(settings={"volume": 2})


async def test_what_does_not_fit_is_refused_and_all_stays(machine: Machine) -> None:
    async with machine.stead() as stead:
        await stead.plugins.change_plugin("shouty", settings={"volume": 2})
        for bad, complaint in (
            ({"volume": "loud"}, "volume"),
            ({"volum": 2}, "did you mean 'volume'"),
            ({"volume": 3, "counts": {"a": KEY}}, "counts"),
            ({"mark": float("nan")}, "must be JSON"),
            ({"mark": object()}, "must be JSON"),
            ({1: 2}, "there is no setting|must be JSON"),
        ):
            with pytest.raises(PluginError, match=complaint) as refused:
                await stead.plugins.change_plugin("shouty", enabled=False, settings=bad)  # type: ignore[arg-type] - what people send
            assert KEY not in str(refused.value)
        with pytest.raises(NotFoundError):
            await stead.plugins.change_plugin("shouti", enabled=False)
        with pytest.raises(NotFoundError):
            await stead.plugins.reset_plugin("shouti")
        assert (await said(stead), view(stead)["state"]) == ("AA", "running")
        assert await machine.stored() == {"shouty": PluginRow(settings={"volume": 2})}


async def test_secrets_are_masked_wherever_settings_are_shown_and_a_mask_that_comes_back_keeps_them(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    accounts = [{"name": "ada", "token": KEY}]
    proxy = f"http://user:{KEY}@proxy.example"
    async with machine.stead() as stead:
        set_to: Any = {"api_key": KEY, "proxy": proxy, "accounts": accounts, "nested": {"password": KEY, "x": "y"}}
        shown = await stead.plugins.change_plugin("shouty", settings=set_to)
        assert shown["settings"]["api_key"] == "********"
        assert shown["settings"]["proxy"] == "http://********@proxy.example"
        assert KEY not in json.dumps([shown, stead.plugins.show_plugins()])
        back = await stead.plugins.change_plugin(
            "shouty", settings=shown["settings"]
        )  # as a form sends all that it showed
        assert back["settings"] == shown["settings"]
        stored = (await machine.stored())["shouty"].settings
        assert {key: stored[key] for key in set_to} == set_to
        await stead.plugins.change_plugin(
            "shouty", settings={"api_key": OTHER, "nested": {"password": "********", "x": "z"}}
        )
        stored = (await machine.stored())["shouty"].settings
        assert (stored["api_key"], stored["nested"]) == (OTHER, {"password": KEY, "x": "z"})
        for half in (
            {"accounts": [*shown["settings"]["accounts"], {"name": "bob"}]},
            {"proxy": "http://********@other.example"},
            {"nested": "********!"},
        ):
            with pytest.raises(PluginError, match="a part of it is masked"):
                await stead.plugins.change_plugin("shouty", settings=half)
        assert (await machine.stored())["shouty"].settings == stored
        with pytest.raises(PluginError) as refused:
            await stead.plugins.change_plugin("shouty", settings={"volume": KEY})
        told = [str(refused.value), caplog.text, json.dumps(stead.plugins.show_plugins())]
        told += [problem.message for problem in stead.registry.quarantined]
        assert not [text for text in told if KEY in text or OTHER in text]
    assert stat.S_IMODE(machine.state.stat().st_mode) == 0o600


async def test_settings_that_no_longer_fit_say_so_without_their_values(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with machine.stead() as stead:
        await machine.store("shouty", PluginRow(settings={"volume": KEY, "api_key": OTHER}))
        with stead.events(["plugin.status"]) as events:
            await stead.conversations()
            event = await asyncio.wait_for(anext(events), PATIENCE)
            while event.data["state"] != "degraded":
                event = await asyncio.wait_for(anext(events), PATIENCE)
        assert (await said(stead), view(stead)["state"]) == ("A", "degraded")
        told = caplog.text + json.dumps([stead.plugins.show_plugins(), dict(event.data)])
        assert ("volume" in view(stead)["error"], KEY in told, OTHER in told) == (True, False, False)
        await stead.plugins.change_plugin("shouty", settings={"volume": 2})
        assert (await said(stead), view(stead)["state"]) == ("AA", "running")


_SLOW = '''
import asyncio
from pathlib import Path

from toolstead import Plugin, tool

LOG = Path(__file__).with_name("slow.log")


@tool
async def wait(name: str) -> str:
    """Wait until a file says to go on."""
    note("began")
    while not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.01)
    note("ended")
    return name


async def stop(ctx):
    note("stopped")


def note(word):
    with LOG.open("a") as file:
        file.write(word + "\\n")


plugin = Plugin(name="slow", version="1.0.0", stop=stop, tools=[wait])
'''


async def test_a_plugin_that_is_disabled_while_its_calls_run_lets_them_end_and_is_stopped_after_them(
    machine: Machine,
) -> None:
    folder = machine.home / "plugins"
    (folder / "slow.py").write_text(_SLOW)
    log = folder / "slow.log"
    async with machine.stead() as stead, machine.process() as other:
        calls = [asyncio.create_task(_waited(stead, str(number))) for number in range(20)]
        await until(lambda: log.exists() and log.read_text().count("began") == 20)
        changing = asyncio.create_task(other.do("change", name="slow", enabled=False))
        await until(lambda: not stead.registry.has_tool("slow__wait"))
        with pytest.raises(UnknownToolError):
            await stead.call("slow__wait", {"name": "late"})
        await changing
        assert log.read_text().splitlines().count("stopped") == 1, "in the process that had no calls"
        (folder / "go").touch()
        assert [await call for call in calls] == [str(number) for number in range(20)]
        await until(lambda: log.read_text().count("stopped") == 2)
        assert log.read_text().splitlines()[-21:] == ["ended"] * 20 + ["stopped"]


async def _waited(stead: Toolstead, name: str) -> str:
    return (await stead.call("slow__wait", {"name": name})).text


async def test_a_change_whose_caller_leaves_in_the_middle_is_seen_through(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.stead() as stead, machine.process() as other:
        await stead.conversations()
        mirror = stead.plugins._mirror_store  # the moment after the commit
        reached = asyncio.Event()

        async def slowly(store: Any) -> None:
            reached.set()
            await asyncio.sleep(0.1)
            await mirror(store)

        monkeypatch.setattr(stead.plugins, "_mirror_store", slowly)
        changing = asyncio.create_task(stead.plugins.change_plugin("shouty", settings={"volume": 2}))
        await reached.wait()
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
        assert (changing.cancelled(), await said(stead)) == (True, "AA")
        await other.says("AA")
