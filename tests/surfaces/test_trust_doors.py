"""Trust through every door at once: a server, a client on stdio and one on HTTP that were there before."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.flows.hostile_project import TOOLS, HostileProject, hostile_project
from tests.flows.http_internet import reply, serving
from tests.flows.tool_files import ask
from tests.programs.clients import Ear, connected, in_a_task, names_of, names_with, text_of
from tests.programs.running import TOOLSTEAD, running
from tests.waiting import PATIENCE, until
from toolstead.app.server_file import ServerFile

pytestmark = pytest.mark.promise("R8")


@asynccontextmanager
async def serving_project(project: HostileProject, *options: str) -> AsyncIterator[str]:
    """`toolstead serve` in a process of its own."""
    command = [*TOOLSTEAD, "serve", "--port", "0", *options]
    async with running(command, errors=project.traces.with_name("serve.txt"), cwd=project.folder):
        data = Path(os.environ["TOOLSTEAD_HOME"], "data")
        yield (await until(lambda: ServerFile(data).find_server(project.folder))).url


class Doors:
    """A client on stdio, a client on HTTP, and REST."""

    def __init__(self, address: str, stdio: tuple[Client, Ear], http: tuple[Client, Ear]) -> None:
        self.address = address
        self.clients = (stdio, http)

    async def hear(self, *, named: bool) -> None:
        """Wait until both clients were told, and find the project's tools, or none of them; so does REST."""
        for client, ear in self.clients:
            await names_with(
                client, ear, lambda names: set(TOOLS) <= set(names) if named else set(TOOLS).isdisjoint(names)
            )
        assert set(TOOLS).isdisjoint(await self.rest_names()) is not named

    async def names(self) -> set[str]:
        found = [name for client, _ in self.clients for name in await names_of(client)]
        return {*found, *await self.rest_names()}

    async def rest_names(self) -> set[str]:
        return {tool["name"] for tool in (await ask("GET", f"{self.address}/api/tools"))["tools"]}

    async def quarantined(self) -> list[dict[str, Any]]:
        return (await ask("GET", f"{self.address}/api/tools"))["quarantined"]

    async def answers(self, name: str) -> set[str]:
        """What every door says."""
        rest = await ask("POST", f"{self.address}/api/tools/{name}/call", {"input": {}})
        texts = [text_of(await client.call_tool(name, {})) for client, _ in self.clients]
        return {text.strip() for text in (*texts, rest["content"][0]["text"])}

    async def is_unknown(self, name: str) -> bool:
        async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.post(f"{self.address}/api/tools/{name}/call", json={"input": {}})
        for client, _ in self.clients:
            with pytest.raises(Exception, match="evil"):
                await client.call_tool(name, {})
        return answer.status_code == 404


@asynccontextmanager
async def doors(project: HostileProject, *options: str) -> AsyncIterator[Doors]:
    command, *arguments = [*TOOLSTEAD, "mcp"]
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving_project(project, *options))
        errors = stack.enter_context(project.traces.with_name("mcp.txt").open("w"))
        parameters = StdioServerParameters(command=command, args=arguments, cwd=project.folder, env=dict(os.environ))
        opened: list[tuple[Client, Ear]] = []
        for target in (stdio_client(parameters, errlog=errors), f"{address}/mcp"):
            ear = Ear()
            client = connected(target, "handshake", message_handler=ear.message)
            opened.append((await stack.enter_async_context(in_a_task(client)), ear))
        yield Doors(address, opened[0], opened[1])


@pytest.mark.promise("B3", "B4")
async def test_clients_that_were_there_before_hear_of_trust_and_of_its_end(tmp_path: Path) -> None:
    async with serving(reply(body=b"inside")) as inside:
        project = hostile_project(tmp_path, inside.port)
        async with doors(project) as opened:
            assert (await opened.names()).isdisjoint(TOOLS)
            assert "git-status" in await opened.names()
            assert await opened.is_unknown("evil")
            (waits,) = await opened.quarantined()
            assert waits["source"] == str(project.folder)
            assert waits["message"].startswith("this project brings .claude/agents, .toolstead: skipped")
            assert project.left == []

            assert project.toolstead("trust", "--yes").returncode == 0
            await opened.hear(named=True)
            assert await opened.answers("evil") == await opened.answers("evil-program") == {"old"}
            assert await opened.answers("evil-http") == {"inside"}
            assert "git-status" not in await opened.names()
            assert await opened.quarantined() == []

            project.write_tools("new")
            project.write_program("new")
            project.config.write_text("")
            await _waiting(opened, ".toolstead/bin/program, .toolstead/config.toml, .toolstead/tools/evil.json changed")
            assert await opened.answers("evil") == await opened.answers("evil-program") == {"old"}
            assert await opened.answers("evil-http") == {"inside"}
            assert project.toolstead("tools", "call", "evil").stdout == "old\n"
            assert project.left == ["plugin", "program", "tool"]

            assert project.toolstead("trust", "--revoke").returncode == 0
            await opened.hear(named=False)
            assert await opened.is_unknown("evil")
            assert "git-status" in await opened.names()


async def _waiting(opened: Doors, text: str) -> None:
    """Wait until this waits for approval."""
    async with asyncio.timeout(PATIENCE):
        while not any(text in problem["message"] for problem in await opened.quarantined()):
            await asyncio.sleep(0.05)


async def test_a_server_for_authors_trusts_what_they_change_while_it_runs_and_no_longer(tmp_path: Path) -> None:
    project = hostile_project(tmp_path)
    async with (
        serving_project(project, "--dev") as address,
        connected(f"{address}/mcp", "handshake") as client,
    ):
        assert text_of(await client.call_tool("evil", {})).strip() == "old"
        project.write_tools("new")
        async with asyncio.timeout(PATIENCE):  # the list reads as before, so clients are told nothing
            while text_of(await client.call_tool("evil", {})).strip() != "new":
                await asyncio.sleep(0.05)
    project.write_tools("after the end")
    done = project.toolstead("tools", "call", "evil")
    assert (done.stdout, "evil.json changed" in done.stderr) == ("new\n", True)


async def test_odd_names_are_escaped_in_what_rest_answers(tmp_path: Path) -> None:
    project = hostile_project(tmp_path)
    folder = project.folder / ".toolstead/tools"
    (folder / "li\x1b[31m\nnk\u202e.json").symlink_to("/etc/passwd")
    os.close(os.open(os.fsencode(folder) + b"/\xff.json", os.O_CREAT | os.O_WRONLY))
    (folder / "na\u202eme.json").write_text(project.tools.read_text().replace("evil", "odd"))
    (folder / "ba\u202ed.json").write_text("{")
    project.approve()
    async with serving_project(project) as address:
        answer = await ask("GET", f"{address}/api/tools")
    origins = [tool["origin"] for tool in answer["tools"] if tool["name"] == "odd"]
    assert origins == [rf"{folder}/na\u{{202e}}me.json"]
    assert [problem["source"].removeprefix(f"{folder}/") for problem in answer["quarantined"]] == [
        r"li\u{1b}[31m\nnk\u{202e}.json",
        r"\u{dcff}.json",
        r"ba\u{202e}d.json",
    ]
