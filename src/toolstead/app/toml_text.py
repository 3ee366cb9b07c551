"""TOML as text: read within bounds, values and keys the way it spells them, and the lines that keys stand on.

`tomllib`, which gives values without places, reads every key; it is imported when there is TOML to read. It has no
bounds of its own: a dotted key of 40,000 parts keeps it busy for a minute, and brackets within each other end in a
RecursionError. So `find_excess` looks at every text first, in linear time.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolstead.errors import SettingsError

KeyPath = tuple[str, ...]

LARGEST = 262_144
"""Bytes of a file, characters of any other text."""
TOO_LARGE = f"has more than {LARGEST:,} bytes, the most that settings have; remove what is no setting"
DEEPEST = 32
"""Tables and lists within each other, and parts of one dotted key."""
MOST_KEYS = 10_000
MOST_DIGITS = 200
"""Characters of a number; TOML itself promises 19 digits."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = r"""(?:"(?:[^"\\\n]++|\\[^\n])*+"|'[^'\n]*+'|[A-Za-z0-9_-]++)"""
_KEY = rf"[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART})*+[ \t]*+="
_TOKEN = (
    r'''"""(?:[^"\\]++|\\.|"{1,2}+(?!"))*+"{0,5}|"(?:[^"\\\n]++|\\[^\n])*+"?'''
    r"""|'''(?:[^']++|'{1,2}+(?!'))*+'{0,5}|'[^'\n]*+'?"""
    r"""|\#[^\n]*+|[^ \t\r\n\[\]{},="'#.]++|[\n\[\]{},=.]"""
)
"""Texts, comments, words and signs; a text without an end goes to the end of its line, or of everything."""
_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)")
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
    # JSON's escapes are TOML's; what else is not seen, or steers a terminal, is escaped too.
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(map(_escape_character, quoted))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if character <= "\uffff" else f"\\U{ord(character):08x}"


def find_excess(text: str) -> tuple[int, str] | None:
    """The line where a TOML text goes beyond what is read, and what would be right; None for nearly every text.

    Takes linear time whatever the text is, be it TOML or not.
    """
    if len(text) > LARGEST:
        return 1, TOO_LARGE
    line, depth, keys, dots = 1, 0, 0, 0
    begins_line = True
    for token in re.findall(_TOKEN, text, re.DOTALL):
        sign = token[0]
        if sign == "#":
            continue
        if sign == "." and (dots := dots + 1) == DEEPEST:
            return line, f"has a key of more than {DEEPEST} parts; put fewer tables into each other"
        if sign in "\n=,[]{}":
            dots = 0
        if sign in "[{" and (depth := depth + 1) > DEEPEST:
            return line, f"is nested too deeply: more than {DEEPEST} brackets within each other; use fewer"
        if sign in "]}":
            depth -= 1
        if (sign == "=" or (sign == "[" and begins_line)) and (keys := keys + 1) > MOST_KEYS:
            return line, f"has more than {MOST_KEYS:,} keys; remove what is no setting"
        if sign in "+-0123456789" and len(token) > MOST_DIGITS:
            return line, f"has a number of {len(token):,} characters; write at most {MOST_DIGITS}, or a text in quotes"
        line += token.count("\n")
        begins_line = sign == "\n" and depth <= 0
    return None


def find_comment(line: str) -> str:
    """The comment at the end of a line, with the spaces before it; empty when there is none."""
    tokens = re.findall(_TOKEN, line, re.DOTALL)
    if not tokens or tokens[-1][0] != "#":
        return ""
    return line[len(line[: len(line) - len(tokens[-1])].rstrip()) :]


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Read a document.

    Args:
        text: The text.
        origin: Where it is from, for messages; they add the line.

    Raises:
        SettingsError: It is no TOML, or beyond the bounds: where, and what would be right.
    """
    import tomllib

    if (excess := find_excess(text)) is not None:
        line, reason = excess
        raise SettingsError(key="", origin=f"{origin}:{line}", reason=reason)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        message = str(error)
        if (found := _AT_LINE.search(message)) is not None:
            origin, message = f"{origin}:{found[1]}", f"{message[: found.start()]} at column {found[2]}"
        elif "end of document" in message:
            origin = f"{origin}:{text.rstrip().count(chr(10)) + 1}"
        raise SettingsError(key="", origin=origin, reason=f"is not valid TOML: {message}") from None


def split_statements(text: str) -> list[str]:
    """The lines of a document, joined where a value goes on over several; each ends with its newline."""
    statements: list[str] = []
    depth = begin = 0
    for token in re.finditer(_TOKEN, text, re.DOTALL):
        sign = token[0]
        if sign in ("[", "{"):
            depth += 1
        elif sign in ("]", "}"):
            depth -= 1
        elif sign == "\n" and depth <= 0:
            statements.append(text[begin : token.end()])
            begin, depth = token.end(), 0
    return [*statements, text[begin:]] if begin < len(text) else statements


def split_key(text: str) -> tuple[KeyPath, str] | None:
    """The key of `section."other key".name = value`, part by part, and the text after the `=`; None without a key."""
    found = re.match(_KEY, text)
    table = read_toml(f"{found[0]} 0") if found is not None else None
    return None if found is None or table is None else (_only_path(table), text[found.end() :])


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
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
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
    """A document; None for what is no TOML, or beyond the bounds."""
    try:
        return parse_toml(text, "")
    except SettingsError:
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
