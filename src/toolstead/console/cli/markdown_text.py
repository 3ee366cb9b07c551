"""Markdown for the eyes of a person at a terminal, painted piece by piece as a model writes it.

Headings, bold words, code, bullets and quotes get a look in place of their signs. Whatever is no whole mark is printed
as it stands, so nothing is lost. A piece is held back only while it may become a mark: the beginning of a line, and
from the opening sign of bold or code up to the closing one, within one line.
"""

from __future__ import annotations

import re

_BOLD, _UNDERLINED, _DIM, _CODE, _PLAIN = "\x1b[1m", "\x1b[4m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
_OPENING = re.compile(r"`+|\*\*")
_HEADING = re.compile(r"(#{1,6}) +")
_BULLET = re.compile(r"([-*+]) ")
_FENCES = ("```", "~~~")
_LONGEST_MARK = 2_000
"""An opening sign that finds no closing one within so many characters is printed as it stands."""


class MarkdownPainter:
    """Paints the text of one message."""

    def __init__(self) -> None:
        self._held: str = ""
        self._is_at_start = True
        self._fence = ""

    def paint_piece(self, text: str) -> str:
        """What can be printed after another piece."""
        self._held += text
        return self._take_painted(is_last=False)

    def paint_rest(self) -> str:
        """What was held back; the message ends here."""
        return self._take_painted(is_last=True)

    def _take_painted(self, *, is_last: bool) -> str:
        painted: list[str] = []
        while self._held:
            step = self._begin_line(is_last=is_last) if self._is_at_start else self._continue_line(is_last=is_last)
            if step is None:
                break
            painted.append(step)
        return "".join(painted)

    def _begin_line(self, *, is_last: bool) -> str | None:
        """Paint the beginning of a line, or the whole line where its mark covers all of it; None waits for more."""
        body = self._held.lstrip(" ")
        indent = self._held[: len(self._held) - len(body)]
        is_whole = is_last or "\n" in body
        if not is_whole and (not body or any(fence.startswith(body[:3]) for fence in _FENCES)):
            return None
        if body.startswith(self._fence or _FENCES):
            return self._take_line(is_whole=is_whole, style=_DIM, is_fence=True)
        if self._fence:
            return self._take_line(is_whole=True, style=_CODE)
        if not is_whole and (body in ("-", "*", "+", ">") or set(body) == {"#"}):
            return None
        if heading := _HEADING.match(body):
            style = f"{_BOLD}{_UNDERLINED}" if len(heading[1]) == 1 else _BOLD
            return self._take_line(is_whole=is_whole, style=style, skipped=len(indent) + heading.end())
        self._is_at_start = False
        if bullet := _BULLET.match(body):
            self._held = body[bullet.end() :]
            return f"{indent}• "
        if body.startswith("> "):
            self._held = body[2:]
            return f"{indent}{_DIM}│{_PLAIN} "
        self._held = body
        return indent

    def _take_line(self, *, is_whole: bool, style: str, skipped: int = 0, is_fence: bool = False) -> str | None:
        """Paint a line in one style, as far as it is there where the line is code; None waits for the whole line."""
        if not is_whole:
            return None
        line, ending, self._held = self._held[skipped:].partition("\n")
        if is_fence:
            self._fence = "" if self._fence else line.lstrip(" ")[:3]
        self._is_at_start = bool(ending) or not self._fence
        body = line if style in (_DIM, _CODE) else _paint_marks(line, style)
        return f"{style}{body}{_PLAIN}{ending}" if body else ending

    def _continue_line(self, *, is_last: bool) -> str | None:
        """Paint the rest of a line up to its next mark, or up to its end."""
        if self._fence:
            self._is_at_start = True
            return self._take_line(is_whole=True, style=_CODE)
        line, ending, rest = self._held.partition("\n")
        is_whole = is_last or bool(ending)
        opening = _OPENING.search(line)
        if not is_whole and opening is None and line.endswith("*"):
            opening = re.compile(r"\*$").search(line)
        if opening is not None and not is_whole and _find_end(line, opening) is None:
            if len(line) - opening.start() <= _LONGEST_MARK:
                self._held = line[opening.start() :]
                return line[: opening.start()] or None
        elif opening is not None and not is_whole:
            end = _find_end(line, opening) or 0
            self._held = line[end:]
            return _paint_marks(line[:end])
        self._held, self._is_at_start = rest, bool(ending)
        return f"{_paint_marks(line)}{ending}"


def _find_end(line: str, opening: re.Match[str]) -> int | None:
    """Where a mark ends that begins here; None where its closing sign is not there, or may become a longer one."""
    sign = opening[0]
    at = line.find(sign, opening.end())
    while at >= 0:
        after = at + len(sign)
        if after == len(line) and sign != "**":
            return None  # another sign may follow, and then it is none of this one
        is_closing = line[after : after + 1] != sign[0] if sign[0] == "`" else line[at - 1] != " "
        if is_closing and at > opening.end():
            return after
        at = line.find(sign, after)
    return None


def _paint_marks(line: str, around: str = "") -> str:
    """Paint the bold words and the code of a text that is whole; `around` is the style that goes on after them."""
    painted: list[str] = []
    position = 0
    while (opening := _OPENING.search(line, position)) is not None:
        sign, start = opening[0], opening.end()
        end = _find_end(f"{line}\n", opening)
        is_mark = end is not None and (sign != "**" or not line[start : start + 1].isspace())
        if not is_mark or end is None:
            painted.append(line[position:start])
            position = start
            continue
        inside = line[start : end - len(sign)]
        style = _BOLD if sign == "**" else _CODE
        body = _paint_marks(inside, f"{around}{style}") if sign == "**" else inside
        painted += (line[position : opening.start()], style, body, _PLAIN, around)
        position = end
    return "".join((*painted, line[position:]))
