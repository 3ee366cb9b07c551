"""Serving a stead: MCP on stdio, REST and MCP over HTTP, and the MCP servers that runtimes are given."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from toolstead.adapters.importing import import_module
from toolstead.app.server_file import ServerAddress, ServerFile
from toolstead.app.version import VERSION

if TYPE_CHECKING:
    from toolstead.adapters.mcp.fast_path.calls import FastPath
    from toolstead.adapters.mcp.server import ToolsteadServer
    from toolstead.app.wiring import Wiring

QUIET_SECONDS = 1.0
"""How long after its first answer a server on stdio opens the database: a client asks a few things at once at start."""


def create_server(
    parts: Wiring,
    thread_id: str,
    *,
    agent: str | None = None,
    tells_changes: bool = True,
    client_thread: str | None = None,
) -> ToolsteadServer:
    """A fresh MCP server; never share one between two connections."""
    import_module("toolstead.adapters.mcp.server")
    from toolstead.adapters.mcp.server import create_server

    return create_server(
        registry=parts.registry,
        dispatcher=parts.dispatcher,
        version=VERSION,
        thread_id=thread_id,
        agent=agent,
        tells_changes=tells_changes,
        client_thread=client_thread,
    )


def create_fast_path(parts: Wiring, client_thread: str) -> FastPath:
    """What answers plain MCP messages without the SDK."""
    from toolstead.adapters.mcp.fast_path.calls import FastPath

    return FastPath(registry=parts.registry, dispatcher=parts.dispatcher, version=VERSION, client_thread=client_thread)


async def serve_stdio(parts: Wiring, *, fast_path: bool) -> None:
    """Serve MCP on stdin and stdout; see `Toolstead.serve_stdio`."""
    from toolstead.adapters.mcp.stdio import serve_stdio

    thread = name_client_thread()
    await serve_stdio(
        partial(create_server, parts, "default", client_thread=thread),
        fast_path=create_fast_path(parts, thread) if fast_path else None,
        max_message=parts.loaded.settings.server.max_body,
        on_answer=partial(parts.conversations.open_early, after=QUIET_SECONDS),
    )


async def serve_http(
    parts: Wiring,
    *,
    host: str | None,
    port: int | None,
    on_ready: Callable[[ServerAddress], None],
    stop: asyncio.Event | None,
    fast_path: bool,
) -> None:
    """Serve REST and MCP over HTTP; see `Toolstead.serve_http`."""
    import_module("toolstead.adapters.mcp.http")
    from toolstead.adapters.http.options import ServerOptions
    from toolstead.adapters.http.server import serve
    from toolstead.adapters.mcp.http import McpEndpoint
    from toolstead.adapters.rest.app import create_app
    from toolstead.app.stead_tasks import SteadTasks

    server = parts.loaded.settings.server
    options = ServerOptions(
        host=host if host is not None else server.host,
        port=port if port is not None else server.port,
        token=secrets.token_urlsafe(32) if server.token == "auto" else server.token,
        allowed_hosts=server.allowed_hosts,
        allowed_origins=server.allowed_origins,
        max_body=server.max_body,
    )
    thread = name_client_thread()
    endpoint = McpEndpoint(
        create_server(parts, "default", client_thread=thread),
        max_body=server.max_body,
        session_idle=server.session_idle,
        max_sessions=server.max_sessions,
        fast_path=create_fast_path(parts, thread) if fast_path else None,
    )
    app = create_app(
        registry=parts.registry,
        dispatcher=parts.dispatcher,
        options=options,
        version=VERSION,
        mcp=endpoint.app,
        conversations=parts.open_conversations,
        project=parts.places.project,
        results=parts.kept.read,
        state=parts.describe_state,
        plugins=parts.plugins,
        agents=parts.list_agents,
        approvals=parts.approvals,
        files=parts.open_files,
        tasks=SteadTasks(parts.open_delegation, parts.places.project),
    )
    app.stopping.call_at_begin(endpoint.begin_stop)
    with ExitStack() as announcing:

        def announce(url: str) -> None:
            announcing.enter_context(
                ServerFile(parts.places.data).announce_server(parts.places.project, url, options.private_token)
            )
            parts.conversations.open_early()
            on_ready(ServerAddress(url=url, new_token=options.token if server.token == "auto" else None))

        await serve(app, options, lifespan=endpoint.run_sessions(), on_ready=announce, stop=stop)


def name_client_thread() -> str:
    """The thread in which the MCP clients of this process delegate."""
    return f"mcp_{secrets.token_hex(8)}"
