"""docs/plugins.md: its files are taken out as they stand, built, installed with pip into a fresh environment, and used.

`toolstead serve` is one process, `toolstead mcp` another; both run in that environment, and are changed while they run.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.docs.fresh_environment import Environment
from tests.programs.clients import Ear, Era, connected, names_of, names_with, text_of
from tests.programs.running import Program, is_alive, running
from tests.surfaces.rest_server import Client, Reply
from tests.waiting import PATIENCE, until

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text("utf-8")
FILE = re.compile(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = dict(FILE.findall(PAGE))
WHEEL = "dist/shouty-1.0.0-py3-none-any.whl"
TOGETHER = 50

# Holds calls until fifty are under way, so that they really are at the same time.
BARRIER = f"""
import asyncio
from toolstead import Hooks, Plugin

async def register(ctx):
    arrived, everybody = set(), asyncio.Event()

    async def on_before_tool(call):
        if call.name == "shouty__diary" and call.caller.run_id:
            arrived.add(call.caller.run_id)
            if len(arrived) >= {TOGETHER}:
                everybody.set()
            await everybody.wait()

    return Hooks(on_before_tool=on_before_tool, timeout={PATIENCE})

plugin = Plugin(name="barrier", version="1", register=register)
"""
SCRIPT = """
- when: diary
  call: [{tool: shouty__diary, input: {}}]
- say: "{{result}}"
- when: hint
  say: "I was told: {{prompt}}"
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment") / "fresh")


@pytest.fixture(scope="module")
def package(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page's files, with the wheel that was built of them."""
    folder = tmp_path_factory.mktemp("shouty")
    for name in ("shouty.py", "test_shouty.py", "pyproject.toml"):
        (folder / name).write_text(FILES[name], "utf-8")
    environment.run(["python", "-m", "build", "--wheel"], folder)
    assert [file.name for file in (folder / "dist").iterdir()] == [Path(WHEEL).name]
    return folder


@pytest.fixture
def installed(environment: Environment, package: Path) -> Iterator[Environment]:
    environment.run(["pip", "install", WHEEL], package)
    yield environment
    if environment.has("shouty"):
        environment.run(["pip", "uninstall", "shouty"], package)


@pytest.fixture
def user(home: Path) -> Path:
    folder = home / ".config" / "toolstead"
    (folder / "plugins").mkdir(parents=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".toolstead").mkdir(parents=True)
    return folder


def transcript(heading: str) -> Iterator[tuple[list[str], str]]:
    """Each command of a section, and all that it prints."""
    section = PAGE[PAGE.index(f"## {heading}\n") :].partition("\n## ")[0]
    for block in re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, _, printed = part.partition("\n")
            yield shlex.split(command, comments=True), printed.rstrip("\n") + "\n" if printed.strip() else ""


def test_the_first_plugin_of_the_page_is_listed_and_called(environment: Environment, user: Path, project: Path) -> None:
    (user / "plugins" / "shouty.py").write_text(FILES["~/.config/toolstead/plugins/shouty.py"], "utf-8")
    said = list(transcript("A plugin in a minute"))
    assert len(said) == 2
    for command, printed in said:
        assert environment.run(command, project) == printed


@pytest.mark.promise("P1")
def test_the_page_is_done_from_the_wheel_to_the_settings_as_it_stands(
    environment: Environment, package: Path, user: Path, project: Path, home: Path
) -> None:
    (user / "plugins" / "shouty.py").write_text(FILES["~/.config/toolstead/plugins/shouty.py"], "utf-8")
    for command, printed in [*transcript("As a package"), *transcript("Settings and switches")]:
        words = [word.replace("~", str(home)) for word in command]
        if words[:2] == ["pip", "install"]:
            words[-1] = str(package / words[-1])
        seen = environment.run(words, package if "build" in words else project)
        if printed:
            assert seen == printed, command
    assert not environment.has("shouty")


def test_the_page_tests_pass(environment: Environment, package: Path) -> None:
    seen = environment.run(["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shouty.py"], package)
    assert "6 passed" in seen


@dataclass
class Stead:
    """Both processes, and the clients that are connected to each."""

    server: Program
    rest: Client
    private: str
    client: McpClient
    ear: Ear
    stdio_pid: int
    stdio_log: Path

    async def set(self, **change: Any) -> Reply:
        headers = {"Authorization": f"Bearer {self.private}"}
        return await self.rest.ask("PATCH", "/api/plugins/shouty", change, headers)

    async def plugin(self, name: str) -> Any:
        listed = (await self.rest.get("/api/plugins")).json["plugins"]
        return next((one for one in listed if one["name"] == name), None)

    async def call(self, tool: str, input: Any, thread: str = "default") -> str:
        reply = await self.rest.call(tool, input, threadId=thread)
        assert reply.status == 200, reply.body
        return reply.json["content"][0]["text"]

    async def run(self, prompt: str, thread: str) -> str:
        """Ask the agent over REST, and wait for its answer."""
        started = await self.rest.ask("POST", "/api/runs", {"prompt": prompt, "threadId": thread})
        assert started.status == 202, started.body
        async with asyncio.timeout(PATIENCE * 2):
            while True:
                run = (await self.rest.get(f"/api/runs/{started.json['runId']}")).json
                if run["status"] not in ("queued", "running"):
                    assert run["status"] == "completed", run
                    return run["result"]
                await asyncio.sleep(0.05)

    async def both_log(self, line: str) -> None:
        """Wait until the plugin has said this in either process."""
        wanted = f"toolstead.plugin.shouty: {line}\n"
        await self.server.stderr_with(wanted)
        await until(lambda: wanted in self.stdio_log.read_text("utf-8"))

    async def diary(self, thread: str) -> list[str]:
        return (await self.call("shouty__diary", {"last": 100}, thread)).splitlines()[1:]

    async def whole_diary(self, thread: str) -> list[str]:
        """The diary, once its run's end is in it: a run is over for its readers before the plugins are told.

        Looking is a call too, and the diary has a line for each; they are left out.
        """
        while True:
            lines = await self.diary(thread)
            if "the run completed" in lines:
                first = lines.index(LOOKED)
                return [line for place, line in enumerate(lines) if line != LOOKED or place == first]


LOOKED = "shouty__diary answered"


@asynccontextmanager
async def opened(installed: Environment, project: Path, user: Path, era: Era = "handshake") -> AsyncIterator[Stead]:
    script = project.parent / "script.yaml"
    script.write_text(SCRIPT, "utf-8")
    (user / "config.toml").write_text(
        f'[runtime]\ndefault = "scripted"\n[runtime.scripted]\nscript = "{script}"\n[sessions]\nmax_live = 64\n'
        "[plugins.shouty]\nvolume = 2\ntidy_every = 0.1\n",
        "utf-8",
    )
    async with running(
        [*installed.toolstead, "-v", "serve", "--port", "0"], errors=project.parent / "serve.txt", cwd=project
    ) as server:
        await server.stderr_with("/docs")
        ((entry,),) = json.loads((user / "data" / "server.json").read_text("utf-8")).values()
        pids = project.parent / "mcp.pid"
        program = ["-c", 'echo $$ > "$0"; exec "$@"', str(pids), *installed.toolstead, "-v", "mcp"]
        second = StdioServerParameters(command="/bin/sh", args=program, cwd=project, env=dict(os.environ))
        ear = Ear()
        log = project.parent / "mcp.txt"
        with log.open("w") as errors:
            started = stdio_client(second, errlog=errors)
            async with connected(started, era, message_handler=ear.message) as client, ear.open(client, era):
                rest = Client(entry["url"])
                yield Stead(server, rest, entry["token"], client, ear, int(pids.read_text()), log)
                rest.leave()


@pytest.mark.promise("P1", "P3", "P4")
async def test_fifty_threads_at_once_each_get_their_own_thread_and_the_hooks_in_order(
    installed: Environment, user: Path, project: Path
) -> None:
    (user / "plugins" / "barrier.py").write_text(BARRIER, "utf-8")
    async with opened(installed, project, user) as stead:
        print(f"toolstead serve: {stead.server.pid}, toolstead mcp: {stead.stdio_pid}")
        assert stead.server.pid != stead.stdio_pid
        threads = [f"thread-{number}" for number in range(TOGETHER)]
        answers = await asyncio.gather(*(stead.run(f"read the diary, {thread}", thread) for thread in threads))
        for thread, answer in zip(threads, answers, strict=True):
            assert answer == (f"The diary of {thread}:\nuser: read the diary, {thread}\na cold session is asked"), (
                "what the tool saw while fifty of it ran: its own thread, and that one's diary alone"
            )
            assert await stead.whole_diary(thread) == [
                f"user: read the diary, {thread}",
                "a cold session is asked",
                LOOKED,
                *[f"assistant: {answer}".splitlines()[0], *answer.splitlines()[1:]],
                "the run completed",
            ]


@pytest.mark.promise("P3", "P8")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_change_in_one_process_holds_in_both_while_their_clients_are_connected(
    era: Era, installed: Environment, user: Path, project: Path
) -> None:
    names = {"shouty__shout", "shouty__diary"}
    async with opened(installed, project, user, era) as stead:
        print(f"toolstead serve: {stead.server.pid}, toolstead mcp: {stead.stdio_pid}")
        near = Ear()
        async with (
            connected(f"{stead.rest.url}/mcp", era, message_handler=near.message) as served,
            near.open(served, era),
        ):
            await stead.both_log("ready; the volume is 2")
            assert names <= set(await names_of(stead.client))
            assert names <= set(await names_of(served))
            assert text_of(await stead.client.call_tool("shouty__shout", {"text": "a"})) == "A!!"
            assert await stead.call("shouty__shout", {"text": "a"}) == "A!!"

            assert (await stead.set(settings={"volume": 4, "hint": "Be loud."})).status == 200
            assert await stead.call("shouty__shout", {"text": "a"}) == "A!!!!"
            assert (await stead.run("which hint?", "hinted")).endswith("Be loud.")
            await stead.both_log("the volume is 4 now")
            assert text_of(await stead.client.call_tool("shouty__shout", {"text": "a"})) == "A!!!!"
            assert len(await stead.diary("hinted")) > 3
            assert (await stead.set(settings={"longest_diary": 1})).status == 200
            async with asyncio.timeout(PATIENCE):
                while len(await stead.diary("hinted")) > 2:  # the work in the background; reading adds a line
                    await asyncio.sleep(0.1)
            refused = await stead.set(settings={"volume": "loud"})
            assert (refused.status, "volume" in refused.problem["detail"]) == (422, True)
            unknown = await stead.set(settings={"volum": 1})
            assert "did you mean 'volume'?" in unknown.problem["detail"]
            assert await stead.call("shouty__shout", {"text": "a"}) == "A!!!!"
            without = await stead.rest.ask("PATCH", "/api/plugins/shouty", {"enabled": False})
            assert without.status in (401, 403)

            assert (await stead.set(enabled=False)).json["state"] == "disabled"
            await names_with(served, near, lambda found: not names & set(found))
            await names_with(stead.client, stead.ear, lambda found: not names & set(found))
            assert (await stead.rest.call("shouty__shout", {"text": "a"})).status == 404
            assert "time__current_time" in await names_of(stead.client)

            await stead.both_log("quiet now")
            assert (await stead.set(enabled=True)).json["state"] == "running"
            await names_with(served, near, lambda found: names <= set(found))
            await names_with(stead.client, stead.ear, lambda found: names <= set(found))
            assert text_of(await stead.client.call_tool("shouty__shout", {"text": "a"})) == "A!!!!"
            assert text_of(await served.call_tool("shouty__shout", {"text": "a"})) == "A!!!!"
        assert is_alive(stead.server.pid)
        assert is_alive(stead.stdio_pid)


@pytest.mark.promise("P9")
async def test_a_plugin_that_is_uninstalled_is_missed_by_nobody(
    installed: Environment, package: Path, user: Path, project: Path
) -> None:
    (user / "plugins" / "barrier.py").write_text(BARRIER, "utf-8")
    async with opened(installed, project, user) as stead:
        first = stead.server.pid
        assert (await stead.set(settings={"volume": 9})).status == 200
        await asyncio.to_thread(installed.run, ["pip", "uninstall", "shouty"], package)
        assert not installed.has("shouty")
        assert await stead.call("shouty__shout", {"text": "a"}) == "A!!!!!!!!!"  # what runs, runs on
        reloaded = await stead.rest.ask("POST", "/api/tools/reload")
        assert (reloaded.json["success"], sorted(reloaded.json["removed"])) == (
            True,
            ["shouty__diary", "shouty__shout"],
        )
        assert await stead.plugin("shouty") is None
        assert (await stead.plugin("barrier"))["state"] == "running"
        assert "UTC" in await stead.call("time__current_time", {"timezone": "UTC"})
    async with opened(installed, project, user) as stead:
        print(f"toolstead serve: {first}, after pip uninstall: {stead.server.pid}; toolstead mcp: {stead.stdio_pid}")
        listed = (await stead.rest.get("/api/plugins")).json["plugins"]
        assert {one["name"]: one["state"] for one in listed} == {
            "agents": "running",
            "delegation": "running",
            "context": "running",
            "plan": "running",
            "time": "running",
            "validation": "disabled",
            "vfs": "running",
            "web": "running",
            "barrier": "running",
        }
        assert (await stead.rest.get("/api/tools")).json["quarantined"] == []
        assert "I was told: " in await stead.run("which hint?", "after")
        assert not {"shouty__shout", "shouty__diary"} & set(await names_of(stead.client))
        assert text_of(await stead.client.call_tool("time__current_time", {"timezone": "UTC"}))

        await asyncio.to_thread(installed.run, ["pip", "install", WHEEL], package)  # into a server that runs
        reloaded = await stead.rest.ask("POST", "/api/tools/reload")
        assert sorted(reloaded.json["added"]) == ["shouty__diary", "shouty__shout"]
        assert await stead.call("shouty__shout", {"text": "a"}) == "A!!!!!!!!!"  # what was set had waited
