"""Our tools as Claude Code is told of them, with schemas that Anthropic's API takes.

Claude Code drops a tool without a word when its schema has a choice at the top level; a copy is sent then, and the
log says so once. Arguments are validated against the original, by the dispatcher. Above: the tools server.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

import mcp_types
import msgspec

from toolyard.adapters.mcp.wire import tool_for
from toolyard.schema.adapted import RULES, adapted_schema
from toolyard.types.tool import ToolInfo

logger = logging.getLogger(__name__)

_MOST = 4_096
_META = {
    "anthropic/maxResultSizeChars": 500_000,  # the most there is; the rest of a longer answer goes to a file
    "anthropic/alwaysLoad": True,
}


class ToolCopies:
    """The tools in MCP's words, made once for each of them; shared by all sessions of a runtime."""

    def __init__(self) -> None:
        # By identity, with the object itself beside its copy, so that no other one can have the same identity.
        self._made: OrderedDict[int, tuple[ToolInfo, mcp_types.Tool]] = OrderedDict()
        self._told: set[tuple[str, tuple[str, ...]]] = set()

    def of(self, tools: Sequence[ToolInfo]) -> list[mcp_types.Tool]:
        """Some tools, in their order."""
        return [self._one(tool) for tool in tools]

    def _one(self, tool: ToolInfo) -> mcp_types.Tool:
        kept = self._made.get(id(tool))
        if kept is not None:
            self._made.move_to_end(id(tool))
            return kept[1]
        adapted = adapted_schema(tool.input_schema, RULES["anthropic"])
        if adapted.changes:
            self._tell(tool.name, adapted.changes)
        # Without the output schema: it would want a structured answer, which takes the place of the text.
        shown = msgspec.structs.replace(tool, input_schema=adapted.schema, output_schema=None)
        made = tool_for(shown, modern=False).model_copy(update={"meta": _META})
        self._made[id(tool)] = (tool, made)
        if len(self._made) > _MOST:
            self._made.popitem(last=False)
        return made

    def _tell(self, name: str, changes: tuple[str, ...]) -> None:
        if (name, changes) in self._told:
            return
        if len(self._told) >= _MOST:
            self._told.clear()
        self._told.add((name, changes))
        logger.info("the schema of %r goes to Claude Code adapted: %s", name, "; ".join(changes))
