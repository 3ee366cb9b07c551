"""The real Claude Code with Toolstead added as an MCP server, as a person adds it, against a scripted Messages API."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import machine
from tests.agent_folder import write_agent
from tests.e2e.claude_stage import CLAUDE, PREFIX
from tests.programs.running import TOOLSTEAD, running
from tests.waiting import PATIENCE
from toolstead.testing import scripted_models

pytestmark = [pytest.mark.requires("claude"), pytest.mark.promise("B6")]

SETTINGS = """
multi_agent.agents = ["helper"]
runtime.default = "scripted"
runtime.scripted.script = "{script}"
"""
MODEL = f"""
- when: ^ask the helper
  call: [{{tool: {PREFIX}delegate_agent, input: {{agent_id: helper, prompt: look}}}}]
- say: "It said: {{{{result}}}}"
"""


async def run_claude(environ: Mapping[str, str], folder: Path, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(machine.claude()),
        *arguments,
        cwd=folder,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, (out + err).decode()
    return out.decode()


@asynccontextmanager
async def target_of(door: str, folder: Path) -> AsyncIterator[tuple[list[str], Path]]:
    """What `claude mcp add` is told, and where the server logs."""
    errors = folder / "stderr.txt"
    if door == "stdio":
        # Claude Code keeps what a server says on stderr to itself.
        told = ["sh", "-c", f'exec "$@" 2>"{errors}"', "sh", *TOOLSTEAD, "-v", "mcp", "--project", str(folder)]
        yield ["--", *told], errors
        return
    async with running([*TOOLSTEAD, "-v", "serve", "--port", "0"], errors=errors, cwd=folder) as program:
        said = await program.stderr_with("MCP      http")
        yield ["--transport", "http", said.partition("MCP   ")[2].split()[0]], errors


@pytest.mark.parametrize("door", ["stdio", "http"])
async def test_claude_code_is_shown_a_tool_that_it_would_drop_and_delegates_with_it(
    door: str, tmp_path: Path, home: Path
) -> None:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    script = tmp_path / "helper.yaml"
    script.write_text('- say: "Did: {{prompt}}"\n')
    write_agent("helper", "agents: []")
    (home / ".config" / "toolstead" / "config.toml").write_text(SETTINGS.format(script=script))
    async with scripted_models(MODEL) as api, target_of(door, folder) as (target, log):
        environ = {
            **{name: value for name, value in os.environ.items() if name.startswith("TOOLSTEAD") or name == "PATH"},
            **api.environ(),
            "HOME": str(tmp_path),
            "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # All tools are in the first request: servers are waited for, and no tool is left to be searched for.
            "MCP_CONNECTION_NONBLOCKING": "0",
            "ENABLE_TOOL_SEARCH": "false",
        }
        options, command = (target[:2], target[2:]) if door == "http" else ([], target)
        await run_claude(environ, folder, "mcp", "add", "--scope", "user", *options, "toolstead", *command)
        said = await run_claude(environ, folder, "-p", "ask the helper", "--allowedTools", f"{PREFIX}delegate_agent")
        offered: dict[str, Any] = CLAUDE.view.offered(api.requests[0])
    assert "Did: look" in said
    schema = offered["delegate_agent"]
    assert not {"anyOf", "oneOf", "allOf"} & set(schema), schema
    assert {"agent_id", "prompt", "batch"} <= set(schema["properties"])
    assert "the schema of 'delegate_agent' goes to claude-code adapted" in log.read_text()
