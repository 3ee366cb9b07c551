"""The tools as an MCP client is shown them: always with `properties`, and adapted where it would drop a tool.

Which copy a client gets follows from the name that it gives itself. Arguments are always validated against the
original schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from msgspec import structs

from toolstead.adapters.tool_copies import ToolCopies
from toolstead.types.tool import ToolInfo

Rendered = TypeVar("Rendered")

ADAPTED_CLIENTS: Final[Mapping[str, str]] = MappingProxyType({"claude-code": "anthropic"})
"""Clients that silently drop a tool whose schema their model's API would refuse, and the rules of that API."""


class ListedTools(Generic[Rendered]):
    """Each tool rendered once for a protocol version and a kind of client."""

    def __init__(self, render: Callable[[ToolInfo, bool], Rendered]) -> None:
        """Render nothing yet.

        Args:
            render: Renders a tool, for the modern protocol version or for those before.
        """
        self._render = render
        self._copies: dict[tuple[str | None, bool], ToolCopies[Rendered]] = {}

    def tools_for(self, tools: Sequence[ToolInfo], client: str | None, *, modern: bool) -> list[Rendered]:
        """The tools for a client, in their order; the same list for the same sequence.

        Args:
            tools: The tools.
            client: The name that the client gives itself.
            modern: Whether it speaks the modern protocol version.
        """
        key = adapted_client(client), modern
        copies = self._copies.get(key)
        if copies is None:
            copies = self._copies[key] = ToolCopies(lambda info: self._copy(info, *key), key[0] or "MCP clients")
        return copies.copies_of(tools)

    def _copy(self, info: ToolInfo, client: str | None, modern: bool) -> tuple[Rendered, tuple[str, ...]]:
        schema, changes = info.input_schema, ()
        if client is not None:
            # Only these clients pay for the import.
            from toolstead.schema.adapted import RULES, adapted_schema

            adapted = adapted_schema(schema, RULES[ADAPTED_CLIENTS[client]])
            schema, changes = adapted.schema, adapted.changes
        if "properties" not in schema:  # some clients load no tool at all when it is missing in one
            schema = {**schema, "properties": dict[str, Any]()}
        shown = info if schema is info.input_schema else structs.replace(info, input_schema=schema)
        return self._render(shown, modern), changes


def adapted_client(client: str | None) -> str | None:
    """The client's name, if it gets adapted copies; None for all others."""
    return client if client in ADAPTED_CLIENTS else None
