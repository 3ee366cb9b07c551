"""Our tools as sent to Claude Code, with schemas that Anthropic's API accepts.

Claude Code silently drops a tool whose schema has a choice at the top level, so it gets an adapted copy.
"""

from __future__ import annotations

import mcp_types
import msgspec

from toolstead.adapters.mcp.wire import tool_for
from toolstead.adapters.tool_copies import ToolCopies
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.types.tool import ToolInfo

MOST_SHOWN = 500_000
"""Characters of an answer that reach the model whole; of a longer one it reads the beginning, and a file's name."""
MOST_OF_ERROR = 10_000
"""Characters of an error: of a longer one it reads the beginning and the end."""

_META = {
    "anthropic/maxResultSizeChars": MOST_SHOWN,  # the most there is
    "anthropic/alwaysLoad": True,
}


def claude_copies() -> ToolCopies[mcp_types.Tool]:
    """Tools as MCP types; shared by all sessions of a runtime."""
    return ToolCopies(_copy_tool, "Claude Code")


def _copy_tool(tool: ToolInfo) -> tuple[mcp_types.Tool, tuple[str, ...]]:
    adapted = adapted_schema(tool.input_schema, RULES["anthropic"])
    # Without the output schema: it would require structured content, which replaces the text.
    shown = msgspec.structs.replace(tool, input_schema=adapted.schema, output_schema=None)
    return tool_for(shown, modern=False).model_copy(update={"meta": _META}), adapted.changes
