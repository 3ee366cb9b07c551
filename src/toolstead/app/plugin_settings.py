"""The settings of plugins as tables: merged from their layers, shown masked, and unmasked when they come back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from toolstead.app.masks import MASK, mask_value
from toolstead.errors import PluginError
from toolstead.plugins.host import PluginView


def merge_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merge, and null takes a key back."""
    table = dict(below)
    for key, value in above.items():
        inner = table.get(key)
        if value is None:
            table.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(inner, Mapping):
            table[key] = merge_tables(cast("Mapping[str, Any]", inner), cast("Mapping[str, Any]", value))
        else:
            table[key] = value
    return table


def unmask_settings(view: PluginView, sent: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a client sends after it was shown masked ones: a value that is still masked changes nothing.

    Raises:
        PluginError: It is no JSON, or a mask stands where the hidden value is unknown.
    """
    try:
        json.dumps(dict(sent), allow_nan=False)
        plain = msgspec.json.decode(msgspec.json.encode(dict(sent)), type=dict[str, Any])
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise PluginError(plugin=view.name, field="settings", reason=f"they must be JSON: {error}") from None
    return _without_masks(view.name, (), plain, table_of(view.settings) or {})


def show_plugin(view: PluginView) -> dict[str, Any]:
    """A plugin as interfaces show it, its secrets masked."""
    settings = mask_value(("plugins", view.name), table_of(view.settings))
    return msgspec.structs.replace(view, settings=settings, error=view.error or None).to_json()


def table_of(settings: Any) -> Any:
    """Settings as JSON, whatever class they are of."""
    if hasattr(settings, "model_dump"):
        return settings.model_dump(mode="json")
    given = dict(cast("Mapping[str, Any]", settings)) if isinstance(settings, Mapping) else settings
    return msgspec.to_builtins(given, enc_hook=str)


def _without_masks(
    plugin: str, path: tuple[str, ...], sent: Mapping[str, Any], current: Mapping[str, Any]
) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in sent.items():
        now = current.get(key)
        if not _has_mask(value):
            table[key] = value
        elif isinstance(value, Mapping) and isinstance(now, Mapping):
            inner = cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", now)
            table[key] = _without_masks(plugin, (*path, key), *inner)
        elif value not in (MASK, mask_value(("plugins", plugin, *path, key), now)):
            place = ".".join((*path, key))
            reason = f"{place}: a part of it is masked ({MASK}), and cannot be kept in something else; write all of it"
            raise PluginError(plugin=plugin, field="settings", reason=reason)
    return table


def _has_mask(value: Any) -> bool:
    match value:
        case str():
            return MASK in value
        case list():
            return any(_has_mask(item) for item in cast("list[Any]", value))
        case Mapping():
            return any(_has_mask(item) for item in cast("Mapping[str, Any]", value).values())
        case _:
            return False
