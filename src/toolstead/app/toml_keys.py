"""Keys of TOML text and the lines they stand on; `tomllib`, which gives values without places, reads every key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, cast

KeyPath = tuple[str, ...]


def split_key(text: str) -> tuple[KeyPath, str] | None:
    """The key of `section."other key".name = value`, part by part, and the text after the `=`; None without a key."""
    at = text.find("=")
    while at >= 0:  # an = may stand in a quoted part
        head = text[:at].strip()
        table = None if not head or head[0] in "[#" or "\n" in head else _read(f"{head} = 0")
        if table is not None:
            return _only_path(table), text[at + 1 :]
        at = text.find("=", at + 1)
    return None


def find_lines(text: str, document: Mapping[str, Any]) -> Mapping[tuple[str | int, ...], int]:
    """The line, counted from 1, of each table and key that has one.

    Elements of arrays and keys of inline tables have none; neither has anything where a text of several lines
    could hold what only looks like a key. A table that is opened more than once is where it was opened first.

    Args:
        text: The TOML text.
        document: What `tomllib` made of it: a line whose key is not in there is no key.
    """
    if '"""' in text or "'''" in text:
        return {}
    lines: dict[tuple[str | int, ...], int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        path: KeyPath | None = None
        if line.lstrip().startswith("["):
            opened = _only_path(_read(line))
            value = _value_at(opened, document)
            if opened and (isinstance(value, Mapping) or line.lstrip().startswith("[[")):  # else part of an array
                path = table = opened
        elif (key := split_key(line)) is not None:
            path = (*table, *key[0])
        if path is not None and _value_at(path, document) is not None:
            for end in range(1, len(path) + 1):
                lines.setdefault(path[:end], number)
    return lines


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _only_path(table: Any) -> KeyPath:
    """The keys down to what is no table."""
    path: list[str] = []
    while isinstance(table, dict) and table:
        ((name, table),) = cast("dict[str, Any]", table).items()
        path.append(name)
    return tuple(path)


def _value_at(path: KeyPath, document: Any) -> Any:
    """What a path leads to, None where that is nothing: TOML has no null."""
    for name in path:
        document = cast("Mapping[str, Any]", document).get(name) if isinstance(document, Mapping) else None
    return document
