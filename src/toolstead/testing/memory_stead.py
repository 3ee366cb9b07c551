"""A stead that touches nothing of the user's: empty home, empty project, gone in the end."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolstead.app.stead import Toolstead
from toolstead.plugins.contract import Plugin, Tool
from toolstead.tools.gates import Gate

if TYPE_CHECKING:
    from toolstead.adapters.mcp.in_process import McpClient, McpProtocol


@asynccontextmanager
async def memory_stead(
    *tools: Tool,
    project: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    gates: Sequence[Gate] = (),
    plugins: Sequence[Plugin] = (),
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[Toolstead]:
    """An open stead with the built-in tools and yours.

    Args:
        tools: Registered when it opens.
        project: A folder to work in; an empty one unless given.
        settings: As nested mappings, such as `{"tools": {"timeout": 1}}`.
        gates: Asked before every call.
        plugins: Loaded besides those that come with us; what is installed on this machine is not.
        environ: The environment to read, besides `PATH`; empty unless given.
    """
    with tempfile.TemporaryDirectory(prefix="toolstead-test-") as folder:
        home = Path(folder, "home")
        place = Path(project) if project is not None else Path(folder, "project")
        for made in (home, place):
            made.mkdir(exist_ok=True)
        usual = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
        async with Toolstead(
            place,
            settings=settings,
            gates=gates,
            plugins=plugins,
            installed_plugins=False,
            environ={**usual, **(environ or {}), "TOOLSTEAD_HOME": str(home)},
        ) as stead:
            if tools:
                stead.registry.register(*tools)
            yield stead


def connect(
    stead: Toolstead,
    *,
    protocol: McpProtocol = "handshake",
    elicitation_callback: Any = None,
    sampling_callback: Any = None,
    logging_callback: Any = None,
) -> AbstractAsyncContextManager[McpClient]:
    """Make a real MCP client of the stead; open it with `async with`.

    Args:
        stead: An open stead.
        protocol: `handshake` (JSON-RPC over memory streams), or `modern` (stateless).
        elicitation_callback: What the person answers to `meta.client.elicit`: `async (context, params)`, which gives
            an `mcp.types.ElicitResult`.
        sampling_callback: What the client's model answers to `meta.client.sample`: an `mcp.types.CreateMessageResult`.
        logging_callback: Takes what `meta.client.log` sends: `async (params)`.

    Raises:
        ValueError: There is no such protocol.
    """
    from toolstead.adapters.mcp.in_process import in_process_client

    server = stead.registry.to_mcp_server_config()["instance"]
    return in_process_client(
        server,
        protocol,
        elicitation_callback=elicitation_callback,
        sampling_callback=sampling_callback,
        logging_callback=logging_callback,
    )
