"""Checks one layer's table against the model; gives checked leaves, or one error that names every fault.

Each leaf is checked where it was set, so that a complaint can name file and line, and so that a
bad value is found even when a higher layer would have replaced it. What passed is bounded in depth and can be written
as TOML, so whatever shows or merges it later needs no bounds of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from toolstead.app.masks import mask_value
from toolstead.app.settings import (
    OPEN_TABLES,
    PROFILE_NAME,
    PROFILES,
    Key,
    find_key,
    known_keys,
    known_sections,
    profile_keys,
)
from toolstead.app.toml_text import DEEPEST, MOST_DIGITS, KeyPath, kind_of, toml_key, toml_value
from toolstead.errors import SettingsError
from toolstead.nearest_names import suggest
from toolstead.schema.visible import HALF_CHARACTER

OriginOf = Callable[[tuple[str | int, ...]], str]
Spelling = Callable[[KeyPath], str]

MOST_FAULTS = 50
_LONGEST_SHOWN = 80
_LARGEST_NUMBER = 10**MOST_DIGITS


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A value that one layer gives to one key."""

    path: KeyPath
    value: Any
    origin: str


def checked_leaves(table: Mapping[Any, Any], origin_of: OriginOf, spelling: Spelling = toml_key) -> list[Leaf]:
    """Check a layer's table, and split it into leaves.

    Args:
        table: Sections, as TOML or Python nests them.
        origin_of: Returns where the value at a path was set.
        spelling: How this layer writes a key, for the hint at the nearest one.

    Raises:
        SettingsError: Something is unknown or has a bad value; all such faults are in its text.
    """
    check_depth(table, origin_of)
    walk = _SettingsWalk(origin_of, spelling)
    walk.walk_table((), table)
    if walk.faults:
        first, *others = walk.faults
        more = [f"{walk.more:,} more faults; mend these first"] if walk.more else []
        reason = "\n".join((first.reason, *map(str, others), *more))
        raise SettingsError(key=first.key, origin=first.origin, reason=reason)
    return walk.leaves


def check_depth(table: Mapping[Any, Any], origin_of: OriginOf) -> None:
    """Refuse tables and lists that are nested too deeply; what passes may be walked by recursion.

    Raises:
        SettingsError: They are.
    """
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), table)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > DEEPEST:
            where, reason = path[:3], f"is nested too deeply: more than {DEEPEST} tables and lists within each other"
            raise SettingsError(
                key=toml_key(list(map(str, where))), origin=origin_of(path), reason=f"{reason}; use fewer"
            )
        if isinstance(value, Mapping):
            waiting.extend(((*path, name), item) for name, item in cast("Mapping[Any, Any]", value).items())
        elif isinstance(value, list | tuple):
            waiting.extend(((*path, at), item) for at, item in enumerate(cast("list[Any]", value)))


class _SettingsWalk:
    def __init__(self, origin_of: OriginOf, spelling: Spelling) -> None:
        self.leaves: list[Leaf] = []
        self.faults: list[SettingsError] = []
        self.more = 0
        self._origin_of = origin_of
        self._spelling = spelling

    def walk_table(self, path: KeyPath, table: Mapping[Any, Any]) -> None:
        for name, value in table.items():
            if len(self.faults) == MOST_FAULTS:  # each takes a search for the nearest name
                self.more += 1
            elif not isinstance(name, str):
                self._report_fault(path, f"{name!r} is no name of a setting; names are text")
            elif reason := _text_fault(name):
                self._report_fault((*path, name), f"has a name that is {reason}; give it another")
            else:
                self._walk_value((*path, name), value)

    def _walk_value(self, path: KeyPath, value: Any) -> None:
        is_open = path[0] in OPEN_TABLES
        if path[0] == PROFILES and len(path) < 3:
            self._walk_profiles(path, value)
        elif (key := find_key(path)) is not None:
            self._check_known(key, value)
        elif not is_open and path not in known_sections():
            self._report_fault(path, _unknown_key(path, self._spelling))
        elif path[0] == "plugins" and path[2:] == ("enabled",) and not isinstance(value, bool):
            self._report_fault(path, f"found {_show_value(path, value)}; it must be true or false")
        elif isinstance(value, Mapping):
            self.walk_table(path, cast("Mapping[Any, Any]", value))
            if not value and is_open and len(path) > 1:
                self._add_leaf(path, {})
        elif not is_open or len(path) < 3:
            self._report_fault(path, f"found {_show_value(path, value)}; it must be a table: {_table_heading(path)}")
        else:
            try:
                self._add_leaf(path, _plain_value(value))
            except _NoTomlError as error:
                self._report_fault(path, f"found {error}; it must be a value that TOML can hold")

    def _walk_profiles(self, path: KeyPath, value: Any) -> None:
        if not isinstance(value, Mapping):
            self._report_fault(path, f"found {_show_value(path, value)}; it must be a table: [{PROFILES}.NAME]")
        elif len(path) == 2 and PROFILE_NAME.fullmatch(path[1]) is None:
            self._report_fault(path, "is no name of a profile: use 1 to 64 letters, digits, _ and -; it is in URLs")
        else:
            if len(path) == 2:
                self._add_leaf(path, {})  # it is there, also without a key
            self.walk_table(path, cast("Mapping[Any, Any]", value))

    def _check_known(self, key: Key, value: Any) -> None:
        try:
            plain = _plain_value(value)
            if isinstance(plain, float) and not math.isfinite(plain):
                raise _NoTomlError("that is not finite")
            msgspec.convert(plain, key.type)
        except (msgspec.ValidationError, _NoTomlError):
            self._report_bad(key, value)
        else:
            if key.path == ("delegation", "gates") and self._report_gates(
                key.path, cast("list[Mapping[str, Any]]", plain)
            ):
                return
            self._add_leaf(key.path, plain)

    def _report_gates(self, path: KeyPath, gates: list[Mapping[str, Any]]) -> bool:
        """Report gates that could never be run, as those of an agent's file; whether there are any."""
        from toolstead.agents.gate_definition import InvalidGateError, read_gate  # most settings have no gate

        is_bad = False
        for position, gate in enumerate(gates):
            try:
                read_gate(gate)
            except InvalidGateError as error:
                is_bad = True
                self._report_fault(path, f"item {position + 1}: {error}", (*path, position))
        return is_bad

    def _report_bad(self, key: Key, value: Any) -> None:
        where: tuple[str | int, ...] = key.path
        found = _show_value(key.path, value)
        if isinstance(value, list | tuple):
            for position, item in enumerate(cast("list[Any]", value)):
                if not _fits_kind([item], key.type):
                    where = (*key.path, position)
                    found = f"{_show_value(key.path, item)} as item {position + 1}"
                    break
        hint = ""
        if key.type.__origin__ is str and isinstance(value, bool | int | float):
            hint = "; in quotes it is text"
        elif isinstance(value, str) and _fits_kind([value], key.type):
            hint = f"; write {toml_value([value])}"
        elif isinstance(value, str) and key.path[-1] == "token":
            position = next((at for at, character in enumerate(value) if not "!" <= character <= "~"), None)
            hint = f"; character {position + 1} is {value[position]!a}" if position is not None else ""
        self._report_fault(key.path, f"found {found}; it must be {key.allowed}{hint}", where)

    def _add_leaf(self, path: KeyPath, value: Any) -> None:
        self.leaves.append(Leaf(path=path, value=value, origin=self._origin_of(path)))

    def _report_fault(self, path: KeyPath, reason: str, where: tuple[str | int, ...] | None = None) -> None:
        self.faults.append(SettingsError(key=toml_key(path), origin=self._origin_of(where or path), reason=reason))


class _NoTomlError(Exception):
    """A value TOML cannot hold; its text names the kind. Never leaves this module."""


def _plain_value(value: Any) -> Any:
    """Give the value as `tomllib` would have made it: Python's tuples become lists.

    Raises:
        _NoTomlError: TOML has no such value, or not within its bounds.
    """
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        table = cast("Mapping[Any, Any]", value)
        if not all(isinstance(name, str) for name in table):
            raise _NoTomlError("a table with names that are not text")
        if any(map(_text_fault, table)):
            raise _NoTomlError("a table with names that are not valid text")
        return {name: _plain_value(item) for name, item in table.items()}
    if isinstance(value, str) and (reason := _text_fault(value)):
        raise _NoTomlError(reason)
    if isinstance(value, int) and not -_LARGEST_NUMBER < value < _LARGEST_NUMBER:
        raise _NoTomlError(f"a number of more than {MOST_DIGITS} digits")
    try:
        toml_value(value)
    except TypeError:
        raise _NoTomlError(kind_of(value)) from None
    return value


def _text_fault(text: str) -> str:
    """Why no file, program or terminal could be given a text; empty for nearly every one."""
    if "\0" in text:
        return "text with a null character"
    return "text that is not valid Unicode" if HALF_CHARACTER.search(text) else ""


def _fits_kind(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _show_value(path: KeyPath, value: Any) -> str:
    """Show what was found, but no secret and nothing endless."""
    kind = kind_of(value)
    if isinstance(value, Mapping) or path[0] in OPEN_TABLES or (path[0] == PROFILES and len(path) < 3):
        return kind
    try:
        text = toml_value(mask_value(path, _plain_value(value)))
    except _NoTomlError as error:
        return str(error)
    if len(text) > _LONGEST_SHOWN:
        text = f"{text[:_LONGEST_SHOWN]}…"
    return f"{text} ({kind})"


def _table_heading(path: KeyPath) -> str:
    return f"[{path[0]}.NAME]" if path in {(name,) for name in OPEN_TABLES} else f"[{toml_key(path)}]"


def _unknown_key(path: KeyPath, spelling: Spelling) -> str:
    """The message for an unknown key, with the nearest known one."""
    apart = tuple(".".join(path).split("."))
    if apart != path and (apart in known_keys() or apart in known_sections() or apart[0] in OPEN_TABLES):
        return f"unknown key: the dot is inside a name here; write {spelling(apart)} as nested tables, without quotes"
    known = {
        ".".join(found): found
        for found in (*known_keys(), *sorted(known_sections()), *((name,) for name in (*OPEN_TABLES, PROFILES)))
    }
    siblings = {found[-1]: found for found in known.values() if found[:-1] == path[:-1]}
    if path[0] == PROFILES:
        siblings = {name: (*path[:2], name) for name in profile_keys()}
    if hint := suggest(path[-1], siblings, show=lambda name: spelling(siblings[name])):
        return f"unknown key; {hint}"
    if path[0] == PROFILES:
        return f"unknown key; known here: {', '.join(siblings)}"
    elsewhere = [found for found in known_keys() if found[-1] == path[-1]]
    if elsewhere:
        return f"unknown key; did you mean {' or '.join(spelling(found) for found in elsewhere)}?"
    hint = suggest(".".join(path), known, show=lambda name: spelling(known[name]))
    here = f"known here: {', '.join(siblings)}" if siblings else ""
    return f"unknown key; {'; '.join(filter(None, (hint, here)))}"
