"""Plugins that only stand in a list: what the doors to plugins are tried on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolstead.errors import NotFoundError, PluginError


class FakePlugins:
    """A `PluginControl` without plugins behind it."""

    def __init__(self, *names: str) -> None:
        self.plugins = {name: plugin(name) for name in names or ("shouty",)}
        self.asked: list[tuple[Any, ...]] = []
        self.fails: Exception | None = None

    def show_plugins(self) -> list[dict[str, Any]]:
        return [dict(found) for found in self.plugins.values()]

    async def change_plugin(
        self, name: str, *, enabled: bool | None = None, settings: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        self.asked.append((name, enabled, settings))
        found = self._found(name)
        for key, value in (settings or {}).items():
            if key not in found["settings"]:
                raise PluginError(plugin=name, field="settings", reason=f"{key}: no such setting; there is 'volume'")
            found["settings"][key] = 1 if value is None else value
        if enabled is not None:
            found |= {"enabled": enabled, "state": "running" if enabled else "disabled"}
        return dict(found)

    async def reset_plugin(self, name: str) -> dict[str, Any]:
        self.asked.append((name,))
        self._found(name)
        self.plugins[name] = plugin(name)
        return dict(self.plugins[name])

    def _found(self, name: str) -> dict[str, Any]:
        if self.fails is not None:
            raise self.fails
        if name not in self.plugins:
            raise NotFoundError("plugin", name)
        return self.plugins[name]


def plugin(name: str, **more: Any) -> dict[str, Any]:
    """A plugin as the doors show it."""
    return {
        "name": name,
        "version": "1.0.0",
        "enabled": True,
        "state": "running",
        "origin": f"{name}:plugin",
        "tools": [f"{name}__shout"],
        "hooks": ["on_message"],
        "settings": {"volume": 1},
        **more,
    }
