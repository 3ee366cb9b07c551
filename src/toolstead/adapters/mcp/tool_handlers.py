"""The SDK's handlers for tools: lists and calls, for the clients of one server.

The SDK's low-level server neither validates arguments nor classifies errors; the dispatcher does both.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import structs

from toolstead.adapters.http.access import find_access
from toolstead.adapters.mcp.approval_ways import ApprovalWays
from toolstead.adapters.mcp.caller_side import McpCallerSide, client_name, connection_of
from toolstead.adapters.mcp.client_approvals import McpApprovingClient
from toolstead.adapters.mcp.fast_path.calls import call_id_in
from toolstead.adapters.mcp.listed_tools import ListedTools
from toolstead.adapters.mcp.part_handlers import cut_page
from toolstead.adapters.mcp.single_cancellation import run_cancelled_once
from toolstead.adapters.mcp.suspended_calls import SuspendedCalls
from toolstead.adapters.mcp.wire import is_modern, result_for, tool_for
from toolstead.errors import UnknownToolError
from toolstead.tools.dispatch import Dispatcher
from toolstead.tools.generation import ToolView
from toolstead.tools.registry import Registry
from toolstead.types.call import Caller
from toolstead.types.result import ToolResult

Request = ServerRequestContext[Any, Any]


class ToolHandlers:
    """Lists the tools that a server's clients may see, and calls them."""

    def __init__(
        self,
        registry: Registry,
        dispatcher: Dispatcher,
        suspended: SuspendedCalls,
        caller: Caller,
        *,
        ways: ApprovalWays | None,
        ask_timeout: float,
    ) -> None:
        """Prepare to answer.

        Args:
            registry: Whose tools are listed.
            dispatcher: What calls them.
            suspended: The calls that wait for answers of modern clients.
            caller: On whose behalf every call is made; its `client_thread` gets a suffix for each session.
            ways: How the people at the clients are asked about approvals; None where they are agents of ours.
            ask_timeout: Seconds that a client has to answer what a tool asks it.
        """
        self._registry, self._dispatcher, self._suspended = registry, dispatcher, suspended
        self._caller, self._ways, self._ask_timeout = caller, ways, ask_timeout
        self._listed = ListedTools(tool_for)

    def may_see(self, name: str) -> bool:
        """Whether the clients may call a tool."""
        return name in self._find_view().tools

    def find_schema(self, name: str) -> Mapping[str, Any] | None:
        """The input schema of a tool; None where the clients see no such tool."""
        tool = self._find_view().tools.get(name)
        return tool.info.input_schema if tool is not None else None

    async def list_tools(
        self, request: Request, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        """Answer `tools/list`."""
        modern = is_modern(request.protocol_version)
        tools = self._listed.tools_for(self._find_view().infos, client_name(request), modern=modern)
        page, following = cut_page(tools, params.cursor if params is not None else None, lambda tool: tool.name)
        return mcp_types.ListToolsResult(tools=list(page), next_cursor=following)

    async def call_tool(
        self, request: Request, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        """Answer `tools/call`."""
        thread = _find_thread(request, self._caller.client_thread)
        caller = structs.replace(
            self._caller, call_id=call_id_in(request.meta), client_thread=thread, client=client_name(request)
        )

        async def start_call(client: McpCallerSide) -> ToolResult:
            approving = None if self._ways is None else McpApprovingClient(client, self._ways)
            return await self._dispatcher.call(
                params.name,
                params.arguments,
                caller,
                progress=client.report_progress,
                client=client,
                approving=approving,
            )

        modern = is_modern(request.protocol_version)
        try:
            if modern:
                answer = await self._suspended.answer_request(request, params, start_call)
                if isinstance(answer, mcp_types.InputRequiredResult):
                    return answer
                result, client = answer
            else:
                client = McpCallerSide(request, ask=None, patience=self._ask_timeout)
                result = await run_cancelled_once(start_call(client), name=f"the call of {params.name[:80]!r}")
        except UnknownToolError as error:
            raise MCPError(code=mcp_types.INVALID_PARAMS, message=str(error)) from None
        if (missing := client.missing_capability(result)) is not None:
            raise missing
        return result_for(result, modern=modern)

    def _find_view(self) -> ToolView:
        view = self._registry.find_view(self._caller.agent_id, profile=self._caller.profile)
        return view if self._caller.client_thread is None else view.for_clients


def _find_thread(request: Request, client_thread: str | None) -> str | None:
    """The thread in which a client delegates: one for each session, else for each holder of a token for a profile.

    The other clients without sessions share the server's.
    """
    if client_thread is None:
        return None
    http: Any = request.request  # None on stdio
    access = None if http is None else find_access(http.scope)
    known = connection_of(request).session_id or (None if access is None else access.holder)
    if known is None:
        return client_thread
    # Not the id itself: whoever has it may act as that client.
    return f"{client_thread}_{blake2b(known.encode(), digest_size=8).hexdigest()}"
