"""Every `curl` of docs/http.md is sent to a server that was started as the page says, and what it shows comes back."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.programs.running import TOOLSTEAD, running
from tests.surfaces.rest_server import Client, Reply
from tests.waiting import PATIENCE, until
from toolstead.app.layers import load_settings

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
BASE = "http://127.0.0.1:8420"
WITH_VALUE = {"-X", "-H", "-d"}

PLUGIN = '''
from toolstead import Ask, Hooks, Plugin, tool


@tool
async def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


async def careful(call):
    return Ask("it goes to more than ten people") if call.name == "mail__send" else None


async def register(ctx):
    return Hooks(on_before_tool=careful)


plugin = Plugin(name="mail", tools=[send], register=register)
'''


def exchanges() -> Iterator[tuple[str, str]]:
    """Each command of the page that asks the server, and what is shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            if command.startswith("curl "):
                yield command, shown


def command_with(*parts: str) -> tuple[str, str]:
    """The one command that has these in it."""
    (found,) = [one for one in exchanges() if all(part in one[0] for part in parts)]
    return found


def keys(shown: Any) -> Any:
    """What an answer is made of, whatever is in it."""
    if isinstance(shown, dict):
        members = cast("dict[str, Any]", shown)
        return {name: keys(members[name]) for name in sorted(members)}
    return [keys(one) for one in cast("list[Any]", shown)] if isinstance(shown, list) else None


def test_the_settings_on_the_page_are_valid(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    blocks = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        file.write_text(block, encoding="utf-8")
        assert load_settings(environ={}, user_config=file, project_config=None).settings.profiles


class Reader:
    """Somebody who types what the page says, with what their own server told them."""

    def __init__(self, client: Client, token: str) -> None:
        self.client = client
        self.own = {"PRIVATE_TOKEN": token}

    async def type(self, command: str) -> Reply:
        """Do what curl would."""
        words = iter(shlex.split(command)[1:])
        method, headers, body, url = "", dict[str, str](), b"", ""
        for word in words:
            value = next(words) if word in WITH_VALUE else ""
            match word:
                case "-X":
                    method = value
                case "-H":
                    name, _, text = value.partition(": ")
                    headers[name] = text
                case "-d":
                    body = value.encode()
                case "-N":
                    pass
                case _:
                    assert not url, f"two addresses: {command}"
                    url = word
        assert url.startswith(BASE), command
        path = url.removeprefix(BASE)
        for theirs, ours in self.own.items():
            path = path.replace(theirs, ours)
            headers = {name: text.replace(theirs, ours) for name, text in headers.items()}
        return await self.client.ask(method or ("POST" if body else "GET"), path, body or None, headers)


@pytest.fixture
async def reader(home: Path, tmp_path: Path) -> AsyncIterator[Reader]:
    plugins = home / ".config" / "toolstead" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "mail.py").write_text(PLUGIN)
    (script,) = re.findall(r"^```yaml\n(# hello\.yaml\n.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    project = tmp_path / "project"
    project.mkdir()
    (project / "hello.yaml").write_text(script)
    for words in (
        ["init"],
        ["add", "hello.yaml"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "x"],
    ):
        git = await asyncio.create_subprocess_exec("git", "-C", str(project), *words, stdout=asyncio.subprocess.DEVNULL)
        assert await git.wait() == 0
    (project / "notes.md").touch()
    (started,) = re.findall(r"^\$ toolstead (serve .*hello\.yaml)$", PAGE, re.MULTILINE)
    command = [*TOOLSTEAD, *started.replace("8420", "0").split()]

    def announced() -> Any:
        return [
            entry
            for path in home.rglob("server.json")
            for entries in json.loads(path.read_text()).values()
            for entry in entries
        ]

    async with running(command, errors=tmp_path / "stderr.txt", cwd=project) as program:
        (entry,) = await until(announced)
        client = Client(entry["url"])
        yield Reader(client, entry["token"])
        client.leave()
        program.process.terminate()
        assert await program.ended() == 0, program.stderr


async def test_tools_are_listed_and_called(reader: Reader) -> None:
    listed = await reader.type(next(command for command, _ in exchanges() if command.endswith("/api/tools")))
    assert listed.status == 200
    command, shown = command_with("/api/tools/git-status/call")
    reply = await reader.type(command)
    assert reply.status == 200
    assert keys(reply.json) == keys(json.loads(shown))
    assert reply.json["content"] == json.loads(shown)["content"]


async def test_a_conversation_goes_as_it_is_shown(reader: Reader) -> None:
    command, shown = command_with("-X POST", "/api/threads")
    begun = await reader.type(command)
    assert (begun.status, keys(begun.json)) == (201, keys(json.loads(shown)))
    reader.own["thread_1"] = begun.json["id"]
    command, shown = command_with("/messages")
    told = await reader.type(command)
    assert (told.status, keys(told.json)) == (202, keys(json.loads(shown)))
    reader.own["run_1"] = told.json["runId"]
    command, shown = command_with("/events")
    streamed = (await asyncio.wait_for(reader.type(command), PATIENCE)).body.decode()
    event, _, data = shown.splitlines()
    pieces = [piece.splitlines() for piece in streamed.split("\n\n")]
    (first, *_) = [piece for piece in pieces if piece and piece[0] == event and '"role":"user"' in piece[-1]]
    assert [line.partition(":")[0] for line in first] == ["event", "id", "data"]
    assert keys(json.loads(first[2].partition(": ")[2])) == keys(json.loads(data.partition(": ")[2]))
    assert "You said: Hello" in streamed


async def test_a_question_is_found_and_answered(reader: Reader) -> None:
    calling = asyncio.create_task(reader.client.call("mail__send", {"to": "everybody@example.com"}))
    (asked, shown), (answered, _) = (one for one in exchanges() if "/api/approvals" in one[0])

    async with asyncio.timeout(PATIENCE):
        while not (waiting := (await reader.type(asked)).json["approvals"]):
            await asyncio.sleep(0.05)
    assert keys(waiting) == keys(json.loads(shown)["approvals"])
    assert waiting[0]["reason"] == json.loads(shown)["approvals"][0]["reason"]
    reader.own["approval_1"] = waiting[0]["id"]
    assert (await reader.type(answered)).status == 200
    reply = await asyncio.wait_for(calling, PATIENCE)
    assert reply.json["content"][0]["text"] == "sent to ada@example.com"


async def test_open_tasks_are_listed(reader: Reader) -> None:
    command, shown = command_with("/api/tasks")
    reply = await reader.type(command)
    assert (reply.status, reply.json) == (200, json.loads(shown))


def test_no_command_of_the_page_is_left_out() -> None:
    known = ("/api/tools", "/api/tools/git-status/call", "/api/threads", "/messages", "/events", "/api/approvals")
    known += ("/api/tasks",)
    assert [command for command, _ in exchanges() if not any(part in command for part in known)] == []
    assert len(list(exchanges())) == 8
