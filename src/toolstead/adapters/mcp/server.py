"""The MCP server over one registry and one dispatcher: lists, calls and change notifications.

The SDK's low-level server neither validates arguments nor classifies errors; the dispatcher does both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Any

import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from toolstead.adapters.mcp.caller_side import McpCallerSide, connection_of, set_log_level
from toolstead.adapters.mcp.fast_path.calls import NAME, PAGE, call_id_in
from toolstead.adapters.mcp.notices import Notices
from toolstead.adapters.mcp.single_cancellation import run_cancelled_once
from toolstead.adapters.mcp.wire import is_modern, result_for, tool_for
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.errors import UnknownToolError
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import ToolView
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller

Request = ServerRequestContext[Any, Any]


class ToolsteadServer(Server[None]):
    """The SDK's server, which also announces `tools.listChanged` to handshake clients."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The SDK's options with `tools.listChanged` set."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


def create_server(
    *,
    registry: Registry,
    dispatcher: Dispatcher,
    version: str,
    thread_id: str = "default",
    agent: str | None = None,
    tells_changes: bool = True,
    client_thread: str | None = None,
) -> ToolsteadServer:
    """Create a server; never share one between two connections of a runtime.

    Args:
        registry: Whose tools are listed.
        dispatcher: What calls them.
        version: Sent to clients.
        thread_id: The thread that calls belong to.
        agent: The agent whose view of the tools it serves; all tools by default.
        tells_changes: Whether it notifies handshake clients that tools changed; on stdio the fast path does.
        client_thread: The thread in which its clients delegate, with a suffix for each session; None where they are
            agents of ours.
    """
    # Rendered once for each protocol version, as long as the tools stay the same.
    rendered = {
        modern: ToolCopies(lambda info, modern=modern: (tool_for(info, modern=modern), ()), "MCP clients")
        for modern in (False, True)
    }
    notices = Notices(registry)

    def find_view() -> ToolView:
        view = registry.find_view(agent)
        return view if client_thread is None else view.for_clients

    async def list_tools(
        request: Request, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        tools = rendered[is_modern(request.protocol_version)].copies_of(find_view().infos)
        return _build_page(tools, params.cursor if params is not None else None)

    async def call_tool(request: Request, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        call_id = call_id_in(request.meta)
        caller = Caller(
            thread_id=thread_id, agent_id=agent, call_id=call_id, client_thread=_find_thread(request, client_thread)
        )
        client = McpCallerSide(request)
        try:
            work = dispatcher.call(
                params.name, params.arguments, caller, progress=client.report_progress, client=client
            )
            result = await run_cancelled_once(work, name=f"the call of {params.name[:80]!r}")
        except UnknownToolError as error:
            raise MCPError(code=mcp_types.INVALID_PARAMS, message=str(error)) from None
        if (missing := client.missing_capability(result)) is not None:
            raise missing
        return result_for(result, modern=is_modern(request.protocol_version))

    def input_schema(name: str) -> Mapping[str, Any] | None:
        tool = find_view().tools.get(name)
        return tool.info.input_schema if tool is not None else None

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncGenerator[None]:
        async with notices.run_notices():
            yield

    server = ToolsteadServer(
        NAME,
        version=version,
        lifespan=lifespan,
        get_tool_input_schema=input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=notices.listen,
    )
    # Not as the constructor's argument: the 2026 revision deprecates it, and handshake clients still use it.
    server.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, set_log_level)
    server.middleware += [_ask_for_handshake, notices.learn_connection] if tells_changes else [_ask_for_handshake]
    return server


def _find_thread(request: Request, client_thread: str | None) -> str | None:
    """The thread in which a client delegates: one for each session; clients without sessions share the server's."""
    session_id = connection_of(request).session_id
    if client_thread is None or session_id is None:
        return client_thread
    # Not the id itself: whoever has it may act as that client.
    return f"{client_thread}_{blake2b(session_id.encode(), digest_size=8).hexdigest()}"


async def _ask_for_handshake(ctx: Request, call_next: CallNext) -> HandlerResult:
    """Middleware: report a skipped handshake as such; the SDK's error only mentions invalid parameters."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        if error.code != mcp_types.INVALID_PARAMS or connection_of(ctx).initialize_accepted:
            raise
        raise MCPError(
            code=error.code, message=f"{ctx.method}: this connection is not initialized; send `initialize` first"
        ) from None


def _build_page(tools: list[mcp_types.Tool], cursor: str | None) -> mcp_types.ListToolsResult:
    """Build one page. A cursor is the last name of the page before, so it survives changes to the other tools."""
    start = 0
    if cursor is not None:
        names = [tool.name for tool in tools]
        if cursor not in names:
            raise MCPError(
                code=mcp_types.INVALID_PARAMS,
                message=f"cursor {cursor[:80]!r} is not valid (any more); list again without a cursor",
            )
        start = names.index(cursor) + 1
    page = tools[start : start + PAGE]
    more = start + PAGE < len(tools)
    return mcp_types.ListToolsResult(tools=page, next_cursor=page[-1].name if more else None)
