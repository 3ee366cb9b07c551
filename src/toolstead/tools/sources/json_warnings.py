"""What known clients cannot take of the good tools of one JSON tool file, each with its line and column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from toolstead.schema.client_limits import find_reached
from toolstead.schema.explanation import shorten_text
from toolstead.schema.visible import escape_unseen
from toolstead.tools.sources.json_text import Outline
from toolstead.types.tool import ClientWarning, ToolInfo

MOST_WARNINGS = 50
LONGEST_MESSAGE = 1_000


def find_client_warnings(path: Path, data: bytes, tools: Sequence[ToolInfo]) -> tuple[ClientWarning, ...]:
    """The warnings about a file, in the order of its tools; the last one says how many more there are.

    Args:
        path: The file.
        data: Its content.
        tools: The good tools in it.
    """
    if not tools:
        return ()
    text = data.decode("utf-8-sig")
    outline = Outline(text)
    places: dict[Any, int] = {}
    for number, given in enumerate(json.loads(text)["tools"]):
        name: Any = cast("dict[str, Any]", given).get("name") if isinstance(given, dict) else None
        if isinstance(name, str):
            places.setdefault(name, number)
    found: list[ClientWarning] = []
    count = 0
    for tool in tools:
        for reached in find_reached(tool.name, tool.input_schema):
            count += 1
            if count > MOST_WARNINGS:
                continue
            inside = ("name",) if reached.at is None else ("inputSchema", *reached.at)
            line, column = outline.locate_value(("tools", places[tool.name], *inside))
            found.append(
                ClientWarning(
                    severity=reached.limit.severity,
                    source=str(path),
                    tool_name=tool.name,
                    clients=reached.limit.clients,
                    message=escape_unseen(shorten_text(reached.message, LONGEST_MESSAGE), "prose"),
                    line=line,
                    column=column,
                )
            )
    if count > MOST_WARNINGS:
        message = f"reach {count - MOST_WARNINGS:,} more of their limits in this file; change these first"
        found.append(
            ClientWarning(severity="warning", source=str(path), clients="clients", message=message, line=1, column=1)
        )
    return tuple(found)


def describe_warning(warning: ClientWarning) -> str:
    """A warning in the format of compiler messages."""
    place = f"{escape_unseen(warning.source)}:{warning.line}:{warning.column}"
    tool = f"tool {warning.tool_name!r}: " if warning.tool_name else ""
    return f"{place}: {warning.severity}: {tool}{warning.clients}: {warning.message}"
