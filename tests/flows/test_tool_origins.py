"""What a program includes in its stead and leaves out, and what MCP clients see of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolstead import Plugin, Toolstead, tool
from toolstead.app.places import find_places
from toolstead.app.trust.approved import ProjectTrust, approve_changes
from toolstead.errors import ServeError, SettingsError
from toolstead.testing import connect, memory_stead

AGENT = "---\nname: {name}\ndescription: An agent.\n---\nBe short.\n"
PLUGIN = """
from toolstead import Plugin, tool


@tool
def say() -> str:
    '''Say something.'''
    return "said"


plugin = Plugin(name="{name}", tools=[say])
"""


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    """An approved project; it and the user's folder have a tool, a plugin, an agent and a prompt each."""
    for folder, name in ((home / ".config" / "toolstead", "users"), (tmp_path / ".toolstead", "projects")):
        handler = {"type": "shell", "command": "true"}
        one = {"name": f"{name}-tool", "description": "A tool.", "inputSchema": {}, "handler": handler}
        write(folder / "tools" / f"{name}.json", json.dumps({"name": name, "tools": [one]}))
        write(folder / "plugins" / f"{name}.py", PLUGIN.replace("{name}", name))
        write(folder / "agents" / f"{name}.md", AGENT.replace("{name}", name))
        write(folder / "prompts" / f"{name}.md", "---\ndescription: A prompt.\n---\nSay it.\n")
    write(home / ".config" / "toolstead" / "config.toml", '[mcp]\ntitle = "Mine"\ninstructions = "Of the user."\n')
    assert approve_changes(ProjectTrust(find_places(explicit=tmp_path)))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {"users", "projects", "git-status", "plan"}),
        ({"builtin": False}, {"users", "projects"}),
        ({"user_tools": False}, {"projects", "git-status", "plan"}),
        ({"project_tools": False}, {"users", "git-status", "plan"}),
        ({"builtin": False, "user_tools": False, "project_tools": False}, set[str]()),
    ],
)
async def test_a_program_says_whose_tools_its_stead_offers(
    given: dict[str, Any], kept: set[str], project: Path
) -> None:
    own = Plugin(name="own", tools=[shout])
    async with Toolstead(project, plugins=[own], installed_plugins=False, **given) as stead:
        stead.registry.register(shout)
        tools = {info.name for info in stead.registry.list_tools()}
        agents = set((await stead.agents()).catalogue.agents)
        async with connect(stead) as client:
            prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
    assert {"shout", "own__shout"} <= tools
    for name in ("users", "projects"):
        there = name in kept
        assert (f"{name}-tool" in tools, f"{name}__say" in tools, name in agents, name in prompts) == (there,) * 4
    assert ("git-status" in tools, "update_plan" in tools) == ("git-status" in kept, "plan" in kept)
    if not kept:
        assert tools == {"shout", "own__shout"}


async def test_a_folder_of_tools_that_is_named_is_offered_and_one_of_the_environment_is_the_users(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = project / ".toolstead" / "tools"
    monkeypatch.setenv("TOOLSTEAD_TOOLS_DIR", str(named))
    async with Toolstead(tmp_path, builtin=False, user_tools=False, project_tools=False) as stead:
        assert not stead.registry.has_tool("projects-tool")
    async with Toolstead(tmp_path, tools_dir=named, builtin=False, user_tools=False, project_tools=False) as stead:
        assert stead.registry.has_tool("projects-tool")


@pytest.mark.parametrize("protocol", ["handshake", "modern"])
@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, ("toolstead", "Mine", "Of the user.")),
        ({"name": "weather"}, ("weather", None, None)),
        ({"name": "weather", "instructions": "Ask for a city."}, ("weather", None, "Ask for a city.")),
        ({"instructions": "Ask for a city."}, ("toolstead", "Mine", "Ask for a city.")),
        ({"name": "weather", "settings": {"mcp": {"title": "The weather"}}}, ("weather", "The weather", None)),
    ],
)
async def test_mcp_clients_see_the_name_and_the_instructions_that_a_program_gives(
    given: dict[str, Any], seen: tuple[str | None, ...], protocol: Any, project: Path
) -> None:
    async with Toolstead(project, **given) as stead, connect(stead, protocol=protocol) as client:
        assert (client.server_info.name, client.server_info.title, client.instructions) == seen


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "hid\u200bden"])
def test_a_name_that_no_client_could_show_is_refused(name: str, home: Path) -> None:
    with pytest.raises(SettingsError, match="name"):
        Toolstead(name=name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": 5}, "Toolstead(name=…): name: text is needed, not 5"),
        ({"gates": [3]}, "Toolstead(gates=…): gates: a gate is an `async def` that takes the call, not an int"),
        ({"plugins": [1]}, "Toolstead(plugins=…): plugins: number 1 is an int; build Plugin(name=…, …)"),
        ({"builtin": "no"}, "Toolstead(builtin=…): builtin: True or False is needed, not 'no'"),
    ],
)
def test_an_argument_of_a_wrong_kind_is_refused_in_a_sentence(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Toolstead(**arguments)
    assert str(refused.value) == said


async def test_a_port_that_is_no_number_is_refused_in_a_sentence() -> None:
    port: Any = "x"
    async with memory_stead() as stead:
        with pytest.raises(ServeError, match="a whole number from 0 to 65535 is needed, not 'x'"):
            await stead.serve_http(port=port)
