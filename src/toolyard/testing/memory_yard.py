"""A yard that touches nothing of the user's: empty home, empty project, gone in the end."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolyard.app.yard import Toolyard
from toolyard.plugins.contract import Plugin, Tool
from toolyard.tools.gates import Gate

if TYPE_CHECKING:
    from toolyard.adapters.mcp.in_process import Era, McpClient


@asynccontextmanager
async def memory_yard(
    *tools: Tool,
    project: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    gates: Sequence[Gate] = (),
    plugins: Sequence[Plugin] = (),
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[Toolyard]:
    """An open yard with the built-in tools and yours.

    Args:
        tools: Registered when it opens.
        project: A folder to work in; an empty one unless said.
        settings: As nested mappings, such as `{"tools": {"timeout": 1}}`.
        gates: Asked before every call.
        plugins: Loaded besides those that come with us; what is installed on this machine is not.
        environ: The environment to read, besides `PATH`; empty unless said.
    """
    with tempfile.TemporaryDirectory(prefix="toolyard-test-") as folder:
        home = Path(folder, "home")
        place = Path(project) if project is not None else Path(folder, "project")
        for made in (home, place):
            made.mkdir(exist_ok=True)
        surroundings = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), **(environ or {})}
        surroundings["TOOLYARD_HOME"] = str(home)
        async with Toolyard(
            place, settings=settings, gates=gates, plugins=plugins, installed_plugins=False, environ=surroundings
        ) as yard:
            if tools:
                yard.registry.register(*tools)
            yield yard


def connect(yard: Toolyard, *, era: Era = "handshake") -> AbstractAsyncContextManager[McpClient]:
    """Make a real MCP client of the yard; open it with `async with`."""
    from toolyard.adapters.mcp.in_process import in_process_client

    return in_process_client(yard.registry.to_mcp_server_config()["instance"], era)
