"""Where things stand in a JSON text: looked up only when something is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_BLANK = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>[ \t\n\r]*:)?|[\[\]{},]')
_decode = json.JSONDecoder().raw_decode


class Position(NamedTuple):
    """A place in a text, as editors count: both from 1."""

    line: int
    column: int


def position_of(text: str, at: int) -> Position:
    """The position of an offset."""
    return Position(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def locate_value(text: str, path: Sequence[str | int], *, key: bool = False) -> Position:
    """The position of the value at a path in a valid JSON text.

    Args:
        text: The text.
        path: Property names and indexes from the root.
        key: The property's name instead of its value, for the last step.

    A path that does not exist leads to the nearest thing around it.
    """
    at = _skip_blanks(text, 0)
    for number, step in enumerate(path):
        found = _find_member(text, at, step)
        if found is None:
            break
        name_at, value_at = found
        at = name_at if key and number == len(path) - 1 else value_at
    return position_of(text, at)


def locate_each(text: str, name: str, key: str) -> dict[Any, Position]:
    """Where the members `key` of the objects in the root's list `name` stand, by their values, in one walk."""
    found = _find_member(text, _skip_blanks(text, 0), name)
    offsets: dict[Any, int] = {}
    at = _skip_blanks(text, found[1] + 1) if found is not None else len(text)
    while at < len(text) and text[at] != "]":
        member = _find_member(text, at, key)
        if member is not None:
            offsets.setdefault(_decode(text, member[1])[0], member[1])
        at = _skip_value(text, at)
    positions: dict[Any, Position] = {}
    line, counted = 1, 0
    for value, offset in offsets.items():
        line, counted = line + text.count("\n", counted, offset), offset
        positions[value] = Position(line, offset - text.rfind("\n", 0, offset))
    return positions


def repeated_names(text: str) -> Iterator[tuple[tuple[str | int, ...], Position]]:
    """Duplicate names in the objects of a valid JSON text: the path to each, and its position."""
    path: list[str | int] = []
    names: list[set[str] | None] = []
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "{" | "[" as bracket:
                names.append(set() if bracket == "{" else None)
                path.append(0)
            case "}" | "]":
                names.pop()
                path.pop()
            case "," if isinstance(path[-1], int):
                path[-1] += 1
            case '"' if token["colon"] is not None and (seen := names[-1]) is not None:
                path[-1] = name = str(json.loads(token["text"]))
                if name in seen:
                    yield tuple(path), position_of(text, token.start())
                seen.add(name)
            case _:
                pass


def first_deeper_than(text: str, most: int) -> Position | None:
    """Where a text, be it valid JSON or not, is first nested more deeply than allowed."""
    depth = 0
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "{" | "[":
                depth += 1
                if depth > most:
                    return position_of(text, token.start())
            case "}" | "]":
                depth -= 1
            case _:
                pass
    return None


def _find_member(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Where a member's name and value begin; the last of equal names counts, as for every parser."""
    if text[at] == "{" and isinstance(step, str):
        found: tuple[int, int] | None = None
        at = _skip_blanks(text, at + 1)
        while text[at] != "}":
            name_at = at
            name, at = _decode(text, at)
            value_at = _skip_blanks(text, _skip_blanks(text, at) + 1)
            if name == step:
                found = name_at, value_at
            at = _skip_value(text, value_at)
        return found
    if text[at] == "[" and isinstance(step, int):
        at = _skip_blanks(text, at + 1)
        for index in range(step + 1):
            if text[at] == "]":
                return None
            if index == step:
                return at, at
            at = _skip_value(text, at)
    return None


def _skip_value(text: str, at: int) -> int:
    """Past a value and its comma."""
    _, at = _decode(text, at)
    at = _skip_blanks(text, at)
    return _skip_blanks(text, at + 1) if text[at] == "," else at


def _skip_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
