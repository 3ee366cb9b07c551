"""Texts in columns of a terminal: how wide they are, cut and padded, in one line and all visible; and tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

from toolstead.console.cli.colour import paint_text
from toolstead.schema.visible import escape_unseen

NARROWEST_COLUMN = 20
"""The last column of a table gets so much room at least, or a line of its own."""

_EMOJI_STYLE = "\ufe0f"


def measure_text(text: str) -> int:
    """The columns that a text takes: two for a wide letter, none for a sign on the letter before it."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def fit_text(text: str, most: int | None) -> str:
    """A text in one line, with what cannot be seen escaped, cut to so many columns; None cuts nothing."""
    if most is None:
        return escape_unseen(" ".join(text.split()), "prose")
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


def render_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    dimmed: Collection[int] = (),
    right: Collection[int] = (),
) -> list[str]:
    """A table as lines: a row of titles, then the rows, each cell below the one above it.

    Args:
        head: The titles of the columns.
        rows: The cells; what cannot be seen in them is escaped.
        width: The last column is cut to fit into so many columns, or stands on a line of its own where hardly any are
            left for it; None, as in a pipe, cuts nothing.
        dimmed: The rows, counted from 0, that matter less than the others.
        right: The columns, counted from 0, that stand to the right: numbers.
    """
    texts = [[escape_unseen(" ".join(cell.split()), "prose") for cell in row] for row in (head, *rows)]
    widths = [max(map(measure_text, column)) for column in zip(*texts, strict=True)][:-1]
    left = None if width is None else width - sum(widths) - 2 * len(widths)
    is_broken = width is not None and left is not None and left < NARROWEST_COLUMN and sum(widths) > 0
    room = max(width - 2, NARROWEST_COLUMN) if width is not None and is_broken else left
    lines: list[str] = []
    for number, (*cells, last) in enumerate(texts):
        padded = [
            " " * (size - measure_text(cell)) + cell if column in right else pad_text(cell, size)
            for column, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        padded.append(fit_text(last, room))
        is_dim = number == 0 or number - 1 in dimmed
        below = [f"  {padded.pop()}"] if is_broken else []
        first = "  ".join(padded) if is_dim else "  ".join([paint_text(padded[0], "name"), *padded[1:]])
        lines += [paint_text(line.rstrip(), "dim") if is_dim else line.rstrip() for line in (first, *below)]
    return lines


def _measure_character(character: str) -> int:
    if character.isascii() or character == _EMOJI_STYLE:  # which makes the sign before it a wide one
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
