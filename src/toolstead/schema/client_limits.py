"""What known MCP clients cannot take of a valid tool: they drop it, change it, or load no tool at all.

One table, `LIMITS`, for `toolstead tools check`. `python -m tests.clients` lists each example to the real clients, and
says where the table is wrong. What we adapt in our own listings is not here, because there is nothing to do about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from toolstead.schema.awkward_shapes import (
    Found,
    find_arguments_of_choices,
    find_arguments_of_parts,
    find_boolean_items,
    find_boolean_properties,
    find_dropped_keywords,
    find_lists_of_anything,
    find_loops,
    find_nothing,
    find_odd_field_names,
    find_odd_names,
    find_other_references,
    find_patterns,
    find_plain_definitions,
    find_refused_at_top,
    find_type_lists,
    find_unknown_formats,
    find_untyped,
)
from toolstead.types.tool import JSONSchema

Steps: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimit:
    """Something that clients cannot take.

    Attributes:
        clients: Which.
        effect: What they do.
        remedy: What to write instead.
        find: The places in a schema.
        example: A schema with such a place.
        severity: `warning` where something is lost, `note` where it arrives changed.
        longest_name: Instead of places in a schema: how many characters a tool's name may have.
    """

    clients: str
    effect: str
    remedy: str
    find: Callable[[JSONSchema], Found]
    example: JSONSchema
    longest_name: int | None = None
    severity: Literal["warning", "note"] = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """A tool has something that clients cannot take.

    Attributes:
        limit: The limit.
        at: The first such place in the schema; None for the tool's name.
        reason: What stands there.
        more: How many other such places there are.
    """

    limit: ClientLimit
    at: Steps | None
    reason: str
    more: int

    @property
    def message(self) -> str:
        """What the clients do, why, and what to write instead."""
        others = f" (and {self.more} more)" if self.more else ""
        return f"{self.limit.effect}, because {self.reason}{others}; {self.limit.remedy}"


def find_reached(name: str, schema: JSONSchema) -> list[LimitReached]:
    """The limits that a tool's name and schema reach, in the order of the table."""
    reached: list[LimitReached] = []
    for limit in LIMITS:
        if limit.longest_name is not None and len(name) > limit.longest_name:
            reason = f"its name has {len(name)} characters, and {limit.longest_name} leave room for the server's"
            reached.append(LimitReached(limit=limit, at=None, reason=reason, more=0))
        found = list(limit.find(schema))
        if found:
            pointer, reason = found[0]
            at = _steps_of(schema, pointer)
            reached.append(LimitReached(limit=limit, at=at, reason=reason, more=len(found) - 1))
    return reached


def _steps_of(schema: Any, pointer: str) -> Steps:
    """A pointer as names and indexes."""
    steps: list[str | int] = []
    for part in pointer.split("/")[1:]:
        step = int(part) if isinstance(schema, list) else part.replace("~1", "/").replace("~0", "~")
        steps.append(step)
        schema = cast("Any", schema)[step]
    return tuple(steps)


def _with(value: Any, **top: Any) -> JSONSchema:
    """An example whose only argument has this schema."""
    return {"type": "object", "properties": {"amount": value}, **top}


_NO_TOOL = "loads no tool at all"
_NO_TOOLS = "load no tool at all"
_MODEL_APIS = "openai-agents, langchain-mcp-adapters, strands-agents and others on OpenAI's API"

LIMITS: tuple[ClientLimit, ...] = (
    ClientLimit(
        clients="autogen-ext, llama-index-tools-mcp, smolagents",
        effect=_NO_TOOLS,
        remedy='write a schema with a "type"',
        find=find_boolean_properties,
        example=_with(True),
    ),
    ClientLimit(
        clients="autogen-ext, llama-index-tools-mcp",
        effect=_NO_TOOLS,
        remedy='write {} for anything, and "maxItems" against further ones',
        find=find_boolean_items,
        example=_with({"type": "array", "items": True}),
    ),
    ClientLimit(
        clients="autogen-ext",
        effect=_NO_TOOL,
        remedy='write a "type" there, beside a "const" too',
        find=find_untyped,
        example=_with({"const": "all"}),
    ),
    ClientLimit(
        clients="autogen-ext",
        effect=_NO_TOOL,
        remedy='write "anyOf" with one type each, or leave out "null" and do not require the argument',
        find=find_type_lists,
        example=_with({"type": ["integer", "null"]}),
    ),
    ClientLimit(
        clients="autogen-ext",
        effect=_NO_TOOL,
        remedy="leave it out, and say in the description what the text has to be",
        find=find_unknown_formats,
        example=_with({"type": "string", "format": "regex"}),
    ),
    ClientLimit(
        clients="autogen-ext",
        effect=_NO_TOOL,
        remedy="write the pattern without (?=…), (?!…), (?<=…), (?<!…) and \\1",
        find=find_patterns,
        example=_with({"type": "string", "pattern": "^(?!0)[0-9]+$"}),
    ),
    ClientLimit(
        clients="autogen-ext, llama-index-tools-mcp",
        effect=_NO_TOOLS,
        remedy="choose another name, which begins with a letter",
        find=find_odd_field_names,
        example={"type": "object", "properties": {"_amount": {"type": "string"}}},
    ),
    ClientLimit(
        clients="autogen-ext, llama-index-tools-mcp, ToolCallingAgent of smolagents",
        effect="offer their model no tool at all",
        remedy='write out as many levels as are needed, the last one as {"type": "object"} with words',
        find=find_loops,
        example=_with(
            {"$ref": "#/$defs/Part"},
            **{
                "$defs": {
                    "Part": {
                        "type": "object",
                        "properties": {"parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}}},
                    }
                }
            },
        ),
    ),
    ClientLimit(
        clients="autogen-ext, llama-index-tools-mcp",
        effect="load no tool at all, or show their model that only null fits",
        remedy='put what it means under "$defs", and refer to it as "#/$defs/NAME"',
        find=find_other_references,
        example=_with({"$ref": "#/definitions/Amount"}, definitions={"Amount": {"type": "integer"}}),
    ),
    ClientLimit(
        clients="autogen-ext, llama-index-tools-mcp",
        effect="show their model an object",
        remedy="write it out in place of the reference",
        find=find_plain_definitions,
        example=_with({"$ref": "#/$defs/Amount"}, **{"$defs": {"Amount": {"type": "integer"}}}),
    ),
    ClientLimit(
        clients="autogen-ext, llama-index-tools-mcp, smolagents",
        effect="do not show their model every argument",
        remedy="list every argument there, and keep the choice for what is required",
        find=find_arguments_of_choices,
        example={"type": "object", "oneOf": [{"properties": {"amount": {"type": "integer"}}}]},
    ),
    ClientLimit(
        clients="llama-index-tools-mcp, smolagents",
        effect="do not show their model every argument",
        remedy="list every argument there",
        find=find_arguments_of_parts,
        example={"type": "object", "allOf": [{"properties": {"amount": {"type": "integer"}}}]},
    ),
    ClientLimit(
        clients=_MODEL_APIS,
        effect="get their requests refused",
        remedy='keep "type", "properties" and "required" at the top level, and say the rest in the description',
        find=find_refused_at_top,
        example=_with({"type": "integer"}, anyOf=[{"required": ["amount"]}]),
    ),
    ClientLimit(
        clients=_MODEL_APIS,
        effect="get their requests refused",
        remedy='write "items", {} if they may be anything',
        find=find_lists_of_anything,
        example=_with({"type": "array"}),
    ),
    ClientLimit(
        clients="langchain-mcp-adapters, strands-agents and others on Anthropic's API",
        effect="get their requests refused",
        remedy="use letters, digits, _ . and -, at most 64",
        find=find_odd_names,
        example={"type": "object", "properties": {"$amount": {"type": "string"}}},
    ),
    ClientLimit(
        clients="opencode on OpenAI's API",
        effect="gets its requests refused",
        remedy="shorten the name",
        find=find_nothing,
        example={"type": "object"},
        longest_name=54,
    ),
    ClientLimit(
        clients="Codex",
        effect="shows its model a looser schema",
        remedy="say it in a description; calls are validated all the same",
        find=find_dropped_keywords,
        example=_with({"type": "integer", "minimum": 1}),
        severity="note",
    ),
)
