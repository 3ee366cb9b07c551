"""Texts in columns of a terminal: how wide they are, cut and padded to a width, in one line and all of it visible."""

from __future__ import annotations

import unicodedata

from toolstead.schema.visible import escape_unseen

_EMOJI_STYLE = "\ufe0f"


def measure_text(text: str) -> int:
    """The columns that a text takes: two for a wide letter, none for a sign on the letter before it."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def fit_text(text: str, most: int) -> str:
    """A text in one line, with what cannot be seen escaped, cut to so many columns."""
    # Cut first, generously: a text may have megabytes, and signs on letters take no column.
    line = escape_unseen(" ".join(text[: most * 8].split()), "prose")
    if measure_text(line) <= most and len(text) <= most * 8:
        return line
    room, kept = max(most - 1, 0), ""
    for character in line:
        room -= _measure_character(character)
        if room < 0:
            break
        kept += character
    return f"{kept.rstrip()}…"


def pad_text(text: str, columns: int) -> str:
    """A text with spaces after it, up to so many columns."""
    return text + " " * (columns - measure_text(text))


def _measure_character(character: str) -> int:
    if character.isascii() or character == _EMOJI_STYLE:  # which makes the sign before it a wide one
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
