"""Tool definitions in the words of each provider's API, from one registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

from toolyard.errors import ToolyardError
from toolyard.types.tool import ToolInfo

Provider = Literal["anthropic", "openai", "gemini"]


def tool_definitions(tools: Iterable[ToolInfo], provider: str) -> list[dict[str, Any]]:
    """The `tools` of a request to a provider: plain JSON, schemas as they are.

    Raises:
        ToolyardError: The provider is none of `anthropic`, `openai`, `gemini`.
    """
    shape = _SHAPES.get(provider)
    if shape is None:
        raise ToolyardError(f"unknown provider {provider!r}; one of {', '.join(get_args(Provider))} is needed")
    return [shape(tool) for tool in tools]


def _anthropic(tool: ToolInfo) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}


def _openai(tool: ToolInfo) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": False,
    }


def _gemini(tool: ToolInfo) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input_schema}


_SHAPES: dict[str, Callable[[ToolInfo], dict[str, Any]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "gemini": _gemini,
}
