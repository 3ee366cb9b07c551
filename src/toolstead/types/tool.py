"""What is known about a tool besides how to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

JSONSchema = Mapping[str, Any]
Source = Literal["builtin", "plugin", "agent", "mcp"]
SOURCES: tuple[Source, ...] = ("builtin", "plugin", "agent", "mcp")


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """Hints about what a tool does; None where its author did not say."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tool came from.

    Attributes:
        source: The kind of source.
        origin: The module, file or address.
        plugin_name: The plugin, or the name inside a JSON tool file.
        agent_name: The agent whose frontmatter defines it.
    """

    source: Source
    origin: str
    plugin_name: str | None = None
    agent_name: str | None = None


NO_HINTS = Annotations()


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered tool as doors show it.

    A struct, because thousands are made at start: 0.4 µs each instead of 3.
    """

    name: str
    description: str
    provenance: Provenance
    input_schema: JSONSchema
    output_schema: JSONSchema | None = None
    annotations: Annotations = NO_HINTS
    title: str | None = None
    stale: bool = False

    def to_json(self) -> dict[str, Any]:
        """The shape `GET /api/tools` shows, in camelCase, absent fields left out."""
        shown: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "source": self.provenance.source,
        }
        if self.provenance.plugin_name is not None:
            shown["pluginName"] = self.provenance.plugin_name
        if self.provenance.agent_name is not None:
            shown["agentName"] = self.provenance.agent_name
        shown["origin"] = self.provenance.origin
        shown["inputSchema"] = self.input_schema
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.stale:
            shown["stale"] = True
        return shown


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was set aside while the rest went on: a bad file, a bad tool."""

    source: str
    message: str
    tool_name: str | None = None
    line: int | None = None
    column: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The shape of an entry of `quarantined` and of `errors`."""
        shown: dict[str, Any] = {"source": self.source, "message": self.message}
        if self.tool_name is not None:
            shown["toolName"] = self.tool_name
        if self.line is not None:
            shown["line"] = self.line
        if self.column is not None:
            shown["column"] = self.column
        return shown


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two generations, by name, in listing order."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    schema_changes: Mapping[str, Sequence[Mapping[str, Any]]] = msgspec.field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )
    """For a changed tool whose input schema differs: where, what, and whether callers may break."""

    def to_json(self) -> dict[str, Any]:
        """The shape that reloads and `tools.changed` share."""
        shown: dict[str, Any] = {
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": list(self.changed),
        }
        if self.schema_changes:
            shown["schemaChanges"] = {name: list(changes) for name, changes in self.schema_changes.items()}
        return shown

    def __bool__(self) -> bool:
        """True when anything differs."""
        return bool(self.added or self.removed or self.changed)
