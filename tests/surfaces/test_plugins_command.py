"""`toolstead plugins`: by the running server of this project, by another one, and in the command itself."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from tests.flows.http_internet import reply, serving
from tests.surfaces.fake_plugins import FakePlugins, plugin
from tests.surfaces.rest_server import SAY, Live, running
from tests.surfaces.talking_project import Finished, Project
from toolstead.app.server_file import ServerFile
from toolstead.console.cli.plugins import render_plugins

SHOUTY = '''
from dataclasses import dataclass

from toolstead import Hooks, Plugin, PluginContext, tool


@dataclass
class Settings:
    volume: int = 1
    api_key: str = ""


@tool
async def shout(ctx: PluginContext, text: str) -> str:
    """Say it louder.

    Args:
        text: What to say.
    """
    return text.upper() * ctx.settings.volume


async def register(ctx):
    return Hooks()


plugin = Plugin(name="shouty", version="1.0.0", register=register, settings=Settings, tools=[shout])
'''
KEY = "a-secret-of-the-user"
PRIVATE = "the-private-token"
TOKEN = "the-general-token"


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    folder = tmp_path / "project"
    (folder / ".toolstead").mkdir(parents=True)
    return Project(folder, home)


@dataclass
class Served:
    """A project, and plugins behind its server."""

    project: Project
    plugins: FakePlugins
    live: Live

    async def command(self, *arguments: str, **environ: str) -> Finished:
        return await asyncio.to_thread(self.project.command, "plugins", *arguments, **environ)


@pytest.fixture
async def served(project: Project) -> AsyncIterator[Served]:
    plugins = FakePlugins("shouty", "weather")
    async with running(SAY, plugins=plugins, private_token=PRIVATE, token=TOKEN) as live:
        with announced(project, live):
            yield Served(project, plugins, live)


@contextmanager
def announced(project: Project, live: Live) -> Iterator[None]:
    data = Path(os.environ["TOOLSTEAD_HOME"], "data")
    with ServerFile(data).announce_server(project.folder.resolve(), live.url, PRIVATE):
        yield


async def test_three_plugins_are_a_table_of_eighty_columns_with_what_is_wrong_below(served: Served) -> None:
    why = "on_message: ValueError: the weather is\n\x1b[31mbad today, and it was bad yesterday, "
    why += "and it will be bad (2 in a row)"
    served.plugins.plugins["weather"]["tools"] = [f"weather__tool-number-{number}" for number in range(5)]
    served.plugins.plugins["old"] = plugin(
        "old", tools=[], state="degraded", error=why, version="2024.12.1.dev123+gabc"
    )
    done = await served.command("list")
    assert (done.returncode, done.stderr) == (0, f"by the server at {served.live.url}\n")
    whole = " ".join(why.replace("\x1b", "�").split())
    numbered = ", ".join(f"weather__tool-number-{number}" for number in range(5))
    assert done.stdout.splitlines() == [  # in a pipe: each whole, in one line
        "NAME     VERSION                STATE     TOOLS",
        "shouty   1.0.0                  running   shouty__shout; hooks: on_message",
        f"weather  1.0.0                  running   {numbered}; hooks: on_message",
        "old      2024.12.1.dev123+gabc  degraded  hooks: on_message",
        f"  {whole}",
    ]
    assert list(map(click.unstyle, render_plugins(served.plugins.show_plugins(), 80))) == [
        "NAME     VERSION         STATE     TOOLS",
        "shouty   1.0.0           running   shouty__shout; hooks: on_message",
        "weather  1.0.0           running   weather__tool-number-0,",
        "                                   weather__tool-number-1,",
        "                                   weather__tool-number-2,",
        "                                   weather__tool-number-3,",
        "                                   weather__tool-number-4; hooks: on_message",
        "old      2024.12.1.dev…  degraded  hooks: on_message",
        "  on_message: ValueError: the weather is �[31mbad today, and it was bad",
        "  yesterday, and it will be bad (2 in a row)",
    ]


async def test_no_plugins_are_said_and_thirty_long_ones_still_fit(served: Served) -> None:
    served.plugins.plugins.clear()
    none = await served.command("list")
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr.endswith("there are none\n")
    for number in range(30):
        name = f"{number:02}-{'n' * 29}"
        served.plugins.plugins[name] = plugin(name, tools=[f"{name}__{'t' * 30}", f"{name}__u"])
    _, *lines = render_plugins(served.plugins.show_plugins(), 80)
    assert len(lines) == 90
    assert lines[:3] == [
        f"00-{'n' * 29}  1.0.0    running",
        f"  00-{'n' * 29}__{'t' * 30},",
        f"  00-{'n' * 29}__u; hooks: on_message",
    ]
    assert max(map(len, lines)) <= 80


async def test_a_list_for_programs_is_what_the_server_says(served: Served) -> None:
    done = await served.command("list", "--json")
    assert json.loads(done.stdout) == {"plugins": served.plugins.show_plugins()}
    assert done.stderr == f"by the server at {served.live.url}\n"


async def test_a_plugin_is_disabled_enabled_with_settings_and_reset(served: Served) -> None:
    settings = {"volume": 1, "loud": False, "words": ["a"], "title": "x", "nested": {}, "maybe": None}
    served.plugins.plugins["shouty"]["settings"] = settings
    off = await served.command("disable", "shouty")
    assert (off.returncode, off.stdout) == (0, "")
    assert off.stderr.splitlines()[1:] == ["shouty is disabled"]
    pairs = ["volume=1.5", "loud=yes", 'words=["b"]', "title=5", 'nested={"a": 1}', "maybe=7"]
    on = await served.command("enable", "shouty", *pairs)
    assert (on.returncode, on.stderr.splitlines()[1:]) == (0, ["shouty is enabled: running with 1 tool"])
    taken = {"volume": 1.5, "loud": True, "words": ["b"], "title": "5", "nested": {"a": 1}, "maybe": 7}
    assert served.plugins.plugins["shouty"]["settings"] == taken
    assert (await served.command("enable", "shouty", "volume:=null", "maybe:=[1]")).returncode == 0
    back = await served.command("reset", "shouty")
    assert (back.returncode, back.stderr.splitlines()[1:]) == (0, ["shouty is enabled: running with 1 tool"])
    assert (await served.command("enable", "shouty")).returncode == 0
    assert served.plugins.asked == [
        ("shouty", False, None),
        ("shouty", True, taken),
        ("shouty", True, {"volume": None, "maybe": [1]}),
        ("shouty",),
        ("shouty", True, None),
    ]


async def test_a_plugin_that_is_enabled_and_does_not_run_says_why_and_is_status_1(served: Served) -> None:
    change = served.plugins.change_plugin

    async def fails(name: str, **more: Any) -> dict[str, Any]:
        return {**await change(name, **more), "state": "failed", "tools": [], "error": "start: OSError: no\nnetwork"}

    served.plugins.change_plugin = fails
    done = await served.command("enable", "weather")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == ["weather is enabled: failed", "  start: OSError: no network"]


async def test_settings_of_a_plugin_that_is_off_are_read_as_json_where_they_look_like_it(served: Served) -> None:
    served.plugins.plugins["shouty"]["settings"] = {}
    pairs = ["a=5", "b=true", 'c={"x": [1]}', "d=some text", 'e="5"', "f=null", "g=", 'h:="5"', "i=1e999x", "j:=null"]
    done = await served.command("enable", "shouty", *pairs)
    assert done.returncode == 2, "the fake plugin has no such settings"
    assert served.plugins.asked[0][2] == {
        "a": 5,
        "b": True,
        "c": {"x": [1]},
        "d": "some text",
        "e": '"5"',
        "f": "null",
        "g": "",
        "h": "5",
        "i": "1e999x",
        "j": None,
    }


@pytest.mark.parametrize("arguments", [["enable"], ["disable"], ["reset"]])
async def test_an_unknown_plugin_is_wrong_usage_with_the_nearest_name(served: Served, arguments: list[str]) -> None:
    done = await served.command(*arguments, "shoutty")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown plugin 'shoutty'; did you mean 'shouty'?" in done.stderr
    far = await served.command(*arguments, "zzz")
    assert (far.returncode, "`toolstead plugins list` shows them all" in far.stderr) == (2, True)
    assert served.plugins.asked == []


async def test_settings_that_do_not_fit_are_wrong_usage_in_the_words_of_the_plugin(served: Served) -> None:
    done = await served.command("enable", "shouty", "wolume=2")
    assert (done.returncode, "wolume: no such setting; there is 'volume'" in done.stderr) == (2, True)
    for bad, said in (("volume", "key=value"), ("volume:={", "not valid JSON")):
        done = await served.command("enable", "shouty", bad)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert served.plugins.asked == [("shouty", True, {"wolume": 2})]


async def test_with_a_url_only_the_token_of_that_server_does(served: Served, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".toolstead").mkdir(parents=True)
    by_url = await served.command("disable", "shouty", "--url", served.live.url, "--project", str(elsewhere))
    assert by_url.returncode == 0
    assert served.plugins.asked == [("shouty", False, None)]
    given = await served.command("disable", "shouty", "--url", served.live.url, TOOLSTEAD_TOKEN="of-a-profile")
    assert (given.returncode, "answered 40" in given.stderr) == (2, True)  # it counts before the private token
    async with running(SAY, plugins=served.plugins, token=TOKEN) as unannounced:
        listed = await served.command("list", "--url", unannounced.url, TOOLSTEAD_TOKEN=TOKEN)
        assert listed.returncode == 0
        refused = await served.command("disable", "shouty", "--url", unannounced.url, TOOLSTEAD_TOKEN=TOKEN)
        assert (refused.returncode, "answered 403" in refused.stderr) == (2, True)
        assert "send the private token" in refused.stderr
    assert len(served.plugins.asked) == 1
    nobody = await served.command("list", "--url", "http://127.0.0.1:9")
    assert (nobody.returncode, "no server listens there" in nobody.stderr) == (2, True)


@pytest.mark.parametrize("answer", ["[]", "{}", '{"plugins": 1}', '{"plugins": [1]}', '{"plugins": [{"name": "x"}]}'])
async def test_an_answer_that_is_none_of_ours_is_said(project: Project, answer: str) -> None:
    async with serving(reply(body=answer, content_type="application/json")) as other:
        address = f"http://127.0.0.1:{other.port}"
        done = await asyncio.to_thread(project.command, "plugins", "list", "--url", address)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
    assert "not as a Toolstead server does" in done.stderr


@pytest.mark.parametrize("server", [False, True], ids=["alone", "server"])
async def test_real_plugins_are_switched_set_and_reset_alone_and_by_a_server(project: Project, server: bool) -> None:
    folder = Path(os.environ["TOOLSTEAD_HOME"], "plugins")
    folder.mkdir(parents=True)
    (folder / "shouty.py").write_text(SHOUTY)
    (folder / "broken.py").write_text("from toolstead import Plugin\nplugin = Plugin(name='broken')\n")
    assert project.command("plugins", "list").returncode == 0  # known from now on to have no gate
    (folder / "broken.py").write_text("raise ValueError('no weather today')")

    async def run(*arguments: str, **environ: str) -> Finished:
        done = await asyncio.to_thread(project.command, *arguments, **environ)
        assert KEY not in done.stdout + done.stderr
        if arguments[0] == "plugins":
            assert "Traceback" not in done.stderr
            assert done.stderr.startswith("by the server at http://") is server
        return done

    async def shown() -> Any:
        listed = json.loads((await run("plugins", "list", "--json")).stdout)["plugins"]
        return next(one for one in listed if one["name"] == "shouty")

    async def said() -> str:
        return (await run("tools", "call", "shouty__shout", "text=a")).stdout.strip()

    async with project.served(server=server):
        listed = await run("plugins", "list")
        assert "shouty      1.0.0    running   shouty__shout" in listed.stdout
        assert "load: ValueError: no weather today" in listed.stdout
        assert (await shown())["settings"] == {"volume": 1, "api_key": ""}
        assert await said() == "A"
        off = await run("plugins", "disable", "shouty")
        assert (off.returncode, off.stderr.endswith("shouty is disabled\n")) == (0, True)
        assert (await shown())["state"] == "disabled"
        assert (await run("tools", "call", "shouty__shout", "text=a")).returncode == 2
        unknown = await run("plugins", "enable", "shouty", "volum=3")  # it is off, and checked all the same
        why = "there is no setting 'volum'; did you mean 'volume'?"
        assert (unknown.returncode, unknown.stderr.splitlines()[-1]) == (2, f"toolstead: shouty was not enabled: {why}")
        assert (await shown())["state"] == "disabled"
        on = await run("plugins", "enable", "shouty", "volume=3", f"api_key={KEY}")
        assert (on.returncode, on.stderr.endswith("shouty is enabled: running with 1 tool\n")) == (0, True)
        assert ((await shown())["settings"]["volume"], await said()) == (3, "AAA")
        bad = await run("plugins", "enable", "shouty", "volume=loud")
        assert (bad.returncode, "volume" in bad.stderr) == (2, True)
        assert await said() == "AAA"
        assert (await run("plugins", "enable", "shouty", "volume:=null")).returncode == 0
        assert await said() == "A"
        assert (await run("plugins", "disable", "shouty")).returncode == 0
        back = await run("plugins", "reset", "shouty")
        assert (back.returncode, back.stderr.endswith("shouty is enabled: running with 1 tool\n")) == (0, True)
        failing = await run("plugins", "enable", "broken")
        assert (failing.returncode, "no weather today" in failing.stderr) == (1, True)
        nearest = await run("plugins", "reset", "shouti")
        assert (nearest.returncode, "did you mean 'shouty'?" in nearest.stderr) == (2, True)


def test_stdout_is_the_command_s_alone_whatever_plugins_and_their_programs_print(project: Project) -> None:
    folder = Path(os.environ["TOOLSTEAD_HOME"], "plugins")
    folder.mkdir(parents=True)
    loud = 'import os, subprocess, sys\nprint("stray import")\n' + SHOUTY.replace(
        "    return text.upper()",
        '    print("stray print")\n    os.write(1, b"stray bytes\\n")\n'
        '    subprocess.run(["echo", "stray program"], check=True)\n    return text.upper()',
    )
    (folder / "shouty.py").write_text(loud)
    called = project.command("tools", "call", "shouty__shout", "text=a", "--json")
    assert json.loads(called.stdout)["content"] == [{"type": "text", "text": "A"}], called.stderr
    for word in ("import", "print", "bytes", "program"):
        assert f"stray {word}" in called.stderr
    listed = project.command("plugins", "list", "--json")
    assert (json.loads(listed.stdout)["plugins"][-1]["name"], "stray import" in listed.stderr) == ("shouty", True)


async def test_a_reload_reads_the_settings_of_plugins_again_and_names_what_does_not_fit(project: Project) -> None:
    users = Path(os.environ["TOOLSTEAD_HOME"])
    (users / "plugins").mkdir(parents=True)
    (users / "plugins" / "shouty.py").write_text(SHOUTY)

    async def reloaded(table: str) -> tuple[Finished, int]:
        (users / "config.toml").write_text(f"[plugins.shouty]\n{table}\n")
        done = await asyncio.to_thread(project.command, "tools", "reload")
        listed = await asyncio.to_thread(project.json, "plugins", "list", "--json")
        return done, next(one["settings"]["volume"] for one in listed["plugins"] if one["name"] == "shouty")

    async with project.served(server=True):
        assert (await reloaded("volume = 3"))[1] == 3
        bad, volume = await reloaded("volum = 4")
        assert (bad.returncode, volume) == (1, 3)
        assert "there is no setting 'volum'; did you mean 'volume'?; the previous settings stay" in bad.stdout
        good, volume = await reloaded("volume = 2")
        assert (good.returncode, volume) == (0, 2)


def test_a_misspelled_plugin_or_setting_is_named_where_it_is_set_and_a_default_explained(project: Project) -> None:
    users = Path(os.environ["TOOLSTEAD_HOME"])
    (users / "plugins").mkdir(parents=True)
    (users / "plugins" / "shouty.py").write_text(SHOUTY)
    name = project.command("config", "set", "plugins.shoty.volume", "3")
    assert (name.returncode, "no plugin here is called 'shoty'; did you mean 'shouty'?" in name.stderr) == (0, True)
    key = project.command("config", "set", "plugins.shouty.volum", "3")
    assert (key.returncode, "there is no setting 'volum'; did you mean 'volume'?" in key.stderr) == (2, True)
    once = project.command("--set", "plugins.shoty.volume=3", "tools", "list")
    assert (once.returncode, "--set plugins.shoty.volume: no plugin here is called" in once.stderr) == (0, True)
    assert (
        project.command("config", "explain", "plugins.shouty.volume").stdout == "plugins.shouty.volume = 1  (default)\n"
    )
