"""`toolstead connect` with the real programs: what it wrote is what they start, and their model calls the tools."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests import machine
from tests.e2e.captured import results_of
from tests.programs.running import TOOLSTEAD
from tests.waiting import PATIENCE
from toolstead.adapters.codex.program import write_models
from toolstead.testing import scripted_models

pytestmark = pytest.mark.promise("B11")

TOOL = ["tools", "new", "todos", "--shell", "grep -rn -- TODO {{folder}} || true", "--description", "List open TODOs."]
MODEL = """
- when: TODO
  call: [{tool: %s, input: {}}]
- say: "It says: {{result}}"
"""
FOUND = "./notes.txt:1:TODO: water the plants"


async def run(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, (out + err).decode()
    return out.decode()


@pytest.fixture
async def garden(home: Path) -> Path:
    """A project with something to find, and a tool of the user's that finds it."""
    folder = home / "garden"
    (folder / ".git").mkdir(parents=True)
    (folder / "notes.txt").write_text("TODO: water the plants\n", "utf-8")
    await run([*TOOLSTEAD, *TOOL], folder, environment(home))
    file = home / ".config" / "toolstead" / "tools" / "todos.json"
    written = json.loads(file.read_text("utf-8"))
    written["tools"][0]["handler"]["env"] = {"TICKET_TOKEN": "${TICKET_TOKEN}"}  # it works only where that arrives
    file.write_text(json.dumps(written), "utf-8")
    return folder


def environment(home: Path) -> dict[str, str]:
    """What a shell in an empty home has: nothing of it says where our files are."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}
    return {**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1,localhost", "TICKET_TOKEN": "of-the-tests"}


@pytest.mark.requires("claude")
async def test_claude_code_has_the_tools_in_its_first_request_and_calls_one(garden: Path, home: Path) -> None:
    claude = str(machine.claude())
    async with scripted_models(MODEL % "mcp__toolstead__todos") as api:
        environ = {**environment(home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        await run([claude, "mcp", "add", "--scope", "user", "other", "--", "/bin/other"], garden, environ)
        before = json.loads((home / ".claude.json").read_text("utf-8"))

        await run([*TOOLSTEAD, "connect", "claude-code", "--env", "TICKET_TOKEN"], garden, environ)

        listed = await run([claude, "mcp", "list"], garden, environ)
        assert any(line.startswith("toolstead: ") and line.endswith("Connected") for line in listed.splitlines()), (
            listed
        )
        ask = [claude, "-p", "Which TODOs are open?", "--allowedTools", "mcp__toolstead__todos"]
        said = await run(ask, garden, {**environ, **api.environ()})
        assert f"It says: {FOUND}" in said
        assert "mcp__toolstead__todos" in json.dumps(api.requests[0].body)
        assert [text.strip() for text in results_of(api.requests[-1])] == [FOUND]
        without = {name: value for name, value in environ.items() if name != "TICKET_TOKEN"}
        refused = await run(ask, garden, {**without, **api.environ()})
        assert "TICKET_TOKEN is not set where Toolstead runs" in refused

        # What a person adds in this project alone counts before ours.
        await run([claude, "mcp", "add", "toolstead", "--", "/bin/true"], garden, environ)
        noticed = await run([*TOOLSTEAD, "connect", "claude-code"], garden, environ)
        assert "in ~/garden another 'toolstead' counts instead: /bin/true" in noticed
        await run([claude, "mcp", "remove", "toolstead", "--scope", "local"], garden, environ)

    await run([*TOOLSTEAD, "connect", "claude-code", "--remove"], garden, environ)
    assert json.loads((home / ".claude.json").read_text("utf-8"))["mcpServers"] == before["mcpServers"]
    assert "toolstead" not in await run([claude, "mcp", "list"], garden, environ)


@pytest.mark.requires("codex")
async def test_codex_waits_for_the_tools_and_calls_one_without_asking(garden: Path, home: Path) -> None:
    codex, folder = str(machine.codex()), home / ".codex"
    folder.mkdir()
    async with scripted_models(MODEL % "todos") as api:
        environ = {**environment(home), **api.environ()}
        catalogue = await asyncio.to_thread(write_models, Path(codex), folder, environ)
        provider = {"name": "lab", "base_url": f"{api.url}/v1", "wire_api": "responses", "env_key": "OPENAI_API_KEY"}
        features = dict.fromkeys(("plugins", "apps", "remote_plugin", "skill_mcp_dependency_install"), "false")
        mine = [
            f"model_catalog_json = {json.dumps(str(catalogue))}",
            'model = "gpt-6.1-sol" # mine',
            'model_provider = "lab"',
            "[model_providers.lab]",
            *(f"{name} = {json.dumps(value)}" for name, value in provider.items()),
            "supports_websockets = false",
            "[features]",
            *(f"{name} = {value}" for name, value in features.items()),
        ]
        config = folder / "config.toml"
        config.write_text("\n".join(mine), "utf-8")

        await run([*TOOLSTEAD, "connect", "codex", "--without-asking", "--env", "TICKET_TOKEN"], garden, environ)

        listed = json.loads(await run([codex, "mcp", "list", "--json"], garden, environ))
        assert [(server["name"], server["enabled"]) for server in listed] == [("toolstead", True)]
        said = await run([codex, "exec", "--skip-git-repo-check", "Which TODOs are open?"], garden, environ)
        assert FOUND in said
        assert FOUND in results_of(api.requests[-1])[-1]

    await run([*TOOLSTEAD, "connect", "codex", "--remove"], garden, environ)
    assert config.read_text("utf-8").startswith("\n".join(mine))
    assert "mcp_servers" not in config.read_text("utf-8")
