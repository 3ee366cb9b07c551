"""Where a value stands in a JSON text: found only when something is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_BLANK = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


def locate(text: str, path: Sequence[str | int], *, key: bool = False) -> tuple[int, int]:
    """The line and column, both from 1, of the value at a path in a valid JSON text.

    Args:
        text: The text.
        path: Property names and indexes from the root.
        key: The property's name instead of its value, for the last step.

    A path that does not exist leads to the nearest thing around it.
    """
    at = _skip(text, 0)
    for number, step in enumerate(path):
        found = _member(text, at, step)
        if found is None:
            break
        name_at, value_at = found
        at = name_at if key and number == len(path) - 1 else value_at
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _member(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Where a member's name and value begin; the last of equal names counts, as for every parser."""
    if text[at] == "{" and isinstance(step, str):
        found: tuple[int, int] | None = None
        at = _skip(text, at + 1)
        while text[at] != "}":
            name_at = at
            name, at = _decode(text, at)
            value_at = _skip(text, _skip(text, at) + 1)
            if name == step:
                found = name_at, value_at
            at = _next(text, value_at)
        return found
    if text[at] == "[" and isinstance(step, int):
        at = _skip(text, at + 1)
        for index in range(step + 1):
            if text[at] == "]":
                return None
            if index == step:
                return at, at
            at = _next(text, at)
    return None


def _next(text: str, at: int) -> int:
    """Past a value and its comma."""
    _, at = _decode(text, at)
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
