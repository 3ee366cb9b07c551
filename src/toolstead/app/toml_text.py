"""Values and keys written the way TOML spells them: for `config show`, and for complaints."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

_BARE = re.compile(r"[A-Za-z0-9_-]+")


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
            items = cast("Sequence[Any]", value)
            return f"[{', '.join(toml_value(item) for item in items)}]"
        case Mapping():
            table = cast("Mapping[str, Any]", value)
            return "{" + ", ".join(f"{toml_key([key])} = {toml_value(item)}" for key, item in table.items()) + "}"
        case _:
            raise TypeError(f"{type(value).__name__} is no TOML value")


def kind_of(value: Any) -> str:
    """Name the kind of a value in the words of TOML."""
    match value:
        case bool():
            return "true or false"
        case str():
            return "text"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case datetime.datetime() | datetime.date() | datetime.time():
            return "a date or time"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "a table"
        case None:
            return "None"
        case _:
            return f"a Python {type(cast('object', value)).__name__}"


def _quote_text(text: str) -> str:
    # JSON's escapes are TOML's, but JSON does not escape DEL, and TOML does.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
