"""Tools as sent to a model API, with schemas that it accepts."""

from __future__ import annotations

from pydantic_ai.tools import ToolDefinition

from toolstead.adapters.tool_copies import ToolCopies
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.types.tool import ToolInfo


def api_copies(rules: str, reader: str) -> ToolCopies[ToolDefinition]:
    """Definitions of tools for an API.

    Args:
        rules: Whose rules the schemas follow.
        reader: The recipient's name, for the log.
    """

    def copy_tool(tool: ToolInfo) -> tuple[ToolDefinition, tuple[str, ...]]:
        adapted = adapted_schema(tool.input_schema, RULES[rules])
        made = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(adapted.schema),
            strict=False,
        )
        return made, adapted.changes

    return ToolCopies(copy_tool, reader)
