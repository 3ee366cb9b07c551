"""The layers merged: the effective settings, and for each the layer it came from.

Tables merge, lists replace, the lists in `UNIONS` grow with every layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from toolstead.app.masks import mask_value
from toolstead.app.settings import IN_EFFECT, OPEN_IN_EFFECT, OPEN_TABLES, UNIONS, Settings, known_keys
from toolstead.app.settings_check import KeyPath, Leaf
from toolstead.app.toml_text import toml_key

DEFAULT = "default"


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """One effective value and its history.

    Attributes:
        key: The dotted key, as TOML writes it.
        path: The key's parts.
        value: The effective value; a secret is masked.
        origin: Where it was set; for a list that grows with every layer, all of them.
        overrode: The values it took the place of, nearest layer first, each with its origin.
        in_effect: Whether anything in this version reads it.
        masked: Whether the value shown is not the real one.
    """

    key: str
    path: KeyPath
    value: Any
    origin: str
    overrode: tuple[tuple[Any, str], ...] = ()
    in_effect: bool = True
    masked: bool = False


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings a process runs with, and how they came about."""

    settings: Settings
    explained: tuple[Explained, ...]

    def explain_values(self) -> list[Explained]:
        """Every value with its origin, in the order of the documentation."""
        return list(self.explained)


def merge_layers(leaves: Iterable[Leaf]) -> LoadedSettings:
    """Put the layers on top of the defaults, lowest first."""
    said: dict[KeyPath, list[_Said]] = {
        path: [_Said(value=key.default, origin=DEFAULT)] for path, key in known_keys().items()
    }
    for leaf in leaves:
        if leaf.path in known_keys():
            said[leaf.path].append(_Said(value=leaf.value, origin=leaf.origin))
        else:
            _say_open(said, leaf)
    tree: dict[str, Any] = {}
    explained: list[Explained] = []
    for path in _in_order(said):
        effective = _settle_value(path, said[path])
        _plant_value(tree, path, effective.value)
        explained.append(_explain_value(path, effective, said[path]))
    return LoadedSettings(settings=msgspec.convert(tree, Settings), explained=tuple(explained))


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    value: Any
    origin: str


def _say_open(said: dict[KeyPath, list[_Said]], leaf: Leaf) -> None:
    """Add a leaf of an open table, where a value may take a table's place and the other way round."""
    path = leaf.path
    below = [other for other in said if len(other) > len(path) and other[: len(path)] == path]
    if leaf.value == {} and below:
        return
    history = said.pop(path, [])
    for other in below:
        rest = other[len(path) :]
        history.extend(_Said(value=nest_value(rest, old.value), origin=old.origin) for old in said.pop(other))
    for depth in range(1, len(path)):
        history.extend(old for old in said.pop(path[:depth], ()) if old.value != {})
    said[path] = [*history, _Said(value=leaf.value, origin=leaf.origin)]


def nest_value(path: KeyPath, value: Any) -> Any:
    """The tables that lead to a value, with it in the innermost."""
    for name in reversed(path):
        value = {name: value}
    return value


def _settle_value(path: KeyPath, history: list[_Said]) -> _Said:
    if ".".join(path) not in UNIONS:
        return history[-1]
    everything = [item for old in history for item in old.value]
    origins = [old.origin for old in history[1:]] or [DEFAULT]
    return _Said(value=list(dict.fromkeys(everything)), origin=" + ".join(dict.fromkeys(origins)))


def _explain_value(path: KeyPath, effective: _Said, history: list[_Said]) -> Explained:
    union = ".".join(path) in UNIONS
    value = mask_value(path, effective.value)
    return Explained(
        key=toml_key(path),
        path=path,
        value=value,
        origin=effective.origin,
        overrode=() if union else tuple((mask_value(path, old.value), old.origin) for old in reversed(history[:-1])),
        in_effect=".".join(path) in IN_EFFECT or path[0] in OPEN_IN_EFFECT,
        masked=value != effective.value,
    )


def _in_order(said: Mapping[KeyPath, object]) -> list[KeyPath]:
    order: list[KeyPath] = []
    for section in Settings.__struct_fields__:
        found = [path for path in said if path[0] == section]
        # A table's own values before its sub-tables, or it could not be written as TOML.
        order.extend(sorted(found, key=lambda path: (path[:-1], path[-1])) if section in OPEN_TABLES else found)
    return order


def _plant_value(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
