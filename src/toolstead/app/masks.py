"""What must not be shown: tokens, keys and passwords, wherever a setting is printed.

The settings of plugins are shown masked, and unmasked when they come back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolstead.errors import PluginError

if TYPE_CHECKING:
    from toolstead.plugins.host import PluginView

MASK = "********"

_SECRET_WORD = re.compile(r"token|secret|key|passw|credential|authorization", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_WHOLE = frozenset({"env", "headers"})
_SERVER_TOKEN = ("server", "token")


def is_secret(path: Sequence[str]) -> bool:
    """Whether the value at this path is a secret by its name.

    In the open tables any part below the owner's name may be secret; of an upstream server all of
    `env` and `headers` counts, because that is where its secrets are put.
    """
    if tuple(path) == _SERVER_TOKEN or (len(path) == 3 and path[0] == "profiles" and path[2] == "token"):
        return True
    if len(path) < 3 or path[0] not in ("plugins", "mcp_servers"):
        return False
    if path[0] == "mcp_servers" and path[2] in _WHOLE:
        return True
    return any(_SECRET_WORD.search(part) for part in path[2:])


def mask_value(path: Sequence[str], value: Any) -> Any:
    """Give the value as it may be shown; secrets become `********`, whatever their length.

    Nothing is hidden by showing that a secret is empty, a switch, or the word "auto" that asks
    for a token to be made; and a number of tokens is a limit.
    """
    if is_secret(path):
        is_auto = value == "auto" and tuple(path) == _SERVER_TOKEN
        is_limit = isinstance(value, int) and path[-1].endswith("tokens")
        return value if value == "" or isinstance(value, bool) or is_auto or is_limit else MASK
    match value:
        case str():
            return _USER_INFO.sub(MASK, value)
        case list():
            return [mask_value(path, item) for item in cast("list[Any]", value)]
        case Mapping():
            return {key: mask_value((*path, key), item) for key, item in cast("Mapping[str, Any]", value).items()}
        case _:
            return value


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
    from toolstead.plugins.settings import describe_settings  # a server that no person looks at never shows a plugin

    schema = describe_settings(cast("type[Any]", type(view.settings)))
    if schema is not None:
        _mark_secrets(("plugins", view.name), schema)
    return msgspec.structs.replace(view, settings=settings, settings_schema=schema, error=view.error or None).to_json()


def _mark_secrets(path: Sequence[str], schema: dict[str, Any]) -> None:
    """Mark the properties of a schema that are secrets by their names as `writeOnly`, and hide their defaults."""
    for name, node in cast("dict[str, Any]", schema.get("properties", {})).items():
        if is_secret((*path, name)) and not name.endswith("tokens"):  # a number of tokens is a limit
            node["writeOnly"] = True
            if "default" in node:
                node["default"] = mask_value((*path, name), node["default"])


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
            reason = f"a part of it is masked ({MASK}), and cannot be kept in something else; write all of it"
            raise PluginError(plugin=plugin, field="settings", reason=f"{'.'.join((*path, key))}: {reason}")
    return table


def _has_mask(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_mask, cast("Mapping[str, Any]", value).values()))
    if isinstance(value, list):
        return any(map(_has_mask, cast("list[Any]", value)))
    return isinstance(value, str) and MASK in value
