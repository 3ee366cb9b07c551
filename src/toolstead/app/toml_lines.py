"""On which line of a TOML text each key stands: `tomllib` gives values, not places.

The text must have been read by `tomllib` before: this scanner trusts it to be valid TOML, looks
at keys and brackets only, and leaves a key out rather than guess. Above: `layers`, which names
the line in every complaint. Nothing is below.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Keys from the root; a number is the position in an array."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'{3,5}", re.DOTALL)
_BLANK = re.compile(r"[ \t]*")
_BLANKS_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}#\n]*")


def find_lines(text: str) -> Mapping[Path, int]:
    """Give the line, counted from 1, on which each table, key and array element begins.

    A table that is opened more than once is where it was opened first.
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


def read_key(text: str, at: int = 0) -> tuple[tuple[str, ...], int] | None:
    """Read a dotted key, quoted parts included; give its parts and where it ends, or None."""
    parts: list[str] = []
    while True:
        at = _end(_BLANK, text, at)
        found = _BARE.match(text, at) or _BASIC.match(text, at) or _LITERAL.match(text, at)
        if found is None:
            return None
        part = _unquoted(found.group())
        if part is None:
            return None
        parts.append(part)
        at = _end(_BLANK, text, found.end())
        if text[at : at + 1] != ".":
            return tuple(parts), at
        at += 1


def _unquoted(part: str) -> str | None:
    if part[0] == "'":
        return part[1:-1]
    if part[0] != '"':
        return part
    try:
        return tomllib.loads(f"key = {part}")["key"]
    except tomllib.TOMLDecodeError:
        return None


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


class _Scanner:
    """One walk over the text, remembering where it is and in which table."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._counted_to = 0
        self._line = 1
        self._arrays: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        while True:
            self._skip(_BLANKS_AND_LINES)
            if self._at >= len(self._text):
                return
            if self._peek() == "[":
                opened = self._header()
                if opened is None:
                    return
                table = opened
            elif not self._pair(table):
                return

    def _header(self) -> Path | None:
        """Read `[a.b]` or `[[a.b]]`; give the table that is open from here on."""
        many = self._text.startswith("[[", self._at)
        line = self._line_here()
        key = read_key(self._text, self._at + (2 if many else 1))
        if key is None:
            return None
        parts, end = key
        self._at = end + (2 if many else 1)
        parent = self._inside(parts[:-1], line)
        path: Path = (*parent, parts[-1])
        self._remember(path, line)
        if many:
            self._arrays[path] = self._arrays.get(path, -1) + 1
            path = (*path, self._arrays[path])
            self._remember(path, line)
        return path

    def _inside(self, parts: tuple[str, ...], line: int) -> Path:
        """Follow keys through arrays of tables: such a name means the array's last table."""
        path: Path = ()
        for part in parts:
            path = (*path, part)
            self._remember(path, line)
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path

    def _pair(self, table: Path) -> bool:
        line = self._line_here()
        key = read_key(self._text, self._at)
        if key is None:
            return False
        parts, self._at = key
        if self._peek() != "=":
            return False
        self._at += 1
        path = table
        for part in parts:
            path = (*path, part)
            self._remember(path, line)
        self._skip(_BLANK)
        self._value(path)
        return True

    def _value(self, path: Path) -> None:
        for opening, pattern in (('"""', _LONG_BASIC), ("'''", _LONG_LITERAL), ('"', _BASIC), ("'", _LITERAL)):
            if self._text.startswith(opening, self._at):
                self._skip(pattern)
                return
        match self._peek():
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case _:
                self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self._at += 1
        position = 0
        while True:
            self._skip(_BLANKS_AND_LINES)
            if self._peek() in ("]", ""):
                self._at += 1
                return
            before = self._at
            self._remember((*path, position), self._line_here())
            self._value((*path, position))
            position += 1
            self._comma()
            if self._at == before:
                return

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while True:
            self._skip(_BLANKS_AND_LINES)
            if self._peek() in ("}", ""):
                self._at += 1
                return
            if not self._pair(path):
                return
            self._comma()

    def _comma(self) -> None:
        self._skip(_BLANKS_AND_LINES)
        if self._peek() == ",":
            self._at += 1

    def _remember(self, path: Path, line: int) -> None:
        self.lines.setdefault(path, line)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self._at = _end(pattern, self._text, self._at)

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line
