"""The MCP server over one registry and one dispatcher: its handlers, its notifications, its identity."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from toolstead.adapters.mcp.approval_ways import ApprovalWays
from toolstead.adapters.mcp.caller_side import connection_of, set_log_level
from toolstead.adapters.mcp.notices import Notices
from toolstead.adapters.mcp.part_handlers import PartHandlers
from toolstead.adapters.mcp.parts_port import OfferedParts
from toolstead.adapters.mcp.suspended_calls import MOST, PATIENCE, SuspendedCalls
from toolstead.adapters.mcp.tool_handlers import ToolHandlers
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller
from toolstead.types.client_parts import SERVER_NAME

Request = ServerRequestContext[Any, Any]


SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
"""Where a modern answer says which server it is from."""


class ToolsteadServer(Server[None]):
    """The SDK's server, which also announces `listChanged` to handshake clients, and follows what it says of itself.

    Attributes:
        parts: What it offers besides tools; None where it serves an agent of ours.
    """

    parts: OfferedParts | None = None

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The SDK's options with `listChanged` set, and the identity of this moment."""
        self.follow_identity()
        has_parts = self.parts is not None
        options = notification_options or NotificationOptions(
            tools_changed=True, prompts_changed=has_parts, resources_changed=has_parts
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> mcp_types.ServerCapabilities:
        """The SDK's, without subscriptions to single resources, which it declares for every modern server."""
        capabilities = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if capabilities.resources is not None:
            capabilities.resources.subscribe = False
        return capabilities

    def follow_identity(self) -> None:
        """Take over what the server says of itself now."""
        if self.parts is not None:
            identity = self.parts.identity
            self.name, self.title, self.instructions = identity.name, identity.title, identity.instructions
            icon = identity.icon
            self.icons = None if icon is None else [mcp_types.Icon(src=icon.src, mime_type=icon.mime_type)]

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        """The name and version in every modern answer; the icon, which may be large, is in `server/discover` alone."""
        self.follow_identity()
        return {"name": self.name, "version": self.version, **({"title": self.title} if self.title else {})}

    async def discover(self, request: Request, _: mcp_types.RequestParams) -> mcp_types.DiscoverResult:
        """Handler of `server/discover`: the SDK's answer, with all that the server says of itself."""
        self.follow_identity()
        info = self.server_info.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = await self._handle_discover(request, None)
        return result.model_copy(update={"meta": {SERVER_INFO: info}})


def create_server(
    *,
    registry: Registry,
    dispatcher: Dispatcher,
    version: str,
    thread_id: str = "default",
    agent: str | None = None,
    tells_changes: bool = True,
    client_thread: str | None = None,
    ask_timeout: float = PATIENCE,
    max_asking: int = MOST,
    ways: ApprovalWays | None = None,
    parts: OfferedParts | None = None,
    profile: str | None = None,
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
        ask_timeout: Seconds that a client has to answer what a tool asks it.
        max_asking: How many calls may wait for the answers of modern clients.
        ways: How the people at its clients are asked about approvals; None where its clients are agents of ours.
        parts: What it offers besides tools; None where it serves an agent of ours.
        profile: The profile whose tools its clients see and call; None for no profile.
    """
    suspended = SuspendedCalls(most=max_asking, patience=ask_timeout)
    notices = Notices(registry, parts)
    caller = Caller(thread_id=thread_id, agent_id=agent, client_thread=client_thread, profile=profile, transport="mcp")
    tools = ToolHandlers(registry, dispatcher, suspended, caller, ways=ways, ask_timeout=ask_timeout)

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncGenerator[None]:
        async with notices.run_notices(), suspended.end_with_server():
            yield

    server = ToolsteadServer(
        SERVER_NAME if parts is None else parts.identity.name,
        version=version,
        lifespan=lifespan,
        get_tool_input_schema=tools.find_schema,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_subscriptions_listen=notices.listen,
    )
    # Not as the constructor's argument: the 2026 revision deprecates it, and handshake clients still use it.
    server.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, set_log_level)
    if parts is not None:
        server.parts = parts
        PartHandlers(parts, tools.may_see).add_to(server)
        server.add_request_handler("server/discover", mcp_types.RequestParams, server.discover)
    server.middleware += [_ask_for_handshake, suspended.learn_cancellation]
    if tells_changes:
        server.middleware.append(notices.learn_connection)
    return server


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
