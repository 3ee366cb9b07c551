"""What is known about a tool besides how to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from toolstead.types.sent import SentStruct

JSONSchema = Mapping[str, Any]

Audience = Literal["everyone", "delegators", "runs", "tasks"]
"""Who may see and call a tool."""
Source = Literal["builtin", "plugin", "agent", "mcp"]


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """Hints about what a tool does; None where its author gave none."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Provenance(SentStruct, frozen=True, kw_only=True):
    """Where a tool came from.

    Attributes:
        source: The kind of source it came from.
        origin: The module, file or address it came from.
        plugin_name: The plugin, or the name inside a JSON tool file.
        agent_name: The agent whose file defines it.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"plugin_name", "agent_name"})

    source: Source
    origin: str
    plugin_name: str | None = None
    agent_name: str | None = None


NO_HINTS = Annotations()


class ToolInfo(SentStruct, frozen=True, kw_only=True):
    """A tool that can be called.

    A struct, because thousands are made at start: 0.4 µs each instead of 3.

    Attributes:
        name: Its name: letters, digits, `_` and `-`.
        description: What it does, for the model.
        input_schema: JSON Schema of its arguments.
        output_schema: JSON Schema of its structured answer.
        stale: True when its file became bad and this is the last good one.
    """

    unsent: ClassVar[frozenset[str]] = frozenset({"annotations", "title"})
    optional: ClassVar[frozenset[str]] = frozenset({"output_schema", "stale"})
    flattened: ClassVar[frozenset[str]] = frozenset({"provenance"})
    sent_types: ClassVar[Mapping[str, Any]] = MappingProxyType({"output_schema": JSONSchema | bool})

    name: str
    description: str
    provenance: Provenance
    input_schema: JSONSchema
    output_schema: JSONSchema | None = None
    annotations: Annotations = NO_HINTS
    title: str | None = None
    stale: bool = False


class Problem(SentStruct, frozen=True, kw_only=True):
    """Something that was quarantined while the rest went on.

    Attributes:
        source: The file or source.
        message: What is wrong, and what would be right.
        tool_name: The tool, where one is meant.
        line: The line, counted from 1.
        column: The column, counted from 1.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"tool_name", "line", "column"})

    source: str
    message: str
    tool_name: str | None = None
    line: Annotated[int, msgspec.Meta(ge=0)] | None = None
    column: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ClientWarning(SentStruct, frozen=True, kw_only=True):
    """A good tool that some clients cannot take as it is.

    Attributes:
        severity: `warning` where something is lost, `note` where it arrives changed.
        source: The file.
        tool_name: The tool; None for what is said of the whole file.
        clients: Which clients.
        message: What they do, why, and what to write instead.
        line: The line, counted from 1.
        column: The column, counted from 1.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"tool_name"})

    severity: Literal["warning", "note"]
    source: str
    tool_name: str | None = None
    clients: str
    message: str
    line: Annotated[int, msgspec.Meta(ge=1)]
    column: Annotated[int, msgspec.Meta(ge=1)]


class SchemaChange(SentStruct, frozen=True, kw_only=True):
    """One difference between two versions of an input schema.

    Attributes:
        pointer: Where in the schema.
        change: What differs.
        breaking: Whether arguments that fitted may no longer fit.
    """

    pointer: str
    change: str
    breaking: bool


class Changes(SentStruct, frozen=True, kw_only=True):
    """What differs between two generations, by name, in listing order.

    Attributes:
        added: Tools that are new.
        removed: Tools that are gone.
        changed: Tools that are not what they were.
        schema_changes: For a changed tool: what differs in its input schema, and whether it breaks callers.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"schema_changes"})
    sent_types: ClassVar[Mapping[str, Any]] = MappingProxyType({"schema_changes": Mapping[str, Sequence[SchemaChange]]})

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    schema_changes: Mapping[str, Sequence[Mapping[str, Any]]] = msgspec.field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )

    def __bool__(self) -> bool:
        """True when anything differs."""
        return bool(self.added or self.removed or self.changed)


class Reloaded(SentStruct, frozen=True, kw_only=True):
    """What a reload changed.

    Attributes:
        success: True when nothing was quarantined.
        tool_count: How many tools can be called now.
        errors: What was quarantined, and why.
    """

    flattened: ClassVar[frozenset[str]] = frozenset({"changes"})

    success: bool
    tool_count: Annotated[int, msgspec.Meta(ge=0)]
    errors: tuple[Problem, ...]
    changes: Changes
