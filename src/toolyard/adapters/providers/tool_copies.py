"""Tools as a model API is told of them, with schemas that it takes.

The canonical schema stays what arguments are validated against; an API gets a copy where it would refuse or drop the
original, made once for each tool, and the log says so once. Above: `model`. Below: `schema.adapted`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from pydantic_ai.tools import ToolDefinition

from toolyard.schema.adapted import RULES, adapted_schema
from toolyard.types.tool import ToolInfo

logger = logging.getLogger(__name__)

_MOST_SETS = 64
_MOST_TOOLS = 4096


class ToolCopies:
    """The definitions of tools for one API, kept as long as they are asked for."""

    def __init__(self, rules: str, reader: str) -> None:
        """Make copies for an API.

        Args:
            rules: Whose rules the schemas follow.
            reader: Whom they go to, for the log.
        """
        self._rules = RULES[rules]
        self._reader = reader
        # By identity, with the object itself beside its copy, so that no other one can have the same identity.
        self._sets: OrderedDict[int, tuple[Sequence[ToolInfo], list[ToolDefinition]]] = OrderedDict()
        self._tools: OrderedDict[int, tuple[ToolInfo, ToolDefinition]] = OrderedDict()
        self._told: set[tuple[str, tuple[str, ...]]] = set()

    def of(self, tools: Sequence[ToolInfo]) -> list[ToolDefinition]:
        """The definitions of some tools, in their order; the same list for the same sequence."""
        kept = self._sets.get(id(tools))
        if kept is not None:
            self._sets.move_to_end(id(tools))
            return kept[1]
        made = [self._one(tool) for tool in tools]
        self._sets[id(tools)] = (tools, made)
        if len(self._sets) > _MOST_SETS:
            self._sets.popitem(last=False)
        return made

    def _one(self, tool: ToolInfo) -> ToolDefinition:
        kept = self._tools.get(id(tool))
        if kept is not None:
            self._tools.move_to_end(id(tool))
            return kept[1]
        adapted = adapted_schema(tool.input_schema, self._rules)
        made = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(adapted.schema),
            strict=False,
        )
        if adapted.changes:
            self._tell(tool.name, adapted.changes)
        self._tools[id(tool)] = (tool, made)
        if len(self._tools) > _MOST_TOOLS:
            self._tools.popitem(last=False)
        return made

    def _tell(self, name: str, changes: tuple[str, ...]) -> None:
        if (name, changes) in self._told:
            return
        if len(self._told) >= _MOST_TOOLS:
            self._told.clear()
        self._told.add((name, changes))
        logger.info("the schema of %r goes to %s adapted: %s", name, self._reader, "; ".join(changes))
