"""A plugin as users see it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from toolstead.plugins.definition import HOOKS
from toolstead.plugins.health import State
from toolstead.plugins.plugin_instance import PluginInstance
from toolstead.types.sent import SentStruct


class PluginView(SentStruct, frozen=True, kw_only=True):
    """A plugin, as it is now.

    Attributes:
        name: Its name.
        version: Its version, if known.
        enabled: Whether it is switched on.
        state: `degraded`: it runs, but part of it failed; `failed`: nothing of it runs.
        error: Why it is degraded or failed.
        origin: The module or file it came from.
        tools: The tools it brings, by their names.
        hooks: The hooks it registered.
        settings: Its settings, of its own class or a table; clients see a table with secrets masked.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"error"})

    name: str
    version: str
    enabled: bool
    state: State
    error: str | None = None
    origin: str
    tools: tuple[str, ...]
    hooks: tuple[str, ...]
    settings: Annotated[Any, msgspec.Meta(extra_json_schema={"type": "object"})]


def view_of(instance: PluginInstance) -> PluginView:
    """How it is at this moment."""
    return PluginView(
        name=instance.name,
        version=instance.version,
        enabled=instance.enabled,
        state=instance.health.state,
        error=instance.health.error,
        origin=instance.discovered.origin,
        tools=tuple(tool.name for tool in instance.tools),
        hooks=tuple(hook for hook in HOOKS if getattr(instance.hooks, hook) is not None) if instance.live else (),
        settings=instance.context.settings if instance.context is not None else instance.table,
    )
