"""Tool definitions in the format of each provider's API.

Each API gets a schema that it accepts: the tool's own where possible, else a copy with fewer keywords and the rest as
text. Calls are always validated against the tool's own schema.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

from toolstead.errors import ToolsteadError
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.types.tool import JSONSchema, ToolInfo

logger = logging.getLogger(__name__)

Provider = Literal["anthropic", "openai", "gemini"]


def tool_definitions(tools: Iterable[ToolInfo], provider: str) -> list[dict[str, Any]]:
    """The `tools` of a request to a provider: plain JSON, with schemas that its API accepts; adaptations are logged.

    Raises:
        ToolsteadError: The provider is none of `anthropic`, `openai`, `gemini`.
    """
    shape = _SHAPES.get(provider)
    if shape is None:
        raise ToolsteadError(f"unknown provider {provider!r}; use one of {', '.join(get_args(Provider))}")
    rules = RULES[provider]
    definitions: list[dict[str, Any]] = []
    for tool in tools:
        adapted = adapted_schema(tool.input_schema, rules)
        if adapted.changes:
            logger.info("%s gets an adapted schema of %s: %s", provider, tool.name, "; ".join(adapted.changes))
        definitions.append(shape(tool, adapted.schema))
    return definitions


def _anthropic_definition(tool: ToolInfo, schema: JSONSchema) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _openai_definition(tool: ToolInfo, schema: JSONSchema) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema,
        "strict": False,
    }


def _gemini_definition(tool: ToolInfo, schema: JSONSchema) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": schema}


_SHAPES: dict[str, Callable[[ToolInfo, JSONSchema], dict[str, Any]]] = {
    "anthropic": _anthropic_definition,
    "openai": _openai_definition,
    "gemini": _gemini_definition,
}
