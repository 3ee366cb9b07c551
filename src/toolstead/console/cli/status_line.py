"""What is waited for, and how long already: a line of the terminal that is written anew, and gone before other text.

On a terminal where a line cannot be written anew, a line of its own says it after ten seconds, and again each time the
wait has become twice as long. A file or a pipe gets such a line after half a minute, and then one for each minute.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

import click

from toolstead.app.terminal import can_redraw
from toolstead.console.cli.colour import paint_text
from toolstead.console.cli.columns import fit_text
from toolstead.console.cli.own_output import find_output

INTERVAL = 0.1
"""Seconds between two looks of the line."""
_FIRST_LINE = 10.0
_FIRST_LINE_OF_PIPE, _MINUTE = 30.0, 60.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "|/-\\"
_SILENCE = 2.0
"""Seconds without a piece, after which an answer that has begun is waited for."""
_NARROWEST = 16
"""Columns that the line needs beside the beginning of an answer."""


class StatusLine:
    """One wait after the other.

    Attributes:
        redraws: Whether the line is written anew.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_terminal = sys.stderr.isatty()
        self.redraws = self._is_terminal and can_redraw()
        self._clock = clock
        self._text: Callable[[float], str] | None = None
        self._since = self._silent_since = clock()
        self._first_line = _FIRST_LINE if self._is_terminal else _FIRST_LINE_OF_PIPE
        self._next_line = self._first_line
        self._drawn_at: int | None = None
        """The column of the terminal at which the line is drawn; None while it is not."""
        can_encode = (sys.stderr.encoding or "").lower().replace("-", "") == "utf8"
        self._frames = _FRAMES if can_encode else _PLAIN_FRAMES

    def wait_for(self, describe: Callable[[float], str]) -> None:
        """Begin a wait; `describe` says what is waited for, given the seconds since then."""
        self.clear()
        self._text, self._since, self._next_line = describe, self._clock(), self._first_line
        self._silent_since = self._since

    def stop(self) -> None:
        """Wait for nothing any more."""
        self.clear()
        self._text = None

    def note_piece(self) -> None:
        """Something came: what is waited for from now on is what follows it."""
        self._silent_since = self._since = self._clock()
        self._next_line = self._first_line

    def draw(self, column: int = 0) -> None:
        """Bring the line up to date.

        Args:
            column: Where the text before it ends on its line of the terminal.
        """
        if self._text is None:
            return
        seconds = self._clock() - self._since
        text = self._text(seconds)
        if not self.redraws:
            if seconds >= self._next_line:
                click.echo(f"· {text}", err=True)
                self._next_line = self._next_line * 2 if self._is_terminal else seconds // _MINUTE * _MINUTE + _MINUTE
            return
        width = shutil.get_terminal_size((80, 24)).columns
        if column and (self._clock() - self._silent_since < _SILENCE or width - column < _NARROWEST):
            return
        frame = self._frames[int(seconds / INTERVAL) % len(self._frames)]
        line = fit_text(f"{frame} {text}", width - column - 2)
        start = "\x1b7 " if column else "\r"
        end = "\x1b8" if column else ""
        _write(f"{start}{paint_text(line, 'dim')}\x1b[K{end}")
        self._drawn_at = column

    def clear(self) -> None:
        """Take the line away: another text follows."""
        if self._drawn_at is not None:
            _write("\x1b[K" if self._drawn_at else "\r\x1b[K")
            self._drawn_at = None


def _write(text: str) -> None:
    # Not by click, which looks for a terminal each time and takes the sequences away where it sees none.
    find_output().flush()
    sys.stderr.write(text)
    sys.stderr.flush()
