"""Templates: text with `{{param}}` in it, cut into pieces once and filled on every call.

A string is inserted unchanged; numbers, booleans and null as JSON; arrays and objects as compact
JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from toolstead.errors import ToolError
from toolstead.nearest_names import suggest
from toolstead.schema.visible import HALF_CHARACTER

LONGEST_VALUE = 10_000
PLACEHOLDER = re.compile(r"\{\{([^{}]*+)\}\}")


class Placeholder(msgspec.Struct, frozen=True):
    """A place that a parameter fills."""

    name: str


Piece = str | Placeholder


class TemplateError(ValueError):
    """A template that cannot be used: what is wrong in it, and what would be right.

    Attributes:
        key: The handler's key, and the name inside it, where that is not the template itself.
    """

    def __init__(self, reason: str, *, key: tuple[str, ...] = ()) -> None:
        self.key = key
        super().__init__(reason)


def unknown_name(
    name: str, known: Collection[str], show: Callable[[str], str] = repr, show_known: Callable[[str], str] = repr
) -> str:
    """The message about a name that is no property; the nearest one is suggested."""
    hint = suggest(name, known, show=show_known, otherwise=f"there are: {', '.join(known) or 'none'}")
    return f"{show(name)} is no property of the inputSchema; {hint}"


def show_slot(name: str) -> str:
    """A parameter as it stands in a template."""
    return f"{{{{{name}}}}}"


def cut_template(text: str) -> tuple[Piece, ...]:
    """Cut a text into literal pieces and slots.

    Raises:
        TemplateError: A placeholder is not closed, or has no name.
    """
    pieces: list[Piece] = []
    at = 0
    while (start := text.find("{{", at)) >= 0:
        end = text.find("}}", start + 2)
        if end < 0:
            raise TemplateError("`{{` is never closed; a placeholder looks like {{name}}")
        pieces += (text[at:start],) if start > at else ()
        pieces.append(Placeholder(slot_name(text[start + 2 : end])))
        at = end + 2
    return (*pieces, text[at:]) if at < len(text) else tuple(pieces)


def slot_name(inside: str) -> str:
    """The parameter's name between the braces.

    Raises:
        TemplateError: There is none.
    """
    name = inside.strip()
    if not name or "{" in name:
        reason = "`{{` is never closed" if "{" in name else "an empty placeholder"
        raise TemplateError(f"{reason}; a placeholder looks like {{{{name}}}}")
    return name


def value_text(value: Any) -> str:
    """A value as text."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def checked_text(name: str, value: Any, longest: int = LONGEST_VALUE) -> str:
    """A value as text that may stand in a command or an address.

    Raises:
        ToolError: It has a null byte or half a character, or is too long.
    """
    text = value_text(value)
    if "\0" in text:
        raise ToolError(f"{name!r} contains a null byte, which is not allowed")
    if len(text) > longest:
        raise ToolError(f"{name!r} is {len(text):,} characters long; at most {longest:,} are allowed here")
    if not text.isascii() and HALF_CHARACTER.search(text):
        raise ToolError(f"{name!r} contains half of a surrogate pair; give whole characters")
    return text


def fill_piece(piece: Piece, arguments: Mapping[str, Any], longest: int = LONGEST_VALUE) -> str:
    """The text of one piece.

    Raises:
        ToolError: Its parameter has neither a value nor a default, or a value that may not stand here.
    """
    if isinstance(piece, str):
        return piece
    name = piece.name
    if name not in arguments:
        raise ToolError(
            f'{name!r} is missing, and the tool has no default for it; give a value (or add a "default" for {name!r} '
            "to the tool's inputSchema)"
        )
    return checked_text(name, arguments[name], longest)


def fill_template(pieces: Iterable[Piece], arguments: Mapping[str, Any], longest: int = LONGEST_VALUE) -> str:
    """The text with every slot filled.

    Raises:
        ToolError: A parameter has no value, or one that may not stand here.
    """
    return "".join([fill_piece(piece, arguments, longest) for piece in pieces])


def slot_names(pieces: Iterable[Piece]) -> list[str]:
    """The names of all slots, in order."""
    return [piece.name for piece in pieces if isinstance(piece, Placeholder)]
