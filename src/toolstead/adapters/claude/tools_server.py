"""Our tools for one session: an MCP server in this process, never shared, that calls for the running turn.

Claude Code silently drops a tool whose schema has a choice at the top level, so it gets adapted copies, with schemas
that Anthropic's API accepts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from toolstead.adapters.claude.launch import SERVER
from toolstead.adapters.claude.turn_progress import TurnProgress
from toolstead.adapters.mcp.fast_path.calls import call_id_in
from toolstead.adapters.mcp.single_cancellation import run_cancelled_once
from toolstead.adapters.mcp.wire import result_for, tool_for
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.types.content import Text
from toolstead.types.result import Failure, ToolResult
from toolstead.types.tool import ToolInfo

logger = logging.getLogger(__name__)

_MOST_SHOWN = 500_000
"""Characters of an answer that reach the model whole; of a longer one it reads the beginning, and a file's name."""
_MOST_OF_ERROR = 10_000
"""Characters of an error: of a longer one it reads the beginning and the end."""
_META = {
    "anthropic/maxResultSizeChars": _MOST_SHOWN,  # the most there is
    "anthropic/alwaysLoad": True,
}

Request = ServerRequestContext[Any, Any]


def claude_copies() -> ToolCopies[mcp_types.Tool]:
    """Tools as MCP types; shared by all sessions of a runtime."""
    return ToolCopies(_copy_tool, "Claude Code")


def _copy_tool(tool: ToolInfo) -> tuple[mcp_types.Tool, tuple[str, ...]]:
    adapted = adapted_schema(tool.input_schema, RULES["anthropic"])
    # Without the output schema: it would require structured content, which replaces the text.
    shown = msgspec.structs.replace(tool, input_schema=adapted.schema, output_schema=None)
    return tool_for(shown, modern=False).model_copy(update={"meta": _META}), adapted.changes


class ToolsServer:
    """Lists the tools on offer, and calls them for the running turn.

    Attributes:
        instance: The SDK's server, for one connection.
    """

    def __init__(
        self,
        *,
        offered: Callable[[], Sequence[ToolInfo]],
        copies: ToolCopies[mcp_types.Tool],
        running: Callable[[], TurnProgress | None],
    ) -> None:
        """Create a server.

        Args:
            offered: Returns the current tools.
            copies: What they look like to Claude.
            running: Returns the running turn, if any.
        """
        self._offered = offered
        self._copies = copies
        self._running = running
        self._listed: tuple[ToolInfo, ...] | None = None
        self._shown: dict[str, ToolInfo] = {}
        self.instance: Server[Any] = Server(
            SERVER, version="1", on_list_tools=self._list_tools, on_call_tool=self._call
        )

    @property
    def is_outdated(self) -> bool:
        """Whether the offered tools differ from the listed ones; False until the first listing."""
        return self._listed is not None and self._listed != tuple(self._offered())

    @property
    def is_stale(self) -> bool:
        """Whether a listed tool was removed or changed.

        The program keeps the tools that it has shown to the model, to preserve the prompt cache; only additions
        reach the model while it runs.
        """
        offered = {tool.name: tool for tool in self._offered()}
        return any(not _looks_like(offered.get(name), tool) for name, tool in self._shown.items())

    async def _list_tools(
        self, request: Request, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        self._listed = tuple(self._offered())
        self._shown = {tool.name: tool for tool in self._listed} | self._shown
        return mcp_types.ListToolsResult(tools=self._copies.copies_of(self._listed))

    async def _call(self, request: Request, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        progress = self._running()
        if progress is None:
            refusal = ToolResult.error(f"{params.name} was refused: no turn is running", Failure.REFUSED)
            return result_for(refusal, modern=False)
        call_id = call_id_in(request.meta)
        progress.calls.add(call_id)
        progress.acted = True

        async def run_call() -> ToolResult:
            given = params.arguments or {}
            return await progress.turn.call_tool(
                params.name, given, call_id=call_id, parent_call_id=progress.parents.get(call_id)
            )

        shown = _show_result(await run_cancelled_once(run_call(), name=f"the call of {params.name[:80]!r}"))
        _warn_of_truncation(params.name, shown)
        return shown


def _show_result(result: ToolResult) -> mcp_types.CallToolResult:
    """A result without structured content, which would replace all other content."""
    content = result.content
    if not content and result.structured is not None:
        content = (Text(json.dumps(result.structured, ensure_ascii=False, separators=(",", ":"))),)
    return result_for(ToolResult(content=content, is_error=result.is_error), modern=False)


def _warn_of_truncation(name: str, shown: mcp_types.CallToolResult) -> None:
    """Log a warning when Claude Code will truncate an answer: no setting prevents that."""
    texts = [part.text for part in shown.content if isinstance(part, mcp_types.TextContent)]
    size = sum(len(text.encode("utf-16-le", "surrogatepass")) // 2 for text in texts)  # as it counts
    most = _MOST_OF_ERROR if shown.is_error else _MOST_SHOWN
    if size > most:
        logger.warning(
            "%s answered with %s%s characters; Claude Code shows its model no more than %s of them",
            name[:80],
            "an error of " if shown.is_error else "",
            f"{size:,}",
            f"{most:,}",
        )


def _looks_like(tool: ToolInfo | None, shown: ToolInfo) -> bool:
    """Whether two tools look the same to a model."""
    return tool is shown or (
        tool is not None
        and tool.description == shown.description
        and tool.input_schema == shown.input_schema
        and tool.annotations == shown.annotations
    )
