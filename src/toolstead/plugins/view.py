"""A plugin as people see it."""

from __future__ import annotations

from typing import Any

import msgspec

from toolstead.plugins.definition import HOOKS
from toolstead.plugins.guest import Guest
from toolstead.plugins.health import State


class PluginView(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as people see it.

    Attributes:
        name: Its name.
        version: As far as it is known; one that was never loaded has none.
        enabled: Whether it should run.
        state: How it is.
        error: Why it is degraded or failed.
        origin: Where it comes from.
        tools: What models call its tools.
        hooks: The names of its hooks.
        settings: Its settings as it has them: of its own class, or a mapping; else the table as it was given.
    """

    name: str
    version: str
    enabled: bool
    state: State
    error: str | None
    origin: str
    tools: tuple[str, ...]
    hooks: tuple[str, ...]
    settings: Any


def view_of(guest: Guest) -> PluginView:
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
