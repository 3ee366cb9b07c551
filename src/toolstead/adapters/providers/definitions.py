"""Tool definitions in the format of each provider's API.

Each API gets a schema that it accepts: the tool's own where possible, else a copy with fewer keywords and the rest as
text. Calls are always validated against the tool's own schema.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from toolstead.errors import ToolsteadError
from toolstead.schema.adapted import RULES, adapted_schema
from toolstead.types.tool import ToolInfo

logger = logging.getLogger(__name__)

_SHAPES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "anthropic": ({}, "input_schema", {}),
    "openai": ({"type": "function"}, "parameters", {"strict": False}),
    "gemini": ({}, "parametersJsonSchema", {}),
}
"""By provider: what comes first in a definition, the member with the schema, and what comes last."""


def tool_definitions(tools: Iterable[ToolInfo], provider: str) -> list[dict[str, Any]]:
    """The `tools` of a request to a provider: plain JSON, with schemas that its API accepts; adaptations are logged.

    Raises:
        ToolsteadError: The provider is none of `anthropic`, `openai`, `gemini`.
    """
    if provider not in _SHAPES:
        raise ToolsteadError(f"unknown provider {provider!r}; use one of {', '.join(_SHAPES)}")
    first, schema_member, last = _SHAPES[provider]
    definitions: list[dict[str, Any]] = []
    for tool in tools:
        adapted = adapted_schema(tool.input_schema, RULES[provider])
        if adapted.changes:
            logger.info("%s gets an adapted schema of %s: %s", provider, tool.name, "; ".join(adapted.changes))
        named = {"name": tool.name, "description": tool.description, schema_member: adapted.schema}
        definitions.append({**first, **named, **last})
    return definitions
