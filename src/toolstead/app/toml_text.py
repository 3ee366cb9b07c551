"""TOML as text: values and keys the way it spells them, and the lines that keys stand on.

`tomllib`, which gives values without places, reads every key; it is imported when there is TOML to read.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

KeyPath = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TIMES = (datetime.datetime, datetime.date, datetime.time)
_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "true or false"),  # before the numbers: Python counts it among them
    (str, "text"),
    (int, "a whole number"),
    (float, "a number"),
    (_TIMES, "a date or time"),
    ((list, tuple), "a list"),
    (Mapping, "a table"),
)


def toml_key(path: Sequence[str]) -> str:
    """Write a dotted key; parts that need quotes get them."""
    return ".".join(part if _BARE.fullmatch(part) else _quote_text(part) for part in path)


def toml_value(value: Any) -> str:
    """Write a value on one line; tables become inline tables.

    Raises:
        TypeError: It is nothing TOML can hold.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quote_text(value)
        case int() | float():
            return repr(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(map(toml_value, cast('Sequence[Any]', value)))}]"
        case Mapping():
            table = cast("Mapping[str, Any]", value)
            return "{" + ", ".join(f"{toml_key([key])} = {toml_value(item)}" for key, item in table.items()) + "}"
        case _:
            raise TypeError(f"{type(value).__name__} is no TOML value")


def kind_of(value: Any) -> str:
    """Name the kind of a value in the words of TOML."""
    if value is None:
        return "None"
    return next((words for kind, words in _KINDS if isinstance(value, kind)), f"a Python {type(value).__name__}")


def _quote_text(text: str) -> str:
    # JSON's escapes are TOML's, but JSON does not escape DEL, and TOML does.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def split_key(text: str) -> tuple[KeyPath, str] | None:
    """The key of `section."other key".name = value`, part by part, and the text after the `=`; None without a key."""
    at = text.find("=")
    while at >= 0:  # an = may stand in a quoted part
        head = text[:at].strip()
        table = None if not head or head[0] in "[#" or "\n" in head else read_toml(f"{head} = 0")
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
            opened = _only_path(read_toml(line))
            value = _value_at(opened, document)
            if opened and (isinstance(value, Mapping) or line.lstrip().startswith("[[")):  # else part of an array
                path = table = opened
        elif (key := split_key(line)) is not None:
            path = (*table, *key[0])
        if path is not None and _value_at(path, document) is not None:
            for end in range(1, len(path) + 1):
                lines.setdefault(path[:end], number)
    return lines


def read_toml(text: str) -> dict[str, Any] | None:
    """A document; None for what is no TOML."""
    import tomllib

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
