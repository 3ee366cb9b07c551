"""A plugin as people see it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from toolstead.plugins.definition import HOOKS
from toolstead.plugins.guest import PluginInstance
from toolstead.plugins.health import State
from toolstead.types.sent import SentStruct


class PluginView(SentStruct, frozen=True, kw_only=True):
    """A plugin, as it is now.

    Attributes:
        name: Its name.
        version: Its version, as far as it is known.
        enabled: Whether it is switched on.
        state: `degraded`: it runs, but part of it failed; `failed`: nothing of it runs.
        error: Why it is degraded or failed.
        origin: The module or file it came from.
        tools: The tools it brings, by their names.
        hooks: What it listens to.
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


def view_of(guest: PluginInstance) -> PluginView:
    """How it is at this moment."""
    return PluginView(
        name=guest.name,
        version=guest.version,
        enabled=guest.enabled,
        state=guest.health.state,
        error=guest.health.error,
        origin=guest.discovered.origin,
        tools=tuple(tool.name for tool in guest.tools),
        hooks=tuple(hook for hook in HOOKS if getattr(guest.hooks, hook) is not None) if guest.live else (),
        settings=guest.context.settings if guest.context is not None else guest.table,
    )
