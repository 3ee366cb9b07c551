"""Serving a stead: MCP on stdio, REST and MCP over HTTP, and the MCP servers that runtimes are given."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from toolstead.adapters.importing import import_module
from toolstead.app.server_file import ServerAddress, ServerFile
from toolstead.app.version import VERSION
from toolstead.errors import ServeError, UnknownProfileError

if TYPE_CHECKING:
    from toolstead.adapters.http.options import ServerOptions
    from toolstead.adapters.mcp.approval_ways import ApprovalWays
    from toolstead.adapters.mcp.fast_path.calls import FastPath
    from toolstead.adapters.mcp.parts_port import OfferedParts
    from toolstead.adapters.mcp.server import ToolsteadServer
    from toolstead.app.wiring import Wiring

logger = logging.getLogger(__name__)

LAST_PORT = 65_535
QUIET_SECONDS = 1.0
"""How long after its first answer a server on stdio opens the database: a client asks a few things at once at start."""
CONSOLE = Path(__file__).parent.parent / "console" / "web" / "dist"
"""Where the console is built, and where the wheel brings it."""
_LOGIN_ONCE = (
    "Open the address with `?token=` that the server showed in its terminal at its start; it is shown nowhere else."
)
_LOGIN = (
    "Open the address with `?token=` that the server showed in its terminal at its start; `toolstead doctor`, typed in "
    "a terminal in the project's folder, shows it again."
)


def create_server(
    parts: Wiring,
    thread_id: str,
    *,
    agent: str | None = None,
    tells_changes: bool = True,
    client_thread: str | None = None,
    ways: ApprovalWays | None = None,
    profile: str | None = None,
) -> ToolsteadServer:
    """A fresh MCP server; never share one between two connections."""
    import_module("toolstead.adapters.mcp.server")
    from toolstead.adapters.mcp.server import create_server

    server = parts.loaded.settings.server
    return create_server(
        registry=parts.registry,
        dispatcher=parts.dispatcher,
        version=VERSION,
        thread_id=thread_id,
        agent=agent,
        tells_changes=tells_changes,
        client_thread=client_thread,
        ask_timeout=server.ask_timeout,
        max_asking=server.max_asking,
        ways=ways,
        parts=find_client_parts(parts, profile) if agent is None else None,
        profile=profile,
    )


def create_fast_path(
    parts: Wiring, client_thread: str, ways: ApprovalWays | None = None, profile: str | None = None
) -> FastPath:
    """What answers plain MCP messages without the SDK."""
    from toolstead.adapters.mcp.fast_path.calls import FastPath

    return FastPath(
        registry=parts.registry,
        dispatcher=parts.dispatcher,
        version=VERSION,
        parts=find_client_parts(parts, profile),
        client_thread=client_thread,
        ways=ways,
        profile=profile,
    )


def find_client_parts(parts: Wiring, profile: str | None) -> OfferedParts:
    """What MCP clients are offered besides tools."""
    if profile is None:
        return parts.client_parts
    from toolstead.app.profile_parts import ProfileParts

    return ProfileParts(parts.client_parts, parts.registry, profile)


def find_ways(parts: Wiring, *, has_page: bool) -> ApprovalWays:
    """How the people at the clients of a server are asked about approvals."""
    from toolstead.adapters.mcp.approval_ways import ApprovalWays

    server = parts.loaded.settings.server
    return ApprovalWays(server.client_approvals, has_page, server.public_url.rstrip("/"))


def check_profile(parts: Wiring, name: str) -> None:
    """Refuse the name of a profile that is not there. Raises UnknownProfileError."""
    if name not in (known := parts.loaded.settings.profiles):
        raise UnknownProfileError(name, list(known))


async def serve_stdio(parts: Wiring, *, fast_path: bool, profile: str | None = None) -> None:
    """Serve MCP on stdin and stdout; see `Toolstead.serve_stdio`."""
    from toolstead.adapters.mcp.stdio import serve_stdio

    if profile is not None:
        check_profile(parts, profile)
    thread, ways = name_client_thread(), find_ways(parts, has_page=False)
    await serve_stdio(
        partial(create_server, parts, "default", client_thread=thread, ways=ways, profile=profile),
        fast_path=create_fast_path(parts, thread, ways, profile) if fast_path else None,
        max_message=parts.loaded.settings.server.max_body,
        on_answer=partial(parts.conversations.open_early, after=QUIET_SECONDS),
    )


async def serve_http(
    parts: Wiring,
    *,
    host: str | None,
    port: int | None,
    on_ready: Callable[[ServerAddress], None] | None,
    stop: asyncio.Event | None,
    fast_path: bool,
) -> None:
    """Serve REST and MCP over HTTP; see `Toolstead.serve_http`."""
    if on_ready is None:
        on_ready = partial(_print_address, parts)
    import_module("toolstead.adapters.mcp.http")
    from toolstead.adapters.http.access import AccessRules
    from toolstead.adapters.http.port import format_shared_address
    from toolstead.adapters.http.server import serve
    from toolstead.adapters.http.stopping import Stopping
    from toolstead.adapters.mcp.http import McpEndpoint, McpEndpoints
    from toolstead.adapters.rest.app import create_app
    from toolstead.adapters.rest.console_routes import ConsoleSite
    from toolstead.app.agent_answers import AgentAnswers
    from toolstead.app.operations import Numbers, Readiness
    from toolstead.app.shown_state import explain_settings, list_sessions
    from toolstead.app.stead_tasks import SteadTasks
    from toolstead.app.stead_tool_files import SteadToolFiles
    from toolstead.app.stead_trust import SteadTrust

    server, profiles = parts.loaded.settings.server, parts.loaded.settings.profiles
    options = _create_options(parts, host, port)
    access = AccessRules(options)
    if (fault := await parts.conversations.find_lasting_fault()) is not None:
        raise fault

    def create_endpoint(profile: str | None) -> McpEndpoint:
        thread, ways = name_client_thread(), find_ways(parts, has_page=True)
        return McpEndpoint(
            create_server(parts, "default", client_thread=thread, ways=ways, profile=profile),
            max_body=server.max_body,
            session_idle=server.session_idle,
            max_sessions=server.max_sessions,
            fast_path=create_fast_path(parts, thread, ways, profile) if fast_path else None,
        )

    endpoints = McpEndpoints({name: create_endpoint(name) for name in (None, *profiles)})
    stopping, readiness = Stopping(), Readiness(parts)
    numbers = Numbers(parts, count_requests=lambda: stopping.in_flight, count_sessions=endpoints.count_sessions)
    app = create_app(
        registry=parts.registry,
        dispatcher=parts.dispatcher,
        options=options,
        version=VERSION,
        mcp=endpoints.app,
        conversations=parts.open_conversations,
        project=parts.places.project,
        results=parts.kept.read,
        state=parts.describe_state,
        plugins=parts.plugins,
        agents=AgentAnswers(parts),
        approvals=parts.approvals,
        files=parts.open_files,
        tasks=SteadTasks(parts.open_delegation, parts.places.project),
        owner=(partial(explain_settings, parts), partial(list_sessions, parts)),
        trust=SteadTrust(parts),
        tool_files=SteadToolFiles(parts),
        access=access,
        stopping=stopping,
        find_examples=parts.files.find_examples,
        find_fault=readiness.find_fault,
        collect_metrics=numbers.collect,
        console=ConsoleSite(folder=CONSOLE, login=_LOGIN if parts.origins.project_tools else _LOGIN_ONCE),
    )
    stopping.call_at_begin(endpoints.begin_stop)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(readiness.close)
        opened.callback(numbers.close)

        def announce(url: str) -> None:
            access.note_address(url)
            made = options.token if server.token == "auto" else ""
            file = ServerFile(parts.places.data) if parts.origins.project_tools else None
            if file is not None:  # otherwise it is not the server of this project
                project, private = parts.places.project, options.private_token
                opened.enter_context(file.announce_server(project, url, private, made_token=made))
            on_ready(
                ServerAddress(
                    url=url,
                    shared_url=options.public_url or format_shared_address(options, url),
                    new_token=made or None,
                    token_file=file.path if file is not None else None,
                    needs_token=options.needs_token,
                    private_token=options.private_token,
                )
            )

        try:
            await serve(app, options, lifespan=endpoints.run_sessions(), on_ready=announce, stop=stop)
        except ServeError as error:
            _show_without_traceback(error)
            raise


def _create_options(parts: Wiring, host: str | None, port: int | None) -> ServerOptions:
    """What the settings say of the server; an argument counts before them."""
    from toolstead.adapters.http.options import OAuthOptions, ProfileOptions, ServerOptions

    given: Any = port
    if given is not None and (type(given) is not int or not 0 <= given <= LAST_PORT):
        raise ServeError(f"serve_http(port=…): a whole number from 0 to {LAST_PORT} is needed, not {given!r}")
    server, profiles = parts.loaded.settings.server, parts.loaded.settings.profiles
    oauth = server.oauth
    if oauth.issuer:
        import_module("toolstead.adapters.http.oauth")  # with cryptography, which no other server needs
    else:
        unused = [f"server.oauth.{name}" for name in ("audience", "jwks_uri") if getattr(oauth, name)]
        unused += [f"profiles.{name}.scope" for name, one in profiles.items() if one.scope]
        if unused:
            logger.warning("%s: not used, because server.oauth.issuer is not set", ", ".join(unused))
    return ServerOptions(
        host=host if host is not None else server.host,
        port=port if port is not None else server.port,
        token=secrets.token_urlsafe(32) if server.token == "auto" else server.token,
        public_url=server.public_url.rstrip("/"),
        allowed_hosts=server.allowed_hosts,
        allowed_origins=server.allowed_origins,
        max_body=server.max_body,
        profiles={name: ProfileOptions(token=one.token, scope=one.scope) for name, one in profiles.items()},
        oauth=OAuthOptions(**msgspec.structs.asdict(oauth)) if oauth.issuer else None,
    )


def _print_address(parts: Wiring, address: ServerAddress) -> None:
    is_terminal = sys.stderr.isatty()
    token = address.describe_token(is_terminal=is_terminal)
    token = token and f"; token {token}"
    if is_terminal:
        token += f"; console at {address.describe_console(is_terminal=True)}"
    count, name, url = len(parts.registry.current.tools), parts.client_parts.identity.name, address.url
    tools = "1 tool" if count == 1 else f"{count} tools"
    sys.stderr.write(f"{name} serves {tools}: MCP at {url}/mcp, REST at {url}/api/tools{token}\n")


def _show_without_traceback(error: ServeError) -> None:
    """Let Python show an error that ends the program as its sentence: thirty lines of ours would explain nothing."""
    before = sys.excepthook

    def show_uncaught(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
        if raised is error:
            sys.stderr.write(f"toolstead: {error}\n")
        else:
            before(kind, raised, trace)

    sys.excepthook = show_uncaught


def name_client_thread() -> str:
    """The thread in which the MCP clients of this process delegate."""
    return f"mcp_{secrets.token_hex(8)}"
