"""Colours of what commands print: one word for each kind of text, and none where the terminal has none.

click takes colours away where output is no terminal; here they are not made where the environment refuses them.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TextIO

import click

from toolstead.app.terminal import allows_colour

Kind = Literal["name", "good", "bad", "warning", "dim"]
"""What a text is: a name or a title; a success; a failure; a warning; what matters less."""

_STYLES: dict[Kind, dict[str, Any]] = {
    "name": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warning": {"fg": "yellow"},
    "dim": {"dim": True},
}


def paint_text(text: str, kind: Kind) -> str:
    """A text in the colour of its kind."""
    return click.style(text, **_STYLES[kind]) if text and _allows_colour() else text


def has_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that may be given colours."""
    return stream.isatty() and _allows_colour()


@functools.cache
def _allows_colour() -> bool:
    return allows_colour()
